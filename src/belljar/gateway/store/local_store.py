"""The store in one directory of this machine: `records.db` and `blobs`."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from belljar.errors import BadSettings, NotFound
from belljar.gateway.store import disk_errors
from belljar.gateway.store.directory import DirectoryBlobs
from belljar.gateway.store.sqlite import SqliteRecords

_RECORDS = "records.db"


def open_store(directory: Path, clock: Callable[[], float] = time.time) -> tuple[SqliteRecords, DirectoryBlobs]:
    """Open it, or make it where there is none; several processes may have it open."""
    return open_local_records(directory, clock), open_local_blobs(directory)


def open_local_records(directory: Path, clock: Callable[[], float] = time.time) -> SqliteRecords:
    prepare(directory)
    return SqliteRecords(directory / _RECORDS, clock)


def find_local_records(directory: Path) -> Path:
    """The file of the records, for who would not make one; `NotFound` where there is none."""
    path = directory / _RECORDS
    try:
        with path.open("rb") as file:
            if file.read(15) == b"SQLite format 3":
                return path
    except OSError:
        pass
    raise NotFound(f"state_dir: there is no store in {directory}; name the directory of a gateway")


def open_local_blobs(directory: Path) -> DirectoryBlobs:
    return DirectoryBlobs(directory / "blobs")


def prepare(directory: Path) -> None:
    """Make the directory where there is none; refuse one that others could change."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
    except OSError as error:
        raise disk_errors.of_system(error, directory) from error
    # A group may write: that is how Kubernetes hands a volume to a process that is not root.
    if found.st_mode & stat.S_IWOTH:
        raise BadSettings(f"{directory} can be written by anybody on this machine; run: chmod o-w {directory}")
    if found.st_uid not in (0, os.geteuid()):
        raise BadSettings(f"{directory} belongs to another user, who could change what is in it; use one of your own")
