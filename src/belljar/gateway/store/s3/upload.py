"""A blob that goes to a bucket while it comes in: small ones in one request, larger ones part by part."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from belljar.errors import OperatorError, StoreUnavailable
from belljar.gateway.store import disk_errors
from belljar.gateway.store.base import Blob
from belljar.gateway.store.blob_cache import BlobCache
from belljar.gateway.store.blob_index import BlobIndex
from belljar.gateway.store.s3.bucket import Bucket, ObjectMissing
from belljar.gateway.store.s3.signing import hash_body
from belljar.gateway.store.spool import Spool

T = TypeVar("T")
PART = 8 << 20
"""Bytes of a part, and of the largest blob that is sent whole; 10,000 of them are the most that S3 takes."""
RESERVED = 6 * 3600.0
"""Seconds after which an upload that is not finished is given up on, whoever's it is."""
_AT_ONCE = 2
"""Parts of one upload that are under way: one is sent while the next is read."""
_SENDING = 8
"""Parts of all uploads that are under way, and in memory for that long."""
_RESERVE = 32
_QUICK = 1 << 16
"""Bytes that are hashed faster than a thread is reached."""


def key_of(object: str) -> str:
    """Where an object lies below the prefix."""
    return f"objects/{object[:2]}/{object[2:]}"


def object_of(key: str) -> str:
    return key.removeprefix("objects/").replace("/", "")


class Objects:
    """Names for new objects, each of which the index knows before anything is sent; many of them for one write."""

    def __init__(self, index: BlobIndex, reserved: float = RESERVED) -> None:
        self._index = index
        self._reserved = reserved
        self._names: list[str] = []
        self._until = 0.0
        self._turn = asyncio.Lock()

    async def take(self) -> str:
        async with self._turn:
            if not self._names or time.monotonic() > self._until:
                names = [secrets.token_hex(16) for _ in range(_RESERVE)]
                until = time.monotonic() + self._reserved / 6  # whoever gets the last has most of the time, too
                await self._index.reserve(names, self._reserved)
                self._names, self._until = names, until
            return self._names.pop()


@dataclass(frozen=True, slots=True)
class Uploading:
    """What every upload needs."""

    bucket: Bucket
    index: BlobIndex
    cache: BlobCache
    objects: Objects
    later: Callable[[Coroutine[Any, Any, object]], object]
    """Has something done that nobody waits for."""
    collect: Callable[[], Coroutine[Any, Any, object]]
    """Deletes what is garbage."""
    part: int = PART
    sending: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_SENDING))


