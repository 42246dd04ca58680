"""A tar archive as it comes: regular files one after the other, none of it kept. What is wrong is the sender's."""

from __future__ import annotations

import contextlib
import tarfile
from collections.abc import Iterable, Iterator
from tarfile import InvalidHeaderError, ReadError, TruncatedHeaderError  # type: ignore[attr-defined]
from typing import IO, Any, Self, cast

from belljar.errors import InvalidRequest
from belljar.sandbox.base import Content

_LARGEST_HEADER = 64 << 10
"""Bytes of what an archive may say about one file: tarfile holds them in memory."""
_STEP = 16 << 10
"""Bytes that tarfile reads at once: it moves what is left of them with every header."""


def files(chunks: Iterable[bytes]) -> Iterator[tuple[str, Content]]:
    """Names and contents; each content is to be read before the next name is asked for."""
    with _open(cast(Any, _Body(iter(chunks)))) as archive:
        while (member := _next(archive)) is not None:
            if not member.isreg() or member.issparse():
                raise InvalidRequest(
                    f"body: {member.name[:80]!r} in the archive is not a regular file; leave out directories, links "
                    "and the like, directories are made by the names of files",
                )
            yield member.name, _Member(cast(IO[bytes], archive.extractfile(member)))


def _open(body: Any) -> tarfile.TarFile:
    with _explained():  # it reads the first header already
        return tarfile.open(
            fileobj=body, mode="r|", bufsize=_STEP, tarinfo=_Header, encoding="utf-8", errors="surrogateescape"
        )


def _next(archive: tarfile.TarFile) -> tarfile.TarInfo | None:
    cast(Any, archive).members.clear()  # which it would otherwise remember all
    with _explained():
        return archive.next()


class _Body:
    """What tarfile reads from; it takes less than it asks for."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def read(self, size: int, /) -> bytes:
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        taken, self._rest = self._rest[:size], self._rest[size:]
        return bytes(taken)


class _Member:
    """The content of one file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int, /) -> bytes:
        with _explained():
            return self._file.read(size)


class _Header(tarfile.TarInfo):
    """One that is whole and has a size within reason."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except (InvalidHeaderError, TruncatedHeaderError) as error:  # which would pass for the archive's end
            raise ReadError(str(error)) from None

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.size < 0 or (header.type not in tarfile.REGULAR_TYPES and header.size > _LARGEST_HEADER):
            raise InvalidRequest(f"body: the archive has a header of {header.size} bytes; make it anew")
        return header


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, ValueError, ArithmeticError, RecursionError, EOFError) as error:
        why = f"{error}" if isinstance(error, tarfile.TarError) else "a header is broken"
        raise InvalidRequest(f"body: it is not a whole tar archive ({why}); make it anew") from None
