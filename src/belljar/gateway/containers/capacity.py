"""How many sandboxes there may be, whose they are, and which idle one makes room for the next."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Protocol

from belljar.errors import Lost, NoneFree, OverQuota
from belljar.gateway.containers.policy import Policy
from belljar.sandbox.base import Sandbox, SandboxSource, Spec


class Holder(Protocol):
    """A container that has sandboxes, as far as the room for others is concerned."""

    owner: str

    @property
    def idle(self) -> bool:
        """It has a sandbox that nobody uses or waits for."""
        ...

    @property
    def active_at(self) -> float: ...

    @property
    def outlived(self) -> bool:
        """It has been idle for longer than it may be."""
        ...

    async def end(self) -> None:
        """Give the sandbox up, and keep what is in it."""
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
        self._closed = False

    def count(self) -> tuple[int, int]:
        """How many are in use, being made or ended included, and how many are idle."""
        idle = sum(1 for _ in self._idle())
        return self._owned.total() - idle, idle

    def note(self, container_id: str, holder: Holder | None) -> None:
        """Which container has sandboxes; None where it has none any more."""
        if holder is None:
            self._holders.pop(container_id, None)
        else:
            self._holders[container_id] = holder

    async def acquire(self, stack: AsyncExitStack, owner: str, spec: Spec) -> Sandbox:
        """A sandbox, which the stack gives back. One that is idle makes room if need be."""
        while True:
            if self._closed:
                raise Lost("the gateway is stopping")
            try:
                async with AsyncExitStack() as attempt:
                    await self._reserve(attempt, owner)
                    sandbox = await attempt.enter_async_context(self._source.acquire(spec))
                    stack.push_async_exit(attempt.pop_all())
            except NoneFree:
                victim = self._victim(owner)
                if victim is None:
                    raise
                await victim.end()
            else:
                return sandbox

    async def _reserve(self, stack: AsyncExitStack, owner: str) -> None:
        most = self._policy.sandboxes_per_owner
        while most is not None and self._owned[owner] >= most:
            victim = min(self._idle(owner), key=_active_at, default=None)
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
        """The least recently used: of this owner's own, else of all that have been idle for a while."""
        own = min(self._idle(owner), key=_active_at, default=None)
        if own is not None:
            return own
        since = self._clock() - self._policy.spare
        return min((one for one in self._idle() if one.active_at <= since), key=_active_at, default=None)

    async def sweep(self) -> None:
        """End the sandboxes of containers that have expired."""
        for one in list(self._idle()):
            if one.idle and one.outlived:
                await one.end()

    async def close(self) -> None:
        """End them all."""
        self._closed = True
        await asyncio.gather(*[one.end() for one in self._idle()])
        await asyncio.gather(*[one.kill() for one in self._holders.values()])


def _active_at(holder: Holder) -> float:
    return holder.active_at
