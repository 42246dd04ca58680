"""The port `BlobIndex` in the SQLite file that has the records."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence

from belljar.gateway.store.base import Blob
from belljar.gateway.store.blob_index import Stored
from belljar.gateway.store.rows import Row
from belljar.gateway.store.writer import Writer

_AT_ONCE = 500
"""Values in one statement: some builds of SQLite take 999."""
_UNUSED = """
    WITH known (name) AS (VALUES {}) SELECT name FROM known
    WHERE NOT EXISTS (SELECT 1 FROM files WHERE blob = name)
    AND NOT EXISTS (SELECT 1 FROM container_files WHERE blob >= name AND blob < name || 'A')
"""
"""Up to `A`: a part of a blob has `@` behind the blob's name."""


class SqliteBlobIndex:
    """Writes and reads by the connections of the records."""

    def __init__(self, writer: Writer, rows: Callable[..., list[Row]], clock: Callable[[], float]) -> None:
        self._writer = writer
        self._rows = rows
        self._clock = clock

    async def reserve(self, objects: Sequence[str], seconds: float) -> None:
        due = self._clock() + seconds
        rows = [(one, due) for one in objects]
        await self._writer.submit(lambda c: c.executemany("INSERT INTO garbage (object, due) VALUES (?, ?)", rows))

    async def finish(self, blob: Blob, object: str) -> str | None:
        now = self._clock()

        def work(connection: sqlite3.Connection) -> str | None:
            renewed = connection.execute(
                "UPDATE blobs SET finished_at = max(finished_at, ?) WHERE name = ? RETURNING object", (now, blob.name)
            ).fetchall()
            if renewed:
                [(holder,)] = renewed
                if holder != object:
                    connection.execute("UPDATE garbage SET due = min(due, ?) WHERE object = ?", (now, object))
                return str(holder)
            if not connection.execute("DELETE FROM garbage WHERE object = ? AND due > ?", (object, now)).rowcount:
                return None
            connection.execute(
                "INSERT INTO blobs (name, object, size, finished_at) VALUES (?, ?, ?, ?)",
                (blob.name, object, blob.size, now),
            )
            return object

        return await self._writer.submit(work)

    async def find_reserved(self, objects: Sequence[str]) -> set[str]:
        sql, now = "SELECT object FROM garbage WHERE object IN ({}) AND due > ?", self._clock()
        return {object for some in batches(objects) for (object,) in self._rows(sql.format(marks(some)), *some, now)}

    async def renew(self, names: Sequence[str]) -> Mapping[str, Stored]:
        now = self._clock()
        known = list(await self.find(names))  # most are new: a read that finds nothing waits for no commit

        def work(connection: sqlite3.Connection) -> dict[str, Stored]:
            renewed: dict[str, Stored] = {}
            for some in batches(known):
                rows = connection.execute(
                    f"UPDATE blobs SET finished_at = max(finished_at, ?) WHERE name IN ({marks(some)})"
                    " RETURNING name, object, size",
                    (now, *some),
                )
                renewed |= _stored(rows.fetchall())
            return renewed

        return await self._writer.submit(work) if known else {}

    async def find(self, names: Sequence[str]) -> Mapping[str, Stored]:
        found: dict[str, Stored] = {}
        for some in batches(names):
            found |= _stored(self._rows(f"SELECT name, object, size FROM blobs WHERE name IN ({marks(some)})", *some))
        return found

    async def list_older(self, seconds: float, *, after: str = "", limit: int = 1000) -> list[str]:
        sql = "SELECT name FROM blobs WHERE name > ? AND finished_at < ? ORDER BY name LIMIT ?"
        return [name for (name,) in self._rows(sql, after, self._clock() - seconds, limit)]

    async def remove_unused(self, names: Sequence[str], seconds: float) -> list[str]:
        now = self._clock()

        def work(connection: sqlite3.Connection) -> list[str]:
            removed: list[str] = []
            for some in batches(names):
                unused = connection.execute(select_unused(some), some).fetchall()
                for (name,) in unused:
                    rows = connection.execute(
                        "DELETE FROM blobs WHERE name = ? AND finished_at < ? RETURNING object", (name, now - seconds)
                    ).fetchall()
                    for (object,) in rows:
                        connection.execute("INSERT INTO garbage (object, due) VALUES (?, ?)", (object, now))
                        removed.append(name)
            return removed

        return await self._writer.submit(work)

    async def take_garbage(self, limit: int = 1000) -> list[str]:
        now = self._clock()

        def work(connection: sqlite3.Connection) -> list[str]:
            rows = connection.execute("SELECT object FROM garbage WHERE due <= ? LIMIT ?", (now, limit)).fetchall()
            # A clock that is set back must not bring to life what is being deleted.
            connection.executemany("UPDATE garbage SET due = 0 WHERE object = ?", rows)
            return [object for (object,) in rows]

        return await self._writer.submit(work)

    async def forget(self, objects: Sequence[str]) -> None:
        rows = [(one,) for one in objects]
        await self._writer.submit(lambda c: c.executemany("DELETE FROM garbage WHERE object = ? AND due = 0", rows))


def batches(values: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]


def marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def select_unused(names: Sequence[str]) -> str:
    """Which of these no record names; they are its values."""
    return _UNUSED.format(", ".join(["(?)"] * len(names)))


def _stored(rows: Sequence[Row]) -> dict[str, Stored]:
    return {name: Stored(object, size) for name, object, size in rows}
