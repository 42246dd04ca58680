"""Turn SIGINT into KeyboardInterrupt inside a cell; ignore it outside one."""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable
from signal import SIGINT
from types import FrameType

from . import private_builtins

private_builtins.protect(globals())

# Every cell takes SIGINT back. The C function under the wrapper in `signal` is ten times as fast.
_set_handler = sys.modules["_signal"].signal


CELL = "<cell "
"""How the file name of every cell begins."""


class Interrupts:
    """Whether an interrupt may land now. The handler always runs in the main thread."""

    __slots__ = ("_handler", "_held", "_late", "_main", "between", "busy", "cancel")

    def __init__(self) -> None:
        self.busy = False
        """A cell is running."""
        self.between = False
        """Background tasks are running between two cells."""
        self.cancel: Callable[[], None] | None = None
        """Ends the wait of a cell that sits in `await`, where a raise would hit the event loop instead."""
        self._held = False
        self._late = False
        self._main = get_ident()
        self._handler = self._handle  # bound once, as every cell installs it anew

    def install(self) -> None:
        """Take SIGINT (back): a cell may have put its own handler there."""
        _set_handler(SIGINT, self._handler)
        self._late = False

    def hold(self) -> None:
        """From here on an interrupt waits: half a frame must not leave the guest."""
        if get_ident() == self._main:
            self._held = True

    def release(self) -> None:
        """Let interrupts land again, and the one that waited."""
        if get_ident() == self._main:
            self._held = False
            if self._late:
                self._late = False
                if self.busy:
                    raise KeyboardInterrupt

    def _handle(self, _number: int, frame: FrameType | None) -> None:
        if not self.busy:
            if self.between and _in_cell(frame):
                raise KeyboardInterrupt
        elif self._held:
            self._late = True
        elif self.cancel is not None and not _in_cell(frame):
            self.cancel()
        else:
            raise KeyboardInterrupt


def _in_cell(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(CELL):
            return True
        frame = frame.f_back
    return False
