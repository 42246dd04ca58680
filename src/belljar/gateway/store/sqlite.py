"""Records in one SQLite file that several processes may share: one thread writes, reads happen where they are asked."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import msgspec

from belljar.errors import InvalidRequest, NotFound
from belljar.gateway.store import disk_errors, versions
from belljar.gateway.store.base import (
    Change,
    Changed,
    ContainerFileRecord,
    ContainerRecord,
    ConversationRecord,
    FileRecord,
    ItemRecord,
    KeyRecord,
    Page,
    ResponseRecord,
    Version,
)
from belljar.gateway.store.connection import connect
from belljar.gateway.store.response_cache import Recent
from belljar.gateway.store.rows import (
    CONTAINER_FILES,
    CONTAINERS,
    CONVERSATIONS,
    FILES,
    ITEMS,
    KEYS,
    RESPONSES,
    Row,
    Table,
)
from belljar.gateway.store.schema import migrate
from belljar.gateway.store.writer import Writer

R = TypeVar("R", bound=msgspec.Struct)

# Whoever writes a key has read it some time before, and must not bring one back that was revoked since.
_PUT_KEY = f"""
    {KEYS.insert} ON CONFLICT (id) DO UPDATE SET
        name = excluded.name,
        last_used_at = nullif(max(coalesce(last_used_at, 0), coalesce(excluded.last_used_at, 0)), 0),
        revoked_at = coalesce(revoked_at, excluded.revoked_at)
"""
_UNUSED = """
    WITH known (name) AS (VALUES {}) SELECT name FROM known
    WHERE NOT EXISTS (SELECT 1 FROM files WHERE blob = name)
    AND NOT EXISTS (SELECT 1 FROM container_files WHERE blob >= name AND blob < name || 'A')
"""
"""Up to `A`: a part of a blob has `@` behind the blob's name."""
_AT_ONCE = 500
"""Values in one statement: some builds of SQLite take 999."""


