"""A tree of files on its way into a container: as a tar that is packed while it is read, and file by file."""

from __future__ import annotations

import io
import lzma
import os
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from belljar.errors import WorkspaceError
from belljar.filesystem.mounts import MountedFiles
from belljar.filesystem.paths import Segments, join_segments, segments_of
from belljar.filesystem.safe_open import Opener
from belljar.rooted_paths import open_plain
from belljar.sandbox import tar_reader, tar_writer

MARKER = ".belljar-directory"
"""A file that makes its directory exist while there is nothing else in it."""
_PIECE = 512 << 10


class ArchiveMember(NamedTuple):
    segments: Segments
    size: int
    open: Callable[[], BinaryIO]


class Packed(Protocol):
    """A tar, which may be read again from its beginning."""

    def seek(self, offset: int, whence: int = ..., /) -> int: ...

    def read(self, size: int = ..., /) -> bytes: ...

    def close(self) -> None: ...


class OutgoingArchive(Protocol):
    """What is to be uploaded."""

    @abstractmethod
    def members(self) -> Sequence[ArchiveMember]: ...

    @abstractmethod
    def pack(self) -> Packed: ...


class Tarball(OutgoingArchive):
    """A tar that lies on this host, compressed or not."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._members: list[ArchiveMember] | None = None

    def members(self) -> Sequence[ArchiveMember]:
        if self._members is None:
            with self._open_source() as (source, size):
                self._members = [
                    ArchiveMember(segments_of(one.name), one.size, partial(self._member, one))
                    for one in tar_reader.Archive(source, size)
                    if one.kind == "file"
                ]
        return self._members

    def pack(self) -> BinaryIO:
        return self._path.open("rb")

    def _member(self, member: tar_reader.Member) -> BinaryIO:
        with self._open_source() as (source, size):
            return io.BytesIO(tar_reader.read_member(source, member, size))

    @contextmanager
    def _open_source(self) -> Iterator[tuple[tar_reader.Source, int | None]]:
        """It, inflated, and its size where it is not compressed."""
        with self._path.open("rb") as file:
            source = tar_reader.inflate(file)
            try:
                yield source, os.fstat(file.fileno()).st_size if source is file else None
            except (tar_reader.Broken, EOFError, zlib.error, lzma.LZMAError) as error:
                raise WorkspaceError(
                    f"{self._path}: cannot be read as a tar archive ({error}); pack it anew"
                ) from error


class HostTree(OutgoingArchive):
    """The plain files beneath a directory of this host, and the directories that nothing is in."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def members(self) -> Sequence[ArchiveMember]:
        found: list[ArchiveMember] = []
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
                    found.append(ArchiveMember(segments, entry.stat().st_size, partial(_open_source, entry.path)))
        return found

    def pack(self) -> TarStream:
        return TarStream(self.members())


class HostFiles(OutgoingArchive):
    """Files of this host that mounts bring in, packed from where they lie, and directories that nothing is in."""

    def __init__(self, found: MountedFiles) -> None:
        opener = Opener()
        self._members = [ArchiveMember(file.target, file.size, partial(opener.open, file.path)) for file in found.files]
        self._members += map(_empty, found.directories)

    def members(self) -> Sequence[ArchiveMember]:
        return self._members

    def pack(self) -> TarStream:
        return TarStream(self._members)


def _empty(directory: Segments) -> ArchiveMember:
    return ArchiveMember((*directory, MARKER), 0, io.BytesIO)


def _open_source(path: str) -> BinaryIO:
    return open(open_plain(path), "rb", buffering=0)


def packed_one(segments: Segments, content: bytes) -> bytes:
    """A tar of one file."""
    return b"".join(tar_writer.write([(join_segments(segments), len(content), (content,))], piece=_PIECE))


class TarStream(io.RawIOBase):
    """A tar of these files that is never whole anywhere: each is opened when its turn comes."""

    def __init__(self, members: Sequence[ArchiveMember]) -> None:
        self._members = members
        self._length = tar_writer.length((join_segments(one.segments), one.size) for one in members)
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
        entries = ((join_segments(one.segments), one.size, _content(one)) for one in self._members)
        self._pieces = tar_writer.write(entries, piece=_PIECE)
        self._ahead = b""
        self._taken = self._at = 0


def _content(member: ArchiveMember) -> Iterator[bytes]:
    left = member.size
    with member.open() as file:
        while left and (data := file.read(min(left, _PIECE))):
            left -= len(data)
            yield data
