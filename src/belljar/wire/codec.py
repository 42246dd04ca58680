"""Our values to JSON and to frames of a stream: the one encoder."""

from __future__ import annotations

import msgspec

from belljar.wire.events import Event
from belljar.wire.items import Carried

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"


def _carry(value: object) -> object:
    if isinstance(value, Carried):
        return value.data
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


encode = msgspec.json.Encoder(enc_hook=_carry).encode
"""Any of our values, as JSON bytes."""


def sse(event: Event) -> bytes:
    """An event as one frame: its name, its JSON, LF only."""
    kind = type(event)
    return b"%b%b\n\n" % (_HEADS.get(kind) or _head(kind), encode(event))


_HEADS: dict[type[Event], bytes] = {}
"""Frames begin alike for all events of a kind: made once, since a stream is mostly frames."""


def _head(kind: type[Event]) -> bytes:
    head = _HEADS[kind] = f"event: {kind.__struct_config__.tag}\ndata: ".encode()
    return head
