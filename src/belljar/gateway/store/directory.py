"""Blobs as files of a directory, each under the name that its content gives it; written and read in threads."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from belljar.errors import NotFound
from belljar.gateway.store import blob_slices, disk_errors
from belljar.gateway.store.base import Blob, Old, Records
from belljar.gateway.store.blob_files import OpenFile, digest_file, write_all
from belljar.gateway.store.blob_names import HOUR, RECENT, damaged_content, is_name, no_content
from belljar.gateway.store.blob_verification import Trust
from belljar.gateway.store.spool import HOP, Spool

_AT_ONCE = 4
"""Threads that write many small blobs."""


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

    def write(self) -> IncomingBlob:
        return IncomingBlob(self._incoming / secrets.token_hex(16), self._keep, self._root)

    async def adopt(self, chunks: AsyncIterator[bytes]) -> Blob:
        async with self.write() as incoming:
            async for chunk in chunks:
                await incoming.write(chunk)
            return await incoming.finish()

    async def keep(self, contents: Sequence[bytes]) -> list[Blob]:
        """In a few threads: hashing and writing let one another run."""
        share = -(-len(contents) // _AT_ONCE) or 1
        shares = [contents[start : start + share] for start in range(0, len(contents), share)]
        kept = await asyncio.gather(*(asyncio.to_thread(self._keep_all, one) for one in shares))
        return [blob for one in kept for blob in one]

    async def stream(
        self, name: str, *, start: int = 0, stop: int | None = None, chunk: int = HOP
    ) -> AsyncIterator[bytes]:
        part = blob_slices.read(name)
        file = await asyncio.to_thread(self._open, name if part is None else part.whole)
        at, end = (0, sys.maxsize) if part is None else (part.start, part.start + part.size)
        end = end if stop is None else min(end, at + stop)
        at += start
        try:
            while at < end and (data := await asyncio.to_thread(file.read, min(chunk, end - at), at)):
                yield data
                at += len(data)
                if len(data) < chunk:
                    return
        finally:
            del file  # at once: since Python 3.12 what a reader drops is freed some time later

    @asynccontextmanager
    async def local(self, names: Sequence[str]) -> AsyncIterator[Mapping[str, Path | NotFound]]:
        # Nothing has to be pinned: what a record names is not removed, and what is open has its bytes in any case.
        yield await asyncio.to_thread(lambda: {name: self._find(name) for name in dict.fromkeys(names)})

    def _find(self, name: str) -> Path | NotFound:
        try:
            return self.path(name) or no_content(name)
        except NotFound as error:
            return error

    async def settle(self, name: str) -> None:
        await asyncio.to_thread(self._settle, name)

    def path(self, name: str) -> Path | None:
        """Where it lies, if it does. Blocks where its bytes may be damaged: they are read first."""
        place = self._place(name)
        if place is None:
            return None
        if not self._is_trusted(place):
            try:
                os.close(self._checked(place))
            except FileNotFoundError:
                return None
        return place

    def _settle(self, name: str) -> None:
        place = self._place(blob_slices.whole(name))
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

    async def count_unused(self, records: Records) -> Old:
        count = size = 0
        for folder in await asyncio.to_thread(lambda: list(self._root.glob("[0-9a-f][0-9a-f]"))):
            unused = await records.unused_blobs(await asyncio.to_thread(self._old, folder))
            count += len(unused)
            size += await asyncio.to_thread(self._measure, unused)
        return Old(count, size)

    def _measure(self, names: Iterable[str]) -> int:
        """Their bytes; one may go meanwhile."""
        places = [place for name in names if (place := self._place(name)) is not None]
        return sum(place.stat().st_size for place in places if place.exists())

    async def sweep(self, records: Records) -> int:
        removed = await asyncio.to_thread(self._clear)
        for folder in await asyncio.to_thread(lambda: list(self._root.glob("[0-9a-f][0-9a-f]"))):
            old = await asyncio.to_thread(self._old, folder)
            unused = await records.unused_blobs(old)
            removed += await asyncio.to_thread(self._remove, unused, HOUR)
        return removed

    async def find_id(self) -> str:
        """By which a database tells this directory from one of another machine; made when first asked for."""
        return await asyncio.to_thread(self._find_id)

    def _find_id(self) -> str:
        path = self._root / "id"
        with disk_errors.explained(self._root):
            if not path.exists():
                made = self._incoming / secrets.token_hex(16)
                made.write_text(secrets.token_hex(16))
                try:
                    os.link(made, path)  # whole, and the first of several that start at once
                except FileExistsError:
                    pass
                finally:
                    made.unlink()
            return path.read_text()

    async def close(self) -> None:
        pass

    def _place(self, name: str) -> Path | None:
        return self._root / name[:2] / name[2:] if is_name(name) else None

    def _open(self, name: str) -> OpenFile:
        path = self._place(name)
        try:
            if path is not None:
                return OpenFile(self._checked(path))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise disk_errors.of_system(error, self._root) from error
        raise no_content(name)

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
                if digest_file(file) != name:
                    raise damaged_content(name, f"as a power cut can leave it ({found.st_size} bytes are there)")
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
            write_all(file, data)
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


class IncomingBlob(Spool):
    """The port `BlobWriter`: what came in is given its place."""

    def __init__(self, path: Path, keep: Callable[[Path, str], None], root: Path) -> None:
        super().__init__(path, root)
        self._keep = keep

    async def finish(self) -> Blob:
        await self._landed()
        return await asyncio.to_thread(self._finish, self._gather())

    def _finish(self, pieces: list[bytes]) -> Blob:
        with self._turn, disk_errors.explained(self._root):
            self._put(pieces)
            self._close()
            blob = self._blob()
            self._keep(self._path, blob.name)
            self._over = True
            return blob


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
