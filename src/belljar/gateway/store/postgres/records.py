"""The port `Records` over PostgreSQL: several gateways share it, and all go by its clock."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import msgspec
from asyncpg import exceptions as pg

from belljar.database_address import DatabaseAddress
from belljar.errors import BadSettings
from belljar.gateway.store import pages, version_log
from belljar.gateway.store.base import (
    Change,
    Changed,
    ContainerFileRecord,
    ContainerRecord,
    ConversationRecord,
    FileRecord,
    FileRef,
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
    no_conversation,
    no_cursor,
    no_response,
    storage_exceeded,
    taken_over,
)
from belljar.gateway.store.postgres import changes, failures, request_reads
from belljar.gateway.store.postgres import statements as sql
from belljar.gateway.store.postgres.blob_index import PostgresBlobIndex
from belljar.gateway.store.postgres.connections import Connection, Pool, Row
from belljar.gateway.store.postgres.group_commit import Again, GroupCommit, Write
from belljar.gateway.store.postgres.schema import migrate
from belljar.gateway.store.response_cache import Recent
from belljar.gateway.store.rows import (
    CONTAINER_FILES,
    CONTAINERS,
    CONVERSATIONS,
    FILES,
    ITEMS,
    KEYS,
    RESPONSES,
    Table,
)

R = TypeVar("R", bound=msgspec.Struct)

_ORDER: Mapping[str, tuple[str, ...]] = {"items": ("position",)}
"""What a list is sorted by, where it is not as in SQLite."""
_VERSION = """
    SELECT 0, NULL, NULL, NULL, version, requirements FROM belljar.containers WHERE id = $1
    UNION ALL SELECT 1, path, id, blob, 0, NULL FROM belljar.container_files WHERE container_id = $1
    UNION ALL SELECT 2, NULL, NULL, NULL, number, before FROM belljar.container_versions
        WHERE container_id = $1 AND number > $2
    UNION ALL SELECT 3, NULL, NULL, NULL, cells, NULL FROM belljar.container_versions
        WHERE container_id = $1 AND number = $2
"""
_UNUSED = f"""
    SELECT known.name FROM unnest($1::text[]) WITH ORDINALITY AS known (name, nth)
    WHERE {sql.is_unused("known.name")} ORDER BY nth
