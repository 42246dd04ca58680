"""Files below a directory: opened name by name and never along a link, written beside their place and then moved there.

Checking a path and then opening it would leave a moment in which a link can be put in its way. So every name is opened
by the directory before it, and what was opened is looked at.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Generic, Self, TypeVar

PART = ".belljar-part-"
"""How the names of files begin that are not whole yet."""
_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # opening a pipe must not wait for its other end
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EACCES}
"""What a file system answers that knows no second name of a file."""

T = TypeVar("T")

# -- on the way -------------------------------------------------------------------------------------------------------


def descend(here: int, names: Iterable[T], step: Callable[[int, T], int]) -> int:
    """The directory that the names lead to, each opened by the one before it, as `step` does. `here` is closed."""
    for name in names:
        try:
            below = step(here, name)
        finally:
            os.close(here)
        here = below
    return here


def open_directory(name: str | os.PathLike[str], parent: int | None = None, flags: int = os.O_RDONLY) -> int:
    """Of one name; for a link ENOTDIR, as for a file."""
    return os.open(name, flags | _DIRECTORY, dir_fd=parent)


def open_plain(name: str | os.PathLike[str], parent: int | None = None, flags: int = os.O_RDONLY) -> int:
    """A plain file of one name; ELOOP for a link, EISDIR for a directory, ENXIO for a pipe, a socket or a device."""
    opened = os.open(name, flags | _PLAIN, 0o666, dir_fd=parent)
    mode = os.fstat(opened).st_mode
    if stat.S_ISREG(mode):
        return opened
    os.close(opened)
    code = errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO
    raise OSError(code, os.strerror(code), name)


def find(name: str, parent: int) -> os.stat_result | None:
    """What has this name, be it a link; None where nothing has."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


class LastDirectory(Generic[T]):
    """The directory of the last file, which stays open for the next: many in a row are in the same."""

    def __init__(self, enter: Callable[[T], int], *, hostile: bool = False) -> None:
        """`hostile`: somebody else may remove it meanwhile and make it anew, which is looked for each time."""
        self._enter = enter
        self._hostile = hostile
        self._where: T | None = None
        self._directory = -1

    def enter(self, where: T) -> int:
        """A descriptor, which stays ours."""
        if where != self._where or self._directory < 0 or (self._hostile and not os.fstat(self._directory).st_nlink):
            self.close()
            self._directory = self._enter(where)
            self._where = where
        return self._directory

    def close(self) -> None:
        directory, self._directory = self._directory, -1
        if directory >= 0:
            os.close(directory)


# -- beside its place -------------------------------------------------------------------------------------------------


class PartFile:
    """A new file, under a name of its own until it is put in its place; one that never is goes with the context."""

    def __init__(self, parent: int, mode: int = 0o666) -> None:
        self._parent = parent
        self._mode = mode
        self.name = PART + secrets.token_hex(8)
        self.descriptor = -1

    def __enter__(self) -> Self:
        self.descriptor = os.open(self.name, _NEW, self._mode, dir_fd=self._parent)
        self._placed = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.descriptor)
        if not self._placed:
            with contextlib.suppress(OSError):  # it must not hide what went wrong
                os.unlink(self.name, dir_fd=self._parent)

    def write(self, piece: bytes) -> None:
        write_all(self.descriptor, piece)

    def replace(self, name: str, before: os.stat_result | None = None, *, sync: bool = False) -> None:
        """Put it in its place, whatever is there; a file that was there `before` leaves its permissions to it.

        `sync`: once the content is on the disk.
        """
        if before is not None and stat.S_ISREG(before.st_mode):
            os.fchmod(self.descriptor, stat.S_IMODE(before.st_mode) & 0o777)
        if sync:
            os.fsync(self.descriptor)
        os.replace(self.name, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        self._placed = True

    def place(self, name: str) -> bool:
        """Put it in its place if nothing is there: looking first would leave a moment for something to come between."""
        try:
            os.link(self.name, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if find(name, self._parent) is not None:
                return False
            self.replace(name)
        return True


def write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
