"""Our own server in a thread of its own, for clients that block or that have a loop of their own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.packages import LayerPolicy
from belljar.sandbox.server.auth import Guard
from belljar.sandbox.server.run import listening, prepare


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
