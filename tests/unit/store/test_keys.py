"""Keys: how they look, which are good, and how soon a change counts."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from belljar.errors import OperatorError
from belljar.gateway.store.base import KeyRecord
from belljar.gateway.store.keys import Keyring, digest, new_key
from belljar.gateway.store.sqlite import SqliteRecords


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def records(tmp_path: Path) -> Iterator[SqliteRecords]:
    made = SqliteRecords(tmp_path / "records.db")
    yield made
    asyncio.run(made.close())


def test_a_new_key() -> None:
    plain, record = new_key("laptop")
    assert re.fullmatch(r"bj-[A-Za-z0-9_-]{43}", plain)
    assert re.fullmatch(r"key_[0-9a-f]{48}", record.id)
    assert record.name == "laptop"
    assert record.digest == digest(plain) == hashlib.sha256(plain.encode()).hexdigest()
    assert plain.endswith(record.shown)
    assert len(record.shown) == 4
    assert plain not in repr(record)
    assert (record.last_used_at, record.revoked_at) == (None, None)
    assert new_key("laptop")[0] != plain


def test_which_keys_are_good(records: SqliteRecords) -> None:
    async def run() -> None:
        keys = Keyring(records)
        mine, record = new_key("mine")
        revoked, gone = new_key("gone")
        await records.put_key(record)
        await records.put_key(replace(gone, revoked_at=1))
        found = await keys.check(mine)
        assert found is not None
        assert (found.id, found.name) == (record.id, "mine")
        wrong = mine[:-1] + ("A" if mine[-1] != "A" else "B")
        for other in (revoked, new_key("other")[0], wrong, mine + "\n", mine[:-1], record.digest, "", "bj-é", "\ud800"):
            assert await keys.check(other) is None

    asyncio.run(run())


def test_a_change_counts_within_a_second(records: SqliteRecords) -> None:
    async def run() -> None:
        clock = Clock()
        keys = Keyring(records, clock=clock)
        plain, record = new_key("late")
        assert await keys.check(plain) is None
        await records.put_key(record)
        clock.now += 1
        assert await keys.check(plain)
        await records.put_key(replace(record, revoked_at=2))
        clock.now += 1
        assert await keys.check(plain) is None

    asyncio.run(run())


def test_a_clock_that_was_set_back(records: SqliteRecords) -> None:
    async def run() -> None:
        clock = Clock()
        keys = Keyring(records, clock=clock)
        plain, record = new_key("late")
        assert await keys.check(plain) is None
        await records.put_key(record)
        clock.now -= 500_000
        assert await keys.check(plain)

    asyncio.run(run())


class Counted(SqliteRecords):
    """Counts reads and writes of keys; fails the writes when told to."""

    reads = writes = 0
    full = False

    async def get_key(self, digest: str) -> KeyRecord | None:
        self.reads += 1
        return await super().get_key(digest)

    async def put_key(self, record: KeyRecord) -> None:
        self.writes += 1
        if self.full:
            raise OperatorError("the disk is full")
        await super().put_key(record)


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    made = Counted(tmp_path / "counted.db")
    yield made
    asyncio.run(made.close())


def test_a_key_is_looked_up_once_a_second(counted: Counted) -> None:
    async def run() -> None:
        clock = Clock()
        keys = Keyring(counted, clock=clock)
        plain, _ = new_key("x")
        for _ in range(30):
            await asyncio.gather(*(keys.check(plain) for _ in range(5)))
            clock.now += 0.125
        assert counted.reads == 4

    asyncio.run(run())


def test_when_a_key_was_used_is_noted_once_a_minute(counted: Counted) -> None:
    async def run() -> None:
        clock = Clock()
        keys = Keyring(counted, clock=clock)
        plain, record = new_key("x")
        await counted.put_key(record)
        counted.writes = 0
        await asyncio.gather(*(keys.check(plain) for _ in range(10)))
        for _ in range(236):
            clock.now += 0.25
            assert await keys.check(plain)
        assert counted.writes == 1
        assert [one.last_used_at for one in await counted.keys()] == [1_000_000]
        clock.now += 2
        assert await keys.check(plain)
        assert counted.writes == 2
        assert [one.last_used_at for one in await counted.keys()] == [1_000_061]

    asyncio.run(run())


def test_a_key_is_good_though_its_use_cannot_be_noted(counted: Counted) -> None:
    async def run() -> None:
        plain, record = new_key("x")
        await counted.put_key(record)
        counted.full = True
        assert await Keyring(counted).check(plain)

    asyncio.run(run())
