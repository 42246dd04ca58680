"""Quotas: how much, until when, and for whom."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from tests.unit.server.fakes import FakeRecords

from belljar.errors import OverQuota
from belljar.gateway.server.options import Quota
from belljar.gateway.server.quota import Quotas
from belljar.gateway.store.base import FileRecord, Records


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def quotas(quota: Quota, clock: Clock | None = None, records: FakeRecords | None = None) -> Quotas:
    return Quotas(quota, cast(Records, records or FakeRecords()), clock or Clock())


def test_requests_come_back_as_time_goes_by() -> None:
    clock = Clock()
    some = quotas(Quota(requests=2), clock)
    some.request("a")
    some.request("a")
    with pytest.raises(OverQuota) as caught:
        some.request("a")
    assert caught.value.after == pytest.approx(30.0)
    some.request("b")
    clock.now += 29.9
    with pytest.raises(OverQuota):
        some.request("a")
    clock.now += 0.2
    some.request("a")


def test_a_refused_request_costs_nothing() -> None:
    clock = Clock()
    some = quotas(Quota(requests=1), clock)
    some.request("a")
    for _ in range(10):
        with pytest.raises(OverQuota):
            some.request("a")
    clock.now += 60
    some.request("a")


def test_responses_at_once() -> None:
    some = quotas(Quota(responses=2))
    with some.response("a"), some.response("a"), some.response("b"), pytest.raises(OverQuota), some.response("a"):
        pass
    with some.response("a"), some.response("a"):
        pass


def test_a_response_that_fails_makes_room() -> None:
    some = quotas(Quota(responses=1))
    for _ in range(3):
        with pytest.raises(ValueError, match="boom"), some.response("a"):
            raise ValueError("boom")


def test_bytes_that_are_left() -> None:
    records = FakeRecords()
    some = quotas(Quota(bytes=100), records=records)
    records.files["f"] = FileRecord(id="f", owner="a", filename="", purpose="", created_at=1, size=60, blob="")
    assert asyncio.run(some.room("a")) == 40
    assert asyncio.run(some.room("b")) == 100
    records.files["g"] = FileRecord(id="g", owner="a", filename="", purpose="", created_at=1, size=60, blob="")
    assert asyncio.run(some.room("a")) == 0


def test_without_a_quota_there_is_no_end() -> None:
    some = quotas(Quota())
    for _ in range(1000):
        some.request("a")
    with some.response("a"), some.response("a"):
        assert asyncio.run(some.room("a")) is None


def test_a_full_store_is_not_worth_another_try() -> None:
    fault = quotas(Quota(bytes=5)).full().fault
    assert fault.status == 429
    assert (b"x-should-retry", b"false") in fault.headers()
