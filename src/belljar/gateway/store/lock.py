"""One gateway at a time in a directory: a lock that the kernel takes back however its holder ends."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from belljar.errors import InvalidRequest
from belljar.gateway.store import disk_errors
from belljar.gateway.store.local_store import prepare

NAME = "gateway.lock"
_LONGEST = 200


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Serve from this directory alone; `InvalidRequest` names the process that does already.

    The file stays when the lock goes: removed, two processes could each have locked a file of that name.
    """
    prepare(directory)
    try:
        file = os.open(directory / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise disk_errors.of_system(error, directory) from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidRequest(
                f"state_dir: {directory} is in use by {_holder(file)}, and two gateways would undo each other's work; "
                "stop that one, or give this one a directory of its own: --state-dir DIR",
                param="state_dir",
            ) from None
        except OSError as error:
            raise disk_errors.of_system(error, directory) from error
        os.truncate(file, 0)
        os.pwrite(file, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        # By hand: a process that was being started at this moment may have a copy of the descriptor.
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def _holder(file: int) -> str:
    """As the holder wrote it; a machine's name and number may be another container's."""
    told = os.pread(file, _LONGEST, 0).decode("ascii", "replace")
    return told if told.isprintable() and told else "another process"
