"""A full house: one queue, that of the source, over all gateways; and what becomes idle makes room in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import cast

import pytest
from tests.helpers.coroutine_tests import PATIENCE, until

from belljar.errors import Lost, NoneFree
from belljar.gateway.containers import capacity as module
from belljar.gateway.containers.capacity import Capacity
from belljar.gateway.containers.policy import Policy
from belljar.sandbox.base import Sandbox, SandboxSource, Spec
from belljar.sandbox.places import Places


class Source:
    """So many sandboxes, of which nothing but their number matters."""

    def __init__(self, most: int, *, waits: bool = True) -> None:
        self._places = Places(most)
        self._waits = waits
        self.waiting = 0

    @asynccontextmanager
    async def acquire(
        self, spec: Spec, *, epoch: int | None = None, wait: float = 0.0, container: str | None = None
    ) -> AsyncIterator[Sandbox]:
        async with AsyncExitStack() as stack:
            self.waiting += wait > 0
            try:
                await stack.enter_async_context(self._places.wait(wait if self._waits else 0.0))
            finally:
                self.waiting -= wait > 0
            yield cast(Sandbox, object())


class Gateway:
    """Its share of a source."""

    def __init__(self, source: Source, patience: float = PATIENCE) -> None:
        self.capacity = Capacity(cast(SandboxSource, source), Policy(claim_timeout=patience), lambda: 0.0)

    async def use(self, name: str, owner: str = "") -> Container:
        """A container's own sandbox, as soon as there is one."""
        stack = AsyncExitStack()
        await self.capacity.acquire(stack, owner or name, Spec(), container=name)
        made = Container(self.capacity, name, owner or name, stack)
        self.capacity.note(name, made)
        return made


class Container:
    def __init__(self, capacity: Capacity, name: str, owner: str, stack: AsyncExitStack) -> None:
        self.owner = owner
        self.idle = False
        self.died = False
        self.active_at = 0.0
        self._capacity, self._name, self._stack = capacity, name, stack

    @property
    def dead(self) -> bool:
        return self.idle and self.died

    def rest(self) -> None:
        """Nobody uses it any more."""
        self.idle = True
        self._capacity.wake()

    async def is_outlived(self) -> bool:
        return False

    async def end(self) -> None:
        self.idle = False
        self._capacity.note(self._name, None)
        await self._stack.aclose()

    leave = kill = end


async def test_who_waits_at_another_gateway_is_served_in_turn() -> None:
    source = Source(1)
    one, other = Gateway(source), Gateway(source)
    busy = await one.use("busy")
    first = asyncio.create_task(other.use("first"))
    await until(lambda: source.waiting == 1, "1 wait")
    second = asyncio.create_task(one.use("second"))
    await until(lambda: source.waiting == 2, "2 wait")
    assert one.capacity.count() == (1, 0), "one that waits has none"
    await busy.end()
    await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
    assert first.done()
    assert not second.done()
    await first.result().end()
    await (await second).end()


async def test_what_becomes_idle_makes_room_for_who_waits() -> None:
    source = Source(2)
    gateway = Gateway(source)
    mine, theirs = await gateway.use("a", "me"), await gateway.use("b", "them")
    theirs.active_at = 1.0  # it was used a moment ago, so it is not for others
    waiting = asyncio.create_task(gateway.use("c", "me"))
    await until(lambda: source.waiting == 1, "1 wait")
    theirs.rest()
    mine.rest()
    made = await waiting
    assert theirs.idle
    assert not mine.idle
    for one in (made, theirs):
        await one.end()


async def test_the_dead_are_not_idle_and_make_room_first() -> None:
    source = Source(2)
    gateway = Gateway(source)
    alive, dead = await gateway.use("a", "me"), await gateway.use("b", "them")
    dead.active_at = 1.0  # it was used a moment ago, and is another's
    dead.died = True
    alive.rest()
    assert gateway.capacity.count() == (1, 1)
    dead.rest()
    assert gateway.capacity.count() == (0, 1)
    made = await gateway.use("c", "me")
    assert (alive.idle, dead.idle) == (True, False)
    alive.died = True
    await gateway.capacity.sweep()
    assert not alive.idle
    assert gateway.capacity.count() == (1, 0)
    await made.end()


@pytest.mark.parametrize("waits", [True, False])
async def test_a_source_that_cannot_wait_is_asked_again_in_turn(waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AGAIN", 0.01)
    gateway = Gateway(Source(1, waits=waits))
    busy = await gateway.use("busy")
    done: list[str] = []

    async def ask(name: str) -> None:
        made = await gateway.use(name)
        done.append(name)
        await made.end()

    waiting = []
    for n, name in enumerate("abc"):
        waiting.append(asyncio.create_task(ask(name)))
        await until(lambda n=n: len(gateway.capacity._line) == n + 1, "it waits")  # type: ignore[misc]
    await busy.end()
    await asyncio.gather(*waiting)
    assert done == ["a", "b", "c"]


async def test_who_waits_too_long_is_told_by_the_source() -> None:
    source = Source(1)
    gateway = Gateway(source, patience=0.05)
    busy = await gateway.use("busy")
    with pytest.raises(NoneFree, match="none became free within"):
        await gateway.use("late")
    await busy.end()
    await (await gateway.use("next")).end()


async def test_who_waits_while_the_gateway_stops_is_told_so() -> None:
    source = Source(1)
    one, other = Gateway(source), Gateway(source)
    busy = await other.use("busy")
    waiting = asyncio.create_task(one.use("late"))
    await until(lambda: source.waiting == 1, "1 wait")
    await one.capacity.close()
    with pytest.raises(Lost, match="stopping"):
        await waiting
    await busy.end()
    await (await other.use("next")).end()
