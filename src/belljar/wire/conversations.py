"""Conversations, as the API shows them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field


class Conversation(Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["conversation"] = "conversation"
    created_at: int
    metadata: dict[str, str] = field(default_factory=dict)
