"""Files that leave a sandbox for the host: what runs by itself is refused, and what is there stays unless told."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

from belljar import autorun
from belljar.errors import WorkspaceConflictError, WorkspaceSecurityError
from belljar.filesystem.paths import Segments, VfsPath, spelled
from belljar.filesystem.rooted import Root

_log = logging.getLogger(__name__)

_CHUNK = 1 << 20
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EACCES}
"""What a file system answers that knows no second name of a file."""


Take: TypeAlias = Callable[[Segments, Iterable[bytes]], object]
"""Whoever takes a file that leaves: its path in the workspace, and its content in pieces."""

OVERWRITE = "to overwrite it, pass overwrite=True"


class Export:
    """Each file is there whole or not at all, and none goes along a link.

    `overwrite`: what is in a file's place gives way, be it a link. Without, only what `may_replace` says may go; what
    has the same content is left. `remedy` is what the refusal tells to do.
    """

    def __init__(
        self,
        directory: Path,
        *,
        overwrite: bool,
        remedy: str,
        may_replace: Callable[[Segments, os.stat_result], bool] = lambda at, found: False,
    ) -> None:
        directory = directory.expanduser()
        directory.mkdir(parents=True, exist_ok=True)
        self._root = Root(directory)
        self._overwrite = overwrite
        self._there = f"there already and differs; {remedy}"
        self._may_replace = may_replace

    def save(self, at: Segments, pieces: Iterable[bytes], *, beside: bool = False) -> Path:
        """Where it is now: in its place or, `beside` what must stay there, under a name that is free.

        WorkspaceSecurityError where it runs by itself, WorkspaceConflictError where something must stay.
        """
        VfsPath(at)
        if why := autorun.refusal(spelled(at)):
            raise WorkspaceSecurityError(f"{spelled(at)!r} is not taken out of the sandbox: {why}")
        with self._root.directory(at[:-1], create=True) as parent, _passing(parent, pieces) as passing:
            name = self._placed(parent, passing, at, beside=beside)
        return self._root.path.joinpath(*at[:-1], name)

    def _placed(self, parent: int, passing: str, at: Segments, *, beside: bool) -> str:
        name, tried = at[-1], set[str]()
        while True:
            if _linked(parent, passing, name):
                return name
            found = _status(parent, name)
            if found is None:
                continue  # gone meanwhile
            if _same(parent, passing, name, found):
                return name
            if not tried and self._gives_way(at, found):
                _replaced(parent, passing, name, found)
                return name
            if not beside:
                what = "a directory there; move it away" if stat.S_ISDIR(found.st_mode) else self._there
                raise WorkspaceConflictError(f"{spelled(at)!r} is {what}")
            from belljar.providers.output_names import free_name  # takes a while, and is seldom needed

            tried.add(name)
            name = free_name(at[-1], tried)

    def _gives_way(self, at: Segments, found: os.stat_result) -> bool:
        return not stat.S_ISDIR(found.st_mode) and (self._overwrite or self._may_replace(at, found))


def may_leave(at: Segments) -> bool:
    """Whether a file of this name may be put on a host; one that may not is logged."""
    why = autorun.refusal(spelled(at))
    if why is not None:
        _log.warning("%r is not taken out of the sandbox: %s", spelled(at), why)
    return why is None


@contextlib.contextmanager
def _passing(parent: int, pieces: Iterable[bytes]) -> Iterator[str]:
    """The content under a name of its own, for the duration."""
    name = f".belljar-part-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(name, flags, 0o666, dir_fd=parent), "wb") as file:
            for piece in pieces:
                file.write(piece)
        yield name
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)


def _linked(parent: int, passing: str, name: str) -> bool:
    """Give it its name if nothing has that: looking first would leave a moment for something to come between."""
    try:
        os.link(passing, name, src_dir_fd=parent, dst_dir_fd=parent)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if _status(parent, name) is not None:
            return False
        os.rename(passing, name, src_dir_fd=parent, dst_dir_fd=parent)
    return True


def _replaced(parent: int, passing: str, name: str, found: os.stat_result) -> None:
    if stat.S_ISREG(found.st_mode):
        os.chmod(passing, stat.S_IMODE(found.st_mode) & 0o777, dir_fd=parent)
    os.replace(passing, name, src_dir_fd=parent, dst_dir_fd=parent)


def _status(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _same(parent: int, passing: str, name: str, found: os.stat_result) -> bool:
    if not stat.S_ISREG(found.st_mode) or _size(parent, passing) != found.st_size:
        return False
    try:
        with _opened(parent, passing) as new, _opened(parent, name) as old:
            return all(piece == old.read(_CHUNK) for piece in iter(lambda: new.read(_CHUNK), b""))
    except OSError:  # whatever cannot be read is another
        return False


def _size(parent: int, name: str) -> int:
    return os.stat(name, dir_fd=parent).st_size


def _opened(parent: int, name: str) -> BinaryIO:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return open(os.open(name, flags, dir_fd=parent), "rb")
