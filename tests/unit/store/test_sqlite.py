"""The SQLite file: shared by processes, survives kills, and says what is wrong with it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from tests.unit.store.conftest import Child, Children, response

from belljar.errors import OperatorError
from belljar.gateway.store.base import ContainerRecord
from belljar.gateway.store.sqlite import SqliteRecords

T = TypeVar("T")

# Each response is written twice with its events; the digest of `body` stands in `input`, so that a mixture shows.
WRITE = """
import asyncio, hashlib, itertools, os, sys
from pathlib import Path
from belljar.gateway.store.base import ResponseRecord
from belljar.gateway.store.sqlite import SqliteRecords

async def write(records, lane):
    for number in itertools.count():
        id = f"resp_{os.getpid()}_{lane}_{number}"
        body = os.urandom(20_000)
        digest = hashlib.sha256(body).hexdigest().encode()
        about = {"id": id, "owner": "local", "created_at": 1, "input": digest, "body": body, "holder": "gw"}
        await records.add_response(ResponseRecord(status="in_progress", **about))
        await records.add_events(id, "gw", [(n, b"%d" % n) for n in range(2)])
        assert await records.end_response(ResponseRecord(status="completed", **about), events=[(2, b"2")])
        print(id, flush=True)

async def main():
    records = SqliteRecords(Path(sys.argv[1]))
    await asyncio.gather(*(write(records, lane) for lane in range(8)))

asyncio.run(main())
"""

CHANGE = """
import asyncio, os, sys
from pathlib import Path
from belljar.gateway.store.base import Change, ContainerFileRecord
from belljar.gateway.store.sqlite import SqliteRecords

async def main():
    records = SqliteRecords(Path(sys.argv[1]))
    for number in range(10):
        name = f"{os.getpid()}_{number}"
        file = ContainerFileRecord(
            id=name, container_id="cntr_1", path=name, created_at=1, size=1, modified=1.0, source="user", blob="b"
        )
        print((await records.change_container("cntr_1", Change(put=[file]))).version)
        changed = None
        while changed is None:
            there = await records.get_container("cntr_1", "local")
            change = Change(requirements=(*there.requirements, name), after=there.version)
            changed = await records.change_container("cntr_1", change)
        print(changed.version)
    await records.close()

asyncio.run(main())
"""

FILL = """
import asyncio, os, sys
from pathlib import Path
from belljar.errors import OperatorError
from belljar.gateway.store.base import ResponseRecord
from belljar.gateway.store.sqlite import SqliteRecords

async def main():
    directory = Path(sys.argv[1])
    records = SqliteRecords(directory / "records.db")
    put = lambda id, size: records.add_response(
        ResponseRecord(id=id, owner="local", created_at=1, status="completed", body=bytes(size))
    )
    ballast = directory / "ballast"
    ballast.write_bytes(bytes(500_000))
    kept = []
    try:
        for number in range(1000):
            await put(f"resp_{number}", 100_000)
            kept.append(f"resp_{number}")
    except OperatorError as error:
        print(str(error).replace(str(directory), "HERE"))
    assert kept
    for id in kept:
        assert await records.get_response(id, "local"), id
    ballast.unlink()
    await put("resp_again", 1000)
    print((await records.get_response("resp_again", "local")).id)
    await records.close()

asyncio.run(main())
"""

# Only who is alone with the file may turn it back.
TURN_BACK = """
import sqlite3, sys
try:
    print(sqlite3.connect(sys.argv[1], timeout=0).execute("PRAGMA journal_mode = DELETE").fetchone()[0])
except sqlite3.OperationalError as error:
    print(error)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.db"


def with_records(path: Path, act: Callable[[SqliteRecords], Awaitable[T]]) -> T:
    async def run() -> T:
        records = SqliteRecords(path)
        try:
            return await act(records)
        finally:
            await records.close()

    return asyncio.run(run())


@contextmanager
def opened(path: Path) -> Iterator[SqliteRecords]:
    """For use from one loop after another."""
    records = SqliteRecords(path)
    try:
        yield records
    finally:
        asyncio.run(records.close())


def test_the_files_are_the_owners_alone(path: Path) -> None:
    async def modes(records: SqliteRecords) -> dict[str, int]:
        await records.add_response(response("resp_1"))
        return {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}

    before = os.umask(0)
    try:
        found = with_records(path, modes)
    finally:
        os.umask(before)
    assert found == {"records.db": 0o600, "records.db-wal": 0o600, "records.db-shm": 0o600}


