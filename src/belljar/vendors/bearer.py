"""The key as most servers want it: `Authorization: Bearer`."""

from __future__ import annotations


def headers(key: str | None) -> dict[str, str]:
    """What goes with every request; nothing without a key."""
    return {"authorization": f"Bearer {key}"} if key else {}
