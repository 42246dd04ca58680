"""Addresses, event loops and stop signals of our servers: is an address loopback, how to write it, when to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from ipaddress import ip_address

EVERYWHERE = ("0.0.0.0", "::")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


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
