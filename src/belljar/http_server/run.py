"""How uvicorn serves an application of ours: its knobs, its life."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any

import uvicorn

from belljar.http_server import uvicorn_protocol
from belljar.http_server.sender import Wording
from belljar.http_server.uvicorn_hooks import check_hooks, hook

_KEEP_ALIVE = 75
"""Longer than the idle time of common load balancers: they, not we, must be the first to close."""


def config(
    app: Any,
    wording: Wording,
    host: str,
    port: int,
    *,
    largest_body: int = 32 << 20,
    drain: float = 10.0,
    websockets: bool = True,
    lifespan: bool = True,
    **further: Any,
) -> uvicorn.Config:
    """A server of one process. `drain` is how many seconds running requests have when it is told to stop.

    `lifespan` is for an application that wants to be told when the server starts and ends.
    """
    check_hooks((uvicorn_protocol.Protocol, uvicorn_protocol.SocketProtocol, Server))

    class Protocol(uvicorn_protocol.Protocol):
        pass

    Protocol.wording = wording
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Protocol,
        loop="uvloop",
        ws=uvicorn_protocol.SocketProtocol if websockets else "none",
        ws_max_size=largest_body,
        ws_per_message_deflate=False,
        lifespan="on" if lifespan else "off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(drain)),
        **further,
    )


class Server(uvicorn.Server):
    """uvicorn's, which leaves signals to us, says when it listens, and knows how long it may still take."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop_by: float | None = None

    @hook
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set_result(None)

    @hook
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop_listening(self) -> None:
        """Take no more connections; those that are there go on as ever."""
        for server in self.servers:
            server.close()

    def stop(self) -> None:
        """Take no more connections, let what runs finish as long as it may."""
        if self._stop_by is None:
            self._stop_by = time.monotonic() + (self.config.timeout_graceful_shutdown or 0)
        self.should_exit = True

    async def cut_off(self, seconds: float) -> None:
        """After its end: those who have not read their answers by then are not waited for."""
        if tasks := self.server_state.tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        if tasks := self.server_state.tasks:
            await asyncio.wait(tasks)

    @property
    def time_left(self) -> float:
        return max(0.0, (self._stop_by or 0.0) - time.monotonic())
