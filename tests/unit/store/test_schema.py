"""Migrations: each once, whole or not at all, and never backwards."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.store.conftest import Children

from belljar.errors import BadSettings
from belljar.gateway.store import versions
from belljar.gateway.store.base import Change, Changed
from belljar.gateway.store.schema import MIGRATIONS, migrate

FIRST = "CREATE TABLE a (x);\nINSERT INTO a VALUES ('one; two');"
SECOND = "ALTER TABLE a ADD COLUMN y;\nUPDATE a SET y = x;"

OPEN = """
import multiprocessing, sys
from pathlib import Path
from belljar.gateway.store.sqlite import SqliteRecords

def open_all(barrier):
    for number in range(25):
        barrier.wait()
        SqliteRecords(Path(sys.argv[1], f"{number}.db"))

context = multiprocessing.get_context("fork")
barrier = context.Barrier(4)
processes = [context.Process(target=open_all, args=(barrier,)) for _ in range(4)]
for process in processes:
    process.start()
for process in processes:
    process.join()
print([process.exitcode for process in processes])
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        yield made


def version(connection: sqlite3.Connection) -> int:
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return found


def test_each_migration_is_run_once(connection: sqlite3.Connection, path: Path) -> None:
    migrate(connection, path, [FIRST])
    migrate(connection, path, [FIRST])
    assert version(connection) == 1
    migrate(connection, path, [FIRST, SECOND])
    assert version(connection) == 2
    assert connection.execute("SELECT x, y FROM a").fetchall() == [("one; two", "one; two")]


def test_a_migration_that_fails_changes_nothing(connection: sqlite3.Connection, path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        migrate(connection, path, [FIRST, "DROP TABLE b;"])
    assert version(connection) == 0
    assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == []
    assert not connection.in_transaction


def test_a_newer_file_is_refused(connection: sqlite3.Connection, path: Path) -> None:
    migrate(connection, path, [FIRST, SECOND])
    with pytest.raises(BadSettings) as caught:
        migrate(connection, path, [FIRST])
    assert str(caught.value) == (
        f"{path} was written by a newer Belljar: it has version 2 of the tables, this one knows 1;"
        " run the newer one, or move the file away to start anew"
    )
    assert version(connection) == 2
    assert not connection.in_transaction


def test_our_own(connection: sqlite3.Connection, path: Path) -> None:
    migrate(connection, path)
    assert version(connection) == len(MIGRATIONS)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_processes_that_start_at_once_share_a_new_file(start: Children, tmp_path: Path) -> None:
    told, _ = start(OPEN, tmp_path).communicate()
    assert told == "[0, 0, 0, 0]\n"


def test_containers_of_the_first_version_are_taken_over(connection: sqlite3.Connection, path: Path) -> None:
    migrate(connection, path, MIGRATIONS[:1])
    connection.execute("INSERT INTO containers VALUES (1, 'cntr_1', 'me', 'a', 1, 1, '1g', 20, 0, '', '[]', 0, 0)")
    migrate(connection, path)
    assert connection.execute("SELECT id, hosted FROM containers").fetchall() == [("cntr_1", b"")]


def test_containers_without_versions_begin_with_the_cells_that_they_had(
    connection: sqlite3.Connection, path: Path
) -> None:
    migrate(connection, path, MIGRATIONS[:2])
    connection.execute("INSERT INTO containers VALUES (1, 'cntr_1', 'me', 'a', 1, 1, '1g', 20, 0, '', '[]', 7, 0, '')")
    migrate(connection, path)
    assert versions.make(connection, "cntr_1", Change(ran=True)) == Changed(version=1)
    found = [versions.read(connection, "cntr_1", number) for number in (0, 1)]
    assert [one and one.cells for one in found] == [7, 7]
