"""The bytes of a blob that comes in: hashed and written to a file, in threads, while more of them come."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from belljar.gateway.store import disk_errors
from belljar.gateway.store.base import Blob
from belljar.gateway.store.blob_files import write_all

HOP = 1 << 20
"""Bytes for which going to a thread is worth it."""


class Spool:
    """The port `BlobWriter` without its end: what is to become of the file, whoever inherits this knows.

    A hop's worth is hashed and written in a thread while the next comes in. There is no file before the first.
    """

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = root
        self._gathered: list[bytes] = []
        self._waiting = 0
        self._size = 0
        self._hash = hashlib.sha256()
        self._file: int | None = None
        self._over = False
        self._hop: asyncio.Future[None] | None = None
        # A cancelled caller leaves its thread at work, and `discard` must not close the file under it.
        self._turn = threading.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._hop is not None:
            self._hop.add_done_callback(_forget)
        if not self._over:
            await asyncio.shield(asyncio.to_thread(self._discard))

    async def write(self, data: bytes) -> None:
        self._check()
        self._gathered.append(data)
        self._waiting += len(data)
        if self._waiting >= HOP:
            await self._landed()
            self._hop = asyncio.get_running_loop().run_in_executor(None, self._append, self._gather())

    async def drain(self, read: Callable[[memoryview], int]) -> None:
        await self._landed()
        thread = ThreadPoolExecutor(1, "belljar-blob")
        try:
            await asyncio.get_running_loop().run_in_executor(thread, self._drain, self._gather(), read)
        finally:
            thread.shutdown(wait=False)

    async def _landed(self) -> None:
        """The hop before is written; what went wrong with it is raised here."""
        hop, self._hop = self._hop, None
        if hop is not None:
            await hop

    def _check(self) -> None:
        if self._over:
            raise ValueError("this blob is finished or given up")

    def _gather(self) -> list[bytes]:
        pieces, self._gathered, self._waiting = self._gathered, [], 0
        return pieces

    def _blob(self) -> Blob:
        return Blob(self._hash.hexdigest(), self._size)

    # In threads from here

    def _append(self, pieces: list[bytes]) -> None:
        with self._turn, disk_errors.explained(self._root):
            self._put(pieces)

    def _drain(self, pieces: list[bytes], read: Callable[[memoryview], int]) -> None:
        buffer = memoryview(bytearray(HOP))
        with self._turn, disk_errors.explained(self._root):
            self._put(pieces)
            while count := read(buffer):
                self._put((buffer[:count],))
                self._drained()

    def _drained(self) -> None:
        """Some more is in the file, and the reader goes on when this returns."""

    def _discard(self) -> None:
        with self._turn:
            self._over = True
            self._close()
            try:
                self._path.unlink(missing_ok=True)
            except OSError:
                pass  # what went wrong before is what the caller should hear; a sweep tries again

    def _put(self, pieces: Iterable[bytes | memoryview]) -> None:
        self._check()
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        for piece in pieces:
            self._hash.update(piece)
            self._size += len(piece)
            write_all(self._file, piece)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _forget(hop: asyncio.Future[None]) -> None:
    """What went wrong with a hop whose blob is given up is nobody's concern."""
    if not hop.cancelled():
        hop.exception()
