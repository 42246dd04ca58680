"""Files in and out of a sandbox: bodies of any size, a chunk at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

from aiohttp import web

from belljar.errors import InvalidRequest, TooLarge
from belljar.sandbox.base import MIB
from belljar.sandbox.codec import tell_file
from belljar.sandbox.server import tar_upload
from belljar.sandbox.server.http import answer, nothing, read_some, read_whole
from belljar.sandbox.server.leases import Lease


async def list_all(lease: Lease) -> web.Response:
    return answer(200, {"files": [tell_file(info) for info in await lease.sandbox.files.list()]})


async def write(request: web.BaseRequest, lease: Lease, name: str) -> web.Response:
    with lease.used():
        small = (request.content_length or MIB) < MIB  # whole before a thread is asked to wait for anybody
        content = await read_whole(request, MIB) if small else _chunks(request)
        return answer(200, tell_file(await lease.sandbox.files.write(name, content)))


async def write_many(request: web.BaseRequest, lease: Lease) -> web.Response:
    if request.content_type != "application/x-tar":
        raise InvalidRequest(
            f"Content-Type: {request.content_type[:80]!r} is not application/x-tar; send a tar archive, or PUT a file "
            "by its name",
            param="Content-Type",
        )
    with lease.used():
        written = await lease.sandbox.files.write_many(tar_upload.files(_chunks(request)))
        return answer(200, {"files": [tell_file(info) for info in written]})


async def read(request: web.BaseRequest, lease: Lease, name: str) -> web.StreamResponse:
    limit = _limit(request)
    with lease.used(), await lease.sandbox.files.open(name) as file:
        size = os.fstat(file.fileno()).st_size
        if limit is not None and size > limit:
            raise TooLarge(f"name: {name!r} has {size} bytes, more than the {limit} asked for; stream it")
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        left = size
        while left and (chunk := await asyncio.to_thread(file.read, min(left, MIB))):
            left -= len(chunk)
            await response.write(chunk)
        if left:  # the code has made it shorter meanwhile: only a connection that breaks can still say so
            response.force_close()
        await response.write_eof()
        return response


async def delete(lease: Lease, name: str) -> web.Response:
    await lease.sandbox.files.delete(name)
    return nothing()


def _limit(request: web.BaseRequest) -> int | None:
    given = request.query.get("limit")
    if given is None:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) < 19):
        raise InvalidRequest(f"limit: {given[:80]!r} is not a whole number of bytes; change it", param="limit")
    return int(given)


def _chunks(request: web.BaseRequest) -> Iterator[bytes]:
    """The body, for a thread that waits for it: it asks the loop for each chunk, so that no more than one is held."""
    loop = asyncio.get_running_loop()

    def chunks() -> Iterator[bytes]:
        while chunk := asyncio.run_coroutine_threadsafe(read_some(request, MIB), loop).result():
            yield chunk

    return chunks()
