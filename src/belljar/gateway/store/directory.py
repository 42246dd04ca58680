"""Blobs as files of a directory, each under the name that its content gives it; written and read in threads."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from belljar.errors import NotFound
from belljar.gateway.store import blob_slices, disk_errors
from belljar.gateway.store.base import Blob, Records
from belljar.gateway.store.blob_verification import Trust

HOP = 1 << 20
"""Bytes for which going to a thread is worth it."""
HOUR = 3600.0
RECENT = 300.0
"""Seconds within which every finished blob gets its record, by far."""
_NAME = re.compile(r"[0-9a-f]{64}")


class DirectoryBlobs:
    """The port `Blobs` in a directory that several processes may share.

    A blob lies at ab/cdef…; what is still being written lies in `incoming`. The time of a blob's file is when it was
    last finished, and a blob is removed only some time after that: between being finished and being named by a record
    it looks unused.

    A finished blob survives this process, and nobody waits for the disk. One that a power cut may have taken is read
    whole before it is read at all: damaged, it is told to be so, and the same bytes take its place when they come.
    """

    def __init__(self, root: Path, trust: Trust | None = None) -> None:
        self._root = root
        self._trust = trust or Trust()
        self._incoming = root / "incoming"
        try:
            for directory in (root, self._incoming):
                directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise disk_errors.of_system(error, root) from error

    def write(self) -> Incoming:
        return Incoming(self._incoming / secrets.token_hex(16), self._keep, self._root)

    async def adopt(self, chunks: AsyncIterator[bytes]) -> Blob:
        async with self.write() as incoming:
            async for chunk in chunks:
                await incoming.write(chunk)
            return await incoming.finish()

    async def keep(self, contents: Sequence[bytes]) -> list[Blob]:
        return await asyncio.to_thread(self._keep_all, contents)

    async def stream(self, name: str, *, chunk: int = HOP) -> AsyncIterator[bytes]:
        part = blob_slices.read(name)
        file = await asyncio.to_thread(self._open, name if part is None else part.whole)
        at, left = (0, sys.maxsize) if part is None else (part.start, part.size)
        try:
            while data := await asyncio.to_thread(file.read, min(chunk, left), at):
                yield data
                at, left = at + len(data), left - len(data)
                if len(data) < chunk:
                    return
        finally:
            del file  # at once: since Python 3.12 what a reader drops is freed some time later

    def path(self, name: str) -> Path | None:
        place = self._place(name)
        if place is None:
            return None
        if not self._is_trusted(place):
            try:
                os.close(self._checked(place))
            except FileNotFoundError:
                return None
        return place

    def settle(self, name: str) -> None:
        """Have a blob on the disk, so that no power cut can take it. Blocks."""
        place = self._place(name)
        try:
            if place is None or self._trust.is_settled(found := place.stat()):
                return
            file = self._checked(place)
            try:
                os.fsync(file)
                self._trust.settle(file, found)
            finally:
                os.close(file)
            for directory in (place.parent, self._root):
                _sync(directory)
        except FileNotFoundError:
            pass  # whoever reads it will hear so
        except OSError as error:
            raise disk_errors.of_system(error, self._root) from error

    async def remove_unused(self, records: Records, names: Iterable[str]) -> int:
        unused = await records.unused_blobs(sorted(set(map(blob_slices.whole, names))))
        return await asyncio.to_thread(self._remove, unused, RECENT)

    async def sweep(self, records: Records) -> int:
        removed = await asyncio.to_thread(self._clear)
        for folder in await asyncio.to_thread(lambda: list(self._root.glob("[0-9a-f][0-9a-f]"))):
            old = await asyncio.to_thread(self._old, folder)
            unused = await records.unused_blobs(old)
            removed += await asyncio.to_thread(self._remove, unused, HOUR)
        return removed

    def _place(self, name: str) -> Path | None:
        return self._root / name[:2] / name[2:] if _NAME.fullmatch(name) else None

    def _open(self, name: str) -> _Open:
        path = self._place(name)
        try:
            if path is not None:
                return _Open(self._checked(path))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise disk_errors.of_system(error, self._root) from error
        raise NotFound(f"There is no content {name!r}: it was deleted.")

    def _is_trusted(self, place: Path) -> bool:
        try:
            return self._trust.has(place.stat())
        except FileNotFoundError:
            return False

    def _checked(self, place: Path) -> int:
        """A blob, open for reading; its bytes are what its name says."""
        file = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = os.fstat(file)
            if not self._trust.has(found):
                name = place.parent.name + place.name
                if _digest(file) != name:
                    raise NotFound(
                        f"The content {name!r} is damaged, as a power cut can leave it ({found.st_size} bytes are "
                        "there); send the file again."
                    )
                self._trust.give_back(file, found)
        except BaseException:
            os.close(file)
            raise
        return file

    def _keep(self, incoming: Path, name: str) -> None:
        """Give what came in its place; of what is there already, only the time is new."""
        place = self._root / name[:2] / name[2:]
        with self._locked():
            if self._renewed(place):
                incoming.unlink()
            else:
                self._trust.give(incoming)
                _move(incoming, place)

    def _renewed(self, place: Path) -> bool:
        """Whether the blob is there, and trusted; then it is as if finished now."""
        try:
            found = place.stat()
        except FileNotFoundError:
            return False
        if self._trust.has(found):
            self._trust.renew(place, found)
            return True
        return False

    def _keep_all(self, contents: Sequence[bytes]) -> list[Blob]:
        """As an Incoming for each would, with one lock for all; what is there already is not written again."""
        made = [Blob(hashlib.sha256(data).hexdigest(), len(data)) for data in contents]
        written: dict[str, Path] = {}
        try:
            for blob, data in zip(made, contents, strict=True):
                if blob.name not in written and not self._is_trusted(self._root / blob.name[:2] / blob.name[2:]):
                    written[blob.name] = self._written(data)
            with self._locked():
                for blob, data in zip(made, contents, strict=True):
                    place = self._root / blob.name[:2] / blob.name[2:]
                    if not self._renewed(place):
                        if blob.name not in written:  # it was there, and was removed since we looked
                            written[blob.name] = self._written(data)
                        _move(written[blob.name], place)
        except OSError as error:
            raise disk_errors.of_system(error, self._root) from error
        finally:
            for path in written.values():
                path.unlink(missing_ok=True)
        return made

    def _written(self, data: bytes) -> Path:
        path = self._incoming / secrets.token_hex(16)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _write(file, data)
            self._trust.give(file)
        except BaseException:
            path.unlink()
            raise
        finally:
            os.close(file)
        return path

    def _remove(self, names: Sequence[str], age: float) -> int:
        removed = 0
        for place in filter(None, map(self._place, names)):
            with self._locked():
                if _older(place, age):
                    place.unlink()
                    removed += 1
        return removed

    def _old(self, folder: Path) -> list[str]:
        names = (folder.name + rest for rest in os.listdir(folder))
        return [name for name in names if (place := self._place(name)) and _older(place, HOUR)]

    def _clear(self) -> int:
        """Remove what writers left that were killed."""
        left = [path for path in self._incoming.iterdir() if _older(path, HOUR)]
        for path in left:
            path.unlink(missing_ok=True)
        return len(left)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Against all threads and processes: what `_remove` finds old must not be finished anew before it is gone."""
        directory = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)


