"""The part of an address that tells one server from another, and whether that is this machine."""

from __future__ import annotations

from urllib.parse import urlsplit

from belljar.net import is_loopback

_BEYOND_THE_SCHEME = len("https://")


def origin_of(url: str) -> str:
    """`https://host:port` of an http address: what is kept for a server is kept once, however many paths are asked."""
    end = url.find("/", _BEYOND_THE_SCHEME)
    return url if end < 0 else url[:end]


def on_this_machine(url: str) -> bool:
    """Whether nothing lies between us and this address, so that plain HTTP will do."""
    parts = urlsplit(url)
    return parts.scheme == "http" and is_loopback(parts.hostname or "")
