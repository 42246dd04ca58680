"""How many sandboxes there may be, whose they are, and which idle one makes room for the next."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Protocol

from belljar.errors import Lost, NoneFree, OverQuota
from belljar.gateway.containers.policy import Policy
from belljar.sandbox.base import Attached, Sandbox, SandboxHandle, SandboxSource, Spec

_AGAIN = 1.0
"""Seconds after which a call that waits looks for room by itself."""
_STOPPING = "the gateway is stopping"


class Holder(Protocol):
    """A container that has sandboxes, as far as the room for others is concerned."""

    owner: str

    @property
    def idle(self) -> bool:
        """It has a sandbox that nobody uses or waits for."""
        ...

    @property
    def dead(self) -> bool:
        """It is idle, and its sandbox has died meanwhile: of no use to anybody, though it takes a place."""
        ...

    @property
    def active_at(self) -> float: ...

    async def is_outlived(self) -> bool:
        """It has been idle for longer than it may be, at whichever gateway."""
        ...

    async def end(self) -> None:
        """Give the sandbox up, and keep what is in it."""
        ...

    async def leave(self) -> None:
        """Give the sandbox up, and leave it to whoever holds the container next, where that can be."""
        ...

    async def kill(self) -> None:
        """Give up every sandbox at once, whatever runs there."""
        ...


class Capacity:
    """The sandboxes of a source, shared out among containers."""

    def __init__(self, source: SandboxSource, policy: Policy, clock: Callable[[], float]) -> None:
        self._source = source
        self._policy = policy
        self._clock = clock
        self._holders: dict[str, Holder] = {}
        self._owned: Counter[str] = Counter()
        self._line: deque[asyncio.Event] = deque()
        """Calls for which there was no room, in the order in which they asked; only the first makes some."""
        self._waits: set[asyncio.Timeout] = set()
        """Of calls that wait in the source's queue."""
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    def count(self) -> tuple[int, int]:
        """How many are in use, being made or ended included, and how many are idle; the dead are neither."""
        idle = [*self._idle()]
        dead = sum(one.dead for one in idle)
        return self._owned.total() - len(self._waits) - len(idle), len(idle) - dead

    def note(self, container_id: str, holder: Holder | None) -> None:
        """Which container has sandboxes; None where it has none any more."""
        if holder is None:
            self._holders.pop(container_id, None)
        else:
            self._holders[container_id] = holder

    async def attach(self, stack: AsyncExitStack, owner: str, handle: SandboxHandle, epoch: int) -> Attached:
        """A sandbox that another gateway had, which the stack gives back. Raises what `SandboxSource.attach` does."""
        async with AsyncExitStack() as attempt:
            await self._reserve(attempt, owner)
            attached = await attempt.enter_async_context(self._source.attach(handle, epoch))
            attempt.push(lambda *_: self.wake())
            stack.push_async_exit(attempt.pop_all())
        return attached

    async def acquire(
        self, stack: AsyncExitStack, owner: str, spec: Spec, *, container: str, epoch: int | None = None
    ) -> Sandbox:
        """A sandbox for this container, which the stack gives back. One that is idle makes room if need be.

        Where all are busy it waits up to `claim_timeout`, in the queue of the source, behind those who asked before, at
        whichever gateway; `NoneFree` or `OverQuota` where that takes too long.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._policy.claim_timeout
        place = asyncio.Event()

        def ask(wait: float) -> AbstractAsyncContextManager[Sandbox]:
            return self._source.acquire(spec, epoch=epoch, wait=wait, container=container)

        try:
            while not self._closed:
                if self._line and place not in self._line:
                    self._line.append(place)
                wait = max(0.0, deadline - clock()) if place in self._line else 0.0
                try:
                    return await self._try(stack, owner, ask, wait, place)
                except NoneFree:
                    first = place not in self._line
                    if first:
                        self._line.append(place)
                    if self._line[0] is place and (victim := self._victim(owner)) is not None:
                        await victim.end()
                    elif not (first and clock() < deadline) and not await self._pause(place, deadline):
                        raise
                except OverQuota:  # what others have makes no room: so it does not stand in their way
                    self._leave(place)
                    if not await self._pause(place, deadline):
                        raise
            raise Lost(_STOPPING)
        finally:
            self._leave(place)

    async def _try(
        self,
        stack: AsyncExitStack,
        owner: str,
        ask: Callable[[float], AbstractAsyncContextManager[Sandbox]],
        wait: float,
        place: asyncio.Event,
    ) -> Sandbox:
        async with AsyncExitStack() as attempt:
            await self._reserve(attempt, owner)
            if wait:
                sandbox = await self._wait(attempt, ask(wait), place, owner)
            else:
                sandbox = await attempt.enter_async_context(ask(0.0))
            attempt.push(lambda *_: self.wake())
            stack.push_async_exit(attempt.pop_all())
        return sandbox

    async def _wait(
        self, stack: AsyncExitStack, asked: AbstractAsyncContextManager[Sandbox], place: asyncio.Event, owner: str
    ) -> Sandbox:
        """In the source's queue, where other gateways wait too; what becomes idle here meanwhile makes room there."""
        making_room = asyncio.create_task(self._make_room(place, owner))
        try:
            async with asyncio.timeout(None) as until_closed:
                self._waits.add(until_closed)
                return await stack.enter_async_context(asked)
        except TimeoutError:
            if not until_closed.expired():
                raise
            raise Lost(_STOPPING) from None
        finally:
            self._waits.discard(until_closed)
            making_room.cancel()

    async def _make_room(self, place: asyncio.Event, owner: str) -> None:
        """The first in line does, for whoever is first at the source; one at a time, as that takes a moment to come."""
        while True:
            await _wait_for(place, _AGAIN)
            if self._line[0] is place and (victim := self._victim(owner)) is not None:
                ending = asyncio.create_task(victim.end())  # to its end, also where this call has what it wants
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)
                await asyncio.sleep(_AGAIN)

    async def _pause(self, place: asyncio.Event, deadline: float) -> bool:
        """Until it is this call's turn to look again; False where the deadline has passed."""
        while True:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            await _wait_for(place, min(_AGAIN, left))
            if place not in self._line or self._line[0] is place or self._closed:
                return True

    def _leave(self, place: asyncio.Event) -> None:
        if place in self._line:
            self._line.remove(place)
            self.wake()

    def wake(self) -> None:
        """There may be room: who asked first looks again."""
        if self._line:
            self._line[0].set()

    async def _reserve(self, stack: AsyncExitStack, owner: str) -> None:
        most = self._policy.sandboxes_per_owner
        while most is not None and self._owned[owner] >= most:
            victim = min(self._idle(owner), key=_worth, default=None)
            if victim is None:
                raise OverQuota(
                    f"all {most} sandboxes that one key may have are busy; wait until one of their cells ends, or "
                    "delete a container"
                )
            await victim.end()
        self._owned[owner] += 1
        stack.callback(self._release, owner)

    def _release(self, owner: str) -> None:
        self._owned[owner] -= 1
        if not self._owned[owner]:
            del self._owned[owner]

    def _idle(self, owner: str | None = None) -> Iterator[Holder]:
        return (one for one in self._holders.values() if one.idle and owner in (None, one.owner))

    def _victim(self, owner: str) -> Holder | None:
        """A dead one; else the least recently used: of this owner's own, else of all that have been idle a while."""
        dead = next((one for one in self._idle() if one.dead), None)
        own = dead or min(self._idle(owner), key=_worth, default=None)
        if own is not None:
            return own
        since = self._clock() - self._policy.spare
        return min((one for one in self._idle() if one.active_at <= since), key=_worth, default=None)

    async def sweep(self) -> None:
        """End the sandboxes of containers that have expired, and those that have died."""
        for one in list(self._idle()):
            if one.dead or (one.idle and await one.is_outlived() and one.idle):
                await one.end()

    async def close(self) -> None:
        """End them all."""
        self._closed = True
        for place in self._line:
            place.set()
        for wait in self._waits:
            wait.reschedule(0)
        await asyncio.gather(*self._ending, *[one.leave() for one in self._idle()], return_exceptions=True)
        await self.kill_all()

    async def kill_all(self) -> None:
        """Give them up at once, whatever runs there."""
        await asyncio.gather(*[one.kill() for one in [*self._holders.values()]])


def _worth(holder: Holder) -> tuple[bool, float]:
    """The least first: the dead, then by when they were used last."""
    return not holder.dead, holder.active_at


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    """Until it is set, or so long; it is not set afterwards."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    event.clear()
