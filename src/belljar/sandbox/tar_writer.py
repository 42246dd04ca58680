"""A tar archive, written while it is read: regular files without times and owners, and never the whole in memory."""

from __future__ import annotations

import errno
import tarfile
from collections.abc import Iterable, Iterator
from typing import TypeAlias
from zlib import adler32

_BLOCK = tarfile.BLOCKSIZE
_END = bytes(2 * _BLOCK)
_OWNERLESS = b"0000644\0" + 2 * b"0000000\0"
_TIMELESS = b"%011o\0" % 0
_TAIL = (b"0".ljust(101, b"\0") + b"ustar\x0000" + bytes(64) + 2 * b"0000000\0").ljust(356, b"\0")
_FIXED = sum(_OWNERLESS + _TIMELESS + _TAIL) + 8 * 32
"""What every header adds to its sum, whose own field counts as blanks."""


class Shortened(OSError):
    """A file has fewer bytes than its header says already."""


Entry: TypeAlias = tuple[str, int, Iterable[bytes]]
"""A file: its name, as `os.fsdecode` gives it if it is no text; its size; its bytes, of which no more are taken."""


def write(entries: Iterable[Entry], *, piece: int) -> Iterator[bytes]:
    """The archive, in pieces of at least so many bytes but for the last: each becomes a write to the network.

    An entry is asked for when its turn comes, and is done with when the next is asked for.
    """
    held: list[bytes] = []
    weight = 0
    for part in _parts(entries):
        held.append(part)
        weight += len(part)
        if weight >= piece:
            yield b"".join(held)
            held, weight = [], 0
    yield b"".join(held)


def _parts(entries: Iterable[Entry]) -> Iterator[bytes]:
    for name, size, pieces in entries:
        yield _header(name, size)
        left = size
        for piece in pieces:
            yield piece if len(piece) <= left else piece[:left]
            left -= min(left, len(piece))
        if left:
            raise Shortened(errno.EIO, "became shorter while it was packed", name)
        yield bytes(-size % _BLOCK)
    yield _END


def length(sizes: Iterable[tuple[str, int]]) -> int:
    """Of the whole archive, of files with these names and sizes."""
    return len(_END) + sum(
        (_BLOCK if _is_short(name, size) else len(_header(name, size))) + size + -size % _BLOCK for name, size in sizes
    )


def _header(name: str, size: int) -> bytes:
    if not _is_short(name, size):
        info = tarfile.TarInfo(name)
        info.size = size
        return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")  # holds any name and any size
    # By hand, for the many: `tobuf` takes longer than to read a small file.
    called, large = name.encode(), b"%011o\0" % size
    total = _FIXED + (adler32(called + large) & 0xFFFF) - 1  # of so few bytes, its lower half is their sum and one
    return b"".join((called.ljust(100, b"\0"), _OWNERLESS, large, _TIMELESS, b"%06o\0 " % total, _TAIL))


def _is_short(name: str, size: int) -> bool:
    return len(name) <= 100 and name.isascii() and size < 8**11
