"""A stranger's tar archive, read once from front to back, with a bound on what it may say about its files. Blocking.

`tarfile` reads headers whole, as large as they say they are, and one may follow another without end. So it is given
what it reads by us: so many bytes for one file, and not one more. Nothing of its inside is relied on, which differs
between Pythons of one version. Ordinary headers are read by hand, at a fraction of the price.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, BinaryIO, Literal, NamedTuple, Protocol, cast
from zlib import adler32

from belljar.errors import BelljarError

LARGEST = 256 << 10
"""Bytes that an archive may say about one file: names, attributes, the map of its holes."""
_MOST_SAID = 1000
"""Things that it may say about all files that follow: each of those is told them anew."""
_BLOCK = tarfile.BLOCKSIZE
_PIECE = 1 << 20
_SIZE, _SUM = re.compile(rb"([0-7]{11})[\0 ]"), re.compile(rb"([0-7]{6})[\0 ]{2}([05])")
"""As most write them, and behind the sum `0`, a regular file, or `5`, a directory."""
_GZIP, _BZIP, _XZ = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0"
_HEAD = 6
_XZ_MEMORY = 128 << 20
"""What `xz -9` needs, twice."""


class Broken(ValueError):
    """This is no tar archive, not a whole one, or one that wants too much."""


class Source(Protocol):
    """Where the bytes come from; fewer than asked for may come, and none at the end."""

    def read(self, size: int, /) -> bytes: ...


class Member(NamedTuple):
    """What an archive says of one entry."""

    name: str
    size: int
    start: int
    """Where its bytes are in the archive."""
    kind: Literal["file", "folder", "other"]
    is_sparse: bool = False
    """It has holes: its bytes are not in the archive as they are."""


class Archive:
    """Iterate over it once; `read` gives the bytes of the member that came last."""

    def __init__(self, source: Source, size: int | None = None) -> None:
        """With a size the source is a file of that many bytes, of which only headers are read where that will do."""
        self._reader = _Reader(source, size)
        self._said: dict[str, str] = {}
        """About all files that follow."""
        self._left = 0
        self._sparse: IO[bytes] | None = None

    def __iter__(self) -> Iterator[Member]:
        reader = self._reader
        end = 0
        while True:
            reader.skip(end)
            block = reader.read(_BLOCK)
            if not block.strip(b"\0"):
                if not end and not block:
                    raise Broken("it is empty")
                return
            self._sparse = None
            member = _plain(block, end + _BLOCK)
            if member is None:
                member, end = self._odd(block)
            else:
                end = member.start + member.size + -member.size % _BLOCK
            self._left = member.size
            yield member

    def read(self, size: int, /) -> bytes:
        if self._sparse is not None:
            with _explained():
                return self._sparse.read(size)
        wanted = min(size, self._left)
        data = self._reader.read(wanted)
        if len(data) < wanted:
            raise Broken("it ends too soon")
        self._left -= wanted
        return data

    def _odd(self, block: bytes) -> tuple[Member, int]:
        """A member whose header is out of the ordinary, or has others before it; and where the next one begins."""
        reader = self._reader
        reader.unread(block)
        with _explained(), reader.bounded(LARGEST):
            tar = tarfile.open(  # noqa: SIM115 - closing it would do nothing
                fileobj=cast(Any, reader),
                mode="r:",
                encoding="utf-8",
                errors="surrogateescape",
                pax_headers=self._said,
            )
            info = next(iter(tar), None)
        if info is None:
            raise Broken("a header is broken")
        if info.size < 0:
            raise Broken("one of its sizes is negative")
        self._said = cast(dict[str, str], tar.pax_headers)
        said = sum(len(name) + len(text) for name, text in self._said.items())
        if said > LARGEST or len(self._said) > _MOST_SAID:
            raise Broken("it says too much about all its files at once")
        reader.skip(info.offset_data)
        sparse = info.sparse is not None
        if sparse:
            self._sparse = tar.extractfile(info)
        kind: Literal["file", "folder", "other"] = "file" if info.isreg() else "folder" if info.isdir() else "other"
        end: int = tar.offset
        return Member(info.name, info.size, info.offset_data, kind, sparse), end


def read_member(source: Source, member: Member, size: int | None = None) -> bytes:
    """The bytes of a member that was found before, of an archive that is read anew from its beginning."""
    if not member.is_sparse:
        reader = _Reader(source, size)
        reader.skip(member.start)
        data = reader.read(member.size)
    else:
        archive = Archive(source, size)
        next(one for one in archive if one == member)
        data = archive.read(member.size)
    if len(data) < member.size:
        raise Broken("it ends too soon")
    return data


class _Reader:
    """What `tarfile` reads from: with a position that only grows, and at times a bound on what is read."""

    def __init__(self, source: Source, size: int | None) -> None:
        self._source = source
        self._size = size
        self._at = 0
        self._ahead = b""
        self._allowed = sys.maxsize

    def read(self, size: int) -> bytes:
        if size < 0:
            raise Broken("one of its sizes is negative")
        self._allowed -= size
        if self._allowed < 0:
            raise Broken(f"one of its headers is too large: it may say {LARGEST >> 10} KiB about a file")
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        if len(data) < size:
            data += self._source.read(size - len(data))
            if 0 < len(data) < size:
                data = self._whole(data, size)
        self._at += len(data)
        return data

    def _whole(self, data: bytes, size: int) -> bytes:
        parts, left = [data], size - len(data)
        while left and (part := self._source.read(left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def unread(self, data: bytes) -> None:
        self._ahead = data + self._ahead
        self._at -= len(data)

    def skip(self, to: int) -> None:
        """As `seek`, and it is broken where there is nothing."""
        if self.seek(to) < to:
            raise Broken("it ends too soon")

    def seek(self, to: int) -> int:
        if to < self._at:
            raise Broken("its parts overlap")
        if self._size is not None and to != self._at:
            self._ahead = b""
            self._at = min(to, self._size)
            cast(IO[bytes], self._source).seek(self._at)
        while self._at < to and (data := self._ahead[: to - self._at] or self._source.read(min(_PIECE, to - self._at))):
            self._ahead = self._ahead[len(data) :]
            self._at += len(data)
        return self._at

    def tell(self) -> int:
        return self._at

    @contextmanager
    def bounded(self, most: int) -> Iterator[None]:
        self._allowed = most
        try:
            yield
        finally:
            self._allowed = sys.maxsize


@contextmanager
def _explained() -> Iterator[None]:
    """A stranger's bytes can make `tarfile` raise much, and other words in every Python."""
    try:
        yield
    except (BelljarError, Broken):
        raise
    except (tarfile.TarError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
        raise Broken("a header is broken") from None


def _plain(block: bytes, start: int) -> Member | None:
    """What the header of an ordinary file or directory says; None for another kind, and for what is none."""
    size, told = _SIZE.match(block, 124), _SUM.match(block, 148)
    if size is None or told is None or len(block) != _BLOCK or int(told[1], 8) != _sum(block):
        return None
    is_folder = told[2] == tarfile.DIRTYPE
    length = int(size[1], 8)
    if is_folder and length:
        return None
    name = _text(block[:100])
    if block[345]:
        name = f"{_text(block[345:500])}/{name}"
    return Member(name, length, start, "folder" if is_folder else "file")


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _sum(header: bytes) -> int:
    """Of all bytes, as if blanks stood in its own place. Of so few, the lower half of Adler's sum is theirs and one."""
    low, middle, high = adler32(header[:148]), adler32(header[156:412]), adler32(header[412:])
    return (low & 0xFFFF) + (middle & 0xFFFF) + (high & 0xFFFF) - 3 + 8 * ord(" ")


# -- compressed archives ----------------------------------------------------------------------------------------------


def is_compressed(head: bytes) -> bool:
    """Whether a file that begins so is to be inflated."""
    return head.startswith((_GZIP, _BZIP, _XZ))


def inflate(archive: BinaryIO) -> Source:
    """A file from its beginning, as it was before it was compressed, if it was; with a bound on the memory it takes."""
    head = archive.read(_HEAD)
    archive.seek(0)
    if head.startswith(_GZIP):
        return gzip.GzipFile(fileobj=archive)
    if head.startswith(_BZIP):
        return bz2.BZ2File(archive)
    if head.startswith(_XZ):
        return _Xz(archive)
    return archive


class _Xz:
    """Like `lzma.LZMAFile`, which would take as much memory as the header asks for."""

    def __init__(self, archive: BinaryIO) -> None:
        self._archive = archive
        self._stream = self._next()

    def _next(self) -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)

    def read(self, size: int, /) -> bytes:
        while True:
            data = b""
            if self._stream.eof:
                data = (self._stream.unused_data or self._archive.read(64 << 10)).lstrip(b"\0")  # padding
                if not data:
                    return b""
                self._stream = self._next()
            elif self._stream.needs_input:
                data = self._archive.read(64 << 10)
                if not data:
                    raise EOFError("it ends too soon")
            if found := self._stream.decompress(data, size):
                return found
