"""Keep the host's part of `sys.path`: the directories of requested packages, which may change later."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import invalidate_caches

from . import private_builtins

private_builtins.protect(globals())


class Paths:
    """What the host has put on the path, and what it wants there instead."""

    def __init__(self) -> None:
        self._placed: Sequence[str] = ()
        self.wanted: Sequence[str] | None = None
        """Set from when the host says so until it is done."""

    def place(self) -> None:
        """Put what is wanted in the place of what was there; modules that are imported stay what they are."""
        if self.wanted is not None and isinstance(sys.path, list):  # else a cell broke it, and may yet mend it
            sys.path[:] = [*(entry for entry in sys.path if entry not in self._placed), *self.wanted]
            self._placed, self.wanted = self.wanted, None
            invalidate_caches()
