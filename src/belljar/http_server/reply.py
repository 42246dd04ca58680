"""What a handler answers, as values: whole, or piece by piece. Nothing here sends anything."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TypeAlias

from msgspec import Struct

from belljar.http_server.asgi import Headers
from belljar.wire.faults import Fault

JSON = b"application/json"
NOSNIFF = (b"x-content-type-options", b"nosniff")


class Reply(Struct, frozen=True):
    """An answer in one piece; without a body where `body` is None."""

    status: int
    body: bytes | None = None
    type: bytes = JSON
    headers: Headers = ()


class Ping(Struct, frozen=True):
    """What to say after so many seconds of silence."""

    frame: bytes
    seconds: float


class Stream(Struct, frozen=True, kw_only=True):
    """An answer that begins with its first piece: what is raised before is an ordinary refusal.

    A piece may be empty: it begins the answer, and sends nothing. `pieces` is closed when the client goes away.
    """

    pieces: AsyncGenerator[bytes, None]
    headers: Headers
    """With the content's type; without its length it comes in chunks."""
    status: int = 200
    ping: Ping | None = None
    live: bool = False
    """Something goes on while it is read: whoever reads too slowly is cut off, rather than waited for."""
    trouble: Callable[[Fault], bytes] | None = None
    """How a stream that has begun tells that it breaks off; without, only the connection that ends can say so."""


Answer: TypeAlias = Reply | Stream
