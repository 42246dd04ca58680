"""Upstreams that lead back to the gateway that asks them: told by their address, or by a mark on what we send."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from urllib.parse import urlsplit

from belljar.config import Upstream
from belljar.net import EVERYWHERE, is_loopback
from belljar.vendors.registry import vendor_of_host

HEADER = "belljar-from"
"""Which gateways a request has come through, the first one first. One that gets it back would ask for ever."""
MOST = 8
"""Gateways that a request may come through: more is a loop of gateways that do not tell, or as good as one."""
_NAME = re.compile(r"[\w-]{1,64}", re.ASCII)
_CLOUDS = ("googleapis.com", "amazonaws.com")
"""Where vendors' models are served too, and no gateway is."""
_PORTS = {"http": 80, "https": 443}


def add_mark(upstream: Upstream, name: str) -> Upstream:
    """The same, with our mark on every request, unless it goes to a vendor: nobody there needs to learn of us."""
    host = f".{(urlsplit(upstream.base_url).hostname or '').lower()}"
    if vendor_of_host(upstream.base_url) is not None or any(host.endswith(f".{cloud}") for cloud in _CLOUDS):
        return upstream
    return replace(upstream, headers=MappingProxyType({**upstream.headers, HEADER: name}))


def read_hops(header: bytes) -> tuple[str, ...]:
    """The gateways that a request names, without what is no name of one."""
    return tuple(name for one in header.decode("latin-1").split(",") if _NAME.fullmatch(name := one.strip()))


def add_hops(headers: Mapping[str, str], hops: Sequence[str]) -> Mapping[str, str]:
    """The headers for a request that came through other gateways: their marks stand before our own, if that is told."""
    if not hops or HEADER not in headers:
        return headers
    return {**headers, HEADER: ",".join([*hops, headers[HEADER]])}


def leads_back(base_url: str, host: str, port: int) -> bool:
    """Whether this is, by its address, what listens at that host and port; a proxy on the way hides it."""
    parts = urlsplit(base_url)
    name = (parts.hostname or "").lower()
    if port != (parts.port or _PORTS.get(parts.scheme)):
        return False
    if is_loopback(name):
        return host in EVERYWHERE or is_loopback(host)
    return name == host.lower() or (host in EVERYWHERE and name in (*EVERYWHERE, socket.gethostname().lower()))
