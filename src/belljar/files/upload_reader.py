"""A file on its way up: read piece by piece, with a word of each piece to whoever wants to know."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from belljar.errors import InvalidRequest

OnProgress: TypeAlias = Callable[[int, int], None]
"""Called with the bytes that are through and the bytes of all; raising stops the transfer."""


class Reading(io.FileIO):
    """The file as an SDK reads it. SDKs take any error of ours for one of the network; `failed` has the true one."""

    def __init__(self, path: Path, on_progress: OnProgress | None = None) -> None:
        try:
            super().__init__(path, "rb")
        except OSError as error:
            raise InvalidRequest(f"{str(path)!r} cannot be read: {error.strerror}", param="file_path") from None
        self.size = self.seek(0, 2)
        self.seek(0)
        self.failed: Exception | None = None
        self._on_progress = on_progress

    def read(self, size: int | None = -1, /) -> bytes:
        try:
            piece = super().read(-1 if size is None else size) or b""
            if piece and self._on_progress is not None:
                self._on_progress(min(self.tell(), self.size), self.size)
        except Exception as error:
            self.failed = error
            raise
        return piece


def regular(path: str | Path) -> Path:
    """The path of a plain file that is there."""
    found = Path(path).expanduser()
    if not found.is_file():
        what = "is not a plain file" if found.exists() else "there is no such file"
        raise InvalidRequest(f"{str(path)!r}: {what}; name one that can be read", param="file_path")
    return found
