"""Show the progress of large uploads on one line that is overwritten."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from belljar.cli.chat_output import Teller
from belljar.files.execution import FailedUpload
from belljar.files.generation import UploadedFile
from belljar.files.limits import MIB, format_size

_LARGE = 8 * MIB
"""Smaller files are sent before anybody would read of it."""


class Sending:
    """Told of each piece, and of each file that is through; they go one after the other."""

    def __init__(self, paths: Sequence[str], teller: Teller) -> None:
        self._names = [os.path.basename(path) for path in paths]
        self._teller = teller
        self._at = 0
        self._last = -1

    def progress(self, done: int, total: int) -> None:
        percent = 100 * done // max(total, 1)
        if total < _LARGE or percent == self._last:
            return
        self._last = percent
        self._teller.progress(f"sending {self._names[self._at]}: {percent} % of {format_size(total)}")

    def show_progress(self, data: Any) -> None:
        if isinstance(data, UploadedFile | FailedUpload):
            self._at += 1
            self.over()

    def over(self) -> None:
        """Nothing is under way any more: the line is cleared."""
        if self._last >= 0:
            self._teller.progress("")
        self._last = -1
