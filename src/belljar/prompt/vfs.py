"""A prompt section with tools that let a model list, read, search and change files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from belljar.errors import WorkspaceError
from belljar.filesystem import (
    FileEntry,
    Filesystem,
    GrepMatch,
    HostMount,
    HostMountPreview,
    InMemoryFilesystem,
    ReadResult,
    copy_mounts,
)
from belljar.prompt.section import MarkdownSection
from belljar.runtime import SessionProtocol
from belljar.tools import Tool, ToolContext, ToolResult

T = TypeVar("T")
_MATCHES = 200


@dataclass(frozen=True, slots=True)
class ListDirectory:
    path: str = "."


@dataclass(frozen=True, slots=True)
class ReadFile:
    path: str
    offset: int = 0
    limit: int = 2000


@dataclass(frozen=True, slots=True)
class WriteFile:
    path: str
    content: str


@dataclass(frozen=True, slots=True)
class EditFile:
    path: str
    old: str
    new: str
    every: bool = False


@dataclass(frozen=True, slots=True)
class GlobFiles:
    pattern: str
    path: str = "."


@dataclass(frozen=True, slots=True)
class GrepFiles:
    pattern: str
    path: str = "."
    glob: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveFile:
    path: str
    recursive: bool = False


@dataclass(frozen=True, slots=True)
class FoundFiles:
    paths: tuple[str, ...]


class VfsToolsSection(MarkdownSection[None]):
    """`ls`, `read_file`, `write_file`, `edit_file`, `glob`, `grep` and `rm`, on files in memory or on those handed in.

    Mounts are copied in when the section is made. A filesystem that is read-only has no tools that change it.
    """

    def __init__(
        self,
        *,
        session: SessionProtocol | None = None,
        filesystem: Filesystem | None = None,
        mounts: Sequence[HostMount] = (),
        allowed_host_roots: Sequence[os.PathLike[str] | str] = (),
        accepts_overrides: bool = False,
    ) -> None:
        self.session = session
        self.filesystem: Filesystem = InMemoryFilesystem() if filesystem is None else filesystem
        self.mount_previews: tuple[HostMountPreview, ...] = copy_mounts(
            mounts, allowed_host_roots=allowed_host_roots, into=self.filesystem
        )
        super().__init__(
            title="Files",
            key="vfs",
            template=f"There are files, which {how_to_use_files(read_only=self.filesystem.read_only)}",
            tools=file_tools(lambda: self.filesystem, read_only=self.filesystem.read_only),
            accepts_overrides=accepts_overrides,
        )


def how_to_use_files(*, read_only: bool = False) -> str:
    """The end of a sentence that tells a model of them."""
    change = "" if read_only else ", and change with `write_file`, `edit_file` and `rm`"
    return f"you can look at with `ls`, `read_file`, `glob` and `grep`{change}. Paths are relative to their root."


def file_tools(filesystem: Callable[[], Filesystem], *, read_only: bool = False) -> tuple[Tool[Any, Any], ...]:
    """The tools on a filesystem, which is asked for at each call."""
    tools = _FileTools(filesystem)
    return tuple(
        tools.make_reading_tools() if read_only else [*tools.make_reading_tools(), *tools.make_writing_tools()]
    )


@dataclass(frozen=True, slots=True)
class _FileTools:
    give: Callable[[], Filesystem]

    @property
    def filesystem(self) -> Filesystem:
        return self.give()

    # -- looking -------------------------------------------------------------------------------------------------------

    def make_reading_tools(self) -> list[Tool[Any, Any]]:
        return [
            Tool[ListDirectory, list[FileEntry]](
                name="ls", description="Lists what is in a directory.", handler=self._ls
            ),
            Tool[ReadFile, ReadResult](
                name="read_file",
                description="Reads lines of a text file: `limit` of them from line `offset` on, counted from 0.",
                handler=self._read,
            ),
            Tool[GlobFiles, FoundFiles](
                name="glob",
                description="Finds files by name, such as `**/*.py`; the pattern starts at `path`.",
                handler=self._glob,
            ),
            Tool[GrepFiles, list[GrepMatch]](
                name="grep",
                description="Finds lines that match a regular expression, in one file or in those beneath a directory.",
                handler=self._grep,
            ),
        ]

    def _ls(self, params: ListDirectory, *, context: ToolContext) -> ToolResult[list[FileEntry]]:
        return _report_errors(lambda: self.filesystem.list(params.path), lambda found: f"{len(found)} in {params.path}")

    def _read(self, params: ReadFile, *, context: ToolContext) -> ToolResult[ReadResult]:
        return _report_errors(
            lambda: self.filesystem.read_lines(params.path, offset=params.offset, limit=params.limit),
            lambda page: f"{params.path} has {page.total_lines} lines{'; there is more' if page.truncated else ''}",
        )

    def _glob(self, params: GlobFiles, *, context: ToolContext) -> ToolResult[FoundFiles]:
        return _report_errors(
            lambda: FoundFiles(tuple(self.filesystem.glob(params.pattern, path=params.path))),
            lambda found: f"{len(found.paths)} match {params.pattern}",
        )

    def _grep(self, params: GrepFiles, *, context: ToolContext) -> ToolResult[list[GrepMatch]]:
        return _report_errors(
            lambda: self.filesystem.grep(params.pattern, path=params.path, glob=params.glob, max_matches=_MATCHES),
            lambda found: f"{len(found)} lines match{', and maybe more' if len(found) == _MATCHES else ''}",
        )

    # -- changing ------------------------------------------------------------------------------------------------------

    def make_writing_tools(self) -> list[Tool[Any, Any]]:
        return [
            Tool[WriteFile, None](
                name="write_file",
                description="Makes a text file, or replaces what it holds.",
                handler=self._write,
            ),
            Tool[EditFile, None](
                name="edit_file",
                description="Replaces `old` by `new` in a text file: once, where there is one of it, or everywhere.",
                handler=self._edit,
            ),
            Tool[RemoveFile, None](
                name="rm",
                description="Removes a file; a directory that is not empty only when `recursive`.",
                handler=self._remove,
            ),
        ]

    def _write(self, params: WriteFile, *, context: ToolContext) -> ToolResult[None]:
        return _report_errors(
            lambda: self.filesystem.write_text(params.path, params.content), lambda _: f"{params.path} is written"
        )

    def _edit(self, params: EditFile, *, context: ToolContext) -> ToolResult[None]:
        def edit() -> None:
            text = self.filesystem.read_text(params.path)
            times = text.count(params.old) if params.old else 0
            if not times or (times > 1 and not params.every):
                raise ValueError(f"old: is {times} times in {params.path}; give more of the text around it, or `every`")
            self.filesystem.write_text(params.path, text.replace(params.old, params.new))

        return _report_errors(edit, lambda _: f"{params.path} is changed")

    def _remove(self, params: RemoveFile, *, context: ToolContext) -> ToolResult[None]:
        return _report_errors(
            lambda: self.filesystem.delete(params.path, recursive=params.recursive), lambda _: f"{params.path} is gone"
        )


def _report_errors(act: Callable[[], T], message: Callable[[T], str]) -> ToolResult[T]:
    """What is wrong with a path or a pattern is for the model to read."""
    try:
        value = act()
    except UnicodeDecodeError as error:
        return ToolResult.error(f"this is no text in UTF-8, and only text can be read here: {error}")
    except (OSError, ValueError, WorkspaceError) as error:
        return ToolResult.error(str(error))
    return ToolResult(message(value), value)
