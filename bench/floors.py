"""The floors: what the same thing costs without us, measured beside us. And the handle of a driver in `drivers.py`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from belljar.sandbox.local.jail import ZYGOTE_VARIABLES

DRIVERS = Path(__file__).with_name("drivers.py")
STACK = "import numpy, pandas, matplotlib.pyplot"
CHUNK = 256 << 10

REQUEST = b'....R{"id": 100, "code": "1+1"}'
"""As long as a cell's request; an echo carries it there and back, as a cell's answer is of like size."""


class Absent(Exception):
    """A floor or peer that cannot be had here, with the reason."""


class Driver:
    """A process of `drivers.py`, asked by words and answering in seconds."""

    def __init__(
        self,
        *line: str,
        python: str = sys.executable,
        fds: tuple[int, ...] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            [python, str(DRIVERS), *line],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=fds,
            env={**os.environ, **(variables or {})},
            text=True,
            bufsize=1,
        )
        said = self._hear()
        if not isinstance(said, Mapping) or "ready" not in said:
            self.close()
            raise Absent(str(said.get("absent", said)) if isinstance(said, Mapping) else "it ended while starting")

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, word: str) -> float:
        self.tell(word)
        said = self._hear()
        if not isinstance(said, float):
            raise Absent(f"it ended when asked for {word!r}")
        return said

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")

    def _hear(self) -> object:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def close(self) -> None:
        """End it; it is asked first, so that it can end what it started."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def forker() -> Driver:
    """A process with the modules, the frozen heap and the huge pages of a zygote."""
    ours = {name: value for name, value in ZYGOTE_VARIABLES.items() if name not in ("HOME", "MPLCONFIGDIR")}
    return Driver("fork", variables=ours)


class Echo:
    """A blocking echo over a socketpair by another Python process, placed by the scheduler as a box is."""

    def __init__(self, sock: socket.socket, driver: Driver) -> None:
        self._socket = sock
        self.pid = driver.pid

    def once(self) -> float:
        started = time.perf_counter()
        self._socket.sendall(REQUEST)
        if self._socket.recv(4096) != REQUEST:
            raise RuntimeError("the echo is not one")
        return time.perf_counter() - started


@contextmanager
def apart(others: Collection[int]) -> Iterator[None]:
    """Us on one core, these on another: what the scheduler would choose changes from moment to moment."""
    everywhere = os.sched_getaffinity(0)
    here, there, *_ = sorted(everywhere)
    os.sched_setaffinity(0, {here})
    for pid in others:
        os.sched_setaffinity(pid, {there})
    try:
        yield
    finally:
        for pid in (0, *others):
            os.sched_setaffinity(pid, everywhere)


@contextmanager
def echo() -> Iterator[Echo]:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            driver = Driver("echo", str(theirs.fileno()), fds=(theirs.fileno(),))
        driver.tell("serve")
        try:
            yield Echo(ours, driver)
        finally:
            ours.close()
            driver.close()


def fresh_python() -> float:
    """A new Python of this environment that imports the stack; from the second time on its bytecode is there."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", STACK], check=True, env=variables, stdin=subprocess.DEVNULL)
    return time.perf_counter() - started


@contextmanager
def bytes_file(size: int) -> Iterator[str]:
    """A file of that size, in memory where there is such a place."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.NamedTemporaryFile(dir=place) as file:
        file.write(b"x" * size)
        file.flush()
        yield file.name


def cat(path: str) -> float:
    """`cat` of a file through a pipe into this process."""
    program = shutil.which("cat")
    if program is None:
        raise Absent("there is no cat")
    return piped(program, path)


def piped(*line: str) -> float:
    """A program's output through a pipe into this process, to its end."""
    started = time.perf_counter()
    with subprocess.Popen(line, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while os.read(process.stdout.fileno(), CHUNK):
            pass
    return time.perf_counter() - started