class SqliteRecords:
    """The port `Records` over the file at `path`, which is made when it is not there."""

    def __init__(self, path: Path, settle: Callable[[str], None] = lambda _: None) -> None:
        """`settle` has a blob on the disk before a row says that it is kept for good; it may block."""
        self._path = path
        self._settle = settle
        writing = connect(path)
        try:
            migrate(writing, path)
            self._reading = connect(path)
        except Exception as error:
            writing.close()
            if isinstance(error, sqlite3.Error):
                raise disk_errors.of_sqlite(error, path) from error
            raise
        self._reading.execute("PRAGMA query_only = ON")
        self._turn = threading.Lock()
        self._writer = Writer(writing, path)
        self._recent = Recent()

    async def close(self) -> None:
        await asyncio.to_thread(self._writer.close)
        with self._turn:
            self._reading.close()

    # Responses

    async def put_response(self, record: ResponseRecord) -> None:
        try:
            await self._put(RESPONSES, record)
        finally:
            self._recent.drop(record.id)

    async def get_response(self, id: str, owner: str) -> ResponseRecord | None:
        return self._response(id, owner)

    async def delete_response(self, id: str, owner: str) -> bool:
        try:
            return await self._run("DELETE FROM responses WHERE id = ? AND owner = ?", id, owner) > 0
        finally:
            self._recent.drop(id)

    async def chain(self, id: str, owner: str) -> list[ResponseRecord]:
        found: dict[str, ResponseRecord] = {}
        wanted: str | None = id
        while wanted is not None and wanted not in found and (turn := self._response(wanted, owner)):
            found[wanted] = turn
            wanted = turn.previous_id
        return [*reversed(found.values())]

    def _response(self, id: str, owner: str) -> ResponseRecord | None:
        record = self._recent.get(id, owner)
        if record is None and (record := self._one(RESPONSES, "WHERE id = ? AND owner = ?", id, owner)):
            self._recent.add(record)
        return record

    async def unfinished(self) -> list[ResponseRecord]:
        return self._all(RESPONSES, "WHERE status IN ('queued', 'in_progress') ORDER BY n")

    async def add_events(self, response_id: str, events: Sequence[tuple[int, bytes]]) -> None:
        def work(connection: sqlite3.Connection) -> bool:
            there = _has(connection, "responses", response_id)
            if there:
                connection.executemany(
                    "INSERT OR REPLACE INTO events (response_id, sequence, body) VALUES (?, ?, ?)",
                    [(response_id, sequence, body) for sequence, body in events],
                )
            return there

        if not await self._writer.submit(work):
            raise NotFound(f"Response with id {response_id!r} not found: it was deleted, or never written.")

    async def get_events(self, response_id: str, after: int) -> list[tuple[int, bytes]]:
        return self._rows(
            "SELECT sequence, body FROM events WHERE response_id = ? AND sequence > ? ORDER BY sequence",
            response_id,
            after,
        )

    # Conversations

    async def put_conversation(self, record: ConversationRecord) -> None:
        await self._put(CONVERSATIONS, record)

    async def get_conversation(self, id: str, owner: str) -> ConversationRecord | None:
        return self._one(CONVERSATIONS, "WHERE id = ? AND owner = ?", id, owner)

    async def delete_conversation(self, id: str, owner: str) -> bool:
        return await self._run("DELETE FROM conversations WHERE id = ? AND owner = ?", id, owner) > 0

    async def add_items(self, conversation_id: str, items: Sequence[ItemRecord]) -> None:
        def work(connection: sqlite3.Connection) -> bool:
            if not _has(connection, "conversations", conversation_id):
                return False
            for item in items:
                added = connection.execute(
                    "INSERT INTO items (conversation_id, id, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                    (conversation_id, item.id, item.body),
                )
                if not added.rowcount:
                    raise InvalidRequest(
                        f"items: {item.id!r} is in conversation {conversation_id!r} already; send each item once",
                        param="items",
                    )
            return True

        if not await self._writer.submit(work):
            raise NotFound(f"Conversation with id {conversation_id!r} not found.")

    async def list_items(self, conversation_id: str, page: Page) -> list[ItemRecord]:
        return self._page(ITEMS, page, ("conversation_id", conversation_id))

    async def all_items(self, conversation_id: str) -> list[ItemRecord]:
        return self._all(ITEMS, "WHERE conversation_id = ? ORDER BY n", conversation_id)

    async def get_item(self, conversation_id: str, id: str) -> ItemRecord | None:
        return self._one(ITEMS, "WHERE conversation_id = ? AND id = ?", conversation_id, id)

    async def delete_item(self, conversation_id: str, id: str) -> bool:
        return await self._run("DELETE FROM items WHERE conversation_id = ? AND id = ?", conversation_id, id) > 0

    # Containers

    async def put_container(self, record: ContainerRecord) -> None:
        await self._put(CONTAINERS, record)

    async def touch_container(self, id: str, at: int, cells: int = 0) -> None:
        await self._run(
            "UPDATE containers SET last_active_at = max(last_active_at, ?), cells = cells + ? WHERE id = ?",
            at,
            cells,
            id,
        )

    async def get_container(self, id: str, owner: str) -> ContainerRecord | None:
        return self._one(CONTAINERS, "WHERE id = ? AND owner = ?", id, owner)

    async def list_containers(self, owner: str, page: Page, name: str | None = None) -> list[ContainerRecord]:
        return self._page(CONTAINERS, page, ("owner", owner), {"deleted": False, "name": name})

    async def delete_container(self, id: str, owner: str) -> bool:
        return await self._run("DELETE FROM containers WHERE id = ? AND owner = ?", id, owner) > 0

    async def change_container(self, id: str, change: Change) -> Changed | None:
        made = await self._writer.submit(lambda connection: versions.make(connection, id, change))
        if made is versions.Refusal.MISSING:
            raise NotFound(f"Container with id {id!r} not found.")
        return made if isinstance(made, Changed) else None

    async def get_version(self, id: str, number: int) -> Version | None:
        with self._snapshot() as connection:
            return versions.read(connection, id, number)

    async def get_container_file(self, container_id: str, id: str) -> ContainerFileRecord | None:
        return self._one(CONTAINER_FILES, "WHERE id = ? AND container_id = ?", id, container_id)

    async def list_container_files(self, container_id: str, page: Page) -> list[ContainerFileRecord]:
        return self._page(CONTAINER_FILES, page, ("container_id", container_id))

    async def all_container_files(self, container_id: str) -> list[ContainerFileRecord]:
        return self._all(CONTAINER_FILES, "WHERE container_id = ? ORDER BY created_at, n", container_id)

    # Files

    async def put_file(self, record: FileRecord) -> None:
        await asyncio.to_thread(self._settle, record.blob)
        await self._put(FILES, record)

    async def get_file(self, id: str, owner: str) -> FileRecord | None:
        return self._one(FILES, "WHERE id = ? AND owner = ?", id, owner)

    async def list_files(self, owner: str, page: Page, purpose: str | None = None) -> list[FileRecord]:
        return self._page(FILES, page, ("owner", owner), {"purpose": purpose})

    async def delete_file(self, id: str, owner: str) -> bool:
        return await self._run("DELETE FROM files WHERE id = ? AND owner = ?", id, owner) > 0

    async def expire_files(self, now: int) -> int:
        return await self._run("DELETE FROM files WHERE expires_at <= ?", now)

    async def bytes_of(self, owner: str) -> int:
        uploaded = "SELECT size FROM files WHERE owner = ?"
        kept = "SELECT f.size FROM containers AS c JOIN container_files AS f ON f.container_id = c.id WHERE c.owner = ?"
        [(total,)] = self._rows(f"SELECT coalesce(sum(size), 0) FROM ({uploaded} UNION ALL {kept})", owner, owner)
        return int(total)

    async def unused_blobs(self, known: Sequence[str]) -> list[str]:
        unused: list[str] = []
        for start in range(0, len(known), _AT_ONCE):
            some = known[start : start + _AT_ONCE]
            unused += [blob for (blob,) in self._rows(_UNUSED.format(", ".join(["(?)"] * len(some))), *some)]
        return unused

    # Keys and secrets

    async def put_key(self, record: KeyRecord) -> None:
        await self._run(_PUT_KEY, *KEYS.write(record))

    async def keys(self) -> list[KeyRecord]:
        return self._all(KEYS, "ORDER BY n")

    async def secret(self, name: str) -> bytes:
        def work(connection: sqlite3.Connection) -> bytes:
            connection.execute(
                "INSERT INTO secrets (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (name, secrets.token_bytes(32)),
            )
            value: bytes = connection.execute("SELECT value FROM secrets WHERE name = ?", (name,)).fetchone()[0]
            return value

        return await self._writer.submit(work)

    # How all of them read and write

    async def _put(self, table: Table[R], record: R) -> None:
        await self._run(table.upsert, *table.write(record))

    async def _run(self, sql: str, *values: object) -> int:
        """One statement; how many rows it changed."""
        return await self._writer.submit(lambda connection: connection.execute(sql, values).rowcount)

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """Several reads that see one state."""
        try:
            with self._turn:
                self._reading.execute("BEGIN")
                try:
                    yield self._reading
                finally:
                    self._reading.execute("COMMIT")
        except sqlite3.Error as error:
            raise disk_errors.of_sqlite(error, self._path) from error

    def _rows(self, sql: str, *values: object) -> list[Row]:
        # In the caller's thread: a hop to another takes three times as long as the read.
        try:
            with self._turn:
                return self._reading.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise disk_errors.of_sqlite(error, self._path) from error

    def _all(self, table: Table[R], rest: str, *values: object) -> list[R]:
        return [table.read(row) for row in self._rows(f"{table.select} {rest}", *values)]

    def _one(self, table: Table[R], where: str, *values: object) -> R | None:
        found = self._all(table, where, *values)
        return found[0] if found else None

    def _page(
        self, table: Table[R], page: Page, within: tuple[str, str], only: Mapping[str, object] = MappingProxyType({})
    ) -> list[R]:
        """The rows `within` which cursors are known, and `only` those; None stands for any."""
        wanted = {column: value for column, value in only.items() if value is not None}
        conditions = [f"{column} = ?" for column in (within[0], *wanted)]
        values: list[object] = [within[1], *wanted.values()]
        order, marks = ", ".join(table.order), ", ".join("?" * len(table.order))
        ascending = page.order == "asc"
        for param, cursor, larger in (("after", page.after, ascending), ("before", page.before, not ascending)):
            if cursor is not None:
                conditions.append(f"({order}) {'>' if larger else '<'} ({marks})")
                values.extend(self._place(table, param, cursor, within))
        backwards = page.before is not None and page.after is None  # the page that ends there, so from its end
        direction = "ASC" if ascending != backwards else "DESC"
        sorting = ", ".join(f"{column} {direction}" for column in table.order)
        found = self._all(
            table, f"WHERE {' AND '.join(conditions)} ORDER BY {sorting} LIMIT ?", *values, page.limit + 1
        )
        return [*found[page.limit - 1 :: -1], *found[page.limit :]] if backwards else found

    def _place(self, table: Table[R], param: str, cursor: str, within: tuple[str, str]) -> Row:
        """Where in the order the row with this id stands."""
        order = ", ".join(table.order)
        found = self._rows(f"SELECT {order} FROM {table.name} WHERE id = ? AND {within[0]} = ?", cursor, within[1])
        if not found:
            raise InvalidRequest(
                f"{param}: nothing in this list has the id {cursor!r}; use one that the list gave, or leave it out",
                param=param,
            )
        return found[0]


def _has(connection: sqlite3.Connection, table: str, id: str) -> bool:
    return bool(connection.execute(f"SELECT 1 FROM {table} WHERE id = ?", (id,)).fetchall())
