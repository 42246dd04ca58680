"""The part of an address that tells one server from another."""

from __future__ import annotations

_BEYOND_THE_SCHEME = len("https://")


def origin_of(url: str) -> str:
    """`https://host:port` of an http address: what is kept for a server is kept once, however many paths are asked."""
    end = url.find("/", _BEYOND_THE_SCHEME)
    return url if end < 0 else url[:end]
