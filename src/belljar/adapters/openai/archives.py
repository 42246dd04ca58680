"""A tree of files on its way into a container: as a tar that is packed while it is read, and file by file."""

from __future__ import annotations

import errno
import io
import os
import tarfile
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from belljar.filesystem.mounts import Found
from belljar.filesystem.paths import Segments, segments_of, spelled
from belljar.filesystem.safe_open import Opener
from belljar.rooted_paths import open_plain

MARKER = ".belljar-directory"
"""A file that makes its directory exist while there is nothing else in it."""
_PIECE = 512 << 10
_OWNERLESS = b"0000644\0" + 2 * b"0000000\0"
_TIMELESS = b"%011o\0" % 0
_TAIL = (b"0".ljust(101, b"\0") + b"ustar\x0000" + bytes(64) + 2 * b"0000000\0").ljust(356, b"\0")
_FIXED = sum(_OWNERLESS + _TIMELESS + _TAIL) + 8 * 32
"""What every header adds to its sum, whose own field counts as blanks."""
_END = b"\0" * (2 * tarfile.BLOCKSIZE)


class Member(NamedTuple):
    segments: Segments
    size: int
    open: Callable[[], BinaryIO]


class Packed(Protocol):
    """A tar, which may be read again from its beginning."""

    def seek(self, offset: int, whence: int = ..., /) -> int: ...

    def read(self, size: int = ..., /) -> bytes: ...

    def close(self) -> None: ...


class Archive(Protocol):
    """What is to be uploaded."""

    @abstractmethod
    def members(self) -> Sequence[Member]: ...

    @abstractmethod
    def packed(self) -> Packed: ...


class Tarball(Archive):
    """A tar that lies on this host, compressed or not."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def members(self) -> Sequence[Member]:
        with tarfile.open(self._path) as tar:
            return [
                Member(segments_of(info.name), info.size, partial(self._opened, info)) for info in tar if info.isreg()
            ]

    def packed(self) -> BinaryIO:
        return self._path.open("rb")

    def _opened(self, info: tarfile.TarInfo) -> BinaryIO:
        with tarfile.open(self._path) as tar:
            found = tar.extractfile(info)
            assert found is not None
            return io.BytesIO(found.read())


class Tree(Archive):
    """The plain files beneath a directory of this host, and the directories that nothing is in."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def members(self) -> Sequence[Member]:
        found: list[Member] = []
        pending: list[tuple[Segments, str]] = [((), str(self._root))]
        while pending:
            here, directory = pending.pop()
            with os.scandir(directory) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
            if here and not entries:
                found.append(_empty(here))
            for entry in entries:
                segments = (*here, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    pending.append((segments, entry.path))
                elif entry.is_file(follow_symlinks=False):
                    found.append(Member(segments, entry.stat().st_size, partial(_opened, entry.path)))
        return found

    def packed(self) -> TarStream:
        return TarStream(self.members())


class HostFiles(Archive):
    """Files of this host that mounts bring in, packed from where they lie, and directories that nothing is in."""

    def __init__(self, found: Found) -> None:
        opener = Opener()
        self._members = [Member(file.target, file.size, partial(opener.open, file.path)) for file in found.files]
        self._members += map(_empty, found.directories)

    def members(self) -> Sequence[Member]:
        return self._members

    def packed(self) -> TarStream:
        return TarStream(self._members)


def _empty(directory: Segments) -> Member:
    return Member((*directory, MARKER), 0, io.BytesIO)


def _opened(path: str) -> BinaryIO:
    return open(open_plain(path), "rb", buffering=0)


def packed_one(segments: Segments, content: bytes) -> bytes:
    """A tar of one file."""
    return b"".join((_header(segments, len(content)), content, _padding(len(content)), _END))


class TarStream(io.RawIOBase):
    """A tar of these files that is never whole anywhere: each is opened when its turn comes."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self._length = len(_END) + sum(
            _header_length(one.segments, one.size) + one.size + -one.size % tarfile.BLOCKSIZE for one in members
        )
        self._pieces: Iterator[bytes] = iter(())
        self._begin()

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """To the beginning, for another try; or to the end, which is how its length is asked for."""
        if (offset, whence) == (0, io.SEEK_SET):
            self._begin()
        elif (offset, whence) == (0, io.SEEK_END):
            self._pieces, self._ahead, self._taken, self._at = iter(()), b"", 0, self._length
        else:
            raise io.UnsupportedOperation(f"seek({offset}, {whence}): to the beginning or the end only")
        return self._at

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes, and no more than a piece; none at the end."""
        if self._taken == len(self._ahead):
            self._ahead, self._taken = next(self._pieces, b""), 0
        data = self._ahead[self._taken : None if size < 0 else self._taken + size]
        self._taken += len(data)
        self._at += len(data)
        return data

    def _begin(self) -> None:
        self._pieces = self._gathered()
        self._ahead = b""
        self._taken = self._at = 0

    def _gathered(self) -> Iterator[bytes]:
        """Small files together: a piece becomes a write to the network."""
        held: list[bytes] = []
        weight = 0
        for part in self._parts():
            held.append(part)
            weight += len(part)
            if weight >= _PIECE:
                yield b"".join(held)
                held, weight = [], 0
        yield b"".join(held)

    def _parts(self) -> Iterator[bytes]:
        for member in self._members:
            yield _header(member.segments, member.size)
            left = member.size
            with member.open() as file:
                while left:
                    data = file.read(min(left, _PIECE))
                    if not data:
                        raise OSError(errno.EIO, "became shorter while it was packed", spelled(member.segments))
                    left -= len(data)
                    yield data
            yield _padding(member.size)
        yield _END


def _header(segments: Segments, size: int) -> bytes:
    """Without times and owners: a container has its own."""
    name = spelled(segments)
    if not _is_short(name, size):
        info = tarfile.TarInfo(name)
        info.size = size
        return info.tobuf(tarfile.PAX_FORMAT)
    # The same bytes by hand, for the many: `tobuf` takes longer than to read a small file.
    called, large = name.encode(), b"%011o\0" % size
    total = sum(called) + sum(large) + _FIXED
    return b"".join((called.ljust(100, b"\0"), _OWNERLESS, large, _TIMELESS, b"%06o\0 " % total, _TAIL))


def _header_length(segments: Segments, size: int) -> int:
    return tarfile.BLOCKSIZE if _is_short(spelled(segments), size) else len(_header(segments, size))


def _is_short(name: str, size: int) -> bool:
    return len(name) <= 100 and name.isascii() and size < 8**11


def _padding(size: int) -> bytes:
    return b"\0" * (-size % tarfile.BLOCKSIZE)
