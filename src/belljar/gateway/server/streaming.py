"""Server-sent events: those that come together in one send, a comment in silence, an end when the client goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import TypeVar

from belljar.errors import BelljarError
from belljar.gateway.server.cancel_on_disconnect import CancelOnDisconnect
from belljar.gateway.server.http import EVENTS, Gone, Headers, Request, stopping
from belljar.wire import faults
from belljar.wire.codec import DONE, PING
from belljar.wire.faults import Fault

T = TypeVar("T")

_HEADERS: Headers = (
    (b"content-type", EVENTS),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
_SEND = 16 << 10
"""Bytes that make a send worth its system call; more would only keep the first of them waiting."""
_log = logging.getLogger("belljar.server")


class EventStream:
    """The open answer. One timer looks at when it was last heard from; an event costs none."""

    def __init__(self, request: Request, ping: float) -> None:
        self._request = request
        self._ping = ping
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()

    async def open(self) -> None:
        await self._request.open(200, _HEADERS)

    def send(self, frame: bytes) -> Awaitable[None]:
        self._heard = self._loop.time()
        return self._request.write(frame)

    async def watch(self) -> None:
        """Returns when the client has gone; until then, breaks long silences."""
        while True:
            try:
                async with asyncio.timeout_at(self._heard + self._ping):
                    return await self._request.gone()
            except TimeoutError:
                if self._loop.time() < self._heard + self._ping:
                    continue
                self._heard = self._loop.time()
                if self._request.status:
                    await self._request.write(PING)


async def pour(
    request: Request,
    batches: AsyncGenerator[list[T], None],
    frame: Callable[[list[T]], Iterable[bytes]],
    trouble: Callable[[Fault], bytes],
    *,
    ping: float,
) -> None:
    """Answer with a stream. What is raised before its first list is raised here; later, `trouble` tells the client.

    `frame` gives the frames of a list, each piece as it is asked for.
    """
    stream = EventStream(request, ping)
    unsent = b""
    try:
        async with aclosing(batches), aclosing(_framed(batches, frame)) as pieces:
            with CancelOnDisconnect(stream.watch):
                async for piece in pieces:
                    if not request.status:
                        await stream.open()
                    if unsent := piece:
                        await stream.send(unsent)
                        unsent = b""
                if not request.status:
                    await stream.open()
                await stream.send(DONE)
    except Gone:
        raise
    except asyncio.CancelledError:
        # Only the server's own end cancels a request; the client is told, and the task ends here either way.
        if not request.status:
            raise
        await stream.send(unsent + trouble(stopping()))
    except Exception as error:
        if not request.status:
            raise
        _log.exception("stream of request %s broke", request.id)
        fault = faults.of(error) if isinstance(error, BelljarError) else faults.unexpected(request.id)
        await stream.send(trouble(fault))
    await request.close()


async def _framed(
    batches: AsyncGenerator[list[T], None], frame: Callable[[list[T]], Iterable[bytes]]
) -> AsyncGenerator[bytes, None]:
    """What is to be sent, after nothing as soon as there is a list. One that cannot be framed is thrown back."""
    batch = await anext(batches, None)
    if batch is not None:
        yield b""
    while batch is not None:
        try:
            for piece in _together(frame(batch)):
                yield piece
        except Exception as error:  # noqa: BLE001 - raised here again where the run does not end with an event
            batch = await batches.athrow(error)
        else:
            batch = await anext(batches, None)


def _together(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Whole frames, as many as make a send: some clients lose an event that comes in two pieces."""
    held: list[bytes] = []
    size = 0
    try:
        for frame in frames:
            held.append(frame)
            size += len(frame)
            if size >= _SEND:
                yield b"".join(held)
                held, size = [], 0
    except Exception:  # one could not be made: those before it are to be sent
        if size:
            yield b"".join(held)
        raise
    if size:
        yield b"".join(held)
