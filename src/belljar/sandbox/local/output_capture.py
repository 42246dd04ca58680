"""Capture what a cell prints: decoded up to the cap as it arrives, all of it in a log file beyond."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import termios
from collections.abc import Iterator
from functools import cached_property

from belljar.sandbox import explain
from belljar.sandbox.base import KIB, MIB, Limits
from belljar.sandbox.local.files import Files
from belljar.sandbox.local.interpreter_channel import Link
from belljar.sandbox.outputs import Output, Stderr, Stdout

_Decoder, _ERRORS = codecs.getincrementaldecoder("utf-8"), "backslashreplace"


class Printed:
    """What a cell prints: decoded as it comes up to the cap, the whole of it in a log file beyond."""

    def __init__(self, link: Link, files: Files, limits: Limits, number: int) -> None:
        self._limits = limits
        self._files = files
        self._number = number
        self._link = link
        self._kept: list[bytes] = []
        self._log: int | None = None
        self._full = False
        self.total = 0

    @cached_property
    def _pipes(self) -> tuple[tuple[int, type[Stdout | Stderr], codecs.IncrementalDecoder], ...]:
        """Made when first needed: most cells print nothing."""
        link = self._link
        return (link.stdout, Stdout, _Decoder(_ERRORS)), (link.stderr, Stderr, _Decoder(_ERRORS))

    @property
    def _name(self) -> str:
        return f"output-{self._number}.log"

    def read(self) -> Iterator[Output]:
        """What is in the pipes now; a bounded amount, should someone write as fast as we read."""
        for fd, kind, decoder in self._pipes:
            enough = self.total + 4 * MIB
            while self.total < enough:
                if self.total >= self._limits.output:
                    if not self._spill(fd):
                        break
                    continue
                try:
                    data = os.read(fd, min(256 * KIB, self._limits.output - self.total))
                except BlockingIOError:
                    break
                if not data:
                    break
                self.total += len(data)
                self._kept.append(data)
                if text := decoder.decode(data):
                    yield kind(text)

    def finish(self) -> Iterator[Output]:
        """The ends of broken characters, and a word on what was cut."""
        for _, kind, decoder in self._pipes:
            if text := decoder.decode(b"", final=True):
                yield kind(text)
        if self._log is not None:
            for fd, _, _ in self._pipes:
                with contextlib.suppress(OSError):
                    fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 64 * KIB)
            where = f"all of it is in {self._name}" + (", as far as the workspace had room" if self._full else "")
            shown = explain.size(self._limits.output)
            yield Stderr(f"\n[output cut at {shown} of {explain.size(self.total)}; {where}]\n")

    def close(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            os.close(log)

    def _spill(self, fd: int) -> bool:
        """Move what is in the pipe to the log without looking at it; False when the pipe is empty."""
        if self._log is None:
            if not any(fcntl.ioctl(fd, termios.FIONREAD, bytes(4))):
                return False  # exactly at the cap, and nothing more yet
            self._open_log()
        assert self._log is not None
        target = self._log
        try:
            if not self._full:
                moved = os.splice(fd, target, MIB, flags=os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE)
            else:
                moved = len(os.read(fd, MIB))
        except BlockingIOError:
            return False
        except OSError:
            self._full = True
            return True
        self.total += moved
        return moved > 0

    def _open_log(self) -> None:
        for fd, _, _ in self._pipes:
            with contextlib.suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, MIB)
        self._log = self._files.append(self._name)
        try:
            for data in self._kept:
                os.write(self._log, data)
        except OSError:
            self._full = True
        self._kept.clear()
