"""What goes wrong with a disk or a database file, in words that name the place and the remedy."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from belljar.errors import OperatorError, StoreUnavailable

_LEAST = 1 << 20
"""Bytes below which a disk is as good as full: a record and its journal take some pages each."""

_ROOM = "free some space there, or move it to a larger disk"


def find_problem(directory: Path) -> str | None:
    """Why nothing more can be kept there, for whoever may ask: it names no path."""
    try:
        disk = os.statvfs(directory)
    except OSError as error:
        return f"the directory of its state cannot be used: {error.strerror}"
    if disk.f_bavail * disk.f_frsize < _LEAST or (disk.f_files and not disk.f_favail):
        return f"the disk of its state is full; {_ROOM}"
    return None


def full(directory: Path) -> OperatorError:
    return OperatorError(f"the disk of {directory} is full; {_ROOM}")


def of_system(error: OSError, directory: Path) -> OperatorError:
    """What the system refused to do with our files."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return full(directory)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return StoreUnavailable(
            "this server has as many files open as it may; come again in a moment. Whoever runs it can raise the "
            "limit: `ulimit -n`, or LimitNOFILE= in its unit"
        )
    return OperatorError(f"{directory} cannot be used: {error.strerror or error}; check the disk and its permissions")


@contextmanager
def explained(directory: Path) -> Iterator[None]:
    """What the system refuses within is told so."""
    try:
        yield
    except OSError as error:
        raise of_system(error, directory) from error


def of_sqlite(error: sqlite3.Error, path: Path) -> OperatorError:
    """What SQLite could not do with its file."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the low byte is the kind, the rest detail
    match code:
        case sqlite3.SQLITE_FULL:
            return full(path.parent)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            return OperatorError(f"{path} is held by another process; end the one that keeps it locked")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
            return OperatorError(f"{path} cannot be opened for writing; check the permissions of it and {path.parent}")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return OperatorError(f"{path} is damaged ({error}); restore a copy, or move it away to start anew")
        case _:
            return OperatorError(f"{path}: {error}")
