"""Server-sent events as pieces of a stream: those that come together in one piece, and `[DONE]` at the end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import TypeVar

from belljar.http_server.asgi import Headers
from belljar.http_server.reply import Ping, Stream
from belljar.wire.codec import DONE, PING
from belljar.wire.faults import Fault

T = TypeVar("T")

EVENTS = b"text/event-stream; charset=utf-8"
_HEADERS: Headers = (
    (b"content-type", EVENTS),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
_SEND = 16 << 10
"""Bytes that make a send worth its system call; more would only keep the first of them waiting."""


def event_stream(pieces: AsyncGenerator[bytes, None], trouble: Callable[[Fault], bytes], *, ping: float) -> Stream:
    """The answer that `frame_batches` makes; `trouble` is the frame that tells why it breaks off."""
    return Stream(pieces=pieces, headers=_HEADERS, ping=Ping(PING, ping), live=True, trouble=trouble)


async def frame_batches(
    batches: AsyncGenerator[list[T], None],
    frame: Callable[[list[T]], Iterable[bytes]],
    place: AbstractAsyncContextManager[None] | None = None,
) -> AsyncGenerator[bytes, None]:
    """What is to be sent, after nothing as soon as there is a list. One that cannot be framed is thrown back.

    `frame` gives the frames of a list, each piece as it is asked for; `place` is held from the first list to the last.
    """
    async with place or nullcontext(), aclosing(batches):
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
        yield DONE


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
