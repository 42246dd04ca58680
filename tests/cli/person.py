"""A person at a terminal, for commands that ask."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from tests.cli.conftest import Command

PATIENCE = 60.0


class Person:
    """Sits at a pseudo-terminal: reads what is shown, types answers and keys."""

    def __init__(self, process: subprocess.Popen[str], terminal: int) -> None:
        self._process = process
        self._terminal = terminal
        self.seen = ""

    def wait_for(self, text: str) -> Self:
        """Until it is on the screen."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} never came:\n{self.seen}"
            if not self._read(0.1) and self._process.poll() is not None:
                assert text in self.seen, f"it ended before {text!r} came:\n{self.seen}"
        return self

    def type(self, text: str) -> Self:
        os.write(self._terminal, text.encode(errors="surrogateescape"))
        return self

    def end(self) -> int:
        """Wait until it is done; its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end:\n{self.seen}"
            self._read(0.1)
        while self._read(0.0):
            pass
        return self._process.returncode

    def _read(self, patience: float) -> bool:
        if not select.select([self._terminal], [], [], patience)[0]:
            return False
        try:
            piece = os.read(self._terminal, 65536).decode(errors="replace")
        except OSError:  # nobody is at the other end
            return False
        self.seen += piece.replace("\r\n", "\n")
        return bool(piece)


@contextmanager
def sitting(belljar: Command, *args: str, columns: int | None = None) -> Iterator[Person]:
    """Somebody at a terminal in which the command runs and hears Ctrl-C, of so many columns where that counts."""
    ours, theirs = pty.openpty()
    if columns is not None:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with belljar.start(*args, stdin=theirs, stdout=theirs, stderr=theirs, terminal=True) as process:
        os.close(theirs)
        try:
            yield Person(process, ours)
        finally:
            process.kill()
            os.close(ours)
