"""Who asks: the owner that a key stands for, and the request's id."""

from __future__ import annotations

from msgspec import Struct


class Caller(Struct, frozen=True):
    """Handed along with everything that is asked: owners see only what is theirs, ids tie log lines together."""

    owner: str
    request_id: str
