"""A tar archive as it comes: regular files one after the other, none of it kept. What is wrong is the sender's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from belljar.errors import InvalidRequest
from belljar.sandbox.base import Content
from belljar.sandbox.tar_reader import Archive, Broken


def files(chunks: Iterable[bytes]) -> Iterator[tuple[str, Content]]:
    """Names and contents; each content is to be read before the next name is asked for."""
    archive = Archive(_Body(iter(chunks)))
    members = iter(archive)
    while True:
        with _explained():
            member = next(members, None)
        if member is None:
            return
        if member.kind != "file" or member.is_sparse:
            raise InvalidRequest(
                f"body: {member.name[:80]!r} in the archive is not a regular file; leave out directories, links "
                "and the like, directories are made by the names of files",
            )
        yield member.name, _Content(archive)


class _Body:
    """The bytes of an archive."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def read(self, size: int, /) -> bytes:
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        taken, self._rest = self._rest[:size], self._rest[size:]
        return bytes(taken)


class _Content:
    """The content of one file."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def read(self, size: int, /) -> bytes:
        with _explained():
            return self._archive.read(size)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except Broken as error:
        raise InvalidRequest(f"body: it is not a whole tar archive ({error}); make it anew") from None
