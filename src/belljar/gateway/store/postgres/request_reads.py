"""What a request begins with, in one question each: a chain of responses, a container with its files, both."""

from __future__ import annotations

from collections.abc import Mapping

from belljar.gateway.store.base import ContainerFileRecord, ContainerRecord, FoundContainer, ResponseRecord
from belljar.gateway.store.postgres.connections import Row
from belljar.gateway.store.rows import CONTAINER_FILES, CONTAINERS, RESPONSES


def _columns(of: str, columns: str) -> str:
    return ", ".join(f"{of}.{one}" for one in columns.split(", "))


_UP = f"""
    WITH RECURSIVE up (id, previous_id, container_id, nth) AS (
        SELECT id, previous_id, container_id, 0 FROM belljar.responses WHERE id = $1 AND owner = $2
        UNION ALL SELECT r.id, r.previous_id, r.container_id, up.nth + 1
        FROM up JOIN belljar.responses AS r ON r.id = up.previous_id WHERE r.owner = $2
    ) CYCLE id SET bites USING trail, told AS (
        SELECT up.id AS nth_id, nth, {_columns("r", RESPONSES.columns)} FROM up
        LEFT JOIN belljar.responses AS r ON r.id = up.id AND r.id <> ALL ($3::text[])
        WHERE NOT bites
    )
"""
"""Without the bodies of those that are known."""
_FURNISHED = f"""
    furnished AS (
        SELECT {_columns("f", CONTAINER_FILES.columns)}, f.n
        FROM housed JOIN belljar.container_files AS f ON f.container_id = housed.id
    )
"""
_FOUND = f"""
    {_columns("furnished", CONTAINER_FILES.columns)}, CASE WHEN housed.id IS NOT NULL THEN ROW(housed.*) END
"""
"""A row has a file, or else one thing that is no file, as a value: there may be many files, and of the rest little."""
CHAIN = f"{_UP} SELECT told.* FROM told ORDER BY nth DESC"
CHAIN_WITH_CONTAINER = f"""
    {_UP}, housed AS MATERIALIZED (
        SELECT {CONTAINERS.columns} FROM belljar.containers
        WHERE owner = $2 AND NOT deleted AND id = (
            SELECT container_id FROM up WHERE NOT bites AND container_id IS NOT NULL ORDER BY nth LIMIT 1
        )
    ), {_FURNISHED}
    SELECT {_FOUND}, CASE WHEN told.nth IS NOT NULL THEN ROW(told.*) END
    FROM told FULL JOIN housed ON false FULL JOIN furnished ON false
    ORDER BY told.nth DESC, furnished.created_at, furnished.n
"""
CONTAINER = f"""
    WITH housed AS MATERIALIZED (
        SELECT {_columns("c", CONTAINERS.columns)}
        FROM unnest($1::text[]) WITH ORDINALITY AS asked (id, nth) JOIN belljar.containers AS c USING (id)
        WHERE owner = $2 AND NOT deleted ORDER BY nth LIMIT 1
    ), {_FURNISHED}
    SELECT {_FOUND} FROM housed FULL JOIN furnished ON false ORDER BY furnished.created_at, furnished.n
"""
_HOUSED = CONTAINER_FILES.columns.count(",") + 1
_TOLD = _HOUSED + 1


def read_container(rows: list[Row]) -> FoundContainer | None:
    record: ContainerRecord | None = None
    files: list[ContainerFileRecord] = []
    for row in rows:
        if row[0] is not None:
            files.append(CONTAINER_FILES.read(row))
        elif row[_HOUSED] is not None:
            record = CONTAINERS.read(row[_HOUSED])
    return None if record is None else FoundContainer(record, tuple(files))


def read_responses(rows: list[Row], known: Mapping[str, ResponseRecord], *, housed: bool) -> list[ResponseRecord]:
    """Those of a chain, oldest first, which the rows tell with a container or without."""
    told = [row[_TOLD] for row in rows if row[_TOLD] is not None] if housed else rows
    return [known.get(one[0]) or RESPONSES.read(tuple(one)[2:]) for one in told]
