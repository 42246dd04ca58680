"""Blobs as objects of a bucket: streamed in and out, with the copies that are read as files in a cache on this disk."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from belljar.errors import BelljarError, NotFound, StoreUnavailable
from belljar.gateway.store import blob_slices, disk_errors
from belljar.gateway.store.base import Blob, Old, Records
from belljar.gateway.store.blob_cache import BlobCache, Pins
from belljar.gateway.store.blob_files import write_all
from belljar.gateway.store.blob_index import BlobIndex, Stored
from belljar.gateway.store.blob_names import HOUR, RECENT, damaged_content, is_name, no_content
from belljar.gateway.store.blob_slices import Slice
from belljar.gateway.store.s3.bucket import Bucket, Damaged, ObjectMissing
from belljar.gateway.store.s3.upload import PART, RESERVED, Objects, Upload, Uploading, key_of, object_of
from belljar.gateway.store.spool import HOP

PACK = 32 << 20
"""Bytes of many small contents that share an object."""
_FETCHING = 6
"""Blobs that are copied from the bucket at the same time."""
_DELETING = 8
_log = logging.getLogger("belljar.gateway")


class S3Blobs:
    """The port `Blobs` on any server that speaks S3; any number of gateways may share the bucket.

    An object has a random key and is written once. The index says which of them hold blobs: it decides between two
    writers of the same bytes, and between one that removes a blob and one that writes it again. So nothing is asked
    of the server beyond reading, writing and deleting.
    """

    def __init__(
        self, bucket: Bucket, index: BlobIndex, cache: BlobCache, *, part: int = PART, reserved: float = RESERVED
    ) -> None:
        self._bucket = bucket
        self._index = index
        self._cache = cache
        self._uploading = Uploading(
            bucket, index, cache, Objects(index, reserved), self._later, self._collect, part=part
        )
        self._fetches: dict[str, asyncio.Task[None]] = {}
        self._fetching = asyncio.Semaphore(_FETCHING)
        self._deleting = asyncio.Semaphore(_DELETING)
        self._collecting = asyncio.Lock()
        self._tasks: set[asyncio.Task[object]] = set()

    async def close(self) -> None:
        """Wait for what was left to be done in the background."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        for fetch in self._fetches.values():
            fetch.cancel()
        await asyncio.gather(*self._fetches.values(), return_exceptions=True)
        await self._bucket.close()
        await asyncio.to_thread(self._cache.close)

    # -- in -----------------------------------------------------------------------------------------------------------

    def write(self) -> Upload:
        return Upload(self._uploading)

    async def adopt(self, chunks: AsyncIterator[bytes]) -> Blob:
        async with self.write() as upload:
            async for chunk in chunks:
                await upload.write(chunk)
            return await upload.finish()

    async def keep(self, contents: Sequence[bytes]) -> list[Blob]:
        """Packed together, each a part of one blob: a request for each would cost more than most of them."""
        if len(contents) == 1:
            return [await self._pack(contents)]
        made: dict[bytes, Blob] = {}
        pack: list[bytes] = []
        weight = 0
        for data in (*dict.fromkeys(contents), None):
            if pack and (data is None or weight + len(data) > PACK):
                whole, start = await self._pack(pack), 0
                for one in pack:
                    made[one] = Slice(whole.name, start, len(one)).blob
                    start += len(one)
                pack, weight = [], 0
            if data is not None:
                pack.append(data)
                weight += len(data)
        return [made[data] for data in contents]

    async def _pack(self, contents: Sequence[bytes]) -> Blob:
        async with self.write() as upload:
            for data in contents:
                await upload.write(data)
            return await upload.finish()

    async def settle(self, name: str) -> None:
        """A finished blob is where the server keeps what it has confirmed."""

    # -- out ----------------------------------------------------------------------------------------------------------

    async def stream(
        self, name: str, *, start: int = 0, stop: int | None = None, chunk: int = HOP
    ) -> AsyncIterator[bytes]:
        part = blob_slices.read(name)
        whole = name if part is None else part.whole
        copy = await asyncio.to_thread(self._cache.open, whole)
        stored = await self._find(whole) if copy is None else Stored("", copy.size)
        first, end = (0, stored.size) if part is None else (part.start, min(stored.size, part.start + part.size))
        at, end = first + start, end if stop is None else min(end, first + stop)
        if copy is None:
            async for data in _in_chunks(self._read(whole, stored, at, end), chunk):
                yield data
            return
        try:
            while at < end and (data := await asyncio.to_thread(copy.read, min(chunk, end - at), at)):
                yield data
                at += len(data)
        finally:
            del copy  # at once: since Python 3.12 what a reader drops is freed some time later

    @asynccontextmanager
    async def local(self, names: Sequence[str]) -> AsyncIterator[Mapping[str, Path | NotFound]]:
        wanted = [*dict.fromkeys(names)]
        pins = self._cache.pins()
        try:
            found: dict[str, Path | NotFound] = await asyncio.to_thread(_pin_all, pins, wanted)
            missing = [name for name in wanted if name not in found]
            if missing:
                stored = await self._index.find([name for name in missing if is_name(name)])
                found |= {name: no_content(name) for name in missing if name not in stored}
                jobs = (self._fetched(name, one, pins) for name, one in stored.items())
                for name, place in zip(stored, await asyncio.gather(*jobs, return_exceptions=True), strict=True):
                    if isinstance(place, BaseException) and not isinstance(place, NotFound):
                        raise place
                    found[name] = place
            yield found
        finally:
            await asyncio.shield(asyncio.to_thread(pins.close))

    async def _find(self, name: str) -> Stored:
        stored = (await self._index.find([name])).get(name) if is_name(name) else None
        if stored is None:
            raise no_content(name)
        return stored

    async def _read(self, name: str, stored: Stored, start: int, stop: int) -> AsyncIterator[bytes]:
        """From the bucket. A blob that was removed and written again since it was looked up has another object."""
        at = start
        while True:
            try:
                async for piece in self._bucket.read(key_of(stored.object), at, stop, stored.size):
                    yield piece
                    at += len(piece)
                return
            except Damaged:
                raise damaged_content(name, f"in {self._bucket.address}: it has not {stored.size} bytes") from None
            except ObjectMissing:
                now = await self._find(name)
                if now == stored:
                    raise damaged_content(name, f"since its object is gone from {self._bucket.address}") from None
                stored = now

    def _fetched_once(self, name: str, fetch: asyncio.Task[None]) -> None:
        del self._fetches[name]
        if not fetch.cancelled():
            fetch.exception()  # whoever waits hears of it; perhaps nobody does any more

    async def _fetched(self, name: str, stored: Stored, pins: Pins) -> Path:
        """Copied from the bucket, by one for all who want it."""
        self._cache.want(name)
        try:
            for _ in range(3):
                fetch = self._fetches.get(name)
                if fetch is None:
                    fetch = self._fetches[name] = asyncio.create_task(self._fetch(name, stored))
                    fetch.add_done_callback(lambda fetch: self._fetched_once(name, fetch))
                await asyncio.shield(fetch)
                place = await asyncio.to_thread(pins.pin, name)
                if place is not None:
                    return place
        finally:
            self._cache.unwant(name)
        raise StoreUnavailable(f"{self._cache.root} is emptied while it is filled; make blobs_cache larger")

    async def _fetch(self, name: str, stored: Stored) -> None:
        if await asyncio.to_thread(self._cache.open, name) is not None:
            return  # the fetch before this one ended while the index was asked
        path = self._cache.new_file()
        try:
            async with self._fetching:
                for _ in range(2):
                    if await self._download(name, stored, path) == name:
                        await asyncio.to_thread(self._cache.add, path, name)
                        return
            raise damaged_content(name, f"in {self._bucket.address}: it has other bytes")
        finally:
            path.unlink(missing_ok=True)

    async def _download(self, name: str, stored: Stored, path: Path) -> str:
        """The digest of what came."""
        digest = hashlib.sha256()

        def write(data: bytes) -> None:
            digest.update(data)
            with disk_errors.explained(self._cache.root):
                write_all(file, data)

        with disk_errors.explained(self._cache.root):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            async for data in _in_chunks(self._read(name, stored, 0, stored.size), HOP):
                await asyncio.to_thread(write, data)
        finally:
            os.close(file)
        return digest.hexdigest()

    # -- away ---------------------------------------------------------------------------------------------------------

    async def remove_unused(self, records: Records, names: Iterable[str]) -> int:
        wholes = sorted(set(filter(is_name, map(blob_slices.whole, names))))
        removed = await self._index.remove_unused(wholes, RECENT) if wholes else []
        await self._forget(removed)
        if removed:
            self._later(self._collect())
        return len(removed)

    async def count_unused(self, records: Records) -> Old:
        count = size = 0
        after = ""
        while names := await self._index.list_older(HOUR, after=after):
            found = await self._index.find(await records.unused_blobs(names))
            count += len(found)
            size += sum(one.size for one in found.values())
            after = names[-1]
        return Old(count, size)

    async def sweep(self, records: Records) -> int:
        count = 0
        after = ""
        while names := await self._index.list_older(HOUR, after=after):
            removed = await self._index.remove_unused(names, HOUR)
            await self._forget(removed)
            count += len(removed)
            after = names[-1]
        await self._collect()
        count += await self._abort_abandoned()
        await self._forget_removed()
        return count

    async def _abort_abandoned(self) -> int:
        """Uploads whose object cannot become a blob any more: of a gateway that was killed, or begun twice."""
        count = 0
        async for uploads in self._bucket.list_uploads():
            reserved = await self._index.find_reserved([object_of(one.key) for one in uploads])
            for one in uploads:
                if object_of(one.key) not in reserved:
                    await self._bucket.abort_upload(one.key, one.id)
                    count += 1
        return count

    async def _forget(self, names: Sequence[str]) -> None:
        if names:
            await asyncio.to_thread(self._cache.drop, names)

    async def _forget_removed(self) -> None:
        """Copies of what other gateways removed."""
        names = await asyncio.to_thread(self._cache.names)
        for start in range(0, len(names), 1000):
            some = names[start : start + 1000]
            there = await self._index.find(some)
            await self._forget([name for name in some if name not in there])

    async def _collect(self) -> None:
        """Delete the objects that hold no blob any more."""
        async with self._collecting:
            while objects := await self._index.take_garbage():
                await asyncio.gather(*map(self._delete, objects))
                await self._index.forget(objects)

    async def _delete(self, object: str) -> None:
        async with self._deleting:
            await self._bucket.delete(key_of(object))

    def _later(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(self._tried(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tried(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except BelljarError as error:  # the next sweep does it
            _log.warning("%s", error)


def _pin_all(pins: Pins, names: Sequence[str]) -> dict[str, Path | NotFound]:
    return {name: place for name in names if (place := pins.pin(name)) is not None}


async def _in_chunks(pieces: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """The same bytes, each chunk but the last of this size."""
    gathered = bytearray()
    async for piece in pieces:
        gathered += piece
        while len(gathered) >= size:
            yield bytes(gathered[:size])
            del gathered[:size]
    if gathered:
        yield bytes(gathered)
