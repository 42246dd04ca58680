"""Drives the command as a user does: a process of its own, in a directory of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "src"

ELSEWHERE = """
import sys, asyncio, ctypes, difflib, importlib.metadata, mimetypes, os, platform, select, signal, site, subprocess
import sysconfig, tempfile, tomllib, zipfile
platform.machine(), platform.release(), platform.platform()
sys.platform = {platform!r}
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None  # an import of it fails, as it would there
for module, names in (
    (select, ("epoll", "poll")),
    (signal, ("pidfd_send_signal", "SIGHUP")),
    (os, ("fork", "geteuid", "getuid", "memfd_create", "pidfd_open", "splice", "sysconf", "waitid")),
):
    for name in names:
        delattr(module, name)

def refuse(*args, **options):
    raise OSError("there is no such library here")

ctypes.CDLL = refuse
"""
"""Python as it looks on another platform: what Linux alone has is gone."""


class Command:
    """`belljar`, with nothing of the surroundings but what a test gives it."""

    def __init__(self, directory: Path, cache: Path) -> None:
        self.directory = directory
        self.environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(directory / "home"),
            "PYTHONPATH": str(SOURCE),
            "BELLJAR_CACHE_DIR": str(cache),
        }

    def start(self, *args: str, **options: Any) -> subprocess.Popen[str]:
        settings: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [sys.executable, "-m", "belljar.cli", *args],
            cwd=self.directory,
            env=self.environment,
            text=True,
            **(settings | options),
        )

    def __call__(self, *args: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        stdin = subprocess.DEVNULL if text is None else subprocess.PIPE
        with self.start(*args, stdin=stdin) as process:
            out, err = process.communicate(text, timeout=100)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def python(self, code: str, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *args],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all: the list of fonts takes long to make."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def belljar(tmp_path: Path, cache: Path) -> Command:
    return Command(tmp_path, cache)
