"""Which sandbox holds which container: made when first needed, ended when long idle or when others need the place."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from weakref import WeakValueDictionary

from belljar.errors import BelljarError, Lost, NoneFree, NotFound, OverQuota
from belljar.gateway.containers import workspace
from belljar.gateway.containers.policy import Policy
from belljar.gateway.containers.slots import Held, Slot
from belljar.gateway.containers.workspace import Collected
from belljar.gateway.store.base import Blobs, ContainerRecord, Records
from belljar.sandbox.base import SandboxSource
from belljar.sandbox.outputs import FileChanged


def not_found(container_id: str) -> NotFound:
    """In the words of OpenAI's wire."""
    return NotFound(f"Container with id '{container_id}' not found.")


class Sandboxes:
    """The sandboxes of this process, by container."""

    def __init__(
        self, records: Records, blobs: Blobs, source: SandboxSource, policy: Policy, clock: Callable[[], float]
    ) -> None:
        self._records = records
        self._blobs = blobs
        self._source = source
        self._policy = policy
        self._clock = clock
        self._slots: WeakValueDictionary[str, Slot] = WeakValueDictionary()
        self._holding: dict[str, Slot] = {}
        self._alive: set[Held] = set()
        self._owned: Counter[str] = Counter()
        self._closed = False

    def slot(self, container_id: str) -> Slot:
        """The one slot of a container, as long as anybody has it."""
        slot = self._slots.get(container_id)
        if slot is None:
            slot = self._slots[container_id] = Slot(container_id)
        return slot

    def is_busy(self, container_id: str) -> bool:
        slot = self._slots.get(container_id)
        return slot is not None and slot.users > 0

    def count(self) -> tuple[int, int]:
        """How many are in use, being made or ended included, and how many are idle."""
        idle = sum(1 for _ in self._idle())
        return self._owned.total() - idle, idle

    # -- making -------------------------------------------------------------------------------------------------

    async def hold(self, slot: Slot, container: ContainerRecord) -> Held:
        """The container's sandbox, made and filled if need be. The caller has the turn."""
        held = slot.held
        if held is not None and held.usable:
            return held
        await self.end(slot)
        async with AsyncExitStack() as stack:
            held = await self._acquire(stack, container)
            async with slot.filing:  # so that no file comes between the look at the store and the sandbox's arrival
                await self._fill(held, slot)
                held.close = stack.pop_all().aclose
                slot.held = held
                self._holding[slot.id] = slot
                self._alive.add(held)
        return held

    async def make(self, slot: Slot, container: ContainerRecord) -> Held:
        """A sandbox for one call, which `discard` ends."""
        async with AsyncExitStack() as stack:
            held = await self._acquire(stack, container)
            await self._fill(held, slot)
            held.close = stack.pop_all().aclose
            self._alive.add(held)
        return held

    async def _acquire(self, stack: AsyncExitStack, container: ContainerRecord) -> Held:
        if self._closed:
            raise Lost("the gateway is stopping")
        fresh = await self._records.get_container(container.id, container.owner)
        if fresh is None or fresh.deleted:
            raise not_found(container.id)
        spec = self._policy.spec(fresh)
        while True:
            try:
                async with AsyncExitStack() as attempt:
                    await self._reserve(attempt, fresh.owner)
                    sandbox = await attempt.enter_async_context(self._source.acquire(spec))
                    stack.push_async_exit(attempt.pop_all())
                break
            except NoneFree:
                victim = self._victim(fresh.owner)
                if victim is None:
                    raise
                await self._evict(victim)
        return Held(
            id=fresh.id,
            owner=fresh.owner,
            minutes=fresh.minutes,
            spec=spec,
            sandbox=sandbox,
            close=stack.aclose,
            cells=fresh.cells,
            requirements=fresh.requirements,
            healed=fresh.cells > 0 and self._policy.isolation == "per_container",
            active_at=self._clock(),
        )

    async def _reserve(self, stack: AsyncExitStack, owner: str) -> None:
        most = self._policy.sandboxes_per_owner
        while most is not None and self._owned[owner] >= most:
            victim = min(self._idle(owner), key=_active_at, default=None)
            if victim is None:
                raise OverQuota(
                    f"all {most} sandboxes that one key may have are busy; wait until one of their cells ends, or "
                    "delete a container"
                )
            await self._evict(victim)
        self._owned[owner] += 1
        stack.callback(self._release, owner)

    def _release(self, owner: str) -> None:
        self._owned[owner] -= 1
        if not self._owned[owner]:
            del self._owned[owner]

    async def _fill(self, held: Held, slot: Slot) -> None:
        files = await self._records.all_container_files(held.id)
        await workspace.restore(held, files, self._blobs)
        if slot.deleted:  # meanwhile
            raise not_found(held.id)

    # -- keeping ------------------------------------------------------------------------------------------------

    async def collect(self, slot: Slot, held: Held, changed: Sequence[FileChanged]) -> Collected:
        """Take what changed in the sandbox into the store."""
        async with slot.filing:
            if slot.deleted:
                raise not_found(slot.id)
            now = int(self._clock())
            return await workspace.collect(held, changed, self._records, self._blobs, self._policy, now)

    # -- ending -------------------------------------------------------------------------------------------------

    def _idle(self, owner: str | None = None) -> Iterator[Slot]:
        for slot in self._holding.values():
            if not slot.users and slot.held is not None and owner in (None, slot.held.owner):
                yield slot

    def _victim(self, owner: str) -> Slot | None:
        """The least recently used: of this owner's own, else of all that have been idle for a while."""
        own = min(self._idle(owner), key=_active_at, default=None)
        if own is not None:
            return own
        since = self._clock() - self._policy.spare
        return min((slot for slot in self._idle() if _active_at(slot) <= since), key=_active_at, default=None)

    async def _evict(self, slot: Slot) -> None:
        async with slot.turn:
            await self.end(slot)

    async def end(self, slot: Slot) -> None:
        """End a container's sandbox; what changed in it since its last cell is kept. The caller has the turn."""
        held, slot.held = slot.held, None
        self._holding.pop(slot.id, None)
        if held is None:
            return
        try:
            held.stale = True  # a process or a thread that a cell left behind may have written
            with contextlib.suppress(BelljarError):
                await self.collect(slot, held, ())
        finally:
            await self.discard(held)

    async def discard(self, held: Held) -> None:
        """End a sandbox as it is."""
        held.lost = True
        self._alive.discard(held)
        await held.close()

    async def kill(self, slot: Slot) -> None:
        """End every sandbox of a deleted container at once, whatever runs in it."""
        slot.deleted, slot.held = True, None
        self._holding.pop(slot.id, None)
        await asyncio.gather(*[self.discard(held) for held in self._alive if held.id == slot.id])

    async def sweep(self) -> None:
        """End the sandboxes of containers that have expired."""
        for slot in list(self._idle()):
            held = slot.held
            if held is not None and not slot.users and held.active_at + held.minutes * 60 <= self._clock():
                await self._evict(slot)

    async def close(self) -> None:
        """End them all."""
        self._closed = True
        await asyncio.gather(*[self._evict(slot) for slot in self._idle()])
        await asyncio.gather(*[self.discard(held) for held in self._alive])


def _active_at(slot: Slot) -> float:
    assert slot.held is not None
    return slot.held.active_at
