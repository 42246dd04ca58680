"""The next version of a container in PostgreSQL: made in one transaction that has locked its row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from belljar.gateway.store import version_log
from belljar.gateway.store.base import (
    Change,
    Changed,
    ContainerFileRecord,
    FileRef,
    Seen,
    no_container,
    storage_exceeded,
    taken_over,
)
from belljar.gateway.store.postgres.connections import Connection, Row, transaction
from belljar.gateway.store.postgres.statements import select
from belljar.gateway.store.rows import CONTAINER_FILES
from belljar.gateway.store.version_log import Before

TIMEOUT = 60.0
"""Seconds for one statement: an archive may have fifty thousand files."""

_LOCK = """
    SELECT version, cells, requirements, owner, holder, epoch FROM belljar.containers WHERE id = $1 FOR UPDATE
"""
_MADE = "SELECT number, before FROM belljar.container_versions WHERE container_id = $1 AND token = $2"
_THERE = f"{select(CONTAINER_FILES)} WHERE container_id = $1 AND (path = ANY($2::text[]) OR id = ANY($3::text[]))"
_DELETE = "DELETE FROM belljar.container_files WHERE id = ANY($1::text[])"


def _put(first: int, whose: str = "") -> str:
    """Files of the container $1, given as arrays from this value on: new at their paths, or newer content there."""
    types = ("text", "text", "bigint", "bigint", "float8", "text", "text", "text")
    arrays = ", ".join(f"${number}::{type}[]" for number, type in enumerate(types, first))
    return f"""
        INSERT INTO belljar.container_files (id, container_id, path, created_at, size, modified, source, blob, type)
        SELECT one.id, $1, path, created_at, size, modified, source, blob, type
        FROM {whose} unnest({arrays}) WITH ORDINALITY
            AS one (id, path, created_at, size, modified, source, blob, type, nth)
        ORDER BY nth
        ON CONFLICT (container_id, path) DO UPDATE SET
            size = excluded.size, modified = excluded.modified, source = excluded.source, blob = excluded.blob,
            type = excluded.type
    """


_PUT = _put(2)
_ADVANCE = """
    WITH changed AS (
        UPDATE belljar.containers SET version = $2, requirements = $3, bytes = greatest(bytes + $4, 0), cells = $5,
            last_active_at = greatest(last_active_at, $8), sandbox = coalesce($9, sandbox)
        WHERE id = $1
    ) INSERT INTO belljar.container_versions (container_id, number, cells, before, token) VALUES ($1, $2, $5, $6, $7)
"""
MAKE_SEEN = f"""
    WITH there AS (
        SELECT path, id, blob FROM belljar.container_files
        WHERE container_id = $1 AND (path = ANY($11::text[]) OR id = ANY($18::text[]))
    ), same AS (
        SELECT 1 FROM there JOIN unnest($19::text[], $20::text[], $21::text[]) AS seen (path, id, blob)
            USING (path, id, blob)
    ), changed AS (
        UPDATE belljar.containers SET version = version + 1, cells = cells + $5, bytes = greatest(bytes + $9, 0),
            last_active_at = greatest(last_active_at, $6), sandbox = coalesce($7, sandbox)
        WHERE id = $1 AND version = $4 AND ($2::text IS NULL OR holder = $2 AND epoch = $3)
            AND (SELECT count(*) FROM there) = cardinality($19::text[])
            AND (SELECT count(*) FROM same) = cardinality($19::text[])
        RETURNING version, cells, owner
    ), gone AS (
        DELETE FROM belljar.container_files AS f USING changed WHERE f.id = ANY($18::text[])
    ), put AS (
        {_put(10, "changed,")}
    ), charged AS (
        INSERT INTO belljar.usage AS u (owner, bytes) SELECT owner, greatest($9, 0) FROM changed WHERE $9 <> 0
        ON CONFLICT (owner) DO UPDATE SET bytes = greatest(u.bytes + $9, 0)
    )
    INSERT INTO belljar.container_versions (container_id, number, cells, before, token)
    SELECT $1, version, cells, $8, $22 FROM changed RETURNING number
"""
"""A change whole in one statement, by who knows what is there. It rests on the version alone: where the row has that
one, every file is as the statement sees it, since whoever changes one changes the version under the row's lock."""
_CHARGE = """
    INSERT INTO belljar.usage AS u (owner, bytes) SELECT $1, greatest($2::bigint, 0) WHERE $2::bigint <= $3::bigint
    ON CONFLICT (owner) DO UPDATE SET bytes = greatest(u.bytes + $2::bigint, 0)
        WHERE $2::bigint < 0 OR u.bytes + $2::bigint <= $3::bigint
    RETURNING 1
"""
ANY_NUMBER = (1 << 63) - 1
"""Bytes that an owner may have where nothing is said."""


