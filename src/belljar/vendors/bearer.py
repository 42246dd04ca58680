"""The key as most servers want it: `Authorization: Bearer`."""

from __future__ import annotations

from belljar.vendors.server_profile import ServerProfile


def headers(key: str | None, base_url: str, quirks: ServerProfile) -> dict[str, str]:
    """What goes with every request to this address; nothing without a key."""
    return {"authorization": f"Bearer {key}"} if key else {}
