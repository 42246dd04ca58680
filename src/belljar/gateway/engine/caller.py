"""Who asks: the owner that a key stands for, the request's id, and what its client can read."""

from __future__ import annotations

from msgspec import Struct


class Caller(Struct, frozen=True):
    """Handed along with everything that is asked: owners see only what is theirs, ids tie log lines together."""

    owner: str
    request_id: str
    live: bool = True
    """Whether its streams have events that OpenAI's do not: what code prints as it does, and that a cell failed."""
    hops: tuple[str, ...] = ()
    """Other gateways that the request came through."""
