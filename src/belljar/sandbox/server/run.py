"""The sandbox server from its settings to its end: listens at once, prepares the jail meanwhile, drains when told."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from belljar.config import Settings
from belljar.errors import CannotConfine, InvalidRequest
from belljar.http_server import run
from belljar.net import is_loopback, reachable, stopped_by_signals
from belljar.sandbox.base import Spec
from belljar.sandbox.default import options
from belljar.sandbox.local import diagnosis
from belljar.sandbox.local.probe import probe
from belljar.sandbox.server.app import App
from belljar.sandbox.server.auth import Guard
from belljar.sandbox.server.health import Health
from belljar.sandbox.validation import make_spec

if TYPE_CHECKING:
    from belljar.sandbox.local.source import LocalSource

_THREADS = 64
"""Some of them wait for clients that send large files."""
PING = 15.0
"""Seconds of silence after which an answer that goes on says so; clients take four times as much for our end."""
_ENDING = 10.0
"""Seconds that the sandboxes have to end, one by one; the jail then ends them all."""
_FAREWELL = 1.0
"""Seconds that answers have to leave when everything else has ended."""
_UNREACHABLE = 120_000
"""Milliseconds that what we send may stay unacknowledged before a client counts as gone: else a quarter of an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What there is to say of a server that listens."""

    url: str
    isolation: str
    packages: str
    """What code finds installed."""
    capacity: int
    warm: int
    token: bool
    """Whether every request needs it."""


def check(settings: Settings) -> None:
    """Refuse to let strangers run code."""
    if settings.sandbox_socket is not None or settings.sandbox_token or settings.sandbox_open:
        return
    if not is_loopback(settings.sandbox_host):
        raise InvalidRequest(
            f"host: {settings.sandbox_host} is open to others, and there is no token. Set BELLJAR_SANDBOX_TOKEN, or "
            "name a file that holds one: --token-file FILE; or listen to this machine only: --host 127.0.0.1; where "
            "the network itself keeps others out: --open",
            param="host",
        )


async def serve(settings: Settings, door: socket.socket, announce: Callable[[Started], None]) -> None:
    """Answer at this socket until told to stop by SIGINT or SIGTERM, or until the jail turns out not to start."""
    check(settings)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
    source = _make_source(settings)
    unix = door.family == socket.AF_UNIX
    guard = Guard(settings.sandbox_token, loopback=not unix and is_loopback(settings.sandbox_host))
    stop = asyncio.Event()
    with stopped_by_signals(stop.set):
        try:
            async with listening(source, door, guard, capacity=settings.max_sandboxes, drain=settings.drain) as app:
                tell = partial(_tell, settings, door, announce, source)
                preparing = asyncio.create_task(prepare(app.health, source, tell))
                stopped = asyncio.create_task(stop.wait())
                try:
                    await asyncio.wait({preparing, stopped}, return_when=asyncio.FIRST_COMPLETED)
                    if preparing.done():
                        preparing.result()
                    await stopped
                finally:
                    stopped.cancel()
                    await asyncio.wait({preparing})
                    preparing.exception()  # looked at, so asyncio does not complain
        finally:
            await source.close()


@contextlib.asynccontextmanager
async def listening(
    source: LocalSource, door: socket.socket, guard: Guard, *, capacity: int, drain: float, ping: float = PING
) -> AsyncIterator[App]:
    """A server at this socket, whose jail is still to be prepared. It ends with all that it holds; the jail stays."""
    app = App(source, guard, Health(source, capacity=capacity), ping=ping)
    if door.family != socket.AF_UNIX:
        set_up_connections(door)
    knobs = run.config(app, app.wording, "", 0, drain=_FAREWELL, websockets=False, lifespan=False)
    server = run.Server(knobs)
    serving = asyncio.create_task(server.serve(sockets=[door]))
    await server.listening
    watching = asyncio.create_task(app.leases.watch())
    try:
        yield app
    finally:
        server.stop_listening()
        app.health.stopping = True
        await app.running.finish(drain)
        with contextlib.suppress(TimeoutError):  # a client that does not read keeps its answer from ending
            async with asyncio.timeout(_ENDING):
                await app.leases.drop_all("the sandbox server is stopping")
        watching.cancel()
        server.stop()
        await serving
        await server.cut_off(_FAREWELL)


def set_up_connections(door: socket.socket) -> None:
    """What each of its connections begins with: lines leave at once, and the kernel gives up on hosts that vanished."""
    door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    door.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREACHABLE)


async def prepare(health: Health, source: LocalSource, tell: Callable[[str], None]) -> None:
    """Look at the host, tell what it is worth, and start the jail; requests wait for that."""
    try:
        report = await asyncio.to_thread(probe)
        if report.missing:
            raise CannotConfine(diagnosis.complaint(report))
        health.isolation = diagnosis.summary(report)
        tell(health.isolation)
        await asyncio.to_thread(source.prepare, Spec())
    except BaseException as error:
        health.failed(error)
        raise
    health.prepared()


def _make_source(settings: Settings) -> LocalSource:
    wanted = options(settings)
    from belljar.sandbox.local.source import LocalSource

    return LocalSource(replace(wanted, warm_spec=make_spec(memory=settings.container_memory)))


def _tell(
    settings: Settings,
    door: socket.socket,
    announce: Callable[[Started], None],
    source: LocalSource,
    isolation: str,
) -> None:
    if settings.sandbox_socket is not None:
        url = f"unix://{settings.sandbox_socket}"
    else:
        url = f"http://{reachable(settings.sandbox_host)}:{door.getsockname()[1]}"
    announce(
        Started(
            url=url,
            isolation=isolation,
            packages=source.summary,
            capacity=settings.max_sandboxes,
            warm=settings.warm,
            token=settings.sandbox_token is not None,
        )
    )
