"""Who asks: the owner that a key stands for, the request's id, and what its client can read."""

from __future__ import annotations

from msgspec import Struct


class Caller(Struct, frozen=True):
    """Handed along with everything that is asked: owners see only what is theirs, ids tie log lines together."""

    owner: str
    request_id: str
    live: bool = True
    """Whether its streams tell what code prints as it does: an event that OpenAI's wire does not have."""
    hops: tuple[str, ...] = ()
    """Other gateways that the request came through."""
