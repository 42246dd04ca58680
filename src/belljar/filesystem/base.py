"""The port `Filesystem`: seven things a backend does, and what follows from them."""

from __future__ import annotations

import builtins
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final, Protocol, runtime_checkable

from belljar.filesystem.export import OVERWRITE, Export, may_leave
from belljar.filesystem.globs import matches
from belljar.filesystem.paths import Segments, join_segments, segments_of

READ_ENTIRE_FILE: Final = -1


@dataclass(frozen=True, slots=True)
class FileStat:
    path: str
    is_file: bool
    is_directory: bool
    size_bytes: int
    created_at: datetime | None = None
    """None where the backend cannot tell."""
    modified_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class FileEntry:
    name: str
    path: str
    is_file: bool
    is_directory: bool


@dataclass(frozen=True, slots=True)
class ReadResult:
    """A page of a text file; `limit` is None where the rest of the file was asked for."""

    content: str
    path: str
    total_lines: int
    offset: int
    limit: int | None
    truncated: bool


@dataclass(frozen=True, slots=True)
class GrepMatch:
    path: str
    line_number: int
    line_content: str
    match_start: int
    match_end: int


@runtime_checkable
class Filesystem(Protocol):
    """Files under one root. Paths are relative to it, with or without a leading slash; one that begins with `root` is
    the path by which others know the file, and works as well: `/mnt/data/a.csv` for `a.csv`.

    Faults are Python's own (FileNotFoundError, IsADirectoryError, NotADirectoryError, FileExistsError, PermissionError
    where `read_only`), WorkspaceSecurityError for what leads out of the root, and WorkspaceBudgetExceededError.
    """

    # -- what a backend does -------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def root(self) -> str: ...

    @property
    @abstractmethod
    def read_only(self) -> bool: ...

    @abstractmethod
    def read(self, path: str) -> bytes: ...

    @abstractmethod
    def write(self, path: str, content: bytes) -> None:
        """Make the file, or replace what it holds. Directories on the way are made."""

    @abstractmethod
    def stat(self, path: str) -> FileStat: ...

    @abstractmethod
    def list(self, path: str = ".") -> builtins.list[FileEntry]:
        """The plain files and directories in a directory, by name."""

    @abstractmethod
    def mkdir(self, path: str, *, parents: bool = True, exist_ok: bool = True) -> None: ...

    @abstractmethod
    def delete(self, path: str, *, recursive: bool = False) -> None:
        """A directory that is not empty goes only when `recursive`; the root never does."""

    # -- what follows --------------------------------------------------------------------------------------------------

    def locate(self, path: str) -> Segments:
        """Where a path leads, from the root."""
        return segments_of(path, self.root)

    def append(self, path: str, content: bytes) -> None:
        self.write(path, (self.read(path) if self.exists(path) else b"") + content)

    def copy_in(self, files: Iterable[tuple[str, BinaryIO, int]]) -> None:
        """Write open files of the host, each to its path and at most so many bytes of it."""
        for path, source, size in files:
            self.write(path, source.read(size))

    def read_text(self, path: str, encoding: str = "utf-8") -> str:
        return self.read(path).decode(encoding)

    def write_text(self, path: str, content: str, encoding: str = "utf-8") -> None:
        self.write(path, content.encode(encoding))

    def read_lines(self, path: str, *, offset: int = 0, limit: int = 2000, encoding: str = "utf-8") -> ReadResult:
        """`limit` lines from line `offset`, counted from 0; READ_ENTIRE_FILE for all that follow."""
        if offset < 0 or limit < READ_ENTIRE_FILE:
            raise ValueError(f"read_lines: offset {offset} and limit {limit} must not be negative")
        lines = self.read_text(path, encoding).splitlines(keepends=True)
        end = len(lines) if limit == READ_ENTIRE_FILE else min(offset + limit, len(lines))
        return ReadResult(
            content="".join(lines[offset:end]),
            path=join_segments(self.locate(path)),
            total_lines=len(lines),
            offset=offset,
            limit=None if limit == READ_ENTIRE_FILE else limit,
            truncated=end < len(lines),
        )

    def exists(self, path: str) -> bool:
        return _stat_or_none(self, path) is not None

    def is_file(self, path: str) -> bool:
        found = _stat_or_none(self, path)
        return found is not None and found.is_file

    def is_dir(self, path: str) -> bool:
        found = _stat_or_none(self, path)
        return found is not None and found.is_directory

    def list_dir(self, path: str = ".") -> builtins.list[str]:
        return [entry.name for entry in self.list(path)]

    def glob(self, pattern: str, *, path: str = ".") -> builtins.list[str]:
        """The files that match, sorted; the pattern starts at `path`, the answers at the root.

        A pattern that begins with `root` starts there, and finds what is beneath `path` of it.
        """
        base, start = self.locate(path), len(self.locate(path))
        if self.locate(pattern) != segments_of(pattern):
            pattern, start = f"/{join_segments(self.locate(pattern))}", 0
        return sorted(join_segments(file) for file in walk(self, base) if matches(file[start:], pattern))

    def grep(
        self, pattern: str, *, path: str = ".", glob: str | None = None, max_matches: int | None = None
    ) -> builtins.list[GrepMatch]:
        """The first match of a regular expression in each line; files that are not UTF-8 are passed over."""
        try:
            expression = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"grep: {pattern!r} is no regular expression: {error}") from None
        found: builtins.list[GrepMatch] = []
        for name in [join_segments(self.locate(path))] if self.is_file(path) else self.glob(glob or "*", path=path):
            for match in _grep_content(self.read(name), name, expression):
                if max_matches is not None and len(found) >= max_matches:
                    return found
                found.append(match)
        return found

    def download_all(self, dest: Path, *, overwrite: bool = False) -> None:
        """Copy every file into a directory of the host, which is made if need be.

        Files that tools run by themselves, such as `.git`, are left out and logged. What is there already and differs
        stays, with a WorkspaceConflictError, unless told to `overwrite`.
        """
        export = Export(dest, overwrite=overwrite, remedy=OVERWRITE)
        for file in filter(may_leave, walk(self)):
            export.save(file, [self.read(join_segments(file))])


def walk(filesystem: Filesystem, base: Segments = ()) -> Iterator[Segments]:
    """Every file beneath a directory."""
    pending = [base]
    while pending:
        here = pending.pop()
        for entry in filesystem.list(join_segments(here)):
            inside = (*here, entry.name)
            if entry.is_directory:
                pending.append(inside)
            else:
                yield inside


def _stat_or_none(filesystem: Filesystem, path: str) -> FileStat | None:
    try:
        return filesystem.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _grep_content(content: bytes, name: str, expression: re.Pattern[str]) -> Iterator[GrepMatch]:
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        return
    for number, line in enumerate(lines, 1):
        if match := expression.search(line):
            yield GrepMatch(name, number, line, match.start(), match.end())
