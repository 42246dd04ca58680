"""A directory of the host as a filesystem whose root holds."""

from __future__ import annotations

import builtins
import errno
import os
import shutil
import stat
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from belljar.filesystem.base import FileEntry, FileStat, Filesystem
from belljar.filesystem.paths import Segments, join_segments, path_error, segments_of
from belljar.filesystem.rooted import Root
from belljar.filesystem.write_limits import WriteLimits


class HostFilesystem(Filesystem):
    """The directory must be there. `max_bytes` bounds what all its files hold together. `known_as` is another absolute
    path that whoever names files may take for the root.

    Links and special files are refused by name and left out of listings, even where they stay inside.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        max_bytes: int | None = None,
        read_only: bool = False,
        known_as: str | None = None,
    ) -> None:
        self._root = Root(Path(root))
        self._roots = tuple(filter(None, (str(self._root.path), os.path.abspath(Path(root).expanduser()), known_as)))
        self._limits = WriteLimits(read_only, max_bytes)

    @property
    def root(self) -> str:
        return str(self._root.path)

    @property
    def read_only(self) -> bool:
        return self._limits.read_only

    def locate(self, path: str) -> Segments:
        return segments_of(path, *self._roots)

    def read(self, path: str) -> bytes:
        return self._root.read(self.locate(path))

    def write(self, path: str, content: bytes) -> None:
        segments = self.locate(path)
        self._limits.check_writable(segments)
        self._limits.check_budget(segments, len(content) - self._size(segments), self._root.size)
        self._root.write(segments, content)

    def append(self, path: str, content: bytes) -> None:
        segments = self.locate(path)
        self._limits.check_writable(segments)
        self._limits.check_budget(segments, len(content), self._root.size)
        self._root.write(segments, content, append=True)

    def copy_in(self, files: Iterable[tuple[str, BinaryIO, int]]) -> None:
        with self._root.filling() as fill:
            for path, source, size in files:
                segments = self.locate(path)
                self._limits.check_writable(segments)
                if self._limits.max_bytes is not None:
                    self._limits.check_budget(segments, size - self._size(segments), self._root.size)
                fill(segments, source, size)

    def stat(self, path: str) -> FileStat:
        segments = self.locate(path)
        found = self._root.status(segments)
        is_directory = stat.S_ISDIR(found.st_mode)
        return FileStat(
            path=join_segments(segments),
            is_file=not is_directory,
            is_directory=is_directory,
            size_bytes=0 if is_directory else found.st_size,
            modified_at=datetime.fromtimestamp(found.st_mtime, UTC),
        )

    def list(self, path: str = ".") -> builtins.list[FileEntry]:
        segments = self.locate(path)
        entries = []
        with self._root.directory(segments) as here, os.scandir(here) as found:
            for entry in found:
                is_file, is_directory = entry.is_file(follow_symlinks=False), entry.is_dir(follow_symlinks=False)
                if is_file or is_directory:
                    entries.append(FileEntry(entry.name, join_segments((*segments, entry.name)), is_file, is_directory))
        return sorted(entries, key=lambda entry: entry.name)

    def mkdir(self, path: str, *, parents: bool = True, exist_ok: bool = True) -> None:
        segments = self.locate(path)
        self._limits.check_writable(segments)
        try:
            found = self.stat(path)
        except FileNotFoundError:
            found = None
        if found and (found.is_file or not exist_ok):
            raise path_error(errno.EEXIST, segments)
        if not parents:
            self._root.status(segments[:-1])
        self._root.mkdir(segments)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        segments = self.locate(path)
        self._limits.check_writable(segments)
        if not segments:
            raise path_error(errno.EPERM, segments)
        is_directory = stat.S_ISDIR(self._root.status(segments).st_mode)
        with self._root.directory(segments[:-1]) as parent:
            if not is_directory:
                os.unlink(segments[-1], dir_fd=parent)
            elif recursive:
                shutil.rmtree(segments[-1], dir_fd=parent)
            else:
                try:
                    os.rmdir(segments[-1], dir_fd=parent)
                except OSError as error:
                    raise path_error(error.errno or errno.EIO, segments) from None

    def _size(self, segments: Segments) -> int:
        try:
            found = self._root.status(segments)
        except FileNotFoundError:
            return 0
        return found.st_size if stat.S_ISREG(found.st_mode) else 0
