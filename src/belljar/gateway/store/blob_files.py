"""Files that hold the bytes of a blob: written, read and compared with its name, in threads."""

from __future__ import annotations

import hashlib
import os

_PIECE = 1 << 20


class OpenFile:
    """A file that closes once nobody holds it: a cancelled reader leaves its thread at work for a moment."""

    def __init__(self, file: int) -> None:
        self._file = file

    @property
    def size(self) -> int:
        return os.fstat(self._file).st_size

    def read(self, size: int, at: int) -> bytes:
        return os.pread(self._file, size, at)

    def __del__(self) -> None:
        os.close(self._file)


def write_all(file: int, data: bytes | memoryview) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def digest_file(file: int) -> str:
    """The name that these bytes have."""
    made, at = hashlib.sha256(), 0
    while data := os.pread(file, _PIECE, at):
        made.update(data)
        at += len(data)
    return made.hexdigest()
