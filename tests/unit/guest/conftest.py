"""Drives the real guest, unconfined, in a process of its own over a socket pair."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from belljar.sandbox.guest import frames

SOURCE = Path(frames.__file__).parents[3]
START = """
import socket, sys, json
sock = socket.socket(fileno=int(sys.argv[1]))
settings = json.loads(sys.argv[2])
for name in settings.pop("preload", ()):
    __import__(name)
if "numpy" in sys.modules:
    sys.modules["numpy"].random.seed(1)  # what every fork of one zygote would share
from belljar.sandbox.guest import serve
guest = serve.prepare()
guest.serve(sock, settings)
"""
PATIENCE = 20.0


@dataclass
class Ran:
    """Everything that came out of one cell."""

    raw: dict[str, bytearray] = field(default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()})
    displays: list[dict[str, str | bytes]] = field(default_factory=list)
    results: list[dict[str, str | bytes]] = field(default_factory=list)
    done: dict[str, Any] = field(default_factory=dict)

    @property
    def stdout(self) -> str:
        return self.raw["stdout"].decode("utf-8", "backslashreplace")

    @property
    def stderr(self) -> str:
        return self.raw["stderr"].decode("utf-8", "backslashreplace")

    @property
    def status(self) -> str:
        return str(self.done["status"])

    @property
    def result(self) -> str:
        assert len(self.results) == 1, self
        return str(self.results[0]["text/plain"])

    @property
    def error(self) -> dict[str, str]:
        error = self.done["error"]
        assert isinstance(error, dict), self
        return error

    @property
    def traceback(self) -> str:
        return self.error["traceback"]


class Driver:
    """The host's side."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        self._sock, theirs = socket.socketpair()
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "HOME": str(folder)}
        environment["MPLCONFIGDIR"] = str(SOURCE.parent / ".pytest_cache" / "matplotlib")
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(theirs.fileno()), json.dumps({"workdir": str(folder), **settings})],
            cwd=folder,
            env=environment,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        theirs.close()
        assert self.process.stdout
        assert self.process.stderr
        self._pipes = {self.process.stdout.fileno(): "stdout", self.process.stderr.fileno(): "stderr"}
        for number in self._pipes:
            os.set_blocking(number, False)
        self._decoder = frames.FrameDecoder()
        self._number = 0
        self._waiting: list[tuple[int, bytes]] = []
        kind, payload = self._frame(Ran())
        assert kind == frames.HELLO
        self.hello = frames.decode_json(payload)

    def send(self, code: str, paths: Sequence[str] | None = None) -> None:
        self._number += 1
        if paths is not None:
            self._sock.sendall(frames.encode_text(frames.PATHS, self._number, os.pathsep.join(paths)))
        self._sock.sendall(frames.encode_text(frames.RUN, self._number, code))

    def run(self, code: str, paths: Sequence[str] | None = None) -> Ran:
        self.send(code, paths)
        return self.finish()

    def ok(self, code: str, paths: Sequence[str] | None = None) -> Ran:
        ran = self.run(code, paths)
        assert ran.status == "ok", ran
        return ran

    def finish(self, until: Callable[[Ran], bool] | None = None, ran: Ran | None = None) -> Ran:
        """Read until the cell is done, or until a condition holds."""
        ran = ran or Ran()
        while not (until and until(ran)):
            kind, payload = self._frame(ran, until)
            if kind == 0:
                break
            if kind in (frames.DONE, frames.OK):
                if kind == frames.DONE:
                    ran.done = frames.decode_json(payload)
                else:
                    number, text = frames.decode_text(payload)
                    ran.done = {"id": number, "status": "ok", "result": text}
                assert ran.done["id"] == self._number
                if short := ran.done.pop("result"):
                    ran.results.append({"text/plain": str(short)})
                self.drain(ran)
                break
            bundles = ran.displays if kind == frames.DISPLAY else ran.results
            bundles.append(frames.decode_bundle(payload))
        return ran

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def close(self) -> None:
        self._sock.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdout, self.process.stderr):
                if pipe:
                    pipe.close()

    def _frame(self, ran: Ran, until: Callable[[Ran], bool] | None = None) -> tuple[int, bytes]:
        while not self._waiting:
            ready, _, _ = select.select([self._sock.fileno(), *self._pipes], [], [], PATIENCE)
            assert ready, f"nothing came for {PATIENCE} s: {ran}"
            self.drain(ran)
            if until and until(ran):
                return 0, b""
            if self._sock.fileno() in ready:
                data = self._sock.recv(1 << 20)
                assert data, f"the guest hung up: {ran}"
                self._waiting += self._decoder.feed(data)
        return self._waiting.pop(0)

    def drain(self, ran: Ran) -> None:
        """Take what is in the pipes now."""
        for number, name in self._pipes.items():
            while True:
                try:
                    data = os.read(number, 1 << 20)
                except BlockingIOError:
                    break
                if not data:
                    break
                ran.raw[name] += data


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    """Starts guests with settings."""
    drivers: list[Driver] = []

    def start(**settings: object) -> Driver:
        drivers.append(Driver(tmp_path, settings))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()


@pytest.fixture
def guest(start: Callable[..., Driver]) -> Driver:
    return start()
