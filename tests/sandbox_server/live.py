"""Our own server in a thread of its own, for clients that block or that have a loop of their own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from belljar.http_server.openapi import describe
from belljar.http_server.routing import Route
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.packages import LayerPolicy
from belljar.sandbox.server.app import App
from belljar.sandbox.server.auth import Guard
from belljar.sandbox.server.health import Health
from belljar.sandbox.server.routes import ABOUT
from belljar.sandbox.server.run import listening, prepare


def described() -> dict[str, Any]:
    """What such a server says of itself."""

    async def routes() -> list[Route]:
        source = LocalSource(JailOptions(cache=Path("never-used")))
        return App(source, Guard(None, loopback=True), Health(source, capacity=1), ping=15).routes

    return describe(ABOUT, asyncio.run(routes()))


@contextmanager
def live(
    cache: Path, token: str | None = None, *, most: int = 256, make: Callable[[JailOptions], LocalSource] = LocalSource
) -> Iterator[str]:
    """Its address."""
    options = JailOptions(cache=cache, preload=False, layers=LayerPolicy(offline=True), most=most)
    door = socket.create_server(("127.0.0.1", 0))
    started, stop = threading.Event(), threading.Event()

    async def main() -> None:
        source = make(options)
        try:
            guard = Guard(token, loopback=True)
            async with listening(source, door, guard, capacity=options.most, ping=15, drain=0) as app:
                await prepare(app.health, source, lambda isolation: None)
                started.set()
                await asyncio.to_thread(stop.wait)
        finally:
            await source.close()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert started.wait(60)
        yield f"http://127.0.0.1:{door.getsockname()[1]}"
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()
