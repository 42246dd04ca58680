"""Versions of a container as rows: each is made in the transaction of its change, and undone to see an older one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from enum import Enum

import msgspec
from msgspec import Struct, structs

from belljar.gateway.store.base import Change, Changed, ContainerFileRecord, FileRef, Version
from belljar.gateway.store.rows import CONTAINER_FILES

_encode_requirements = msgspec.json.encode
_decode_requirements = msgspec.json.Decoder(tuple[str, ...]).decode


class Refusal(Enum):
    """Why a change was not made."""

    MISSING = "missing"
    MOVED_ON = "moved on"


class Before(Struct, frozen=True, array_like=True, omit_defaults=True):
    """What a version changed, as it was before: enough to undo it."""

    files: dict[str, FileRef | None] = {}
    """By path; None where there was none."""
    requirements: tuple[str, ...] | None = None
    """None where they stayed."""


_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(Before).decode


def make(connection: sqlite3.Connection, id: str, change: Change) -> Changed | Refusal:
    """The next version, inside a transaction that nobody else writes in: so a number is given once."""
    found = connection.execute("SELECT version, cells, requirements FROM containers WHERE id = ?", (id,)).fetchone()
    if found is None:
        return Refusal.MISSING
    version, cells, requirements = found
    if change.after is not None and change.after != version:
        return Refusal.MOVED_ON
    gone = _take_away(connection, change.gone)
    before: dict[str, FileRef | None] = {one.path: FileRef(one.id, one.blob) for one in gone}
    files = _put(connection, change.put, before)
    had = None if change.requirements is None else _decode_requirements(requirements)
    if before or change.ran or had != change.requirements:
        version += 1
        if change.requirements is not None:
            requirements = _encode_requirements(change.requirements)
        connection.execute(
            "UPDATE containers SET version = ?, requirements = ? WHERE id = ?", (version, requirements, id)
        )
        connection.execute(
            "INSERT INTO container_versions (container_id, number, cells, before) VALUES (?, ?, ?, ?)",
            (id, version, cells, _encode(Before(before, had))),
        )
    return Changed(version=version, files=tuple(files), gone=tuple(gone))


def _take_away(connection: sqlite3.Connection, files: Sequence[ContainerFileRecord]) -> list[ContainerFileRecord]:
    delete = "DELETE FROM container_files WHERE id = ? AND container_id = ? AND blob = ?"
    return [one for one in files if connection.execute(delete, (one.id, one.container_id, one.blob)).rowcount]


def _put(
    connection: sqlite3.Connection, records: Sequence[ContainerFileRecord], before: dict[str, FileRef | None]
) -> Sequence[ContainerFileRecord]:
    """What is kept; `before` hears of what was at the paths."""
    if not records:
        return records
    rows = list(map(CONTAINER_FILES.write, records))
    connection.execute("SAVEPOINT put")
    if connection.executemany(CONTAINER_FILES.add, rows).rowcount == len(rows):
        kept = records  # all new, as those of an archive mostly are: nothing has to be looked up
        for record in records:
            before.setdefault(record.path, None)
    else:
        connection.execute("ROLLBACK TO put")
        kept = [_replace(connection, record, before) for record in records]
    connection.execute("RELEASE put")
    return kept


def _replace(
    connection: sqlite3.Connection, record: ContainerFileRecord, before: dict[str, FileRef | None]
) -> ContainerFileRecord:
    there = connection.execute(
        "SELECT id, blob, created_at FROM container_files WHERE container_id = ? AND path = ?",
        (record.container_id, record.path),
    ).fetchone()
    connection.execute(CONTAINER_FILES.upsert, CONTAINER_FILES.write(record))
    if there is None:
        before.setdefault(record.path, None)
        return record
    id, blob, created_at = there
    before.setdefault(record.path, FileRef(id, blob))
    return structs.replace(record, id=id, created_at=created_at)


def read(connection: sqlite3.Connection, id: str, number: int) -> Version | None:
    """The state at this number: today's, with what came later undone from the newest on."""
    found = connection.execute("SELECT version, requirements FROM containers WHERE id = ?", (id,)).fetchone()
    if found is None or not 0 <= number <= found[0]:
        return None
    requirements: tuple[str, ...] = _decode_requirements(found[1])
    rows = connection.execute("SELECT path, id, blob FROM container_files WHERE container_id = ?", (id,))
    files = {path: FileRef(file_id, blob) for path, file_id, blob in rows}
    later = connection.execute(
        "SELECT before FROM container_versions WHERE container_id = ? AND number > ? ORDER BY number DESC", (id, number)
    )
    for (body,) in later:
        before = _decode(body)
        for path, ref in before.files.items():
            if ref is None:
                files.pop(path, None)
            else:
                files[path] = ref
        if before.requirements is not None:
            requirements = before.requirements
    counted = connection.execute(
        "SELECT cells FROM container_versions WHERE container_id = ? AND number = ?", (id, number)
    ).fetchone()
    return Version(number=number, files=files, requirements=requirements, cells=0 if counted is None else counted[0])
