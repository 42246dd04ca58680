"""Send a body by a vendor's SDK, whose methods want some members by name and put the others on the wire as they are."""

from __future__ import annotations

from typing import Any

import msgspec

RESPONSES = ("model", "input", "stream")
CHAT = ("model", "messages", "stream")
MESSAGES = ("model", "max_tokens", "messages", "stream")
"""Members that the SDKs want by name; of the others they do not know all."""


def split_body(body: bytes, named: tuple[str, ...]) -> dict[str, Any]:
    """The keywords of the SDK's method that sends this body."""
    members = msgspec.json.decode(body)
    return {**{name: members.pop(name) for name in named}, "extra_body": members}
