"""Files of the host opened by their real paths: a link or a pipe that was put in the way since is refused."""

from __future__ import annotations

import errno
import os
import stat
from threading import Lock
from typing import BinaryIO

from belljar.errors import WorkspaceSecurityError

# Only Linux can pass through a directory that may not be listed.
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # opening a pipe must not wait for its other end


class Opener:
    """Opens one file after the other: the directory of the last stays open for the next. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._here: str | None = None
        self._directory = -1

    def __del__(self) -> None:
        self._leave()

    def open(self, path: str) -> BinaryIO:
        """`path` is absolute and was free of links when it was found. Reads are not buffered."""
        where, _, name = path.rpartition("/")
        try:
            with self._lock:
                if where != self._here:
                    self._leave()
                    self._directory = _entered(where)
                    self._here = where
                opened = os.open(name, _PLAIN, dir_fd=self._directory)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise WorkspaceSecurityError(f"{path}: turned into a link while it was copied") from error
            raise type(error)(error.errno, error.strerror, path) from None
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise WorkspaceSecurityError(f"{path}: is no plain file")
        return open(opened, "rb", buffering=0)

    def _leave(self) -> None:
        if self._here is not None:
            os.close(self._directory)
            self._here = None


def _entered(path: str) -> int:
    here = os.open("/", _STEP)
    for name in path.split("/")[1:]:
        try:
            deeper = os.open(name, _STEP, dir_fd=here)
        finally:
            os.close(here)
        here = deeper
    return here
