"""Move the records of a SQLite file into an empty PostgreSQL: in batches, resumable, and compared at the end.

Rows go in the order of a key that both sort alike, so what is there already is a beginning of what is to come, and a
move that broke off goes on behind it. While a move is not through, no gateway starts over the target.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from belljar.database_address import DatabaseAddress
from belljar.errors import BelljarError, InvalidRequest, NotFound, OperatorError
from belljar.gateway.store.base import Blobs
from belljar.gateway.store.connection import connect
from belljar.gateway.store.local_store import open_local_blobs
from belljar.gateway.store.postgres import failures
from belljar.gateway.store.postgres.connections import Connection, Pool, transaction
from belljar.gateway.store.postgres.records import MOVE, PostgresRecords
from belljar.gateway.store.sqlite import SqliteRecords

BATCH = 200
"""Rows in one transaction: those of responses may be megabytes."""
_DONE = b"done "
Row = tuple[Any, ...]


class Moved(Struct, frozen=True):
    """A table: its columns there, how SQLite tells them, and the key that both are sorted by."""

    name: str
    columns: str
    key: str
    select: str = ""
    """Where the columns are not those of SQLite."""
    true: Sequence[str] = ()
    """Columns that are numbers in SQLite."""
    numbered: bool = True
    """Whether `n` goes on from the last."""


_ITEMS = "SELECT conversation_id, id, row_number() OVER (PARTITION BY conversation_id ORDER BY n) AS position, body"
_RESPONSES = (
    "n, id, owner, created_at, status, background, previous_id, conversation_id, container_id, container_version, "
    "input, output, body, holder"
)
_CONTAINERS = (
    "n, id, owner, name, created_at, last_active_at, memory, minutes, auto, network, requirements, cells, deleted, "
    "hosted, version, epoch, sandbox"
)
_BYTES = "(SELECT coalesce(sum(size), 0) FROM container_files WHERE container_id = containers.id)"
_COUNT = "(SELECT count(*) FROM items WHERE conversation_id = conversations.id)"
TABLES = (
    Moved(
        "conversations",
        "id, owner, created_at, metadata, positions",
        "id",
        f"SELECT id, owner, created_at, metadata, {_COUNT} AS positions FROM conversations",
        numbered=False,
    ),
    Moved(
        "items",
        "conversation_id, id, position, body",
        "conversation_id, position",
        f"{_ITEMS} FROM items",
        numbered=False,
    ),
    Moved("responses", _RESPONSES, "n", true=("background",)),
    Moved("events", "response_id, sequence, body", "response_id, sequence", numbered=False),
    Moved(
        "containers",
        f"{_CONTAINERS}, bytes",
        "n",
        f"SELECT {_CONTAINERS}, {_BYTES} AS bytes FROM containers",
        true=("auto", "deleted"),
    ),
    Moved("container_files", "n, id, container_id, path, created_at, size, modified, source, blob, type", "n"),
    Moved("container_versions", "container_id, number, cells, before", "container_id, number", numbered=False),
    Moved("files", "n, id, owner, filename, purpose, created_at, size, blob, type, expires_at", "n"),
    Moved("usage", "owner, bytes, minute, requests", "owner", numbered=False),
    Moved("keys", "n, id, name, digest, shown, created_at, last_used_at, revoked_at", "n"),
)
BLOBS = Moved("blobs", "name, object, size", "name", numbered=False)
Progress = Callable[[str, int, int], None]


class Source:
    """A SQLite file that nobody writes."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        self._connection.execute("PRAGMA query_only = ON")

    def count(self, table: Moved) -> int:
        count: int = self._connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0]
        return count

    def read(self, table: Moved, after: Row | None) -> Iterator[list[Row]]:
        """Batches of rows as PostgreSQL takes them; a NUL, which it does not, becomes U+FFFD."""
        columns = table.columns.split(", ")
        true = [columns.index(name) for name in table.true]
        select = table.select or f"SELECT {table.columns} FROM {table.name}"
        where = "" if after is None else f"WHERE ({table.key}) > ({', '.join('?' * len(after))})"
        cursor = self._connection.execute(f"SELECT * FROM ({select}) {where} ORDER BY {table.key}", after or ())
        while rows := cursor.fetchmany(BATCH):
            yield [_turn(row, true) for row in rows]

    def has_bucket(self) -> bool:
        """Whether the bytes of its files are in a bucket already, and stay there."""
        return ("blobs", b"bucket") in self.read_secrets()

    def read_secrets(self) -> list[tuple[str, bytes]]:
        return [(name, bytes(value)) for name, value in self._connection.execute("SELECT name, value FROM secrets")]

    def list_blobs(self) -> list[str]:
        """The names of all that a file or a container's file is or is a part of."""
        both = "SELECT blob FROM files UNION SELECT blob FROM container_files"
        return sorted({blob.partition("@")[0] for (blob,) in self._connection.execute(both)})

    def close(self) -> None:
        self._connection.close()


