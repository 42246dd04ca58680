"""Upstreams that lead back to the gateway that asks them: told by their address, or by a mark on what we send."""

from __future__ import annotations

import socket
from dataclasses import replace
from ipaddress import ip_address
from types import MappingProxyType
from urllib.parse import urlsplit

from belljar.config import Upstream

HEADER = "belljar-from"
"""Which gateway asks. One that gets its own request back would ask itself for ever."""
_PORTS = {"http": 80, "https": 443}
_EVERYWHERE = ("0.0.0.0", "::")


def marked(upstream: Upstream, name: str) -> Upstream:
    """The same, with our mark on every request."""
    return replace(upstream, headers=MappingProxyType({**upstream.headers, HEADER: name}))


def leads_back(base_url: str, host: str, port: int) -> bool:
    """Whether this is, by its address, what listens at that host and port; a proxy on the way hides it."""
    parts = urlsplit(base_url)
    name = (parts.hostname or "").lower()
    if port != (parts.port or _PORTS.get(parts.scheme)):
        return False
    if is_loopback(name):
        return host in _EVERYWHERE or is_loopback(host)
    return name == host.lower() or (host in _EVERYWHERE and name in (*_EVERYWHERE, socket.gethostname().lower()))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
