"""Downloads: a blob as an attachment under its own name, whole or in one range."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import cast

from msgspec import Struct

from belljar.http_server import filenames
from belljar.http_server.asgi import Headers
from belljar.http_server.reply import NOSNIFF, Answer, Reply, Stream
from belljar.http_server.request import ProtocolRefusal, Request
from belljar.wire.faults import Fault

_RANGE = re.compile(rb"bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))")


class Download(Struct, frozen=True, kw_only=True):
    """What is fetched."""

    filename: str
    type: str
    size: int
    blob: str
    """Its digest: the same as long as the content is."""
    read: Callable[[int, int], AsyncIterator[bytes]]
    """Its bytes from the first number up to the second."""


_TYPE = re.compile(r"[\w!#$&^.+-]{1,127}/[\w!#$&^.+-]{1,127}", re.ASCII)
_UNKNOWN = "application/octet-stream"


def is_media_type(text: str) -> bool:
    """Whether it is a MIME type, without parameters: nothing else may stand in a header."""
    return _TYPE.fullmatch(text) is not None


def deliver(request: Request, download: Download) -> Answer:
    """The content, whole or in part; or that the client has it."""
    tag = b'"%b"' % download.blob.encode()
    headers: Headers = (
        (b"content-type", (download.type if is_media_type(download.type) else _UNKNOWN).encode()),
        (b"content-disposition", filenames.attachment(download.filename)),
        (b"accept-ranges", b"bytes"),
        (b"etag", tag),
        (b"cache-control", b"private, no-cache"),
        NOSNIFF,
        (b"content-security-policy", b"sandbox"),
    )
    if request.headers.get(b"if-none-match") == tag:
        return Reply(304, headers=headers)
    start, stop = _range(request, download.size, tag)
    if stop - start < download.size:
        headers = (*headers, (b"content-range", b"bytes %d-%d/%d" % (start, stop - 1, download.size)))
    status = 206 if stop - start < download.size else 200
    headers = (*headers, (b"content-length", b"%d" % (stop - start)))
    return Stream(pieces=_part(download, start, stop), headers=headers, status=status)


def _range(request: Request, size: int, tag: bytes) -> tuple[int, int]:
    """First byte and the one after the last. Several ranges, or of another content, mean the whole."""
    asked = _RANGE.fullmatch(request.headers.get(b"range", b"").strip())
    if asked is None or request.headers.get(b"if-range", tag) != tag:
        return 0, size
    first, last, newest = asked.groups()
    if newest is not None:
        start, stop = max(0, size - int(newest)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
    if first and last and int(last) < int(first):
        return 0, size
    if start >= stop:
        message = f"The range {asked[0].decode()} is not within the file's {size} bytes."
        fault = Fault(status=416, type="invalid_request_error", code="range_not_satisfiable", message=message)
        raise ProtocolRefusal(fault, ((b"content-range", b"bytes */%d" % size),))
    return start, stop


async def _part(download: Download, start: int, stop: int) -> AsyncGenerator[bytes, None]:
    # Every implementation is an asynchronous generator, and must be closed when the client stops reading.
    async with aclosing(cast(AsyncGenerator[bytes, None], download.read(start, stop))) as chunks:
        async for chunk in chunks:
            yield chunk
