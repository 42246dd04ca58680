"""A sandbox server is ready soon after its start: timed, so on a machine that has nothing else to do."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

pytestmark = pytest.mark.soak

PROMISED = 5.0
"""Seconds from the start of the process to a healthy answer."""


def seconds_to_health() -> float:
    begun = time.monotonic()
    command = [sys.executable, "-m", "belljar.cli", "sandbox", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            while not is_healthy(url):
                assert time.monotonic() - begun < 60
                time.sleep(0.02)
            return time.monotonic() - begun
        finally:
            process.terminate()


def is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=10) as answer:
            return bool(json.load(answer)["status"] == "healthy")
    except urllib.error.HTTPError as starting:
        with starting:
            return False


def test_it_is_healthy_within_five_seconds() -> None:
    """The best of three: the first may have to read everything from the disk."""
    assert min(seconds_to_health() for _ in range(3)) < PROMISED
