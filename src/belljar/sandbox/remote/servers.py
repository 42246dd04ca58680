"""Sandboxes from several sandbox servers: of two at random the one with more room, the next one where that has none.

All are looked at every few seconds. One that does not answer, or says that it is not well, is left out until it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing

from belljar.errors import BadSettings, BelljarError, Lost, NoneFree, Refused
from belljar.sandbox.base import Attached, Sandbox, SandboxHandle, Spec
from belljar.sandbox.packages import Installed
from belljar.sandbox.remote.blocking import LoopThread, RemoteBox
from belljar.sandbox.remote.source import RemoteSource

_LOOK = 3.0
"""Seconds between two looks at each server."""
_REACH = 1.0
"""Seconds that one of several servers has to take a connection: there are others."""
_PAUSES = (0.05, 1.0)
"""Seconds before all are tried again, the first time and at most."""
_TURN = 2.0
"""Seconds to wait at one server that is full before the others are tried again."""


class KnownServer:
    """One of them, and how it was when it was last looked at."""

    def __init__(self, source: RemoteSource) -> None:
        self.source = source
        self.problem: str | None = "it was not looked at yet"
        """Why it is left out; None while it is well."""
        self.free = 0
        """Sandboxes that it may give yet, less those that were asked for since the last look."""

    @property
    def url(self) -> str:
        return self.source.url

    async def look(self) -> None:
        try:
            told = await self.source.look()
        except BelljarError as error:
            self.problem = str(error)
            return
        capacity, load = told.get("capacity"), told.get("current_load")
        known = isinstance(capacity, int) and isinstance(load, int)
        self.free = max(0, capacity - load) if known else 1  # type: ignore[operator]
        self.problem = None


class ServersSource:
    """Gives sandboxes of the servers at `urls`. In asyncio it belongs to one event loop; `hold` is for threads."""

    def __init__(self, urls: Sequence[str], *, token: str | None = None, patience: float = 30.0) -> None:
        """`patience` is how many seconds a sandbox may wait for any of them to be there."""
        self._urls, self._token, self._patience = tuple(urls), token, patience
        self.servers = tuple(
            KnownServer(RemoteSource(url, token=token, patience=patience, reach=min(patience, _REACH))) for url in urls
        )
        self._looking: asyncio.Task[None] | None = None

    # -- what is known of them ------------------------------------------------------------------------------------

    @property
    def packages(self) -> tuple[Installed, ...]:
        """The data stack of one that is well: they are to be alike."""
        return next((one.source.packages for one in self._known() if one.source.packages), ())

    @property
    def isolation(self) -> str | None:
        """What keeps code apart there, of each in its own words; None before any was asked."""
        words = dict.fromkeys(one.source.isolation for one in self._known())
        return ", ".join(word for word in words if word is not None) or None

    @property
    def spare(self) -> int:
        return sum(one.source.spare for one in self.servers if one.problem is None)

    @property
    def stateless(self) -> bool:
        """Whether any of them keeps nothing from cell to cell: then nobody can count on it."""
        return any(one.source.stateless for one in self.servers)

    @property
    def problem(self) -> str | None:
        """Why there are no sandboxes to be had; None while one server is well."""
        problems = [one.problem for one in self.servers if one.problem is not None]
        return "; ".join(problems) if len(problems) == len(self.servers) else None

    def _known(self) -> list[KnownServer]:
        return sorted((one for one in self.servers if one.source.isolation), key=lambda one: one.problem is not None)

    async def prepare(self) -> None:
        """Look at all of them, and learn what they have.

        `BadSettings` for one that will not do however long one waits, `Refused` while none is well.
        """
        self._start()
        results = await asyncio.gather(*[one.source.prepare() for one in self.servers], return_exceptions=True)
        for server, failed in zip(self.servers, results, strict=True):
            if isinstance(failed, BadSettings) or not isinstance(failed, BelljarError | None):
                raise failed
            if failed is not None:
                server.problem = str(failed)
        await self.look()
        if (problem := self.problem) is not None:
            raise Refused(problem)

    async def look(self) -> None:
        """At each, once."""
        await asyncio.gather(*[one.look() for one in self.servers])

    def _start(self) -> None:
        if self._looking is None:
            self._looking = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK * random.uniform(0.75, 1.25))
            await self.look()

    # -- one of them ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def acquire(
        self, spec: Spec, *, epoch: int | None = None, wait: float = 0.0, container: str | None = None
    ) -> AsyncIterator[Sandbox]:
        """A sandbox of any of them, for as long as the context lasts."""
        self._start()
        async with AsyncExitStack() as stack:
            yield await self._acquire(stack, spec, epoch, wait)

    async def _acquire(self, stack: AsyncExitStack, spec: Spec, epoch: int | None, wait: float) -> Sandbox:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        pause, longest = _PAUSES
        while True:
            full: NoneFree | None = None
            problems: list[str] = []
            for server in self._choose():
                left = wait - (loop.time() - begun)
                turn = min(_TURN, left) if full is not None and left > 0 else 0.0
                server.free -= 1
                try:
                    return await stack.enter_async_context(server.source.acquire(spec, epoch=epoch, wait=turn))
                except NoneFree as error:
                    full, server.free = error, 0
                except Refused as error:  # of this one; another may take it
                    await server.look()
                    if server.problem is None:
                        raise
                    problems.append(str(error))
            spent = loop.time() - begun
            if full is not None and spent >= wait:
                raise full
            if full is None and spent >= self._patience:
                raise Refused("; ".join(problems) or "no sandbox server is there")
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    def _choose(self) -> list[KnownServer]:
        """In which order they are asked: the better of two at random, then the rest; all of them if none is well.

        Not simply the emptiest: all gateways would see the same one, and go there at once.
        """
        well = [one for one in self.servers if one.problem is None] or [*self.servers]
        random.shuffle(well)
        first = max(well[:2], key=lambda one: one.free)
        rest = sorted((one for one in well if one is not first), key=lambda one: -one.free)
        return [first, *rest]

    @asynccontextmanager
    async def attach(self, handle: SandboxHandle, epoch: int) -> AsyncIterator[Attached]:
        """A sandbox that another had, at the server that has it."""
        server = next((one for one in self.servers if one.source.place == handle.url), None)
        if server is None:
            raise Lost(f"the sandbox {handle.id} is of {handle.url}, which is none of our servers; make a new one")
        self._start()
        async with server.source.attach(handle, epoch) as attached:
            yield attached

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})
        for one in self.servers:
            await one.source.close()

    # -- for callers without await --------------------------------------------------------------------------------

    def hold(self, spec: Spec) -> RemoteBox:
        """A sandbox for callers without await, with a connection and a thread of its own."""
        return RemoteBox(self._again, spec)

    def learn(self) -> None:
        """`prepare` for callers without await; what was found of each is in `servers`."""

        async def ask() -> None:
            other = self._again()
            try:
                await other.prepare()
            finally:
                with contextlib.suppress(BelljarError):
                    await other.close()
                for mine, theirs in zip(self.servers, other.servers, strict=True):
                    mine.problem, mine.free = theirs.problem, theirs.free
                    mine.source.packages, mine.source.spare = theirs.source.packages, theirs.source.spare
                    mine.source.isolation = theirs.source.isolation

        with closing(LoopThread()) as loop:
            loop.run(ask())

    def _again(self) -> ServersSource:
        """The same for another event loop."""
        return ServersSource(self._urls, token=self._token, patience=self._patience)

    def shut(self) -> None:
        """Nothing is left of what `hold` gave."""
