"""The sandboxes that clients hold, each for as long as the answer that told its id stays open."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from aiohttp import web

from belljar.errors import Lost
from belljar.sandbox.base import Spec
from belljar.sandbox.server.activity import Running
from belljar.sandbox.server.http import Lines

if TYPE_CHECKING:
    from belljar.sandbox.local.sandbox import LocalSandbox
    from belljar.sandbox.local.source import LocalSource

_LOOK = 1.0
"""Seconds between two looks whether the sandboxes live."""
_UNREACHABLE = 120_000
"""Milliseconds that what we send may stay unacknowledged before a client counts as gone."""


class Unknown(Lost):
    """The path names no sandbox, or none any more."""

    status = 404


class Lease:
    """One sandbox and how long it is kept."""

    def __init__(self, sandbox: LocalSandbox, running: Running) -> None:
        self.sandbox = sandbox
        self.over = asyncio.Event()
        """It is to end."""
        self.why: str | None = None
        """Why, where that is not the client's own wish."""
        self.gone = asyncio.Event()
        """Nothing is left of it."""
        self._running = running
        self._here = Running()

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Around whatever runs in the sandbox."""
        with self._running, self._here:
            yield

    @property
    def alive(self) -> bool:
        """What runs in it would miss what it is told if we looked, and finds out by itself."""
        return not self.over.is_set() and (bool(self._here) or self.sandbox.alive)

    def end(self, why: str | None = None) -> None:
        if not self.over.is_set():
            self.why = why
            self.over.set()


class Leases:
    """All of them, by id."""

    def __init__(self, source: LocalSource, running: Running, *, ping: float) -> None:
        self._source = source
        self._running = running
        self._ping = ping
        self._held: dict[str, Lease] = {}

    def find(self, id: str) -> Lease:
        lease = self._held.get(id)
        if lease is None or lease.over.is_set():
            raise Unknown(f"sandbox: there is no {id[:80]!r}, or no longer; make a new one")
        return lease

    async def hold(self, request: web.BaseRequest, spec: Spec) -> web.StreamResponse:
        """Make a sandbox and keep it until the client leaves, it ends by itself, or someone ends it.

        The client's leaving cancels us, wherever we are; the source then lets go of what there is.
        """
        lease: Lease | None = None
        try:
            async with self._source.acquire(spec) as sandbox:
                lease = self._held[sandbox.id] = Lease(sandbox, self._running)
                _find_dead(request)
                lines = await Lines.begin(request)
                await lines.write({"id": sandbox.id})
                try:
                    await self._until_over(lease, lines)
                finally:
                    lease.end()
        finally:
            if lease is not None:
                del self._held[lease.sandbox.id]
                lease.gone.set()
        if lease.why is not None:
            await lines.write({"ended": lease.why})
        return await lines.end()

    async def _until_over(self, lease: Lease, lines: Lines) -> None:
        while True:
            try:
                async with asyncio.timeout(self._ping):
                    await lease.over.wait()
                    return
            except TimeoutError:
                await lines.write({})

    async def drop(self, id: str) -> None:
        """End it; there is nothing left of it afterwards."""
        lease = self._held.get(id)
        if lease is not None:
            lease.end()
            await lease.gone.wait()

    async def drop_all(self, why: str) -> None:
        for lease in self._held.values():
            lease.end(why)
        await asyncio.gather(*[lease.gone.wait() for lease in self._held.values()])

    async def watch(self) -> None:
        """Look after them, for ever: those that are dead are let go."""
        while True:
            await asyncio.sleep(_LOOK)
            for lease in list(self._held.values()):
                if not lease.alive:
                    lease.end("the sandbox ended by itself: its first process is gone")


def _find_dead(request: web.BaseRequest) -> None:
    """Have the kernel give up on a host that has vanished: after a quarter of an hour, unless told otherwise."""
    client = None if request.transport is None else request.transport.get_extra_info("socket")
    if client is not None and client.family in (socket.AF_INET, socket.AF_INET6):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREACHABLE)