def _turn(row: Row, true: Sequence[int]) -> Row:
    turned = [one.replace("\0", "\ufffd") if isinstance(one, str) and "\0" in one else one for one in row]
    for at in true:
        turned[at] = bool(turned[at])
    return tuple(turned)


async def move_records(
    path: Path, address: DatabaseAddress, progress: Progress
) -> tuple[PostgresRecords, dict[str, int]]:
    """Have all rows there, and the same; the target, which is still closed to gateways, and how many by table."""
    local = SqliteRecords(path)
    mark = await local.agree(MOVE, secrets.token_hex(16).encode())
    await local.close()
    target = await PostgresRecords.open(address, moving=True)
    source = Source(path)
    try:
        pool = target.pool
        await _claim(pool, target, mark)
        counts: dict[str, int] = {}
        tables = (*TABLES, BLOBS) if source.has_bucket() else TABLES
        for table in tables:
            counts[table.name] = await _copy(pool, source, table, progress)
        for name, value in source.read_secrets():
            moved = name not in (MOVE, "blobs") or (name, value) == ("blobs", b"bucket")
            if moved and await target.agree(name, value) != value:
                raise OperatorError(f"the database at {address} has another {name} than {path}; use an empty one")
        for table in tables:
            await _compare(pool, source, table)
        return target, counts
    except BaseException as error:
        await target.close()
        if isinstance(error, failures.KINDS) and not isinstance(error, BelljarError):
            raise failures.explain(address, error) from None
        raise
    finally:
        source.close()


async def move_blobs(
    path: Path, directory: Path, target: PostgresRecords, blobs: Blobs, progress: Progress
) -> tuple[int, list[str]]:
    """Have the bytes of all files there; how many there are, and those that were not here any more.

    Content is compared as it goes: its name is its digest.
    """
    source = Source(path)
    try:
        names = await asyncio.to_thread(source.list_blobs)
    finally:
        source.close()
    index, here = target.blob_index(), open_local_blobs(directory)
    missing: list[str] = []
    done = 0
    for start in range(0, len(names), BATCH):
        some = names[start : start + BATCH]
        there = await index.find(some)
        for name in some:
            if name not in there:
                try:
                    kept = await blobs.adopt(here.stream(name))
                except NotFound:
                    missing.append(name)
                else:
                    assert kept.name == name
            done += 1
            progress("blobs", done, len(names))
    return len(names) - len(missing), missing


async def finish(target: PostgresRecords) -> None:
    """Gateways may start over it from now on."""
    done = "UPDATE belljar.secrets SET value = $2::bytea || value WHERE name = $1"
    await target.pool.run(lambda connection: connection.execute(done, MOVE, _DONE))


