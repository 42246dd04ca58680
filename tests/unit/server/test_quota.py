"""Quotas: how much, until when, and for whom."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest
from tests.unit.server.fakes import FakeRecords

from belljar.errors import OverQuota
from belljar.gateway.server.options import Quota
from belljar.gateway.server.quota import Quotas
from belljar.gateway.store.base import FileRecord, Records, storage_exceeded
from belljar.gateway.store.local_store import open_store
from belljar.wire import faults


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def count(some: Quotas, owner: str) -> None:
    asyncio.run(some.count_request(owner))


def quotas(quota: Quota, clock: Clock | None = None, records: FakeRecords | None = None) -> Quotas:
    return Quotas(quota, cast(Records, records or FakeRecords()), clock or Clock())


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


def test_responses_at_once() -> None:
    some = quotas(Quota(responses=2))
    with (
        some.hold_response("a"),
        some.hold_response("a"),
        some.hold_response("b"),
        pytest.raises(OverQuota),
        some.hold_response("a"),
    ):
        pass
    with some.hold_response("a"), some.hold_response("a"):
        pass


def test_a_response_that_fails_makes_room() -> None:
    some = quotas(Quota(responses=1))
    for _ in range(3):
        with pytest.raises(ValueError, match="boom"), some.hold_response("a"):
            raise ValueError("boom")


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
    with some.hold_response("a"), some.hold_response("a"):
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
        some = [Quotas(Quota(requests=100), records, Clock(), shared=lambda: now[0]) for _ in range(3)]

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