class Upload(Spool):
    """The port `BlobWriter`: bytes lie in a file of the cache until they are sent, and may stay there.

    Parts are sent while more comes in, and whoever writes waits when two are under way. Given up, the server is told;
    killed, the sweep finds it.
    """

    def __init__(self, uploading: Uploading) -> None:
        super().__init__(uploading.cache.new_file(), uploading.cache.root)
        self._to = uploading
        self._loop = asyncio.get_running_loop()
        self._object = ""
        self._beginning: asyncio.Task[str] | None = None
        """Gives the id of the upload, where there is one: what fits into one part needs none."""
        self._parts: list[asyncio.Task[str]] = []
        self._offered = 0
        self._left = False

    async def __aexit__(self, *error: object) -> None:
        self._left = True
        for part in self._parts:
            part.cancel()
        await asyncio.gather(*self._parts, return_exceptions=True)
        if self._beginning is not None and not self._over:
            self._to.later(self._abort(self._beginning))
        await super().__aexit__(*error)

    async def write(self, data: bytes) -> None:
        await super().write(data)
        if self._size - self._offered >= self._to.part:
            await self._landed()
            await self._offer()

    async def finish(self) -> Blob:
        self._check()
        await self._landed()
        pieces = self._gather()
        data: bytes | None = None
        if self._file is None:  # it fits into one hop: then it needs no file
            data = b"".join(pieces)
            self._size = len(data)
            await asyncio.to_thread(self._hash.update, data) if len(data) > _QUICK else self._hash.update(data)
        elif pieces:
            await asyncio.to_thread(self._append, pieces)
        blob = self._blob()
        if self._beginning is not None or self._size > self._to.part:
            await self._offer(last=True)
            tags = await asyncio.gather(*self._parts)
            upload = await self._begin()
            await _unless_aborted(self._to.bucket.complete_upload(key_of(self._object), upload, tags, blob.size))
            await self._name(blob)
        elif blob.name not in await self._to.index.renew([blob.name]):  # else it is there, and counts as new
            self._object = await self._to.objects.take()
            if data is not None:
                await self._to.bucket.put(key_of(self._object), data, blob.name)
            else:
                async with self._to.sending:
                    whole, _ = await asyncio.to_thread(self._read, 0, blob.size)
                    await self._to.bucket.put(key_of(self._object), whole, blob.name)
            await self._name(blob)
        self._over = True
        await asyncio.to_thread(self._copy, blob, data)
        return blob

    async def _name(self, blob: Blob) -> None:
        """The object is the blob's, unless there is one: then ours is garbage."""
        winner = await self._to.index.finish(blob, self._object)
        if winner is None:
            raise _given_up()
        if winner != self._object:
            self._to.later(self._to.collect())

    async def _offer(self, *, last: bool = False) -> None:
        """Begin to send what makes a part; waits while two are under way. What one of them failed at is raised."""
        while self._size - self._offered >= self._to.part or (last and self._size > self._offered):
            while len(under_way := [part for part in self._parts if not part.done()]) >= _AT_ONCE:
                await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            for part in self._parts:
                if part.done():
                    part.result()
            upload = await self._begin()
            if self._left:
                raise ValueError("this blob is given up")
            size = min(self._to.part, self._size - self._offered)
            number = len(self._parts) + 1
            self._parts.append(asyncio.create_task(self._send(upload, number, self._offered, size)))
            self._offered += size

    async def _begin(self) -> str:
        """Not to be cut off: an upload whose id nobody has is there until a sweep."""
        if self._beginning is None:
            self._object = await self._to.objects.take()
            self._beginning = asyncio.create_task(self._to.bucket.begin_upload(key_of(self._object)))
        return await asyncio.shield(self._beginning)

    async def _abort(self, beginning: asyncio.Task[str]) -> None:
        await self._to.bucket.abort_upload(key_of(self._object), await beginning)

    async def _send(self, upload: str, number: int, start: int, size: int) -> str:
        async with self._to.sending:
            data, digest = await asyncio.to_thread(self._read, start, size)
            return await _unless_aborted(self._to.bucket.put_part(key_of(self._object), upload, number, data, digest))

    # In threads from here

    def _drained(self) -> None:
        if self._size - self._offered >= self._to.part:
            asyncio.run_coroutine_threadsafe(self._offer(), self._loop).result()

    def _read(self, start: int, size: int) -> tuple[bytes, str]:
        with disk_errors.explained(self._root):
            assert self._file is not None
            data = os.pread(self._file, size, start)
            if len(data) != size:
                raise OSError(5, "a file of the cache was cut short")
            return data, hash_body(data)

    def _copy(self, blob: Blob, data: bytes | None) -> None:
        """Whoever wrote it is likely to read it; without a copy, it is fetched."""
        with self._turn:
            self._close()
            try:
                if data is not None:
                    self._to.cache.add_bytes(data, blob.name)
                elif self._to.cache.is_worth(blob.size):
                    self._to.cache.add(self._path, blob.name)
            except OperatorError:
                pass
            finally:
                self._path.unlink(missing_ok=True)


async def _unless_aborted(step: Awaitable[T]) -> T:
    try:
        return await step
    except ObjectMissing:
        raise _given_up() from None


def _given_up() -> StoreUnavailable:
    hours = RESERVED / 3600
    return StoreUnavailable(f"the upload to the bucket took more than {hours:g} hours and was given up; send it again")