class Incoming:
    """The port `BlobWriter`: a hop's worth is hashed and written in a thread while the next comes in."""

    def __init__(self, path: Path, keep: Callable[[Path, str], None], root: Path) -> None:
        self._path = path
        self._keep = keep
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

    async def __aenter__(self) -> Incoming:
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

    async def finish(self) -> Blob:
        await self._landed()
        return await asyncio.to_thread(self._finish, self._gather())

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

    # In threads from here

    def _append(self, pieces: list[bytes]) -> None:
        with self._turn, self._explained():
            self._put(pieces)

    def _drain(self, pieces: list[bytes], read: Callable[[memoryview], int]) -> None:
        buffer = memoryview(bytearray(HOP))
        with self._turn, self._explained():
            self._put(pieces)
            while count := read(buffer):
                self._put((buffer[:count],))

    def _finish(self, pieces: list[bytes]) -> Blob:
        with self._turn, self._explained():
            self._put(pieces)
            self._close()
            name = self._hash.hexdigest()
            self._keep(self._path, name)
            self._over = True
            return Blob(name, self._size)

    def _discard(self) -> None:
        with self._turn:
            self._over = True
            self._close()
            try:
                self._path.unlink(missing_ok=True)
            except OSError:
                pass  # what went wrong before is what the caller should hear; `sweep` tries again

    def _put(self, pieces: Iterable[bytes | memoryview]) -> None:
        self._check()
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        for piece in pieces:
            self._hash.update(piece)
            self._size += len(piece)
            _write(self._file, piece)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise disk_errors.of_system(error, self._root) from error


def _forget(hop: asyncio.Future[None]) -> None:
    """What went wrong with a hop whose blob is given up is nobody's concern."""
    if not hop.cancelled():
        hop.exception()


class _Open:
    """An open file that closes once nobody holds it: a cancelled reader leaves its thread at work for a moment."""

    def __init__(self, file: int) -> None:
        self._file = file

    def read(self, size: int, at: int) -> bytes:
        return os.pread(self._file, size, at)

    def __del__(self) -> None:
        os.close(self._file)


def _write(file: int, data: bytes | memoryview) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def _digest(file: int) -> str:
    made, at = hashlib.sha256(), 0
    while data := os.pread(file, HOP, at):
        made.update(data)
        at += len(data)
    return made.hexdigest()


def _sync(directory: Path) -> None:
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _move(incoming: Path, place: Path) -> None:
    """Over what may be there already, which is not trusted."""
    try:
        incoming.rename(place)
    except FileNotFoundError:
        place.parent.mkdir(mode=0o700, exist_ok=True)
        incoming.rename(place)


def _older(path: Path, age: float) -> bool:
    try:
        return path.stat().st_mtime < time.time() - age
    except FileNotFoundError:
        return False
