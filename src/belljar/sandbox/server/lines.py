"""Answers of many lines: JSON objects, each sent as it comes, and an empty one now and then in a long silence."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from belljar.http_server.asgi import Headers
from belljar.http_server.reply import Ping, Stream
from belljar.sandbox.codec import encode_line
from belljar.wire.faults import Fault

MEDIA = "application/x-ndjson"
_HEADERS: Headers = (
    (b"content-type", MEDIA.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # or nginx would collect them
)
_AWAKE = encode_line({})


def stream_lines(
    pieces: AsyncGenerator[bytes, None], *, ping: float, trouble: Callable[[Fault], bytes] | None = None
) -> Stream:
    """Of whole lines; `trouble` makes the one that tells why there are no more."""
    return Stream(pieces=pieces, headers=_HEADERS, ping=Ping(_AWAKE, ping), trouble=trouble)
