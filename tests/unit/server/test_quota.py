"""Quotas: how much, until when, and for whom."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import pytest
from tests.unit.server.fakes import FakeRecords

from belljar.errors import OverQuota, StoreUnavailable
from belljar.gateway.membership import Membership
from belljar.gateway.server import quota
from belljar.gateway.server.options import Quota
from belljar.gateway.server.quota import Quotas
from belljar.gateway.store.base import FileRecord, Records, storage_exceeded
from belljar.gateway.store.local_store import open_store
from belljar.gateway.store.sqlite import SqliteRecords
from belljar.wire import faults


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Timed:
    """A gateway among others that go by this time."""

    id = "gw_1"

    def __init__(self, now: list[float]) -> None:
        self._now = now

    def now(self) -> float:
        return self._now[0]


def count(some: Quotas, owner: str) -> None:
    asyncio.run(some.count_request(owner))


def quotas(limits: Quota, clock: Clock | None = None, records: FakeRecords | None = None) -> Quotas:
    return Quotas(limits, cast(Records, records or FakeRecords()), clock or Clock())


def test_requests_come_back_as_time_goes_by() -> None:
    clock = Clock()
    some = quotas(Quota(requests=2), clock)
    count(some, "a")
    count(some, "a")
    with pytest.raises(OverQuota) as caught:
        count(some, "a")
    assert caught.value.after == pytest.approx(30.0)
    count(some, "b")
    clock.now += 29.9
    with pytest.raises(OverQuota):
        count(some, "a")
    clock.now += 0.2
    count(some, "a")


def test_a_refused_request_costs_nothing() -> None:
    clock = Clock()
    some = quotas(Quota(requests=1), clock)
    count(some, "a")
    for _ in range(10):
        with pytest.raises(OverQuota):
            count(some, "a")
    clock.now += 60
    count(some, "a")


async def fill(some: Sequence[Quotas], owner: str, times: int) -> list[AsyncExitStack]:
    """What was given of so many, one gateway asked after the other."""
    held: list[AsyncExitStack] = []
    for n in range(times):
        stack = AsyncExitStack()
        try:
            await stack.enter_async_context(some[n % len(some)].hold_response(owner))
        except OverQuota:
            continue
        held.append(stack)
    return held


def test_responses_at_once() -> None:
    async def scenario() -> None:
        some = quotas(Quota(responses=2))
        held = await fill([some], "a", 3)
        assert len(held) == 2
        assert len(await fill([some], "b", 3)) == 2
        await held[0].aclose()
        assert len(await fill([some], "a", 2)) == 1

    asyncio.run(scenario())


def test_a_response_that_fails_makes_room() -> None:
    async def scenario() -> None:
        some = quotas(Quota(responses=1))
        for _ in range(3):
            with pytest.raises(ValueError, match="boom"):
                async with some.hold_response("a"):
                    raise ValueError("boom")

    asyncio.run(scenario())


async def join(records: Records, count: int) -> list[Membership]:
    members = [Membership(records, alone=False, address="unix:nowhere") for _ in range(count)]
    for one in members:
        await one.join()
    return members


def test_several_gateways_share_the_responses_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "_SETTLE", 0.0)

    async def scenario() -> None:
        records, _ = open_store(tmp_path / "state")
        members = await join(records, 2)
        some = [Quotas(Quota(responses=3), records, Clock(), shared=one) for one in members]
        held = await fill(some, "a", 6)
        assert len(held) == 3
        await held[0].aclose()
        again = await fill(some[1:], "a", 2)
        assert len(again) == 1, "what one gateway gave back another may have"
        await records.leave(members[0].id)
        assert len(await fill(some[1:], "a", 3)) == 1, "and what one had that is gone"
        for one in (*held, *again):
            await one.aclose()
        await records.close()

    asyncio.run(scenario())


class SlowRecords(SqliteRecords):
    """Whose places are long in coming, and go back at the second try."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked, self.let = asyncio.Event(), asyncio.Event()
        self.silent = 1

    async def take_place(self, owner: str, place: str, gateway_id: str, most: int) -> bool:
        self.asked.set()
        await self.let.wait()
        return await super().take_place(owner, place, gateway_id, most)

    async def give_place(self, owner: str, place: str) -> None:
        if self.silent:
            self.silent -= 1
            raise StoreUnavailable("the store does not answer", after=1.0)
        await super().give_place(owner, place)


def test_a_caller_who_goes_while_a_place_is_asked_for_leaves_none_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "_AGAIN", 0.01)

    async def scenario() -> None:
        records = SlowRecords(tmp_path / "records.db")
        [member] = await join(records, 1)
        some = Quotas(Quota(responses=1), records, Clock(), shared=member)
        asking = asyncio.create_task(fill([some], "a", 1))
        await records.asked.wait()
        asking.cancel()
        await asyncio.wait({asking})
        records.let.set()
        await asyncio.wait(some._giving)
        assert not records.silent
        [held] = await fill([some], "a", 1)
        await held.aclose()
        await records.close()

    asyncio.run(scenario())


def test_bytes_that_are_left() -> None:
    records = FakeRecords()
    some = quotas(Quota(bytes=100), records=records)
    records.files["f"] = FileRecord(id="f", owner="a", filename="", purpose="", created_at=1, size=60, blob="")
    assert asyncio.run(some.count_bytes_left("a")) == 40
    assert asyncio.run(some.count_bytes_left("b")) == 100
    records.files["g"] = FileRecord(id="g", owner="a", filename="", purpose="", created_at=1, size=60, blob="")
    assert asyncio.run(some.count_bytes_left("a")) == 0


def test_without_a_quota_there_is_no_end() -> None:
    some = quotas(Quota())
    for _ in range(1000):
        count(some, "a")
    assert len(asyncio.run(fill([some], "a", 1000))) == 1000
    assert asyncio.run(some.count_bytes_left("a")) is None


def test_a_full_store_is_not_worth_another_try() -> None:
    fault = faults.of(storage_exceeded(5))
    assert (fault.status, fault.code) == (429, "insufficient_quota")
    assert (b"x-should-retry", b"false") in fault.headers()


def test_several_gateways_share_the_requests_of_a_minute(tmp_path: Path) -> None:
    async def scenario() -> None:
        records, _ = open_store(tmp_path / "state")
        now = [600.0]
        waits: list[float | None] = []
        some = [Quotas(Quota(requests=100), records, Clock(), shared=Timed(now)) for _ in range(3)]

        async def send(number: int) -> bool:
            try:
                await some[number % 3].count_request("a")
            except OverQuota as refused:
                waits.append(refused.after)
                return False
            return True

        sent = [await send(number) for number in range(300)]
        assert sum(sent) == 100
        assert set(waits) == {60.0}, "until the next minute"
        now[0] += 60
        assert await send(0)
        only = [await send(0) for _ in range(200)]
        assert 100 - 1 - 2 * 10 <= sum(only) <= 99, "what others took of it is theirs"
        await records.close()

    asyncio.run(scenario())
