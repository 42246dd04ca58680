"""Files of the host opened by their real paths: a link or a pipe that was put in the way since is refused."""

from __future__ import annotations

import errno
import os
from functools import partial
from threading import Lock
from typing import BinaryIO

from belljar.errors import WorkspaceSecurityError
from belljar.rooted_paths import LastDirectory, descend, open_directory, open_plain

# Only Linux can pass through a directory that may not be listed.
_step = partial(open_directory, flags=getattr(os, "O_PATH", os.O_RDONLY))


class Opener:
    """Opens one file after the other: the directory of the last stays open for the next. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last = LastDirectory[str](_enter_directory)

    def __del__(self) -> None:
        self._last.close()

    def open(self, path: str) -> BinaryIO:
        """`path` is absolute and was free of links when it was found. Reads are not buffered."""
        where, _, name = path.rpartition("/")
        try:
            with self._lock:
                opened = open_plain(name, self._last.enter(where))
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise WorkspaceSecurityError(f"{path}: turned into a link while it was copied") from error
            if error.errno in (errno.EISDIR, errno.ENXIO):
                raise WorkspaceSecurityError(f"{path}: is no plain file") from error
            raise type(error)(error.errno, error.strerror, path) from None
        return open(opened, "rb", buffering=0)


def _enter_directory(path: str) -> int:
    return descend(_step("/"), path.split("/")[1:], lambda here, name: _step(name, here))
