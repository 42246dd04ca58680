"""A connection to the SQLite file, set up as every one of ours is."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

from belljar.errors import BadSettings
from belljar.gateway.store import disk_errors

PATIENCE = 10.0
"""Seconds to wait for another process that writes."""


def connect(path: Path) -> sqlite3.Connection:
    """Ready to use from any thread, one at a time; transactions are ours to begin and end."""
    _make(path)
    try:
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            if _write_ahead(connection) != "wal":
                raise BadSettings(f"{path} is on a disk that cannot be shared by processes; put it on a local disk")
            # NORMAL: a killed process loses nothing; a power cut may take the last moments, never half a transaction.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
        except Exception:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise disk_errors.of_sqlite(error, path) from error
    return connection


def _make(path: Path) -> None:
    """Make a file that is the owner's alone; those beside it take its mode."""
    try:
        # Never open one that is there: closing it would drop the locks that SQLite holds on it for this process.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise disk_errors.of_system(error, path) from error


def _write_ahead(connection: sqlite3.Connection) -> str:
    """Where several processes turn a new file to this mode at once, SQLite refuses some of them without waiting."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            mode: str = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            return mode
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)
