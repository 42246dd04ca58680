"""Addresses, sockets, event loops and stop signals: is an address loopback, which proxy leads to it, when to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

EVERYWHERE = ("0.0.0.0", "::")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def is_on_this_machine(url: str) -> bool:
    """Whether nothing lies between us and this address, so that plain HTTP will do."""
    parts = urlsplit(url)
    return parts.scheme == "http" and is_loopback(parts.hostname or "")


def find_proxy(url: str) -> str | None:
    """The environment's proxy for this address.

    aiohttp's own `trust_env` would also take keys from .netrc, where ours are meant, and start two threads a request.
    """
    if is_on_this_machine(url):
        return None
    from urllib.request import getproxies, proxy_bypass  # slow to load, and most programs need none

    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme, "")
    return proxy if proxy.startswith("http") and not proxy_bypass(parts.netloc) else None


def reachable(host: str) -> str:
    """The host of an address to click on."""
    if host in EVERYWHERE:
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, or asyncio's own where that is not to be had: there is none for Windows."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def watched_socket(address: tuple[object, ...]) -> socket.socket:
    """One that finds out by itself that the other machine is gone: some requests may wait for as long as they like."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)  # type: ignore[arg-type]
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):  # not on every platform
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """The first asks to stop, the second does not wait: what is left of the jail then ends itself, as after a kill."""
    loop = asyncio.get_running_loop()
    asked = False

    def on_signal() -> None:
        nonlocal asked
        if asked:
            os._exit(130)
        asked = True
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