async def _claim(pool: Pool, target: PostgresRecords, mark: bytes) -> None:
    """Make the target this move's, if it is empty or was already."""
    found = await pool.fetch("SELECT value FROM belljar.secrets WHERE name = $1", MOVE)
    if found and bytes(found[0][0]) == _DONE + mark:
        raise InvalidRequest(
            f"to_database: all of this was moved to {pool.address} before; start gateways over it, or name another"
        )
    if found and bytes(found[0][0]) != mark:
        raise InvalidRequest(f"to_database: {pool.address} has what was moved from elsewhere; name an empty one")
    if not found:
        rows = [await pool.fetch(f"SELECT 1 FROM belljar.{table.name} LIMIT 1") for table in TABLES]
        if any(rows) or await target.get_gateways():
            raise InvalidRequest(f"to_database: {pool.address} is in use or not empty; name an empty one")
        await target.agree(MOVE, mark)


async def _copy(pool: Pool, source: Source, table: Moved, progress: Progress) -> int:
    total = await asyncio.to_thread(source.count, table)
    backwards = ", ".join(f"{column} DESC" for column in table.key.split(", "))
    last = await pool.fetch(f"SELECT {table.key} FROM belljar.{table.name} ORDER BY {backwards} LIMIT 1")
    [[done]] = await pool.fetch(f"SELECT count(*) FROM belljar.{table.name}")
    columns = table.columns
    marks = ", ".join(f"${n}" for n in range(1, columns.count(",") + 2))
    if table.name == "blobs":  # old enough to be looked at, as they have been
        columns, marks = f"{columns}, finished_at", f"{marks}, clock_timestamp()"
    insert = f"INSERT INTO belljar.{table.name} ({columns}) VALUES ({marks}) ON CONFLICT DO NOTHING"
    batches = source.read(table, tuple(last[0]) if last else None)
    progress(table.name, done, total)
    while rows := await asyncio.to_thread(next, batches, None):
        await pool.run(partial(_insert, insert=insert, rows=rows))
        done += len(rows)
        progress(table.name, done, total)
    if table.numbered:
        sequence = f"pg_get_serial_sequence('belljar.{table.name}', 'n')"
        await pool.fetch(f"SELECT setval({sequence}, coalesce(max(n), 0) + 1, false) FROM belljar.{table.name}")
    return total


async def _insert(connection: Connection, insert: str, rows: Sequence[Row]) -> None:
    async with transaction(connection):
        await connection.executemany(insert, rows, timeout=60)


async def _compare(pool: Pool, source: Source, table: Moved) -> None:
    """The same rows, byte for byte."""
    here = await asyncio.to_thread(lambda: _digest(source.read(table, None)))

    there = await _digest_target(pool, table)
    if here != there:
        raise OperatorError(
            f"{table.name}: {here[0]} rows here and {there[0]} in {pool.address} are not the same; empty that one and "
            "move again"
        )


async def _digest_target(pool: Pool, table: Moved) -> tuple[int, str]:
    found = hashlib.sha256()
    count = 0
    after: Row = ()
    keys, columns = table.key.split(", "), table.columns.split(", ")
    marks = ", ".join(f"${n}" for n in range(1, len(keys) + 1))
    select = f"SELECT {table.columns} FROM belljar.{table.name}"
    end = f"ORDER BY {table.key} LIMIT {BATCH}"
    following = f"{select} WHERE ({table.key}) > ({marks}) {end}"
    while rows := await pool.fetch(following if after else f"{select} {end}", *after):
        for row in rows:
            found.update(repr(tuple(row)).encode())
        count += len(rows)
        after = tuple(rows[-1][columns.index(key)] for key in keys)
    return count, found.hexdigest()


def _digest(batches: Iterator[list[Row]]) -> tuple[int, str]:
    found = hashlib.sha256()
    count = 0
    for rows in batches:
        for row in rows:
            found.update(repr(row).encode())
        count += len(rows)
    return count, found.hexdigest()


def has_bucket(path: Path) -> bool:
    source = Source(path)
    try:
        return source.has_bucket()
    finally:
        source.close()
