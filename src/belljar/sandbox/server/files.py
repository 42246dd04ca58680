"""Files in and out of a sandbox: bodies of any size, a chunk at a time."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from typing import TypeVar

from belljar.errors import InvalidRequest, Lost, TooLarge
from belljar.http_server.body_reader import CutOff, Rest, Stalled
from belljar.http_server.reply import Answer, Reply, Stream
from belljar.http_server.request import Gone, Request
from belljar.sandbox.base import MIB
from belljar.sandbox.cancellation import wait_to_end
from belljar.sandbox.codec import encode_file, encode_json
from belljar.sandbox.server import tar_upload
from belljar.sandbox.server.leases import Access

T = TypeVar("T")

TAR = "application/x-tar"
BYTES = "application/octet-stream"


async def list_all(access: Access) -> Answer:
    return Reply(200, encode_json({"files": [encode_file(info) for info in await access.sandbox.files.list()]}))


async def write(request: Request, access: Access, name: str) -> Answer:
    request.verbatim = True
    files = access.sandbox.files
    with access.used():
        if (request.length or MIB) < MIB:  # whole before a thread is asked to wait for anybody
            info = await _finish(files.write(name, await request.body(MIB)))
        else:
            info = await _write_body(request, lambda chunks: files.write(name, chunks))
        return Reply(200, encode_json(encode_file(info)))


async def write_many(request: Request, access: Access) -> Answer:
    request.verbatim = True
    kind = request.content_type.decode("latin-1")
    if kind != TAR:
        raise InvalidRequest(
            f"Content-Type: {kind[:80]!r} is not {TAR}; send a tar archive, or PUT a file by its name",
            param="Content-Type",
        )
    files = access.sandbox.files
    with access.used():
        written = await _write_body(request, lambda chunks: files.write_many(tar_upload.files(chunks)))
        return Reply(200, encode_json({"files": [encode_file(info) for info in written]}))


async def read(request: Request, access: Access, name: str) -> Answer:
    limit = _limit(request)
    file = await access.sandbox.files.open(name)
    size = os.fstat(file.fileno()).st_size
    if limit is not None and size > limit:
        file.close()
        raise TooLarge(f"name: {name!r} has {size} bytes, more than the {limit} asked for; stream it")
    headers = ((b"content-type", BYTES.encode()), (b"content-length", b"%d" % size))
    return Stream(pieces=_read(access, name, file, size), headers=headers)


async def _read(access: Access, name: str, file: io.FileIO, size: int) -> AsyncGenerator[bytes, None]:
    with file, access.used():
        while size and (chunk := await asyncio.to_thread(file.read, min(size, MIB))):
            size -= len(chunk)
            yield chunk
    if size:  # only a connection that breaks can still say so
        raise Lost(f"name: {name!r} became shorter while it was read")


async def delete(access: Access, name: str) -> Answer:
    with access.used():
        await _finish(access.sandbox.files.delete(name))
    return Reply(204)


async def _finish(act: Coroutine[None, None, T]) -> T:
    """What a thread does: it cannot be called off, and whoever takes the sandbox over must not meet it."""
    task = asyncio.create_task(act)
    await wait_to_end(task)
    return task.result()


def _limit(request: Request) -> int | None:
    given = request.query.get("limit")
    if given is None:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) < 19):
        raise InvalidRequest(f"limit: {given[:80]!r} is not a whole number of bytes; change it", param="limit")
    return int(given)


# -- bodies -----------------------------------------------------------------------------------------------------------


async def _write_body(request: Request, write: Callable[[Iterator[bytes]], Coroutine[None, None, T]]) -> T:
    """Have a thread write the body as it comes: no more of it is held than one chunk."""
    first = await request.read()
    rest = request.take()
    body: _BodyByLoop | _BodyPastLoop
    body = _BodyByLoop(request, first) if rest is None else _BodyPastLoop(request, first, rest)
    writing = asyncio.create_task(write(body.chunks()))
    try:
        await asyncio.wait({writing})
        written = writing.result()
        await body.finish()
        return written
    except CutOff:
        raise Gone from None
    except Stalled:
        raise request.stalled() from None
    finally:
        body.stop()
        await wait_to_end(writing)  # no thread may write on, nor read from a descriptor that is another's by then
        body.close()


class _BodyByLoop:
    """The thread asks the loop for each chunk."""

    def __init__(self, request: Request, first: bytes) -> None:
        self._request = request
        self._first = first
        self._loop = asyncio.get_running_loop()
        self._asked: Future[bytes] | None = None
        self._stopped = False

    def chunks(self) -> Iterator[bytes]:
        chunk = self._first
        while chunk:
            yield chunk
            chunk = b"" if self._request.finished else self._ask()

    def _ask(self) -> bytes:
        asked = self._asked = asyncio.run_coroutine_threadsafe(self._read_some(), self._loop)
        if self._stopped:  # looked at after it can be seen, so that one of the two sides sees the other
            asked.cancel()
        try:
            return asked.result()
        except CancelledError:
            raise CutOff from None

    async def _read_some(self) -> bytes:
        """The next of the body: to ask costs more than to copy."""
        parts: list[bytes] = []
        count = 0
        while count < MIB and (part := await self._request.read()):
            parts.append(part)
            count += len(part)
        return b"".join(parts)

    def stop(self) -> None:
        self._stopped = True
        if self._asked is not None:
            self._asked.cancel()

    async def finish(self) -> None: ...
    def close(self) -> None: ...


class _BodyPastLoop:
    """The thread reads from the connection itself."""

    def __init__(self, request: Request, first: bytes, rest: Rest) -> None:
        self._request = request
        self._first = first
        self._rest = rest

    def chunks(self) -> Iterator[bytes]:
        yield self._first
        buffer = memoryview(bytearray(MIB))
        while count := self._rest.read(buffer):
            yield bytes(buffer[:count])

    def stop(self) -> None:
        self._rest.stop()

    async def finish(self) -> None:
        await asyncio.to_thread(self._rest.skip)  # what follows the end of an archive
        self._request.finished = True

    def close(self) -> None:
        self._rest.close()
