"""Records in one SQLite file that several processes may share: one thread writes, reads happen where they are asked."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import msgspec

from belljar.gateway.store import disk_errors, pages, versions
from belljar.gateway.store.base import (
    Change,
    Changed,
    ContainerFileRecord,
    ContainerRecord,
    ConversationRecord,
    FileRecord,
    FoundContainer,
    GatewayRecord,
    Hold,
    ItemRecord,
    Kept,
    KeyRecord,
    Old,
    Page,
    ResponseRecord,
    SandboxRow,
    Version,
    ended_elsewhere,
    item_is_there,
    no_container,
    no_conversation,
    no_cursor,
    no_response,
    taken_over,
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
from belljar.gateway.store.sqlite_blob_index import SqliteBlobIndex, batches, marks, select_unused
from belljar.gateway.store.writer import Writer

R = TypeVar("R", bound=msgspec.Struct)

# Whoever writes a key has read it some time before, and must not bring one back that was revoked since.
_AT_ONCE = 2_000
"""Files of a container that are read where they are asked for: more would keep others waiting."""
_PUT_KEY = f"""
    {KEYS.insert} ON CONFLICT (id) DO UPDATE SET
        name = excluded.name,
        last_used_at = nullif(max(coalesce(last_used_at, 0), coalesce(excluded.last_used_at, 0)), 0),
        revoked_at = coalesce(revoked_at, excluded.revoked_at)
"""
_LIVING = "SELECT id FROM gateways WHERE until > ?"
_BEAT = """
    INSERT INTO gateways (id, address, version, until) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET
        address = excluded.address, version = excluded.version, until = excluded.until
        WHERE until > ?
"""
_CHAIN = """
    WITH RECURSIVE up (id, previous_id) AS (
        SELECT id, previous_id FROM responses WHERE id = ? AND owner = ?
        UNION SELECT r.id, r.previous_id FROM up JOIN responses AS r ON r.id = up.previous_id WHERE r.owner = ?
    ) SELECT id FROM up
"""
"""UNION, and not UNION ALL: a chain that bites its tail ends."""
_UNFINISHED = "status IN ('queued', 'in_progress')"
_END = f"""
    UPDATE responses SET
        status = ?, container_id = ?, container_version = ?, input = ?, output = ?, body = ?, holder = ?
    WHERE id = ? AND {_UNFINISHED} AND
"""
_HOLD = f"""
    UPDATE containers SET holder = ?, epoch = epoch + 1
    WHERE id = ? AND owner = ? AND NOT deleted AND (holder IS NULL OR holder = ? OR holder NOT IN ({_LIVING}))
"""
_OVER = f"created_at < :before AND NOT {_UNFINISHED}"
_OLD: Mapping[Kept, str] = {
    "responses": f"{_OVER} AND NOT EXISTS (SELECT 1 FROM responses AS later WHERE later.previous_id = responses.id)",
    "events": f"{_OVER} AND EXISTS (SELECT 1 FROM events WHERE response_id = responses.id)",
    "containers": "last_active_at < :before AND (holder IS NULL OR holder NOT IN (SELECT id FROM gateways "
    "WHERE until > :now))",
    "files": "created_at < :before",
}
"""Which rows may go; of events, the responses whose they are."""
_COUNT: Mapping[Kept, str] = {
    "responses": f"""
        WITH RECURSIVE kept (id) AS (
            SELECT previous_id FROM responses WHERE previous_id IS NOT NULL AND NOT ({_OVER})
            UNION SELECT r.previous_id FROM kept JOIN responses AS r ON r.id = kept.id WHERE r.previous_id IS NOT NULL
        ) SELECT count(*), coalesce(sum(length(input) + length(output) + length(body)), 0) FROM responses
        WHERE {_OVER} AND id NOT IN (SELECT id FROM kept)
    """,
    "events": f"""
        SELECT count(*), coalesce(sum(length(body)), 0) FROM events
        WHERE response_id IN (SELECT id FROM responses WHERE {_OVER})
    """,
    "containers": f"""
        SELECT count(*), coalesce(sum((SELECT sum(size) FROM container_files WHERE container_id = containers.id)), 0)
        FROM containers WHERE {_OLD["containers"]}
    """,
    "files": f"SELECT count(*), coalesce(sum(size), 0) FROM files WHERE {_OLD['files']}",
}
_TURN = """
    INSERT INTO turns (name, who, until) VALUES (:name, :who, :now + :seconds) ON CONFLICT (name) DO UPDATE SET
        who = excluded.who, until = excluded.until WHERE who = excluded.who OR until <= :now
