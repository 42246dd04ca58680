"""Drives the command as a user does: a process of its own, in a directory of its own."""

import contextlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.forked import Forked

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


@dataclass(frozen=True)
class Served:
    """A gateway that listens, and what it said of itself."""

    process: subprocess.Popen[str]
    told: dict[str, Any]

    @property
    def url(self) -> str:
        url: str = self.told["url"]
        return url

    def ask(self, path: str, data: bytes | None = None, **headers: str) -> tuple[int, Any]:
        """Status and JSON of one request: POST with data, GET without."""
        told = {"Content-Type": "application/json"} | {name.replace("_", "-"): one for name, one in headers.items()}
        request = urllib.request.Request(self.url + path, data, told)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    @contextlib.contextmanager
    def stream(self, path: str, data: bytes) -> Iterator[Iterator[str]]:
        """The lines of an answer as they come."""
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            yield (line.decode() for line in answer)

    def end(self, number: int) -> tuple[int, str, str]:
        """Send a signal; exit code and what else was printed."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


class Command:
    """`belljar`, with nothing of the surroundings but what a test gives it."""

    def __init__(self, directory: Path, cache: Path, *, installed: Path | None = None) -> None:
        """That of this checkout, or the one that is `installed` for that interpreter."""
        self.directory = directory
        self.installed = installed
        self.interpreter = sys.executable if installed is None else str(installed)
        self.environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(directory / "home"),
            "BELLJAR_CACHE_DIR": str(cache),
        }
        if installed is None:
            self.environment["PYTHONPATH"] = str(SOURCE)

    def start(self, *args: str, session: bool = False, terminal: bool = False, **options: Any) -> subprocess.Popen[str]:
        """In a `session` of its own; with `terminal`, that of its standard input."""
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        where: dict[str, Any] = {"cwd": self.directory, "env": self.environment}
        if self.installed is None:
            return Forked(*args, session=session, terminal=terminal, **where, **streams)
        command = [self.interpreter, "-m", "belljar.cli", *args]
        return subprocess.Popen(command, text=True, start_new_session=session, **where, **streams)

    def __call__(self, *args: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        stdin = subprocess.DEVNULL if text is None else subprocess.PIPE
        with self.start(*args, stdin=stdin) as process:
            out, err = process.communicate(text, timeout=100)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    @contextlib.contextmanager
    def script(self, code: str, *args: str) -> Iterator[subprocess.Popen[str]]:
        """Python that is talked to while it runs; killed if it is still there at the end."""
        pipe = subprocess.PIPE
        command = [self.interpreter, "-c", code, *args]
        with subprocess.Popen(
            command, cwd=self.directory, env=self.environment, text=True, stdin=pipe, stdout=pipe, stderr=pipe
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextlib.contextmanager
    def serve(self, *args: str) -> Iterator[Served]:
        """`belljar serve` on a port of its own, without looking for models; killed if it is still there at the end."""
        self.environment.setdefault("BELLJAR_STATE_DIR", str(self.directory / "state"))
        with self.start("serve", "--port", "0", "--json", "--no-discover", *args) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line, process.communicate(timeout=60)[1]
                yield Served(process, json.loads(line))
            finally:
                process.kill()

    def python(self, code: str, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.interpreter, "-c", code, *args],
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