"""
MOVE = "move"
"""The secret that says which store is being moved here."""
_AT_ONCE = 5000
"""Names in one question."""
_COUNTING = 600.0
"""Seconds to count what is old: all rows may have to be looked at, and nobody waits but who asked for that."""
_DONE = (1,)


class PostgresRecords:
    """The port `Records`. Of the loop that opened it."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._writes = GroupCommit(pool)
        self._recent = Recent()

    @classmethod
    async def open(cls, address: DatabaseAddress, *, moving: bool = False) -> PostgresRecords:
        """Connect, and make or renew the tables; `BadSettings` where that cannot be, or a move here is not through."""
        pool = Pool(address)

        async def prepare(connection: Connection) -> None:
            await migrate(connection, str(address))
            begun = await connection.fetchval("SELECT value FROM belljar.secrets WHERE name = $1", MOVE)
            if begun is not None and not moving and not begun.startswith(b"done "):
                raise BadSettings(
                    f"database: the move to {address} is not finished; run the same belljar move again, which goes on"
                )

        await pool.open(prepare)
        return cls(pool)

    async def close(self) -> None:
        await self._writes.close()
        await self.pool.close()

    # Gateways

    async def now(self) -> float:
        [[now]] = await self._rows(f"SELECT extract(epoch FROM {sql.NOW})::float8")
        return float(now)

    async def beat(self, gateway: GatewayRecord, seconds: float) -> float | None:
        [now] = await self._write(sql.BEAT, gateway.id, gateway.address, gateway.version, seconds)
        return None if now is None else float(now)

    async def leave(self, gateway_id: str) -> None:
        await self._write(sql.LEAVE, gateway_id)

    async def get_gateways(self) -> list[GatewayRecord]:
        rows = await self._rows(
            f"SELECT id, address, version FROM belljar.gateways WHERE until > {sql.NOW} ORDER BY id"
        )
        return [GatewayRecord(id=id, address=address, version=version) for id, address, version in rows]

    # Responses

    async def add_response(self, record: ResponseRecord, items: Sequence[ItemRecord] = ()) -> None:
        values = RESPONSES.write(record)
        if not items:
            await self._write(sql.ADD_RESPONSE, *values)
            return
        key = record.conversation_id
        await self._append(key, items, self._write(sql.ADD_RESPONSE_WITH_ITEMS, *values, *_apart(items), key=key or ""))

    async def end_response(
        self,
        record: ResponseRecord,
        *,
        items: Sequence[ItemRecord] = (),
        events: Sequence[tuple[int, bytes]] = (),
        abandoned: bool = False,
    ) -> bool:
        holder = None if abandoned else record.holder

        async def again(connection: Connection) -> Row | None:
            look = "SELECT status, output, body, holder FROM belljar.responses WHERE id = $1 FOR UPDATE"
            found = await connection.fetchrow(look, record.id)
            ours = (record.status, record.output, record.body, holder)
            return _DONE if found is not None and tuple(found) == ours else None

        writing = self._write(
            sql.END_ABANDONED if abandoned else sql.END_RESPONSE,
            record.id,
            record.status,
            record.container_id,
            record.container_version,
            record.input,
            record.output,
            record.body,
            holder,
            [number for number, _ in events],
            [body for _, body in events],
            record.conversation_id,
            *_apart(items),
            key=record.conversation_id or "",
            again=again,
        )
        try:
            [ended] = await self._append(record.conversation_id, items, writing)
        except pg.UniqueViolationError:  # a number is taken: who worked on it has told more than we knew of
            return False
        return bool(ended)

    async def get_response(self, id: str, owner: str) -> ResponseRecord | None:
        return await self._one(RESPONSES, "WHERE id = $1 AND owner = $2", id, owner)

    async def delete_response(self, id: str, owner: str) -> bool:
        return await self._delete(sql.DELETE_RESPONSE, "responses", id, owner)

    async def chain(self, id: str, owner: str) -> list[ResponseRecord]:
        known = self._recent.chain(id)
        rows = await self._rows(request_reads.CHAIN, id, owner, list(known))
        return self._keep_recent(request_reads.read_responses(rows, known, housed=False), known)

    async def chain_with_container(self, id: str, owner: str) -> tuple[list[ResponseRecord], FoundContainer | None]:
        known = self._recent.chain(id)
        rows = await self._rows(request_reads.CHAIN_WITH_CONTAINER, id, owner, list(known))
        told = self._keep_recent(request_reads.read_responses(rows, known, housed=True), known)
        return told, request_reads.read_container(rows)

    def _keep_recent(self, told: list[ResponseRecord], known: Mapping[str, ResponseRecord]) -> list[ResponseRecord]:
        for one in told:
            if one.id not in known:
                self._recent.add(one)
        return told

    async def abandoned(self, limit: int = 100) -> list[ResponseRecord]:
        return await self._all(RESPONSES, f"WHERE {sql.UNFINISHED} AND {sql.DEAD} ORDER BY n LIMIT $1", limit)

    async def add_events(self, response_id: str, holder: str, events: Sequence[tuple[int, bytes]]) -> None:
        numbers, bodies = [number for number, _ in events], [body for _, body in events]
        found, held = await self._write(sql.ADD_EVENTS, response_id, holder, numbers, bodies, key=response_id)
        if not found:
            raise no_response(response_id)
        if not held:
            raise ended_elsewhere(response_id)

    async def get_events(self, response_id: str, after: int) -> list[tuple[int, bytes]]:
        look = "SELECT sequence, body FROM belljar.events WHERE response_id = $1 AND sequence > $2 ORDER BY sequence"
        return [(number, body) for number, body in await self._rows(look, response_id, after)]

    # Conversations

    async def create_conversation(self, record: ConversationRecord, items: Sequence[ItemRecord] = ()) -> None:
        values = CONVERSATIONS.write(record)
        await self._append(record.id, items, self._write(sql.CREATE_CONVERSATION, *values, *_apart(items)))

    async def update_conversation(self, id: str, owner: str, metadata: Mapping[str, str]) -> bool:
        [changed] = await self._write(sql.UPDATE_CONVERSATION, id, owner, msgspec.json.encode(metadata), key=id)
        return bool(changed)

    async def get_conversation(self, id: str, owner: str) -> ConversationRecord | None:
        return await self._one(CONVERSATIONS, "WHERE id = $1 AND owner = $2", id, owner)

    async def delete_conversation(self, id: str, owner: str) -> bool:
        return await self._delete(sql.DELETE_CONVERSATION, "conversations", id, owner)

    async def add_items(self, conversation_id: str, items: Sequence[ItemRecord]) -> None:
        if not items:
            return

        async def again(connection: Connection) -> Row | None:
            """They are there as they would be if they had come together."""
            lock = "SELECT 1 FROM belljar.conversations WHERE id = $1 FOR UPDATE"
            look = "SELECT id, body, position FROM belljar.items WHERE conversation_id = $1 AND id = ANY($2::text[])"
            await connection.fetch(lock, conversation_id)
            rows = {row[0]: row for row in await connection.fetch(look, conversation_id, [one.id for one in items])}
            first = rows[items[0].id][2] if items[0].id in rows else 0
            there = [(one.id, one.body, first + nth) for nth, one in enumerate(items)]
            return _DONE if [tuple(rows.get(one.id, ())) for one in items] == there else None

        writing = self._write(sql.ADD_ITEMS, conversation_id, *_apart(items), key=conversation_id, again=again)
        await self._append(conversation_id, items, writing)

    async def list_items(self, conversation_id: str, page: Page) -> list[ItemRecord]:
        return await self._page(ITEMS, page, ("conversation_id", conversation_id))

    async def all_items(self, conversation_id: str) -> list[ItemRecord]:
        return await self._all(ITEMS, "WHERE conversation_id = $1 ORDER BY position", conversation_id)

    async def get_item(self, conversation_id: str, id: str) -> ItemRecord | None:
        return await self._one(ITEMS, "WHERE conversation_id = $1 AND id = $2", conversation_id, id)

    async def delete_item(self, conversation_id: str, id: str) -> bool:
        async def again(connection: Connection) -> Row | None:
            lock = "SELECT 1 FROM belljar.items WHERE conversation_id = $1 AND id = $2 FOR UPDATE"
            return None if await connection.fetch(lock, conversation_id, id) else _DONE

        [gone] = await self._write(sql.DELETE_ITEM, conversation_id, id, key=f"{conversation_id} {id}", again=again)
        return bool(gone)

    # Containers

    async def create_container(self, record: ContainerRecord) -> None:
        await self._write(sql.CREATE_CONTAINER, *CONTAINERS.write(record))

    async def get_container(self, id: str, owner: str) -> ContainerRecord | None:
        return await self._one(CONTAINERS, "WHERE id = $1 AND owner = $2", id, owner)

    async def find_container(self, ids: Sequence[str], owner: str) -> FoundContainer | None:
        return request_reads.read_container(await self._rows(request_reads.CONTAINER, list(ids), owner))

    async def list_containers(self, owner: str, page: Page, name: str | None = None) -> list[ContainerRecord]:
        return await self._page(CONTAINERS, page, ("owner", owner), {"deleted": False, "name": name})

    async def delete_container(self, id: str, owner: str) -> bool:
        return await self._delete(sql.DELETE_CONTAINER, "containers", id, owner)

    async def update_container(
        self, id: str, *, memory: str | None = None, hosted: bytes | None = None, hold: Hold | None = None
    ) -> bool:
        if hold is None:
            [changed] = await self._write(sql.UPDATE_CONTAINER, id, memory, hosted, key=id)
            return bool(changed)
        [changed] = await self._write(sql.UPDATE_HELD, id, memory, hosted, hold.gateway, hold.epoch, key=id)
        if not changed:
            raise taken_over(id)
        return True

    async def touch_container(self, id: str, at: int, cells: int = 0, hold: Hold | None = None) -> None:
        token = secrets.token_hex(8) if cells else None

        async def again(connection: Connection) -> Row | None:
            """Cells are counted once."""
            found = await connection.fetchrow("SELECT touched FROM belljar.containers WHERE id = $1 FOR UPDATE", id)
            return _DONE if found is not None and token is not None and found[0] == token else None

        if hold is None:
            await self._write(sql.TOUCH_CONTAINER, id, at, cells, token, key=id, again=again)
            return
        held = await self._write(sql.TOUCH_HELD, id, at, cells, token, hold.gateway, hold.epoch, key=id, again=again)
        if not held[0]:
            raise taken_over(id)

    async def hold_container(self, id: str, owner: str, gateway_id: str) -> ContainerRecord | None:
        row = await self._write(sql.HOLD_CONTAINER, id, owner, gateway_id, key=id)
        return await self.get_container(id, owner) if row[0] is None else CONTAINERS.read(row)

    async def note_sandbox(self, id: str, hold: Hold, sandbox: bytes) -> None:
        [held] = await self._write(sql.NOTE_SANDBOX, id, sandbox, hold.gateway, hold.epoch, key=id)
        if not held:
            raise taken_over(id)

    async def release_container(self, id: str, hold: Hold) -> bool:
        async def again(connection: Connection) -> Row | None:
            """Whoever had taken it since would have raised the epoch."""
            look = "SELECT holder, epoch FROM belljar.containers WHERE id = $1 FOR UPDATE"
            found = await connection.fetchrow(look, id)
            return _DONE if found is not None and tuple(found) == (None, hold.epoch) else None

        [released] = await self._write(sql.RELEASE_CONTAINER, id, hold.gateway, hold.epoch, key=id, again=again)
        return bool(released)

    async def find_sandboxes(self, ids: Sequence[str]) -> list[SandboxRow]:
        columns = "id, CASE WHEN holder IS NULL THEN NULL ELSE epoch END, sandbox"
        found = f"SELECT {columns} FROM belljar.containers WHERE id = ANY($1::text[]) AND NOT deleted"
        return [SandboxRow(*row) for row in await self._rows(found, list(ids))]

    async def change_container(self, id: str, change: Change) -> Changed | None:
        token = secrets.token_hex(8)
        tried = False

        async def make(connection: Connection) -> Changed | None:
            nonlocal tried
            again, tried = tried, True
            if not again and (made := await changes.make_seen(connection, id, change, token)) is not None:
                return made
            return await changes.make(connection, id, change, token, again=again)

        try:
            return await self._writes.run(make)
        except failures.KINDS as error:
            raise failures.explain(self.pool.address, error) from None

    async def get_version(self, id: str, number: int) -> Version | None:
        found: Row | None = None
        files: dict[str, FileRef] = {}
        later: list[tuple[int, bytes]] = []
        cells = 0
        for kind, path, file_id, blob, count, body in await self._rows(_VERSION, id, number):
            match kind:
                case 0:
                    found = count, body
                case 1:
                    files[path] = FileRef(file_id, blob)
                case 2:
                    later.append((count, body))
                case _:
                    cells = count
        if found is None or not 0 <= number <= found[0]:
            return None
        newest_first = (body for _, body in sorted(later, reverse=True))
        return version_log.undo(number, files, version_log.decode_requirements(found[1]), cells, newest_first)

    async def get_container_file(self, container_id: str, id: str) -> ContainerFileRecord | None:
        return await self._one(CONTAINER_FILES, "WHERE id = $1 AND container_id = $2", id, container_id)

    async def list_container_files(self, container_id: str, page: Page) -> list[ContainerFileRecord]:
        return await self._page(CONTAINER_FILES, page, ("container_id", container_id))

    async def all_container_files(self, container_id: str) -> list[ContainerFileRecord]:
        return await self._all(CONTAINER_FILES, "WHERE container_id = $1 ORDER BY created_at, n", container_id)

    # Files

    async def add_file(self, record: FileRecord, most: int | None = None) -> None:
        async def again(connection: Connection) -> Row | None:
            found = await connection.fetch("SELECT 1 FROM belljar.files WHERE id = $1", record.id)
            return _DONE if found else None

        values = (*FILES.write(record), changes.ANY_NUMBER if most is None else most)
        try:
            [added] = await self._write(sql.ADD_FILE, *values, key=record.owner, again=again)
        except pg.UniqueViolationError:  # its id is random: this is the one that was added just now
            return
        if not added and most is not None:
            raise storage_exceeded(most)

    async def get_file(self, id: str, owner: str) -> FileRecord | None:
        return await self._one(FILES, "WHERE id = $1 AND owner = $2", id, owner)

    async def get_files(self, ids: Sequence[str], owner: str) -> list[FileRecord]:
        return await self._several(FILES, ids, owner)

    async def list_files(self, owner: str, page: Page, purpose: str | None = None) -> list[FileRecord]:
        return await self._page(FILES, page, ("owner", owner), {"purpose": purpose})

    async def delete_file(self, id: str, owner: str) -> bool:
        return await self._delete(sql.DELETE_FILE, "files", id, owner)

    async def expire_files(self, now: int) -> int:
        gone = 0
        while some := (await self._write(sql.EXPIRE_FILES, now))[0]:
            gone += int(some)
        return gone

    async def bytes_of(self, owner: str) -> int:
        found = await self._rows("SELECT bytes FROM belljar.usage WHERE owner = $1", owner)
        return int(found[0][0]) if found else 0

    async def spend_requests(self, owner: str, minute: int, wanted: int, most: int) -> int:
        """Where the answer was lost, what was taken then is lost to the owner until the minute is over."""
        [given] = await self._write(sql.SPEND_REQUESTS, owner, minute, wanted, most, key=owner)
        return int(given)

    async def take_place(self, owner: str, place: str, gateway_id: str, most: int) -> bool:
        [taken] = await self._write(sql.TAKE_PLACE, owner, place, gateway_id, most, key=owner)
        return bool(taken)

    async def give_place(self, owner: str, place: str) -> None:
        await self._write(sql.GIVE_PLACE, owner, place, key=owner)

    async def unused_blobs(self, known: Sequence[str]) -> list[str]:
        unused: list[str] = []
        for start in range(0, len(known), _AT_ONCE):
            unused += [row[0] for row in await self._rows(_UNUSED, list(known[start : start + _AT_ONCE]))]
        return unused

    # Retention

    async def count_old(self, kind: Kept, before: int) -> Old:
        try:
            [[count, size]] = await self.pool.run(lambda one: one.fetch(sql.COUNT_OLD[kind], before, timeout=_COUNTING))
        except failures.KINDS as error:
            raise failures.explain(self.pool.address, error) from None
        return Old(count, size)

    async def remove_old(self, kind: Kept, before: int, limit: int = 500) -> int:
        [gone] = await self._write(sql.REMOVE_OLD[kind], before, limit)
        return int(gone)

    async def take_turn(self, name: str, who: str, seconds: float) -> bool:
        [taken] = await self._write(sql.TAKE_TURN, name, who, seconds, key=name)
        return bool(taken)

    # Keys and secrets

    async def put_key(self, record: KeyRecord) -> None:
        await self._write(sql.PUT_KEY, *KEYS.write(record), key=record.id)

    async def get_key(self, digest: str) -> KeyRecord | None:
        return await self._one(KEYS, "WHERE digest = $1", digest)

    async def keys(self) -> list[KeyRecord]:
        return await self._all(KEYS, "ORDER BY n")

    async def secret(self, name: str) -> bytes:
        if found := await self._rows("SELECT value FROM belljar.secrets WHERE name = $1", name):
            return bytes(found[0][0])  # once made, it never changes
        return await self.agree(name, secrets.token_bytes(32))

    async def agree(self, name: str, value: bytes) -> bytes:
        [agreed] = await self._write(sql.AGREE, name, value, key=name)
        return bytes(agreed)

    def blob_index(self) -> PostgresBlobIndex:
        return PostgresBlobIndex(self.pool, self._writes)

    # How all of them read and write

    async def _write(self, write: Write, *values: object, key: str = "", again: Again | None = None) -> Row:
        """Its row, once it is committed. What a constraint forbids is told as PostgreSQL tells it."""
        try:
            return await self._writes.submit(write, *values, key=key, again=again)
        except pg.IntegrityConstraintViolationError:
            raise
        except failures.KINDS as error:
            raise failures.explain(self.pool.address, error) from None

    async def _append(self, conversation_id: str | None, items: Sequence[ItemRecord], writing: Awaitable[Row]) -> Row:
        """A write that adds items to a conversation, with what may be wrong with those."""
        try:
            return await writing
        except (pg.ForeignKeyViolationError, pg.NotNullViolationError):
            raise no_conversation(conversation_id) from None
        except pg.UniqueViolationError as error:
            if error.constraint_name != "items_pkey":
                raise
        look = "SELECT id FROM belljar.items WHERE conversation_id = $1 AND id = ANY($2::text[])"
        there = {row[0] for row in await self._rows(look, conversation_id, [one.id for one in items])}
        for one in items:
            if one.id in there:
                raise item_is_there(conversation_id, one.id)
            there.add(one.id)
        raise item_is_there(conversation_id, items[0].id)  # it was, and has been deleted since

    async def _delete(self, write: Write, table: str, id: str, owner: str) -> bool:
        async def again(connection: Connection) -> Row | None:
            """It is gone; by whom cannot be told any more."""
            lock = f"SELECT 1 FROM belljar.{table} WHERE id = $1 AND owner = $2 FOR UPDATE"
            return None if await connection.fetch(lock, id, owner) else _DONE

        [gone] = await self._write(write, id, owner, key=id, again=again)
        return bool(gone)

    async def _rows(self, statement: str, *values: object) -> list[Row]:
        try:
            return await self.pool.fetch(statement, *values)
        except pg.CharacterNotInRepertoireError:  # nothing that is stored has a NUL in it
            return []
        except failures.KINDS as error:
            raise failures.explain(self.pool.address, error) from None

    async def _all(self, table: Table[R], rest: str, *values: object) -> list[R]:
        return [table.read(row) for row in await self._rows(f"{sql.select(table)} {rest}", *values)]

    async def _one(self, table: Table[R], where: str, *values: object) -> R | None:
        found = await self._all(table, where, *values)
        return found[0] if found else None

    async def _several(self, table: Table[R], ids: Sequence[str], owner: str) -> list[R]:
        if not ids:
            return []
        rows = await self._rows(f"{sql.select(table)} WHERE id = ANY($1::text[]) AND owner = $2", list(ids), owner)
        found = {row[0]: table.read(row) for row in rows}
        return [found[id] for id in ids if id in found]

    async def _page(
        self, table: Table[R], page: Page, within: tuple[str, str], only: Mapping[str, object] = MappingProxyType({})
    ) -> list[R]:
        """The rows `within` which cursors are known, and `only` those; None stands for any."""
        order = _ORDER.get(table.name, table.order)
        places = {
            param: await self._place(table, order, param, cursor, within) for param, cursor in pages.list_cursors(page)
        }
        rest, values = pages.build_query(page, order, {within[0]: within[1], **only}, places, "${}".format)
        return pages.arrange(page, await self._all(table, rest, *values))

    async def _place(
        self, table: Table[R], order: tuple[str, ...], param: str, cursor: str, within: tuple[str, str]
    ) -> Row:
        """Where in the order the row with this id stands."""
        look = f"SELECT {', '.join(order)} FROM belljar.{table.name} WHERE id = $1 AND {within[0]} = $2"
        found = await self._rows(look, cursor, within[1])
        if not found:
            raise no_cursor(param, cursor)
        return found[0]


def _apart(items: Sequence[ItemRecord]) -> tuple[list[str], list[bytes]]:
    return [one.id for one in items], [one.body for one in items]
