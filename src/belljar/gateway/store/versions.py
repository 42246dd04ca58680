"""Versions of a container as rows: each is made in the transaction of its change, and undone to see an older one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from enum import Enum

from msgspec import structs

from belljar.gateway.store import version_log
from belljar.gateway.store.base import (
    Change,
    Changed,
    ContainerFileRecord,
    FileRef,
    Hold,
    Version,
    storage_exceeded,
)
from belljar.gateway.store.rows import CONTAINER_FILES

_ADVANCE = """
    UPDATE containers SET version = ?, requirements = ?, cells = ?, last_active_at = max(last_active_at, ?),
        sandbox = coalesce(?, sandbox)
    WHERE id = ?
"""


class VersionRefusal(Enum):
    """Why a change was not made."""

    MISSING = "missing"
    MOVED_ON = "moved on"
    FENCED = "fenced"


def make(connection: sqlite3.Connection, id: str, change: Change) -> Changed | VersionRefusal:
    """The next version, inside a transaction that nobody else writes in: so a number is given once."""
    columns = "version, cells, requirements, owner, holder, epoch"
    found = connection.execute(f"SELECT {columns} FROM containers WHERE id = ?", (id,)).fetchone()
    if found is None:
        return VersionRefusal.MISSING
    version, cells, requirements, owner, *held = found
    if change.hold is not None and held != [change.hold.gateway, change.hold.epoch]:
        return VersionRefusal.FENCED
    if change.after is not None and change.after != version:
        return VersionRefusal.MOVED_ON
    gone = _take_away(connection, change.gone)
    before: dict[str, FileRef | None] = {one.path: FileRef(one.id, one.blob) for one in gone}
    files, replaced = _put(connection, change.put, before)
    added = sum(one.size for one in files) - replaced - sum(one.size for one in gone)
    charge(connection, owner, added, change.most)
    new = version_log.advance(change, version, requirements, cells, before)
    if new is not None:
        version = new.version
        connection.execute(_ADVANCE, (version, new.requirements, new.cells, change.at, new.sandbox, id))
        connection.execute(
            "INSERT INTO container_versions (container_id, number, cells, before) VALUES (?, ?, ?, ?)",
            (id, version, new.cells, new.body),
        )
    return Changed(version=version, files=tuple(files), gone=tuple(gone))


def _take_away(connection: sqlite3.Connection, files: Sequence[ContainerFileRecord]) -> list[ContainerFileRecord]:
    delete = "DELETE FROM container_files WHERE id = ? AND container_id = ? AND blob = ?"
    return [one for one in files if connection.execute(delete, (one.id, one.container_id, one.blob)).rowcount]


def _put(
    connection: sqlite3.Connection, records: Sequence[ContainerFileRecord], before: dict[str, FileRef | None]
) -> tuple[Sequence[ContainerFileRecord], int]:
    """What is kept, and the bytes of what it replaced; `before` hears of what was at the paths."""
    if not records:
        return records, 0
    rows = list(map(CONTAINER_FILES.write, records))
    replaced = 0
    connection.execute("SAVEPOINT put")
    if connection.executemany(CONTAINER_FILES.add, rows).rowcount == len(rows):
        kept = records  # all new, as those of an archive mostly are: nothing has to be looked up
        for record in records:
            before.setdefault(record.path, None)
    else:
        connection.execute("ROLLBACK TO put")
        done = [_replace(connection, record, before) for record in records]
        kept, replaced = [record for record, _ in done], sum(size for _, size in done)
    connection.execute("RELEASE put")
    return kept, replaced


def _replace(
    connection: sqlite3.Connection, record: ContainerFileRecord, before: dict[str, FileRef | None]
) -> tuple[ContainerFileRecord, int]:
    there = connection.execute(
        "SELECT id, blob, created_at, size FROM container_files WHERE container_id = ? AND path = ?",
        (record.container_id, record.path),
    ).fetchone()
    connection.execute(CONTAINER_FILES.upsert, CONTAINER_FILES.write(record))
    if there is None:
        before.setdefault(record.path, None)
        return record, 0
    id, blob, created_at, size = there
    before.setdefault(record.path, FileRef(id, blob))
    return structs.replace(record, id=id, created_at=created_at), size


def is_held(connection: sqlite3.Connection, id: str, hold: Hold) -> bool:
    """Whether the hold is still so; a container that is gone is nobody's."""
    held = "SELECT 1 FROM containers WHERE id = ? AND holder = ? AND epoch = ?"
    return bool(connection.execute(held, (id, hold.gateway, hold.epoch)).fetchall())


def charge(connection: sqlite3.Connection, owner: str, added: int, most: int | None = None) -> None:
    """The owner has so many bytes more; `StorageExceeded` where that is too much, and then nothing was done."""
    if not added:
        return
    connection.execute(
        "INSERT INTO usage (owner, bytes) VALUES (:owner, max(:added, 0))"
        " ON CONFLICT (owner) DO UPDATE SET bytes = max(bytes + :added, 0)",
        {"owner": owner, "added": added},
    )
    if most is not None and added > 0:
        [bytes] = connection.execute("SELECT bytes FROM usage WHERE owner = ?", (owner,)).fetchone()
        if bytes > most:
            raise storage_exceeded(most)


def read(connection: sqlite3.Connection, id: str, number: int) -> Version | None:
    """The state at this number: today's, with what came later undone from the newest on."""
    found = connection.execute("SELECT version, requirements FROM containers WHERE id = ?", (id,)).fetchone()
    if found is None or not 0 <= number <= found[0]:
        return None
    requirements = version_log.decode_requirements(found[1])
    rows = connection.execute("SELECT path, id, blob FROM container_files WHERE container_id = ?", (id,))
    files = {path: FileRef(file_id, blob) for path, file_id, blob in rows}
    later = connection.execute(
        "SELECT before FROM container_versions WHERE container_id = ? AND number > ? ORDER BY number DESC", (id, number)
    )
    counted = connection.execute(
        "SELECT cells FROM container_versions WHERE container_id = ? AND number = ?", (id, number)
    ).fetchone()
    cells = 0 if counted is None else counted[0]
    return version_log.undo(number, files, requirements, cells, (body for (body,) in later))
