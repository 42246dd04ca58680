"""Drives the real guest, unconfined, in a process of its own over a socket pair.

As in a jail, guests are forks of a process that has imported what they need: one for each set of preloaded modules.
"""

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
ZYGOTE = """
import json, os, socket, sys
door = socket.socket(fileno=int(sys.argv[1]))
for name in sys.argv[2:]:
    __import__(name)
if "numpy" in sys.modules:
    sys.modules["numpy"].random.seed(1)  # what every fork of one zygote would share
from belljar.sandbox.guest import serve
guest = serve.prepare()
while True:
    data, numbers, _, _ = socket.recv_fds(door, 1 << 20, 3)
    if not data:
        os._exit(0)
    asked = json.loads(data)
    if "end" in asked:
        told = os.waitstatus_to_exitcode(os.waitpid(asked["end"], 0)[1])
    elif not (told := os.fork()):
        door.close()
        break
    for number in numbers:
        os.close(number)
    door.send(json.dumps(told).encode())
sock = socket.socket(fileno=numbers[0])
for place, number in enumerate(numbers[1:], 1):
    os.dup2(number, place)
    os.close(number)
os.environ["HOME"] = asked["workdir"]
os.chdir(asked["workdir"])
guest.serve(sock, asked)
os._exit(0)
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


class Zygote:
    """Has imported some modules, and forks."""

    def __init__(self, preload: Sequence[str]) -> None:
        self._door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "HOME": os.devnull}
        environment["MPLCONFIGDIR"] = str(SOURCE.parent / ".pytest_cache" / "matplotlib")
        command = [sys.executable, "-c", ZYGOTE, str(theirs.fileno()), *preload]
        self._process = subprocess.Popen(
            command, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        theirs.close()

    def ask(self, what: Mapping[str, object], numbers: Sequence[int] = ()) -> int:
        socket.send_fds(self._door, [json.dumps(what).encode()], numbers)
        return int(self._door.recv(1 << 10))

    def close(self) -> None:
        self._door.close()
        assert self._process.wait(PATIENCE) == 0


class Process:
    """A guest's; what it prints is read from its two pipes."""

    def __init__(self, zygote: Zygote, sock: socket.socket, settings: Mapping[str, object]) -> None:
        self._zygote = zygote
        self._code: int | None = None
        self.stdout, out = os.pipe()
        self.stderr, err = os.pipe()
        self._pid = zygote.ask(settings, [sock.fileno(), out, err])
        self._handle = os.pidfd_open(self._pid)  # not reaped before its zygote is asked for its end
        os.close(out)
        os.close(err)
        self._open = [self._handle, self.stdout, self.stderr]

    def wait(self, patience: float) -> int:
        """The exit code."""
        if self._code is None:
            assert select.select([self._handle], [], [], patience)[0], f"it runs still after {patience:g} s"
            self._code = self._zygote.ask({"end": self._pid})
        return self._code

    def send_signal(self, number: int) -> None:
        signal.pidfd_send_signal(self._handle, number)

    def close(self) -> None:
        try:
            self.wait(PATIENCE)
        finally:
            if self._code is None:
                self.send_signal(signal.SIGKILL)
                self.wait(PATIENCE)
            while self._open:
                os.close(self._open.pop())


class Driver:
    """The host's side."""

    def __init__(self, zygote: Zygote, settings: Mapping[str, object]) -> None:
        self._sock, theirs = socket.socketpair()
        self.process = Process(zygote, theirs, settings)
        theirs.close()
        self._pipes = {self.process.stdout: "stdout", self.process.stderr: "stderr"}
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
        self.process.close()

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


@pytest.fixture(scope="session")
def zygotes() -> Iterator[Callable[..., Zygote]]:
    """Each is made when first asked for: importing pandas takes longer than any test here."""
    made: dict[tuple[str, ...], Zygote] = {}

    def find(*preload: str) -> Zygote:
        if preload not in made:
            made[preload] = Zygote(preload)
        return made[preload]

    yield find
    for zygote in made.values():
        zygote.close()


@pytest.fixture
def start(tmp_path: Path, zygotes: Callable[..., Zygote]) -> Iterator[Callable[..., Driver]]:
    """Starts guests with settings, forked from what has the modules of `preload`."""
    drivers: list[Driver] = []

    def start(preload: Sequence[str] = (), **settings: object) -> Driver:
        drivers.append(Driver(zygotes(*preload), {"workdir": str(tmp_path), **settings}))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()


@pytest.fixture
def guest(start: Callable[..., Driver]) -> Driver:
    return start()
