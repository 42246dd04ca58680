"""A directory of the host that nothing leads out of: every step is opened by its parent, and links are refused.

Checking a path and then opening it would leave a moment in which a link can be put in its way.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from belljar.errors import WorkspaceSecurityError
from belljar.filesystem.paths import Segments, spelled

_STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # opening a pipe must not wait for its other end


class Root:
    def __init__(self, path: Path) -> None:
        self.path = path.resolve(strict=True)
        if not self.path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))

    @contextmanager
    def directory(self, segments: Segments, *, create: bool = False) -> Iterator[int]:
        """A descriptor of the directory, for the duration."""
        here = os.open(self.path, _STEP)
        try:
            for depth in range(1, len(segments) + 1):
                so_far = segments[:depth]
                if create:
                    _make(here, so_far)
                deeper = _opened(here, so_far, _STEP)
                os.close(here)
                here = deeper
            yield here
        finally:
            os.close(here)

    @contextmanager
    def file(self, segments: Segments, flags: int = os.O_RDONLY) -> Iterator[int]:
        """A descriptor of a plain file, for the duration."""
        if not segments:
            raise _fault(errno.EISDIR, segments)
        with self.directory(segments[:-1]) as parent:
            opened = _opened(parent, segments, flags | _PLAIN)
        try:
            mode = os.fstat(opened).st_mode
            if stat.S_ISDIR(mode):
                raise _fault(errno.EISDIR, segments)
            if not stat.S_ISREG(mode):
                raise _refusal(segments)
            yield opened
        finally:
            os.close(opened)

    def status(self, segments: Segments) -> os.stat_result:
        if not segments:
            return os.stat(self.path)
        with self.directory(segments[:-1]) as parent:
            try:
                found = os.stat(segments[-1], dir_fd=parent, follow_symlinks=False)
            except OSError as error:
                raise _fault(error.errno or errno.EIO, segments) from None
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise _refusal(segments)
        return found

    def read(self, segments: Segments) -> bytes:
        with self.file(segments) as opened, open(opened, "rb", closefd=False) as stream:
            return stream.read()

    def write(self, segments: Segments, content: bytes, *, append: bool = False) -> None:
        """Directories on the way are made."""
        with self.directory(segments[:-1], create=True):
            pass
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else 0)
        with self.file(segments, flags) as opened:
            if not append:  # and not O_TRUNC, which would empty what is then refused
                os.ftruncate(opened, 0)
            with open(opened, "ab" if append else "wb", closefd=False) as stream:
                stream.write(content)

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


def _make(parent: int, segments: Segments) -> None:
    try:
        os.mkdir(segments[-1], dir_fd=parent)
    except FileExistsError:
        pass  # whatever it is, opening it comes next and says so
    except OSError as error:
        raise _fault(error.errno or errno.EIO, segments) from None


def _opened(parent: int, segments: Segments, flags: int) -> int:
    try:
        return os.open(segments[-1], flags, 0o666, dir_fd=parent)
    except OSError as error:
        code = error.errno or errno.EIO
    if code in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO) and not _plain(parent, segments[-1]):
        raise _refusal(segments)
    raise _fault(code, segments)


def _plain(parent: int, name: str) -> bool:
    mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _fault(code: int, segments: Segments) -> OSError:
    return OSError(code, os.strerror(code), spelled(segments))


def _refusal(segments: Segments) -> WorkspaceSecurityError:
    return WorkspaceSecurityError(f"{spelled(segments)}: a link or special file, and only plain files are opened here")