async def make(connection: Connection, id: str, change: Change, token: str, *, again: bool) -> Changed | None:
    """Make it, or find what came of it where the answer was lost; None where it is of another version than there is."""
    async with transaction(connection):
        found = await connection.fetchrow(_LOCK, id)
        if found is None:
            raise no_container(id)
        if again and (made := await connection.fetchrow(_MADE, id, token)) is not None:
            return await _find_made(connection, id, change, made)
        version, cells, requirements, owner, *held = found
        if change.hold is not None and held != [change.hold.gateway, change.hold.epoch]:
            raise taken_over(id)
        if change.after is not None and change.after != version:
            return None
        there = await _find(connection, id, change)
        gone = [one for one in change.gone if one.container_id == id and _take_away(there, one)]
        before: dict[str, FileRef | None] = {one.path: FileRef(one.id, one.blob) for one in gone}
        files, added = _place(change.put, there, before)
        added -= sum(one.size for one in gone)
        new = version_log.advance(change, version, requirements, cells, before)
        if new is not None:
            if gone:
                await connection.execute(_DELETE, [one.id for one in gone], timeout=TIMEOUT)
            if files:
                await connection.execute(_PUT, id, *_columns(files), timeout=TIMEOUT)
            version = new.version
            values = (id, version, new.requirements, added, new.cells, new.body, token, change.at, new.sandbox)
            await connection.execute(_ADVANCE, *values)
            await _charge(connection, owner, added, change.most)
        return Changed(version=version, files=tuple(files), gone=tuple(gone))


async def make_seen(connection: Connection, id: str, change: Change, token: str) -> Changed | None:
    """Make it in one go by what its maker has seen; None where that cannot be told to be so any more, or is too much.

    Then nothing was done.
    """
    seen = change.seen
    by_path = {one.path: one for one in change.put}
    if seen is None or not _rests_on(seen, change) or any(one.path in by_path for one in change.gone):
        return None
    there = {path: seen.files[path] for path in by_path if path in seen.files}
    before: dict[str, FileRef | None] = {one.path: FileRef(one.id, one.blob) for one in change.gone}
    expected = [*change.gone, *there.values()]
    files, added = _place(change.put, there, before)
    added -= sum(one.size for one in change.gone)
    hold = (None, None) if change.hold is None else (change.hold.gateway, change.hold.epoch)
    made = await connection.fetchrow(
        MAKE_SEEN,
        id,
        *hold,
        seen.version,
        change.cells,
        change.at,
        seen.sandbox,
        version_log.encode(Before(before, None)),
        added,
        *_columns(files),
        [one.id for one in change.gone],
        [one.path for one in expected],
        [one.id for one in expected],
        [one.blob for one in expected],
        token,
        timeout=TIMEOUT,
    )
    return None if made is None else Changed(version=made[0], files=tuple(files), gone=tuple(change.gone))


def _rests_on(seen: Seen, change: Change) -> bool:
    """That a change needs to know nothing but what was seen, and is one in any case."""
    changes = change.ran or change.put or change.gone
    late = change.after is not None and change.after != seen.version
    return bool(changes) and not late and change.requirements is None and change.most is None


async def _find(connection: Connection, id: str, change: Change) -> dict[str, ContainerFileRecord]:
    """What is at the paths that the change puts, and what it takes away, by path."""
    if not change.put and not change.gone:
        return {}
    paths, ids = [one.path for one in change.put], [one.id for one in change.gone]
    rows = await connection.fetch(_THERE, id, paths, ids, timeout=TIMEOUT)
    return {one.path: one for one in map(CONTAINER_FILES.read, rows)}


def _take_away(there: dict[str, ContainerFileRecord], file: ContainerFileRecord) -> bool:
    found = there.get(file.path)
    if found is None or (found.id, found.blob) != (file.id, file.blob):
        return False
    del there[file.path]
    return True


def _place(
    put: Sequence[ContainerFileRecord], there: dict[str, ContainerFileRecord], before: dict[str, FileRef | None]
) -> tuple[list[ContainerFileRecord], int]:
    """What is kept, and the bytes that it adds; `before` hears of what was at the paths."""
    files: list[ContainerFileRecord] = []
    added = 0
    for record in put:
        was = there.get(record.path)
        before.setdefault(record.path, None if was is None else FileRef(was.id, was.blob))
        kept = record if was is None else structs.replace(record, id=was.id, created_at=was.created_at)
        added += kept.size - (0 if was is None else was.size)
        there[record.path] = kept
        files.append(kept)
    return files, added


def _columns(files: Sequence[ContainerFileRecord]) -> list[list[Any]]:
    """As `_PUT` wants them; of those at one path the last."""
    last = {one.path: one for one in files}.values()
    names = ("id", "path", "created_at", "size", "modified", "source", "blob", "type")
    return [[getattr(one, name) for one in last] for name in names]


async def _charge(connection: Connection, owner: str, added: int, most: int | None) -> None:
    if added and not await connection.fetch(_CHARGE, owner, added, ANY_NUMBER if most is None else most):
        assert most is not None
        raise storage_exceeded(most)


async def _find_made(connection: Connection, id: str, change: Change, made: Row) -> Changed:
    number, body = made
    before = version_log.decode(body).files
    there = await _find(connection, id, change)
    kept = [
        structs.replace(one, id=now.id, created_at=now.created_at) if (now := there.get(one.path)) is not None else one
        for one in change.put
    ]
    gone = [one for one in change.gone if before.get(one.path) == FileRef(one.id, one.blob)]
    return Changed(version=number, files=tuple(kept), gone=tuple(gone))
