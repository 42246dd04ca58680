"""Blobs that are a part of another, `<name>@<start>+<size>`: an archive's files need no bytes of their own."""

from __future__ import annotations

import io
import re
from typing import BinaryIO, NamedTuple

from belljar.gateway.store.base import Blob

_NAME = re.compile(r"([0-9a-f]{64})@([0-9]{1,18})\+([0-9]{1,18})")


class Slice(NamedTuple):
    """Some bytes of a blob. It is there as long as the whole is, which goes when no record names a part of it."""

    whole: str
    start: int
    size: int

    @property
    def blob(self) -> Blob:
        return Blob(f"{self.whole}@{self.start}+{self.size}", self.size)


def read(name: str) -> Slice | None:
    """What a name says; None for a blob of its own."""
    found = _NAME.fullmatch(name)
    return None if found is None else Slice(found[1], int(found[2]), int(found[3]))


def whole(name: str) -> str:
    """The blob whose bytes these are."""
    part = read(name)
    return name if part is None else part.whole


class SliceFile(io.RawIOBase):
    """A slice, given the open file of the whole; whoever opened that closes it."""

    def __init__(self, file: BinaryIO, part: Slice) -> None:
        self._file = file
        self._left = part.size
        file.seek(part.start)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data
