"""The sandboxes that clients have: who holds which, how long each is kept, and who no longer may touch it.

A sandbox without an epoch is its connection's: it lives as long as the answer that told its id stays open. One with an
epoch lives `keep` seconds longer, and whoever attaches with a higher epoch has it from then on:

| state   | event                       | what happens                                                    | next    |
|---------|-----------------------------|-----------------------------------------------------------------|---------|
| held    | its connection ends         | without an epoch it ends; else its time runs, `keep` seconds    | kept    |
| held    | attached to, higher epoch   | what runs is stopped, the holder's answer ends: `fenced`        | held    |
| kept    | attached to, higher epoch   | what runs is stopped, its time no longer runs                   | held    |
| kept    | its time is over            | it ends                                                         | gone    |
| kept    | room is needed              | after a while it ends, the one that is idle longest first       | gone    |
| any     | attached to, no higher      | `fenced`                                                        | the same|
| any     | asked with a lower epoch    | `fenced`                                                        | the same|
| any     | deleted, or dead by itself  | its holder's answer says so, and ends                           | gone    |

A connection is no proof of life: a client that was stopped keeps its own. Only the epoch ends that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from belljar.errors import Fenced, InvalidRequest, Lost, NoneFree
from belljar.http_server.reply import Stream
from belljar.sandbox.base import Spec
from belljar.sandbox.cancellation import wait_to_end
from belljar.sandbox.codec import State, Terms, Told, encode_line, encode_state
from belljar.sandbox.server.activity import Running
from belljar.sandbox.server.lines import stream_lines

if TYPE_CHECKING:
    from belljar.sandbox.local.sandbox import LocalSandbox
    from belljar.sandbox.local.source import LocalSource

_LOOK = 1.0
"""Seconds between two looks whether the sandboxes live."""
_ABANDONED = 15.0
"""Seconds without a holder after which a sandbox may make room for another: whoever takes it over comes sooner."""
_ROOM = 5.0
"""Seconds that its place is waited for then, though the caller did not want to wait."""
_log = logging.getLogger("belljar.sandbox.server")


class Unknown(Lost):
    """The path names no sandbox, or none any more."""

    status = 404


class Hold:
    """An answer that stays open for as long as its client has the sandbox."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.last: Told | None = None
        """What it says at its end."""

    def end(self, last: Told | None) -> None:
        if not self.over.is_set():
            self.last = last
            self.over.set()


class Use:
    """A task that does something in a sandbox."""

    def __init__(self, task: asyncio.Task[object]) -> None:
        self.task = task
        self.fenced = False


