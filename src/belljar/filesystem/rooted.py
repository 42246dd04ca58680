"""A directory of the host that nothing leads out of: its files by their segments, with links refused in plain words."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from belljar.errors import WorkspaceSecurityError
from belljar.filesystem.paths import Segments, join_segments, path_error
from belljar.rooted_paths import LastDirectory, descend, open_directory, open_plain, write_all

_CHUNK = 1 << 20


class Root:
    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().resolve(strict=True)
        if not self.path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))

    @contextmanager
    def directory(self, segments: Segments, *, create: bool = False) -> Iterator[int]:
        """A descriptor of the directory, for the duration."""
        here = self._enter_directory(segments, create=create)
        try:
            yield here
        finally:
            os.close(here)

    @contextmanager
    def file(self, segments: Segments, flags: int = os.O_RDONLY) -> Iterator[int]:
        """A descriptor of a plain file, for the duration; directories on the way are made where it may be made."""
        with self.directory(segments[:-1], create=bool(flags & os.O_CREAT)) as parent:
            opened = _open_below(parent, segments, flags)
        try:
            yield opened
        finally:
            os.close(opened)

    @contextmanager
    def filling(self) -> Iterator[Callable[[Segments, BinaryIO, int], None]]:
        """For many files: a function that copies at most so many bytes of an open file to a path, and whether its owner
        may run it.

        The directory of the last file stays open for the next, and the bytes do not leave the kernel where it can.
        """
        with closing(LastDirectory[Segments](lambda where: self._enter_directory(where, create=True))) as last:

            def fill(segments: Segments, source: BinaryIO, size: int) -> None:
                opened = _open_below(last.enter(segments[:-1]), segments, os.O_WRONLY | os.O_CREAT)
                try:
                    if os.fstat(source.fileno()).st_mode & stat.S_IXUSR:
                        _make_executable(opened)
                    os.ftruncate(opened, 0)
                    while size and (moved := _move_bytes(source.fileno(), opened, size)):
                        size -= moved
                finally:
                    os.close(opened)

            yield fill

    def _enter_directory(self, segments: Segments, *, create: bool) -> int:
        def step(here: int, at: Segments) -> int:
            return _step_into(here, at, create=create)

        ways = (segments[:depth] for depth in range(1, len(segments) + 1))
        return descend(open_directory(self.path), ways, step)

    def status(self, segments: Segments) -> os.stat_result:
        if not segments:
            return os.stat(self.path)
        with self.directory(segments[:-1]) as parent:
            try:
                found = os.stat(segments[-1], dir_fd=parent, follow_symlinks=False)
            except OSError as error:
                raise path_error(error.errno or errno.EIO, segments) from None
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise _refusal(segments)
        return found

    def read(self, segments: Segments) -> bytes:
        with self.file(segments) as opened, open(opened, "rb", closefd=False) as stream:
            return stream.read()

    def write(self, segments: Segments, content: bytes, *, append: bool = False) -> None:
        """Directories on the way are made."""
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else 0)
        with self.file(segments, flags) as opened:
            if not append:  # and not O_TRUNC, which would empty what is then refused
                os.ftruncate(opened, 0)
            write_all(opened, content)

    def mkdir(self, segments: Segments) -> None:
        with self.directory(segments, create=True):
            pass

    def size(self) -> int:
        """The bytes of every plain file beneath."""
        total = 0
        for _, _, names, here in os.fwalk(self.path, follow_symlinks=False):
            for name in names:
                found = os.stat(name, dir_fd=here, follow_symlinks=False)
                total += found.st_size if stat.S_ISREG(found.st_mode) else 0
        return total


def _step_into(parent: int, segments: Segments, *, create: bool) -> int:
    try:
        return _opened_directory(parent, segments)
    except FileNotFoundError:
        if not create:
            raise
    _make(parent, segments)
    return _opened_directory(parent, segments)


def _make(parent: int, segments: Segments) -> None:
    try:
        os.mkdir(segments[-1], dir_fd=parent)
    except FileExistsError:
        pass  # whatever it is, opening it comes next and says so
    except OSError as error:
        raise path_error(error.errno or errno.EIO, segments) from None


def _make_executable(opened: int) -> None:
    """For everybody who may read it."""
    mode = os.fstat(opened).st_mode
    os.fchmod(opened, stat.S_IMODE(mode | (mode & 0o444) >> 2))


def _move_bytes(source: int, target: int, most: int) -> int:
    try:
        return os.copy_file_range(source, target, most)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
    data = os.read(source, min(most, _CHUNK))
    write_all(target, data)
    return len(data)


def _opened_directory(parent: int, segments: Segments) -> int:
    try:
        return open_directory(segments[-1], parent)
    except OSError as error:
        code = error.errno or errno.EIO
    if code == errno.ENOTDIR and not _plain(parent, segments[-1]):
        raise _refusal(segments)
    raise path_error(code, segments)


def _open_below(parent: int, segments: Segments, flags: int) -> int:
    if not segments:
        raise path_error(errno.EISDIR, segments)
    try:
        return open_plain(segments[-1], parent, flags)
    except OSError as error:
        code = error.errno or errno.EIO
    if code in (errno.ELOOP, errno.ENXIO):
        raise _refusal(segments)
    raise path_error(code, segments)


def _plain(parent: int, name: str) -> bool:
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _refusal(segments: Segments) -> WorkspaceSecurityError:
    return WorkspaceSecurityError(
        f"{join_segments(segments)}: a link or special file, and only plain files are opened here"
    )
