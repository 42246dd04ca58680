"""The store in one directory of this machine: `records.db` and `blobs`."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from belljar.errors import BadSettings
from belljar.gateway.store import disk_errors
from belljar.gateway.store.directory import DirectoryBlobs
from belljar.gateway.store.sqlite import SqliteRecords


def open_store(directory: Path) -> tuple[SqliteRecords, DirectoryBlobs]:
    """Open it, or make it where there is none; several processes may have it open."""
    prepare(directory)
    blobs = DirectoryBlobs(directory / "blobs")
    return SqliteRecords(directory / "records.db", blobs.settle), blobs


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