"""
_SPEND = """
    INSERT INTO usage (owner, minute, requests) VALUES (:owner, :minute, 0) ON CONFLICT (owner) DO UPDATE SET
        minute = :minute, requests = 0 WHERE minute < :minute
"""


class SqliteRecords:
    """The port `Records` over the file at `path`, which is made when it is not there."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
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

    # Gateways

    async def now(self) -> float:
        return self._clock()

    async def beat(self, gateway: GatewayRecord, seconds: float) -> float | None:
        now = self._clock()
        until = now + seconds
        beaten = await self._run(_BEAT, gateway.id, gateway.address, gateway.version, until, now)
        return now if beaten else None

    async def leave(self, gateway_id: str) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM gateways WHERE id = ?", (gateway_id,))
            connection.execute("UPDATE containers SET holder = NULL WHERE holder = ?", (gateway_id,))

        await self._writer.submit(work)

    async def get_gateways(self) -> list[GatewayRecord]:
        rows = self._rows("SELECT id, address, version FROM gateways WHERE until > ? ORDER BY id", self._clock())
        return [GatewayRecord(id=id, address=address, version=version) for id, address, version in rows]

    # Responses

    async def add_response(self, record: ResponseRecord, items: Sequence[ItemRecord] = ()) -> None:
        def work(connection: sqlite3.Connection) -> None:
            if connection.execute(RESPONSES.add, RESPONSES.write(record)).rowcount:
                _append_items(connection, record.conversation_id, items)

        await self._writer.submit(work)

    async def end_response(
        self,
        record: ResponseRecord,
        *,
        items: Sequence[ItemRecord] = (),
        events: Sequence[tuple[int, bytes]] = (),
        abandoned: bool = False,
    ) -> bool:
        state = (record.status, record.container_id, record.container_version, record.input, record.output, record.body)

        def work(connection: sqlite3.Connection) -> bool:
            values: tuple[object, ...]
            if abandoned:
                whose, values = f"(holder IS NULL OR holder NOT IN ({_LIVING}))", (None, record.id, self._clock())
            else:
                whose, values = "holder IS ?", (record.holder, record.id, record.holder)
            connection.execute("SAVEPOINT ending")
            try:
                ended = connection.execute(_END + whose, (*state, *values)).rowcount > 0
                if ended:
                    rows = [(record.id, number, body) for number, body in events]
                    connection.executemany("INSERT INTO events (response_id, sequence, body) VALUES (?, ?, ?)", rows)
                    _append_items(connection, record.conversation_id, items)
            except sqlite3.IntegrityError:  # a number is taken: who worked on it has told more than we knew of
                connection.execute("ROLLBACK TO ending")
                ended = False
            connection.execute("RELEASE ending")
            return ended

        return await self._writer.submit(work)

    async def get_response(self, id: str, owner: str) -> ResponseRecord | None:
        return self._one(RESPONSES, "WHERE id = ? AND owner = ?", id, owner)

    async def delete_response(self, id: str, owner: str) -> bool:
        return await self._run("DELETE FROM responses WHERE id = ? AND owner = ?", id, owner) > 0

    async def chain(self, id: str, owner: str) -> list[ResponseRecord]:
        with self._snapshot() as connection:
            ids = [found for (found,) in connection.execute(_CHAIN, (id, owner, owner))]
            found = {one: record for one in ids if (record := self._recent.get(one)) is not None}
            missing = [one for one in ids if one not in found]
            for some in batches(missing):
                for row in connection.execute(f"{RESPONSES.select} WHERE id IN ({marks(some)})", some):
                    record = found[row[0]] = RESPONSES.read(row)
                    self._recent.add(record)
        return [found[one] for one in reversed(ids)]

    async def chain_with_container(self, id: str, owner: str) -> tuple[list[ResponseRecord], FoundContainer | None]:
        told = await self.chain(id, owner)
        newest = next((one.container_id for one in reversed(told) if one.container_id is not None), None)
        return told, None if newest is None else await self.find_container([newest], owner)

    async def abandoned(self, limit: int = 100) -> list[ResponseRecord]:
        return self._all(
            RESPONSES,
            f"WHERE {_UNFINISHED} AND (holder IS NULL OR holder NOT IN ({_LIVING})) ORDER BY n LIMIT ?",
            self._clock(),
            limit,
        )

    async def add_events(self, response_id: str, holder: str, events: Sequence[tuple[int, bytes]]) -> None:
        def work(connection: sqlite3.Connection) -> Row | None:
            found: Row | None = connection.execute(
                "SELECT holder FROM responses WHERE id = ?", (response_id,)
            ).fetchone()
            if found is not None and found[0] == holder:
                # Again, where the answer to the first try was lost: then they are there.
                connection.executemany(
                    "INSERT OR IGNORE INTO events (response_id, sequence, body) VALUES (?, ?, ?)",
                    [(response_id, sequence, body) for sequence, body in events],
                )
            return found

        found = await self._writer.submit(work)
        if found is None:
            raise no_response(response_id)
        if found[0] != holder:
            raise ended_elsewhere(response_id)

    async def get_events(self, response_id: str, after: int) -> list[tuple[int, bytes]]:
        return self._rows(
            "SELECT sequence, body FROM events WHERE response_id = ? AND sequence > ? ORDER BY sequence",
            response_id,
            after,
        )

    # Conversations

    async def create_conversation(self, record: ConversationRecord, items: Sequence[ItemRecord] = ()) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute(CONVERSATIONS.insert, CONVERSATIONS.write(record))
            _append_items(connection, record.id, items)

        await self._writer.submit(work)

    async def update_conversation(self, id: str, owner: str, metadata: Mapping[str, str]) -> bool:
        written = msgspec.json.encode(metadata)
        return (
            await self._run("UPDATE conversations SET metadata = ? WHERE id = ? AND owner = ?", written, id, owner) > 0
        )

    async def get_conversation(self, id: str, owner: str) -> ConversationRecord | None:
        return self._one(CONVERSATIONS, "WHERE id = ? AND owner = ?", id, owner)

    async def delete_conversation(self, id: str, owner: str) -> bool:
        return await self._run("DELETE FROM conversations WHERE id = ? AND owner = ?", id, owner) > 0

    async def add_items(self, conversation_id: str, items: Sequence[ItemRecord]) -> None:
        await self._writer.submit(lambda connection: _append_items(connection, conversation_id, items))

    async def list_items(self, conversation_id: str, page: Page) -> list[ItemRecord]:
        return self._page(ITEMS, page, ("conversation_id", conversation_id))

    async def all_items(self, conversation_id: str) -> list[ItemRecord]:
        return self._all(ITEMS, "WHERE conversation_id = ? ORDER BY n", conversation_id)

    async def get_item(self, conversation_id: str, id: str) -> ItemRecord | None:
        return self._one(ITEMS, "WHERE conversation_id = ? AND id = ?", conversation_id, id)

    async def delete_item(self, conversation_id: str, id: str) -> bool:
        return await self._run("DELETE FROM items WHERE conversation_id = ? AND id = ?", conversation_id, id) > 0

    # Containers

    async def create_container(self, record: ContainerRecord) -> None:
        await self._run(CONTAINERS.insert, *CONTAINERS.write(record))

    async def get_container(self, id: str, owner: str) -> ContainerRecord | None:
        return self._one(CONTAINERS, "WHERE id = ? AND owner = ?", id, owner)

    async def find_container(self, ids: Sequence[str], owner: str) -> FoundContainer | None:
        there = (one for one in self._several(CONTAINERS, ids, owner) if not one.deleted)
        record = next(there, None)
        return None if record is None else FoundContainer(record, tuple(await self.all_container_files(record.id)))

    async def list_containers(self, owner: str, page: Page, name: str | None = None) -> list[ContainerRecord]:
        return self._page(CONTAINERS, page, ("owner", owner), {"deleted": False, "name": name})

    async def delete_container(self, id: str, owner: str) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            sizes = "SELECT -coalesce(sum(size), 0) FROM container_files WHERE container_id = ?"
            [freed] = connection.execute(sizes, (id,)).fetchone()
            gone = connection.execute("DELETE FROM containers WHERE id = ? AND owner = ?", (id, owner)).rowcount > 0
            if gone:
                versions.charge(connection, owner, freed)
            return gone

        return await self._writer.submit(work)

    async def update_container(
        self, id: str, *, memory: str | None = None, hosted: bytes | None = None, hold: Hold | None = None
    ) -> bool:
        update = "UPDATE containers SET memory = coalesce(?, memory), hosted = coalesce(?, hosted) WHERE id = ?"
        if hold is None:
            return await self._run(update, memory, hosted, id) > 0
        await self._run_held(update, id, hold, memory, hosted, id)
        return True

    async def touch_container(self, id: str, at: int, cells: int = 0, hold: Hold | None = None) -> None:
        touch = "UPDATE containers SET last_active_at = max(last_active_at, ?), cells = cells + ? WHERE id = ?"
        if hold is None:
            await self._run(touch, at, cells, id)
        else:
            await self._run_held(touch, id, hold, at, cells, id)

    async def hold_container(self, id: str, owner: str, gateway_id: str) -> ContainerRecord | None:
        await self._run(_HOLD, gateway_id, id, owner, gateway_id, self._clock())
        return await self.get_container(id, owner)

    async def note_sandbox(self, id: str, hold: Hold, sandbox: bytes) -> None:
        await self._run_held("UPDATE containers SET sandbox = ? WHERE id = ?", id, hold, sandbox, id)

    async def release_container(self, id: str, hold: Hold) -> bool:
        release = "UPDATE containers SET holder = NULL WHERE id = ? AND holder = ? AND epoch = ?"
        return await self._run(release, id, hold.gateway, hold.epoch) > 0

    async def find_sandboxes(self, ids: Sequence[str]) -> list[SandboxRow]:
        columns = "id, CASE WHEN holder IS NULL THEN NULL ELSE epoch END, sandbox"
        found: list[SandboxRow] = []
        for some in batches(ids):
            rows = self._rows(f"SELECT {columns} FROM containers WHERE id IN ({marks(some)}) AND NOT deleted", *some)
            found += [SandboxRow(*row) for row in rows]
        return found

    async def change_container(self, id: str, change: Change) -> Changed | None:
        made = await self._writer.submit(lambda connection: versions.make(connection, id, change))
        if made is versions.VersionRefusal.MISSING:
            raise no_container(id)
        if made is versions.VersionRefusal.FENCED:
            raise taken_over(id)
        return made if isinstance(made, Changed) else None

    async def get_version(self, id: str, number: int) -> Version | None:
        with self._snapshot() as connection:
            return versions.read(connection, id, number)

    async def get_container_file(self, container_id: str, id: str) -> ContainerFileRecord | None:
        return self._one(CONTAINER_FILES, "WHERE id = ? AND container_id = ?", id, container_id)

    async def list_container_files(self, container_id: str, page: Page) -> list[ContainerFileRecord]:
        return self._page(CONTAINER_FILES, page, ("container_id", container_id))

    async def all_container_files(self, container_id: str) -> list[ContainerFileRecord]:
        rest = "WHERE container_id = ? ORDER BY created_at, n"
        found = self._all(CONTAINER_FILES, f"{rest} LIMIT ?", container_id, _AT_ONCE + 1)
        if len(found) <= _AT_ONCE:
            return found
        return await asyncio.to_thread(self._all_aside, CONTAINER_FILES, rest, container_id)

    # Files

    async def add_file(self, record: FileRecord, most: int | None = None) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute(FILES.insert, FILES.write(record))
            versions.charge(connection, record.owner, record.size, most)

        await self._writer.submit(work)

    async def get_file(self, id: str, owner: str) -> FileRecord | None:
        return self._one(FILES, "WHERE id = ? AND owner = ?", id, owner)

    async def get_files(self, ids: Sequence[str], owner: str) -> list[FileRecord]:
        return self._several(FILES, ids, owner)

    async def list_files(self, owner: str, page: Page, purpose: str | None = None) -> list[FileRecord]:
        return self._page(FILES, page, ("owner", owner), {"purpose": purpose})

    async def delete_file(self, id: str, owner: str) -> bool:
        return await self._delete_files("id = ? AND owner = ?", id, owner) > 0

    async def expire_files(self, now: int) -> int:
        return await self._delete_files("expires_at <= ?", now)

    async def _delete_files(self, which: str, *values: object) -> int:
        def work(connection: sqlite3.Connection) -> int:
            sizes = f"SELECT owner, -sum(size) FROM files WHERE {which} GROUP BY owner"
            for owner, freed in connection.execute(sizes, values).fetchall():
                versions.charge(connection, owner, freed)
            return connection.execute(f"DELETE FROM files WHERE {which}", values).rowcount

        return await self._writer.submit(work)

    async def bytes_of(self, owner: str) -> int:
        found = self._rows("SELECT bytes FROM usage WHERE owner = ?", owner)
        return int(found[0][0]) if found else 0

    async def spend_requests(self, owner: str, minute: int, wanted: int, most: int) -> int:
        def work(connection: sqlite3.Connection) -> int:
            connection.execute(_SPEND, {"owner": owner, "minute": minute})
            [spent] = connection.execute("SELECT requests FROM usage WHERE owner = ?", (owner,)).fetchone()
            given: int = max(0, min(wanted, most - spent))
            connection.execute("UPDATE usage SET requests = requests + ? WHERE owner = ?", (given, owner))
            return given

        return await self._writer.submit(work)

    async def take_place(self, owner: str, place: str, gateway_id: str, most: int) -> bool:
        now = self._clock()

        def work(connection: sqlite3.Connection) -> bool:
            connection.execute(f"DELETE FROM places WHERE owner = ? AND gateway NOT IN ({_LIVING})", (owner, now))
            others = "SELECT count(*) FROM places WHERE owner = ? AND id <> ?"
            [taken] = connection.execute(others, (owner, place)).fetchone()
            if taken < most:
                connection.execute("INSERT OR IGNORE INTO places VALUES (?, ?, ?)", (owner, place, gateway_id))
            return bool(taken < most)

        return await self._writer.submit(work)

    async def give_place(self, owner: str, place: str) -> None:
        await self._run("DELETE FROM places WHERE owner = ? AND id = ?", owner, place)

    async def unused_blobs(self, known: Sequence[str]) -> list[str]:
        return [blob for some in batches(known) for (blob,) in self._rows(select_unused(some), *some)]

    def blob_index(self) -> SqliteBlobIndex:
        return SqliteBlobIndex(self._writer, self._rows, self._clock)

    # Retention

    async def count_old(self, kind: Kept, before: int) -> Old:
        with self._snapshot() as connection:
            values = {"before": before, "now": self._clock()}
            return Old(*connection.execute(_COUNT[kind], values).fetchone())

    async def remove_old(self, kind: Kept, before: int, limit: int = 500) -> int:
        table = "responses" if kind == "events" else kind
        find = f"SELECT id FROM {table} WHERE {_OLD[kind]} LIMIT :limit"
        values = {"before": before, "now": self._clock(), "limit": limit}

        def work(connection: sqlite3.Connection) -> int:
            found = [id for (id,) in connection.execute(find, values)]
            if kind in ("containers", "files"):
                _free_bytes(connection, kind, found)
            column = ("events", "response_id") if kind == "events" else (table, "id")
            gone = (
                connection.execute(f"DELETE FROM {column[0]} WHERE {column[1]} = ?", (id,)).rowcount for id in found
            )
            return sum(gone)

        return await self._writer.submit(work)

    async def take_turn(self, name: str, who: str, seconds: float) -> bool:
        values = {"name": name, "who": who, "now": self._clock(), "seconds": seconds}
        return await self._writer.submit(lambda connection: connection.execute(_TURN, values).rowcount > 0)

    # Keys and secrets

    async def put_key(self, record: KeyRecord) -> None:
        await self._run(_PUT_KEY, *KEYS.write(record))

    async def get_key(self, digest: str) -> KeyRecord | None:
        return self._one(KEYS, "WHERE digest = ?", digest)

    async def keys(self) -> list[KeyRecord]:
        return self._all(KEYS, "ORDER BY n")

    async def secret(self, name: str) -> bytes:
        return await self.agree(name, secrets.token_bytes(32))

    async def agree(self, name: str, value: bytes) -> bytes:
        if found := self._rows("SELECT value FROM secrets WHERE name = ?", name):  # once made, it never changes
            return bytes(found[0][0])

        def work(connection: sqlite3.Connection) -> bytes:
            connection.execute("INSERT INTO secrets (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, value))
            kept: bytes = connection.execute("SELECT value FROM secrets WHERE name = ?", (name,)).fetchone()[0]
            return kept

        return await self._writer.submit(work)

    # How all of them read and write

    async def _run(self, sql: str, *values: object) -> int:
        """One statement; how many rows it changed."""
        return await self._writer.submit(lambda connection: connection.execute(sql, values).rowcount)

    async def _run_held(self, sql: str, container_id: str, hold: Hold, *values: object) -> None:
        """One statement, only while the hold is so."""

        def work(connection: sqlite3.Connection) -> bool:
            held = versions.is_held(connection, container_id, hold)
            if held:
                connection.execute(sql, values)
            return held

        if not await self._writer.submit(work):
            raise taken_over(container_id)

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

    def _all_aside(self, table: Table[R], rest: str, *values: object) -> list[R]:
        """The same for a thread, by a connection of its own: nobody who reads meanwhile waits for it."""
        try:
            with closing(connect(self._path)) as connection:
                return [table.read(row) for row in connection.execute(f"{table.select} {rest}", values)]
        except sqlite3.Error as error:
            raise disk_errors.of_sqlite(error, self._path) from error

    def _one(self, table: Table[R], where: str, *values: object) -> R | None:
        found = self._all(table, where, *values)
        return found[0] if found else None

    def _several(self, table: Table[R], ids: Sequence[str], owner: str) -> list[R]:
        found: dict[str, R] = {}
        for some in batches(ids):
            rows = self._rows(f"{table.select} WHERE id IN ({marks(some)}) AND owner = ?", *some, owner)
            found |= {row[0]: table.read(row) for row in rows}
        return [found[id] for id in ids if id in found]

    def _page(
        self, table: Table[R], page: Page, within: tuple[str, str], only: Mapping[str, object] = MappingProxyType({})
    ) -> list[R]:
        """The rows `within` which cursors are known, and `only` those; None stands for any."""
        places = {param: self._place(table, param, cursor, within) for param, cursor in pages.list_cursors(page)}
        rest, values = pages.build_query(page, table.order, {within[0]: within[1], **only}, places, "?{}".format)
        return pages.arrange(page, self._all(table, rest, *values))

    def _place(self, table: Table[R], param: str, cursor: str, within: tuple[str, str]) -> Row:
        """Where in the order the row with this id stands."""
        order = ", ".join(table.order)
        found = self._rows(f"SELECT {order} FROM {table.name} WHERE id = ? AND {within[0]} = ?", cursor, within[1])
        if not found:
            raise no_cursor(param, cursor)
        return found[0]


def _free_bytes(connection: sqlite3.Connection, kind: str, ids: Sequence[str]) -> None:
    """Their owners have less from now on."""
    sizes = {
        "containers": "SELECT owner, (SELECT sum(size) FROM container_files WHERE container_id = c.id) AS size, id "
        "FROM containers AS c",
        "files": "SELECT owner, size, id FROM files",
    }[kind]
    for some in batches(ids):
        total = f"SELECT owner, -coalesce(sum(size), 0) FROM ({sizes} WHERE id IN ({marks(some)})) GROUP BY owner"
        for owner, freed in connection.execute(total, some).fetchall():
            versions.charge(connection, owner, freed)


def _append_items(connection: sqlite3.Connection, conversation_id: str | None, items: Sequence[ItemRecord]) -> None:
    if not items:
        return
    if not connection.execute("SELECT 1 FROM conversations WHERE id = ?", (conversation_id,)).fetchall():
        raise no_conversation(conversation_id)
    for item in items:
        added = connection.execute(
            "INSERT INTO items (conversation_id, id, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (conversation_id, item.id, item.body),
        )
        if not added.rowcount:
            raise item_is_there(conversation_id, item.id)
