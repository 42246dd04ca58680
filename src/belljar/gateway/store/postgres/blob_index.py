"""The port `BlobIndex` in PostgreSQL, beside the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from belljar.gateway.store.base import Blob
from belljar.gateway.store.blob_index import Stored
from belljar.gateway.store.postgres import failures
from belljar.gateway.store.postgres.connections import Pool, Row
from belljar.gateway.store.postgres.group_commit import GroupCommit, Write
from belljar.gateway.store.postgres.statements import NOW, is_unused

_RESERVE = f"""
    INSERT INTO belljar.garbage (object, due) SELECT object, {NOW} + make_interval(secs => $2)
    FROM unnest($1::text[]) AS one (object) ON CONFLICT DO NOTHING
"""
# Of several that write the same bytes for the first time, the first has the name; the others wait for it and find it.
_FINISH = Write(
    f"""
    WITH was AS (
        UPDATE belljar.blobs SET finished_at = greatest(finished_at, {NOW}) WHERE name = $1 RETURNING object
    ), mine AS (
        SELECT object FROM belljar.garbage WHERE object = $2 AND due > {NOW} FOR UPDATE
    ), put AS (
        INSERT INTO belljar.blobs AS b (name, object, size, finished_at)
        SELECT $1, mine.object, $3, {NOW} FROM mine WHERE NOT EXISTS (SELECT 1 FROM was)
        ON CONFLICT (name) DO UPDATE SET finished_at = greatest(b.finished_at, excluded.finished_at)
        RETURNING object
    ), holder AS (
        SELECT object FROM was UNION ALL SELECT object FROM put
    ), taken AS (
        DELETE FROM belljar.garbage WHERE object = $2 AND EXISTS (SELECT 1 FROM holder WHERE object = $2)
    ), lost AS (
        UPDATE belljar.garbage SET due = least(due, {NOW})
        WHERE object = $2 AND EXISTS (SELECT 1 FROM holder WHERE object <> $2)
    ) SELECT (SELECT object FROM holder)
    """
)
_FIND = "SELECT name, object, size FROM belljar.blobs WHERE name = ANY($1::text[])"
_RESERVED = f"SELECT object FROM belljar.garbage WHERE object = ANY($1::text[]) AND due > {NOW}"
_RENEW = f"""
    WITH locked AS (SELECT name FROM belljar.blobs WHERE name = ANY($1::text[]) ORDER BY name FOR UPDATE)
    UPDATE belljar.blobs AS b SET finished_at = greatest(finished_at, {NOW}) FROM locked WHERE b.name = locked.name
    RETURNING b.name, object, size
"""
_LIST = f"""
    SELECT name FROM belljar.blobs WHERE name > $1 AND finished_at < {NOW} - make_interval(secs => $2)
    ORDER BY name LIMIT $3
"""
_REMOVE = f"""
    WITH old AS (
        SELECT name FROM belljar.blobs
        WHERE name = ANY($1::text[]) AND finished_at < {NOW} - make_interval(secs => $2) AND {is_unused("name")}
        ORDER BY name FOR UPDATE
    ), gone AS (
        DELETE FROM belljar.blobs AS b USING old WHERE b.name = old.name RETURNING b.name, object
    ), dropped AS (
        INSERT INTO belljar.garbage (object, due) SELECT object, {NOW} FROM gone
    ) SELECT name FROM gone
"""
# For ever, so that a clock that is set back does not bring to life what is being deleted.
_TAKE = f"""
    UPDATE belljar.garbage SET due = '-infinity' WHERE object IN (
        SELECT object FROM belljar.garbage WHERE due <= {NOW} ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED
    ) RETURNING object
"""
_FORGET = "DELETE FROM belljar.garbage WHERE object = ANY($1::text[]) AND due = '-infinity'"


class PostgresBlobIndex:
    """Writes and reads by the connections of the records. What is repeated as its answer was lost comes to the same."""

    def __init__(self, pool: Pool, writes: GroupCommit) -> None:
        self._pool = pool
        self._writes = writes

    async def reserve(self, objects: Sequence[str], seconds: float) -> None:
        await self._run(_RESERVE, list(objects), seconds)

    async def finish(self, blob: Blob, object: str) -> str | None:
        try:
            [holder] = await self._writes.submit(_FINISH, blob.name, object, blob.size, key=blob.name)
        except failures.KINDS as error:
            raise failures.explain(self._pool.address, error) from None
        return None if holder is None else str(holder)

    async def find_reserved(self, objects: Sequence[str]) -> set[str]:
        return {row[0] for row in await self._run(_RESERVED, list(objects))} if objects else set()

    async def renew(self, names: Sequence[str]) -> Mapping[str, Stored]:
        known = list(await self.find(names))  # most are new: a read that finds nothing waits for no commit
        return _stored(await self._run(_RENEW, known)) if known else {}

    async def find(self, names: Sequence[str]) -> Mapping[str, Stored]:
        return _stored(await self._run(_FIND, list(names))) if names else {}

    async def list_older(self, seconds: float, *, after: str = "", limit: int = 1000) -> list[str]:
        return [row[0] for row in await self._run(_LIST, after, seconds, limit)]

    async def remove_unused(self, names: Sequence[str], seconds: float) -> list[str]:
        return [row[0] for row in await self._run(_REMOVE, list(names), seconds)]

    async def take_garbage(self, limit: int = 1000) -> list[str]:
        return [row[0] for row in await self._run(_TAKE, limit)]

    async def forget(self, objects: Sequence[str]) -> None:
        await self._run(_FORGET, list(objects))

    async def _run(self, sql: str, *values: object) -> list[Row]:
        try:
            return await self._writes.run(lambda connection: connection.fetch(sql, *values))
        except failures.KINDS as error:
            raise failures.explain(self._pool.address, error) from None


def _stored(rows: Sequence[Row]) -> dict[str, Stored]:
    return {name: Stored(object, size) for name, object, size in rows}
