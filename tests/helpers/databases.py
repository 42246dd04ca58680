"""Records over each kind of database, with a clock that a test can move."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from belljar.database_address import DatabaseAddress
from belljar.gateway.store.base import Records
from belljar.gateway.store.postgres.records import PostgresRecords
from belljar.gateway.store.sqlite import SqliteRecords

KINDS = ("sqlite", "postgres")
PassTime: TypeAlias = Callable[[float], Awaitable[None]]


@dataclass(frozen=True)
class Database:
    records: Records
    pass_time: PassTime
    address: str
    """By which another process has it, too: see `open_again`."""


def open_database(kind: str, place: Path, request: pytest.FixtureRequest, runner: asyncio.Runner) -> Database:
    """An empty one, in this directory where it is a file; whoever asked closes it."""
    if kind == "postgres":
        server = request.getfixturevalue("postgres")

        address = runner.run(server.empty_store())
        return Database(runner.run(open_again(address)), server.pass_time, address)
    late = [0.0]

    async def pass_time(seconds: float) -> None:
        late[0] += seconds

    place.mkdir(exist_ok=True)
    path = place / "records.db"
    return Database(SqliteRecords(path, lambda: time.time() + late[0]), pass_time, str(path))


async def open_again(address: str) -> Records:
    return await PostgresRecords.open(DatabaseAddress(address)) if "://" in address else SqliteRecords(Path(address))
