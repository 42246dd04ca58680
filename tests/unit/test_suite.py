"""The suite judged as a suite: what is skipped is told and fails in CI, and a test that spins is ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SKIPPING = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_browser(number):
    pytest.skip("needs chromium")

def test_other():
    pass
"""
SPINNING = """
import asyncio

def test_spins():
    async def spin():
        loop = asyncio.get_running_loop()

        def again():
            loop.call_soon(again)
            for _ in range(100_000):
                pass

        again()
        await loop.create_future()

    asyncio.run(spin())
"""


def run(tmp_path: Path, test: str, *options: str, ci: str = "") -> subprocess.CompletedProcess[str]:
    (tmp_path / "test_one.py").write_text(test)
    # Only what our settings name: the plugins of all that is installed take most of the time to start.
    ours = [
        "-c",
        str(ROOT / "pyproject.toml"),
        "--rootdir",
        str(tmp_path),
        "-p",
        "pytest_timeout",
        "-p",
        "tests.conftest",
    ]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *ours, "-p", "no:cacheprovider", *options, "test_one.py"],
        cwd=tmp_path,
        env={**os.environ, "CI": ci, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_what_was_skipped_is_told_in_one_line(tmp_path: Path) -> None:
    ran = run(tmp_path, SKIPPING)
    assert ran.returncode == 0, ran.stdout
    assert "skipped 3 tests: 3 needs chromium" in ran.stdout


def test_in_ci_a_skip_is_a_failure(tmp_path: Path) -> None:
    ran = run(tmp_path, SKIPPING, ci="1")
    assert ran.returncode == 1, ran.stdout
    assert "skipped 3 tests, which is a failure in CI: 3 needs chromium" in ran.stdout


def test_a_loop_that_spins_is_ended(tmp_path: Path) -> None:
    """A loop takes the exception of the first time-out for its callback's; the second ends the process."""
    ran = run(tmp_path, SPINNING, "--timeout", "1", "-o", "faulthandler_timeout=3")
    assert ran.returncode != 0
    assert "in again" in ran.stdout + ran.stderr
