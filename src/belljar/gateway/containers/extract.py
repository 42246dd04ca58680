"""Archives, read as a stream: plain files with plain names come out, anything else refuses the whole. Blocking, pure.

The bytes are a stranger's. Nothing is believed of what the archive says about itself: sizes are counted as they come,
a header that wants much memory is refused, and only formats whose decompressors can be read in bounded pieces are
taken.
"""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from belljar.errors import BelljarError, InvalidRequest, TooLarge
from belljar.gateway.containers import names
from belljar.sandbox import explain
from belljar.sandbox.base import MIB
from belljar.sandbox.tar_reader import Archive, Member, Source, inflate, is_compressed

RATIO = 200
"""How many times its own size an archive may unpack to."""
FREE = 16 * MIB
"""Up to here no ratio is too high: a small archive of zeros does no harm."""
_DIRECTORY = 4 * MIB
"""The most that is read at once of a zip: a directory of thousands of names fits, a bomb does not."""
_BATCH = 2 * MIB
_EACH = 1024
"""What a file counts besides its bytes: empty ones must not gather without end."""
_PAGE = 4096
_ZIP = b"PK"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may come out of an archive."""

    files: int
    bytes: int


class Part(NamedTuple):
    """Where a file lies in an archive."""

    path: str
    start: int
    size: int


def unpack(archive: BinaryIO, filename: str, bounds: Bounds) -> Iterator[str | bytes]:
    """For each file its path, then its bytes in pieces. Raises `InvalidRequest` or `TooLarge` and names the cause."""
    tally, head = _begun(archive, filename, bounds)
    with tally.explained():
        if head.startswith(_ZIP):
            yield from _zip(archive, tally)
        else:
            yield from _tar(inflate(archive), tally)


def parts(archive: BinaryIO, filename: str, bounds: Bounds) -> list[Part] | None:
    """The files of an archive that need no unpacking, as they lie in it as they are; None where they do not.

    Raises what `unpack` would.
    """
    tally, head = _begun(archive, filename, bounds)
    if head.startswith(_ZIP) or is_compressed(head):
        return None
    with tally.explained():
        found: list[Part] = []
        for path, member in _files(Archive(archive, tally.packed), tally):
            if member.is_sparse:
                return None
            found.append(Part(path, member.start, member.size))
            tally.add(member.size)
    return found if tally.fills() else None


def _begun(archive: BinaryIO, filename: str, bounds: Bounds) -> tuple[_Tally, bytes]:
    packed = archive.seek(0, io.SEEK_END)
    archive.seek(0)
    head = archive.read(512)
    archive.seek(0)
    return _Tally(bounds, packed, filename), head


class Sorted:
    """The steps of `unpack`, sorted for whoever keeps them: small files by the batch, and large ones in pieces.

    Going to a thread, to the disk or to a lock for each small file would cost more than the file.
    """

    def __init__(self, steps: Iterator[str | bytes]) -> None:
        self._steps = steps
        self._ahead: list[str | bytes] = []

    def batch(self) -> list[tuple[str, bytes]]:
        """The next small files, whole; none where a large one comes next, or the end."""
        found: list[tuple[str, bytes]] = []
        weight = 0
        while weight < _BATCH and isinstance(path := self._next(), str):
            piece = self._next()
            if isinstance(piece, bytes) and len(piece) == MIB:
                self._ahead = [path, piece]
                break
            if not isinstance(piece, bytes):
                self._ahead, piece = ([] if piece is None else [piece]), b""
            found.append((path, piece))
            weight += _EACH + len(piece)
        return found

    def large(self) -> str | None:
        """The path of a large file, whose pieces come next; None at the end."""
        path = self._next()
        return path if isinstance(path, str) else None

    def piece(self) -> bytes:
        """None left: empty."""
        step = self._next()
        if isinstance(step, bytes):
            return step
        self._ahead = [] if step is None else [step]
        return b""

    def _next(self) -> str | bytes | None:
        return self._ahead.pop(0) if self._ahead else next(self._steps, None)


class _Tally:
    """What has come out so far, against what may."""

    def __init__(self, bounds: Bounds, packed: int, filename: str) -> None:
        self._bounds = bounds
        self.packed = packed
        self._most = min(bounds.bytes, max(FREE, packed * RATIO))
        self._filename = filename
        self._paths: set[str] = set()
        self._folders = 0
        self._bytes = 0

    def folder(self) -> None:
        self._folders += 1
        if self._folders > self._bounds.files:
            raise self._too_many("directories")

    def file(self, name: str, size: int) -> str:
        """The path of a member; `size` is what the archive says."""
        path = names.checked(name) if not name.startswith("/") else None
        if path is None:
            raise self.refuse(f"holds {name!r}, an absolute path; pack with relative ones")
        if path in self._paths:
            raise self.refuse(f"holds {name!r} twice")
        self._paths.add(path)
        if len(self._paths) > self._bounds.files:
            raise self._too_many("files")
        self._fits(size)
        return path

    def piece(self, data: bytes) -> bytes:
        self.add(len(data))
        return data

    def add(self, size: int) -> None:
        self._bytes += size
        self._fits(0)

    def fills(self) -> bool:
        """Whether the archive is hardly larger than its files would be on a disk: who keeps it is charged for those."""
        return self.packed <= 2 * self._bytes + _PAGE * len(self._paths) + tarfile.RECORDSIZE

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except BelljarError:
            raise
        except Exception as error:  # a stranger's bytes can make the parsers raise anything
            why = str(error) or type(error).__name__
            raise self.refuse(f"cannot be read as a tar or zip archive ({why})") from error

    def _fits(self, more: int) -> None:
        if self._bytes + more <= self._most:
            return
        if self._most < self._bounds.bytes:
            raise self.refuse(f"unpacks to more than {RATIO} times its size, as only a bomb does; upload the files")
        size = explain.size(self._bounds.bytes)
        raise TooLarge(f"file: {self._filename!r} unpacks to more than the {size} that the workspace holds")

    def _too_many(self, what: str) -> InvalidRequest:
        return self.refuse(f"holds more than {self._bounds.files} {what}, which is the most")

    def refuse(self, problem: str) -> InvalidRequest:
        return InvalidRequest(f"file: {self._filename!r} {problem}; nothing of it was kept", param="file")


def _zip(archive: BinaryIO, tally: _Tally) -> Iterator[str | bytes]:
    with zipfile.ZipFile(_Seekable(archive)) as found:
        for info in found.infolist():
            if info.is_dir():
                tally.folder()
                continue
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG):
                raise tally.refuse(f"holds {info.filename!r}, which is a link or a device")
            if info.flag_bits & 1:
                raise tally.refuse("is encrypted; upload it without a password")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # Python unpacks the others without a bound on memory.
                raise tally.refuse(f"has {info.filename!r} in an unusual compression; use deflate, or a .tar.xz")
            yield tally.file(info.filename, info.file_size)
            with found.open(info) as member:
                while data := member.read(MIB):
                    yield tally.piece(data)


def _tar(source: Source, tally: _Tally) -> Iterator[str | bytes]:
    archive = Archive(source)
    for path, _ in _files(archive, tally):
        yield path
        while data := archive.read(MIB):
            yield tally.piece(data)


def _files(archive: Archive, tally: _Tally) -> Iterator[tuple[str, Member]]:
    for member in archive:
        if member.kind == "folder":
            tally.folder()
        elif member.kind == "other":
            raise tally.refuse(f"holds {member.name!r}, which is a link or a device")
        else:
            yield tally.file(member.name, member.size), member


class _Seekable:
    """A file of which nobody reads much at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > _DIRECTORY:
            raise ValueError("one of its headers is too large")
        data = self._file.read(_DIRECTORY + 1 if size < 0 else size)
        if len(data) > _DIRECTORY:
            raise ValueError("its directory is too large")
        return data
