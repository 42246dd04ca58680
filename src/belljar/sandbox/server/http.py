"""HTTP as this server speaks it: JSON answers whatever happens, answers of many lines, bodies read up to a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Self, TypeAlias

from aiohttp import web

from belljar.errors import BelljarError, InvalidRequest, TooLarge
from belljar.sandbox.codec import Told, dump_json, dump_line, parse_request, tell_error

LONGEST_PATH = 16 << 10
"""Characters of a request's first line: a name has up to 4000 bytes, each of which may be percent-encoded."""
_IDLE = 75.0
"""Seconds that a connection may stay open without a request."""
_STALLED = 60.0
"""Seconds without a byte after which a body is given up."""

Handle: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Server(web.Server):
    """aiohttp's, with answers of our own; a client that leaves cancels what was done for it."""

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle, handler_cancellation=True)

    def __call__(self) -> web.RequestHandler:
        return _Connection(
            self,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=_IDLE,
            max_line_size=LONGEST_PATH,
            auto_decompress=False,
        )


class _Connection(web.RequestHandler):
    """Answers what is not HTTP in the shape of every other error."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun, and cannot become another")
        first = (message or "").strip().partition("\n")[0]
        answer = failure(InvalidRequest(f"request: it is not HTTP as we know it ({first}); mend the client"))
        answer.force_close()
        return answer


# -- answers ----------------------------------------------------------------------------------------------------------


def answer(status: int, told: Mapping[str, object], headers: Mapping[str, str] | None = None) -> web.Response:
    headers = dict(headers or {})
    if status in (429, 503):  # it is full, or it starts or stops: soon it may be otherwise
        headers.setdefault("Retry-After", "1")
    return web.Response(status=status, body=dump_json(told), content_type="application/json", headers=headers)


def nothing() -> web.Response:
    return web.Response(status=204)


def failure(error: BelljarError, status: int | None = None, headers: Mapping[str, str] | None = None) -> web.Response:
    return answer(status or error.status, {"error": tell_error(error)}, headers)


class Lines:
    """An answer that goes on, a line of JSON at a time."""

    def __init__(self, response: web.StreamResponse) -> None:
        self.response = response

    @classmethod
    async def begin(cls, request: web.BaseRequest) -> Self:
        # nginx would collect the lines otherwise.
        headers = {"Content-Type": "application/x-ndjson", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        return cls(response)

    async def write(self, *told: Mapping[str, object]) -> None:
        await self.write_raw(b"".join(map(dump_line, told)))

    async def write_raw(self, lines: bytes) -> None:
        """In one go; waits while the reader is slow."""
        await self.response.write(lines)

    async def end(self) -> web.StreamResponse:
        await self.response.write_eof()
        return self.response


# -- bodies -----------------------------------------------------------------------------------------------------------


async def read_some(request: web.BaseRequest, most: int) -> bytes:
    """The next of the body, up to about this much; empty at its end."""
    parts: list[bytes] = []
    count = 0
    try:
        async with asyncio.timeout(_STALLED):
            while count < most and (part := await request.content.read(most - count)):
                parts.append(part)
                count += len(part)
    except TimeoutError:
        raise InvalidRequest(f"body: nothing came for {_STALLED:g} s; send it again") from None
    except web.RequestPayloadError as error:
        raise InvalidRequest(f"body: it is malformed ({error}); send it again") from None
    return b"".join(parts)


async def read_whole(request: web.BaseRequest, most: int) -> bytes:
    """The body, if it is not larger than that."""
    too_large = TooLarge(f"body: it is larger than the {most} bytes that this may have; put data in files instead")
    if (request.content_length or 0) > most:
        raise too_large
    body = await read_some(request, most + 1)
    if len(body) > most:
        raise too_large
    return body


async def read_json(request: web.BaseRequest, most: int) -> Told:
    return parse_request(await read_whole(request, most))


async def expect(request: web.BaseRequest) -> None:
    """Tell a client that waits for it, as curl does with a large body, to send."""
    wanted = request.headers.get("Expect")
    if wanted is None:
        return
    if wanted.lower() != "100-continue":
        raise InvalidRequest(f"Expect: {wanted[:80]!r} is not 100-continue; leave it out")
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0