def test_one_loop_after_another(path: Path) -> None:
    with opened(path) as records:
        asyncio.run(records.add_response(response("resp_1")))
        assert asyncio.run(records.get_response("resp_1", "local")) == response("resp_1")
    with opened(path) as records:
        assert asyncio.run(records.get_response("resp_1", "local")) == response("resp_1")


def test_other_processes_see_that_the_file_is_in_use(path: Path, start: Children) -> None:
    with opened(path), opened(path):
        told, _ = start(TURN_BACK, path).communicate()
    assert told == "database is locked\n"
    told, _ = start(TURN_BACK, path).communicate()
    assert told == "delete\n"


def test_what_one_process_writes_another_reads(path: Path, start: Children) -> None:
    with opened(path) as records:
        child = start(WRITE, path)
        assert child.stdout
        for _ in range(20):
            id = child.stdout.readline().strip()
            found = asyncio.run(records.get_response(id, "local"))
            assert found is not None
            assert found.status == "completed"
            assert asyncio.run(records.get_events(id, -1)) == [(n, b"%d" % n) for n in range(3)]
            # and while the other writes, so do we
            asyncio.run(records.add_response(response(f"{id} seen")))
        seen = f"{id} seen"
        assert asyncio.run(records.get_response(seen, "local")) == response(seen)


def test_many_processes_write_at_once(path: Path, start: Children) -> None:
    children = [start(WRITE, path) for _ in range(3)]
    for child in children:
        assert child.stdout
        for _ in range(10):
            assert child.stdout.readline()
    assert [child.poll() for child in children] == [None] * 3


def test_processes_that_change_one_container_give_each_number_once(path: Path, start: Children) -> None:
    with opened(path) as records:
        record = ContainerRecord(id="cntr_1", owner="local", name="x", created_at=1, last_active_at=1)
        asyncio.run(records.create_container(record))
        told = [child.communicate()[0].split() for child in [start(CHANGE, path) for _ in range(3)]]
        assert sorted(int(number) for numbers in told for number in numbers) == list(range(1, 61))
        found = asyncio.run(records.get_container("cntr_1", "local"))
        assert found is not None
        assert (found.version, len(found.requirements)) == (60, 30), "no package of another's was written over"
        files = [asyncio.run(records.get_version("cntr_1", number)) for number in (0, 60)]
        assert [one and len(one.files) for one in files] == [0, 30]


@pytest.mark.parametrize("answered", [1, 40])
def test_a_killed_process_leaves_whole_records(path: Path, start: Children, answered: int) -> None:
    told: list[str] = []
    for _ in range(2):
        told += _killed_after(start(WRITE, path), answered)

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        rows = connection.execute("SELECT id, status, input, body FROM responses").fetchall()
        for id, status, digest, body in rows:
            assert hashlib.sha256(body).hexdigest().encode() == digest, (id, status)
        whole = {id for id, status, _, _ in rows if status == "completed"}
        assert len(told) >= 2 * answered
        assert set(told) <= whole
        events = "SELECT r.status, count(*) FROM events AS e JOIN responses AS r ON r.id = e.response_id GROUP BY r.id"
        assert {*connection.execute(events)} <= {("completed", 3), ("in_progress", 2)}, "the last comes with the end"


def _killed_after(child: Child, lines: int) -> list[str]:
    """What it told before it was killed, and what it had told when it was."""
    assert child.stdout
    told = [child.stdout.readline() for _ in range(lines)]
    child.kill()
    rest, _ = child.communicate()
    return [line.strip() for line in (*told, *rest.splitlines(keepends=True)) if line.endswith("\n")]


def test_a_full_disk(start_on_small_disk: Callable[[str], Child]) -> None:
    child = start_on_small_disk(FILL)
    told, _ = child.communicate()
    assert told.splitlines() == [
        "the disk of HERE is full; free some space there, or move it to a larger disk",
        "resp_again",
    ]
    assert child.returncode == 0


def test_a_file_that_is_no_database(path: Path) -> None:
    path.write_bytes(b"something else, and enough of it to be looked at" * 100)
    with pytest.raises(OperatorError, match=r"records\.db is damaged \(file is not a database\); restore a copy"):
        SqliteRecords(path)


def test_a_place_where_no_file_can_be(path: Path) -> None:
    path.mkdir()
    with pytest.raises(OperatorError, match=r"records\.db cannot be opened for writing; check the permissions"):
        SqliteRecords(path)
