"""The tables, as migrations in order; a file's `user_version` says how many of them it has had."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from belljar.errors import BadSettings

MIGRATIONS: Sequence[str] = (
    # Ids are case-sensitive, paths are exact: TEXT compares byte by byte. `n` is the order in which rows came.
    # `size` stands in two indexes so that an owner's bytes are summed without reading the rows.
    """
    CREATE TABLE responses (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        status TEXT NOT NULL,
        background INTEGER NOT NULL,
        previous_id TEXT,
        conversation_id TEXT,
        container_id TEXT,
        input BLOB NOT NULL,
        output BLOB NOT NULL,
        body BLOB NOT NULL
    );
    CREATE INDEX responses_unfinished ON responses (n) WHERE status IN ('queued', 'in_progress');

    CREATE TABLE events (
        response_id TEXT NOT NULL REFERENCES responses (id) ON DELETE CASCADE,
        sequence INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (response_id, sequence)
    ) WITHOUT ROWID;

    CREATE TABLE conversations (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        metadata BLOB NOT NULL
    );

    CREATE TABLE items (
        n INTEGER PRIMARY KEY,
        conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
        id TEXT NOT NULL,
        body BLOB NOT NULL,
        UNIQUE (conversation_id, id)
    );
    CREATE INDEX items_in_order ON items (conversation_id, n);

    CREATE TABLE containers (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        last_active_at INTEGER NOT NULL,
        memory TEXT NOT NULL,
        minutes INTEGER NOT NULL,
        auto INTEGER NOT NULL,
        network BLOB NOT NULL,
        requirements BLOB NOT NULL,
        cells INTEGER NOT NULL,
        deleted INTEGER NOT NULL
    );
    CREATE INDEX containers_in_order ON containers (owner, created_at, n);

    CREATE TABLE container_files (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        container_id TEXT NOT NULL REFERENCES containers (id) ON DELETE CASCADE,
        path TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        size INTEGER NOT NULL,
        modified REAL NOT NULL,
        source TEXT NOT NULL,
        blob TEXT NOT NULL,
        type TEXT NOT NULL,
        UNIQUE (container_id, path)
    );
    CREATE INDEX container_files_in_order ON container_files (container_id, created_at, n, size);
    CREATE INDEX container_files_by_blob ON container_files (blob);

    CREATE TABLE files (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        filename TEXT NOT NULL,
        purpose TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        size INTEGER NOT NULL,
        blob TEXT NOT NULL,
        type TEXT NOT NULL,
        expires_at INTEGER
    );
    CREATE INDEX files_in_order ON files (owner, created_at, n, size);
    CREATE INDEX files_by_blob ON files (blob);
    CREATE INDEX files_by_expiry ON files (expires_at) WHERE expires_at IS NOT NULL;

    CREATE TABLE keys (
        n INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        digest TEXT NOT NULL UNIQUE,
        shown TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        last_used_at INTEGER,
        revoked_at INTEGER
    );

    CREATE TABLE secrets (
        name TEXT NOT NULL PRIMARY KEY,
        value BLOB NOT NULL
    ) WITHOUT ROWID;
    """,
    "ALTER TABLE containers ADD COLUMN hosted BLOB NOT NULL DEFAULT x'';",
    # A row for each version, with what it changed as it was before: an older state is today's with the newer rows
    # undone, so that a cell costs one small row, however many files there are. `cells` is the count at that version.
    """
    ALTER TABLE containers ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE responses ADD COLUMN container_version INTEGER;
    CREATE TABLE container_versions (
        container_id TEXT NOT NULL REFERENCES containers (id) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        cells INTEGER NOT NULL,
        before BLOB NOT NULL,
        PRIMARY KEY (container_id, number)
    ) WITHOUT ROWID;
    INSERT INTO container_versions SELECT id, 0, cells, x'' FROM containers;
    """,
    # Several gateways: which of them live, and which of them has a container or works on a response. A row of `usage`
    # has what was summed for every upload before.
    """
    CREATE TABLE gateways (
        id TEXT NOT NULL PRIMARY KEY,
        address TEXT NOT NULL,
        version TEXT NOT NULL,
        until REAL NOT NULL
    ) WITHOUT ROWID;
    ALTER TABLE responses ADD COLUMN holder TEXT;
    ALTER TABLE containers ADD COLUMN holder TEXT;
    ALTER TABLE containers ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE containers ADD COLUMN sandbox BLOB NOT NULL DEFAULT x'';
    CREATE INDEX containers_held ON containers (holder) WHERE holder IS NOT NULL;
    CREATE TABLE usage (
        owner TEXT NOT NULL PRIMARY KEY,
        bytes INTEGER NOT NULL DEFAULT 0,
        minute INTEGER NOT NULL DEFAULT 0,
        requests INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    INSERT INTO usage (owner, bytes)
        SELECT owner, sum(size) FROM (
            SELECT owner, size FROM files
            UNION ALL SELECT c.owner, f.size FROM containers AS c JOIN container_files AS f ON f.container_id = c.id
        ) GROUP BY owner;
    """,
    # Blobs in a bucket. `due` is when an object may be deleted: from then on it cannot become a blob's any more.
    """
    CREATE TABLE blobs (
        name TEXT NOT NULL PRIMARY KEY,
        object TEXT NOT NULL UNIQUE,
        size INTEGER NOT NULL,
        finished_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE garbage (
        object TEXT NOT NULL PRIMARY KEY,
        due REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX garbage_by_due ON garbage (due);
    """,
    # What is old, and which gateway sees to it.
    """
    CREATE TABLE turns (
        name TEXT NOT NULL PRIMARY KEY,
        who TEXT NOT NULL,
        until REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX responses_by_age ON responses (created_at);
    CREATE INDEX responses_by_previous ON responses (previous_id) WHERE previous_id IS NOT NULL;
    CREATE INDEX containers_by_age ON containers (last_active_at);
    CREATE INDEX files_by_age ON files (created_at);
    """,
    # Responses in progress, where their number is limited and several gateways share the file.
    """
    CREATE TABLE places (
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        gateway TEXT NOT NULL,
        PRIMARY KEY (owner, id)
    ) WITHOUT ROWID;
    """,
)


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Bring the file up to date, in one transaction; refuse one that a newer Belljar wrote."""
    if _version(connection) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")  # of several processes that start at once, one does the work
    try:
        version = _version(connection)
        if version > len(migrations):
            raise BadSettings(
                f"{path} was written by a newer Belljar: it has version {version} of the tables, this one knows"
                f" {len(migrations)}; run the newer one, or move the file away to start anew"
            )
        for migration in migrations[version:]:
            for statement in _statements(migration):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _statements(script: str) -> Iterator[str]:
    """One by one: `executescript` would commit first, and a migration must be whole or absent."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
