"""Request bodies of uploads: read off the event loop in pieces, never whole in memory."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import tempfile
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from contextlib import ExitStack
from typing import cast

from belljar.errors import InvalidRequest
from belljar.sandbox import tar_writer
from belljar.sandbox.base import MIB, Content
from belljar.sandbox.remote.http_client import file_name
from belljar.sandbox.tar_writer import Entry, Shortened

SMALL = 1 << 16
"""Bytes that are sent in one go."""
_PIECE = 1 << 18


class Pieces:
    """An iterator that is asked in threads. What it raises is kept as `failed`: the request tells of it in its own way.

    To be read once: a request that is sent again must not be sent what is left.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces: Iterator[bytes] | None = pieces
        self.failed: Exception | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        pieces, self._pieces = self._pieces, None
        if pieces is None:
            raise OSError("the body was sent already")
        return self._read(pieces)

    async def _read(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        try:
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                if piece:  # an empty one would end the body
                    yield piece
        except Exception as error:
            self.failed = error
            raise


def chunks(content: Content) -> Iterator[bytes]:
    """A content as it comes."""
    if isinstance(content, bytes | str):
        view = memoryview(content.encode("utf-8") if isinstance(content, str) else content)
        for start in range(0, len(view), _PIECE):
            yield bytes(view[start : start + _PIECE])
    elif (read := getattr(content, "read", None)) is not None:  # to ask the protocol takes longer than a small file
        while piece := read(_PIECE):
            yield piece
    else:
        yield from cast(Iterable[bytes], content)


# -- many files -------------------------------------------------------------------------------------------------------


class TarBody:
    """Files as a tar. `failed` is what was wrong with the first that could not be read: those before it are sent."""

    def __init__(self, files: Iterable[tuple[str, Content]]) -> None:
        self._files = files
        self.failed: Exception | None = None

    def pieces(self) -> Generator[bytes, None, None]:
        """Small files together, large ones in parts."""
        try:
            yield from tar_writer.write(self._entries(), piece=_PIECE)
        except Shortened as error:
            raise InvalidRequest(f"name: {error.filename!r} became shorter while it was read", param="name") from None

    def _entries(self) -> Iterator[Entry]:
        files = iter(self._files)
        while True:
            with ExitStack() as stack:
                try:
                    name, content = next(files)
                    file_name(name)
                    size, pieces = _measure_content(content, stack)
                except StopIteration:
                    return
                except Exception as error:  # noqa: BLE001 - the caller's own, raised once those before it are there
                    self.failed = error
                    return
                yield name, size, pieces


def _measure_content(content: Content, stack: ExitStack) -> tuple[int, Iterator[bytes]]:
    """A content's size, which an archive tells first, and its bytes."""
    if isinstance(content, str):
        content = content.encode("utf-8")
    if isinstance(content, bytes):
        return len(content), chunks(content)
    if isinstance(content, io.FileIO | io.BufferedReader | io.BufferedRandom):
        found = os.fstat(content.fileno())
        if stat.S_ISREG(found.st_mode):
            return max(0, found.st_size - content.tell()), chunks(content)
    spool = stack.enter_context(tempfile.SpooledTemporaryFile(MIB))  # noqa: SIM115 - it is one
    for piece in chunks(content):
        spool.write(piece)
    size = spool.tell()
    spool.seek(0)
    return size, chunks(spool)