class Lease:
    """One sandbox, who holds it, and how long it is kept."""

    def __init__(self, sandbox: LocalSandbox, running: Running, terms: Terms) -> None:
        self.sandbox = sandbox
        self.epoch = terms.epoch
        self.over = asyncio.Event()
        """It is to end."""
        self.gone = asyncio.Event()
        """Nothing is left of it."""
        self._keep = terms.keep
        self._hold: Hold | None = None
        self._running = running
        self._here = Running()
        self._uses: set[Use] = set()
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        """When it was last used."""
        self._alone_since = self._since
        self._expiry: asyncio.TimerHandle | None = None

    # -- who may -------------------------------------------------------------------------------------------------------

    def check(self, epoch: int | None) -> None:
        """`Fenced` for whoever held it before; who does not say under which epoch is not asked."""
        if epoch is None or epoch == self.epoch:
            return
        if self.epoch is None:
            raise InvalidRequest(f"{self._name} was made without an epoch; leave it out", param="epoch")
        if epoch < self.epoch:
            raise self._fenced(epoch)
        raise InvalidRequest(f"{self._name} is held under {self.epoch}; attach with {epoch} first", param="epoch")

    @contextlib.contextmanager
    def used(self, epoch: int | None) -> Iterator[None]:
        """Around whatever is done in the sandbox: it is called off when another takes over, who waits for its end."""
        self.check(epoch)
        task = asyncio.current_task()
        assert task is not None
        use = Use(task)
        self._uses.add(use)
        try:
            with self._running, self._here:
                yield
        except asyncio.CancelledError:
            if not use.fenced or task.uncancel():
                raise
            raise self._fenced(epoch) from None
        finally:
            self._uses.discard(use)
            self._since = self._loop.time()

    # -- who holds it --------------------------------------------------------------------------------------------------

    def hold(self) -> Hold:
        self._hold = Hold()
        return self._hold

    def take_over(self, terms: Terms) -> Hold:
        """From here on it is the caller's, who is to wait until nobody else is in it."""
        epoch = terms.epoch
        assert epoch is not None
        if self.epoch is None:
            raise InvalidRequest(f"{self._name} was made without an epoch: it is its connection's alone", param="epoch")
        if epoch <= self.epoch:
            raise self._fenced(epoch)
        self.epoch, self._keep = epoch, terms.keep
        self._stop_clock()
        if self._hold is not None:
            self._hold.end({"ended": f"taken over under epoch {epoch}", "code": Fenced.code})
        for use in self._uses:
            use.fenced = True
            use.task.cancel()
        return self.hold()

    async def wait_until_free(self, hold: Hold) -> None:
        """Until nobody uses it of those who had it before. `Fenced` where another came meanwhile."""
        await self._here.finish(None)
        if self._hold is not hold and not self.over.is_set():
            raise self._fenced(None)

    def let_go(self, hold: Hold) -> None:
        """Its client has gone, or is told why it is over."""
        if self._hold is not hold:
            return
        self._hold = None
        if not self.over.is_set():
            self._alone_since = self._loop.time()
            if self._keep > 0:
                why = f"nobody attached to it within {self._keep:g} s"
                self._expiry = self._loop.call_later(self._keep, self.end, why)
            else:
                self.end()

    # -- how long ------------------------------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """What runs in it would miss what it is told if we looked, and finds out by itself."""
        return not self.over.is_set() and (bool(self._here) or self.sandbox.alive)

    @property
    def idle(self) -> float:
        """Seconds since anything was done in it."""
        return 0.0 if self._here else self._loop.time() - self._since

    @property
    def held(self) -> bool:
        return self._hold is not None

    @property
    def abandoned(self) -> bool:
        """It is kept, nobody came, and nobody is in it."""
        alone = self._hold is None and not self._here and not self.over.is_set()
        return alone and self._loop.time() - self._alone_since >= _ABANDONED

    def end(self, why: str | None = None) -> None:
        """`why` where that is not its client's own wish."""
        if not self.over.is_set():
            self._stop_clock()
            if why is not None and self._hold is None:
                _log.info("%s ended: %s", self._name, why)
            self.over.set()
            if self._hold is not None:
                self._hold.end(None if why is None else {"ended": why})

    def _stop_clock(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    @property
    def _name(self) -> str:
        return f"sandbox: {self.sandbox.id}"

    def _fenced(self, epoch: int | None) -> Fenced:
        asked = "" if epoch is None else f", and not of {epoch}"
        return Fenced(f"{self._name} is the holder's of epoch {self.epoch} now{asked}; leave it to whoever that is")


class Access:
    """A sandbox as one request has it: under the epoch that it carries, or none."""

    def __init__(self, lease: Lease, epoch: int | None) -> None:
        lease.check(epoch)
        self.lease = lease
        self.sandbox = lease.sandbox
        self._epoch = epoch

    def used(self) -> contextlib.AbstractContextManager[None]:
        """Around whatever is done in the sandbox."""
        return self.lease.used(self._epoch)


class Leases:
    """All of them, by id."""

    def __init__(self, source: LocalSource, running: Running, *, ping: float) -> None:
        self._source = source
        self._running = running
        self._ping = ping
        self._held: dict[str, Lease] = {}
        self._living: set[asyncio.Task[None]] = set()

    def find(self, id: str) -> Lease:
        lease = self._held.get(id)
        if lease is None or lease.over.is_set():
            raise Unknown(f"sandbox: there is no {id[:80]!r}, or no longer; make a new one")
        return lease

    def all(self) -> list[Lease]:
        return [lease for lease in self._held.values() if not lease.over.is_set()]

    # -- answers that stay open ----------------------------------------------------------------------------------------

    def make(self, spec: Spec, terms: Terms) -> Stream:
        """Make a sandbox and hold it until the client leaves, it ends by itself, or someone ends it or takes over."""
        return stream_lines(self._make(spec, terms), ping=self._ping)

    def attach(self, id: str, terms: Terms) -> Stream:
        """Take a sandbox over, and hold it likewise."""
        return stream_lines(self._attach(id, terms), ping=self._ping)

    async def _make(self, spec: Spec, terms: Terms) -> AsyncGenerator[bytes, None]:
        lease = await self._begin(spec, terms)

        async def first() -> Told:
            return {"id": lease.sandbox.id}

        async with contextlib.aclosing(self._hold(lease, lease.hold(), first)) as lines:
            async for line in lines:
                yield line

    async def _attach(self, id: str, terms: Terms) -> AsyncGenerator[bytes, None]:
        lease = self.find(id)
        hold, sandbox = lease.take_over(terms), lease.sandbox

        async def first() -> Told:
            await lease.wait_until_free(hold)
            files = tuple(await sandbox.files.list())
            self.find(id)
            return encode_state(State(id, sandbox.cells, sandbox.interpreter, sandbox.limits, files))

        async with contextlib.aclosing(self._hold(lease, hold, first)) as lines:
            async for line in lines:
                yield line

    async def _hold(
        self, lease: Lease, hold: Hold, first: Callable[[], Awaitable[Told]]
    ) -> AsyncGenerator[bytes, None]:
        """Its lines. The client's leaving ends this wherever it is."""
        try:
            yield encode_line(await first())
            await hold.over.wait()
            if lease.over.is_set():
                await lease.gone.wait()
        finally:
            lease.let_go(hold)
        if hold.last is not None:
            yield encode_line(hold.last)

    # -- their lives ---------------------------------------------------------------------------------------------------

    async def _begin(self, spec: Spec, terms: Terms) -> Lease:
        """A sandbox, which lives in a task of its own from here on. A client that leaves meanwhile calls it off."""
        made: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
        living = asyncio.create_task(self._live(spec, terms, made))
        self._living.add(living)
        living.add_done_callback(self._living.discard)
        try:
            return await made
        except asyncio.CancelledError:
            living.cancel()
            await wait_to_end(living)
            raise

    async def _live(self, spec: Spec, terms: Terms, made: asyncio.Future[Lease]) -> None:
        lease: Lease | None = None
        try:
            async with contextlib.AsyncExitStack() as stack:
                sandbox = await self._acquire(stack, spec, terms.wait)
                lease = self._held[sandbox.id] = Lease(sandbox, self._running, terms)
                made.set_result(lease)
                await lease.over.wait()
        except Exception as error:  # noqa: BLE001 - whoever asked for it is told, or the log
            if not made.done():
                made.set_exception(error)
            elif not made.cancelled():
                _log.exception("a sandbox did not end as it should")
        finally:
            if lease is not None:
                lease.end()
                del self._held[lease.sandbox.id]
                lease.gone.set()

    async def _acquire(self, stack: contextlib.AsyncExitStack, spec: Spec, wait: float) -> LocalSandbox:
        """One of the source's; where it has none, one that nobody came back for makes room, or it is waited for."""
        try:
            return await stack.enter_async_context(self._source.acquire(spec))
        except NoneFree:
            if self._end_abandoned():
                wait = max(wait, _ROOM)
            elif not wait:
                raise
        return await stack.enter_async_context(self._source.acquire(spec, wait=wait))

    def _end_abandoned(self) -> bool:
        abandoned = max((one for one in self._held.values() if one.abandoned), key=lambda one: one.idle, default=None)
        if abandoned is None:
            return False
        abandoned.end("its place was needed, and nobody held it")
        return True

    async def drop(self, id: str, epoch: int | None) -> None:
        """End it; there is nothing left of it afterwards. `Fenced` for whoever held it before."""
        lease = self._held.get(id)
        if lease is not None:
            if epoch is None or lease.epoch is None or epoch <= lease.epoch:
                lease.check(epoch)
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
