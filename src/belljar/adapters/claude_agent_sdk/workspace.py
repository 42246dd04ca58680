"""A workspace in a directory of this host: the same mounts, without a container."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from belljar.adapters.workspace_section import MountedSection, Roots, WorkspaceProgress
from belljar.filesystem import HostFilesystem, HostMount
from belljar.filesystem.base import walk
from belljar.filesystem.export import Take
from belljar.filesystem.paths import WORKSPACE, Segments
from belljar.filesystem.rooted import Root
from belljar.prompt import vfs
from belljar.runtime import SessionProtocol

_PIECE = 1 << 20


class ClaudeAgentWorkspaceSection(MountedSection):
    """Host files in `temp_dir`, and tools for the model to read and change them; takes what
    OpenAIContainerWorkspaceSection takes, but for the container.

    The tools and `filesystem` take paths from the workspace's root, `project/main.py`, which is how the model is told
    of files; `/mnt/data/project/main.py`, as in a container; and those that begin with `temp_dir`. Without `file_tools`
    the model is told `temp_dir`, for tools of the caller's own.
    """

    provider = "anthropic"
    _works_in_temp_dir = True

    def __init__(
        self,
        *,
        session: SessionProtocol,
        mounts: Sequence[HostMount] = (),
        allowed_host_roots: Roots = (),
        sync_on_cleanup: bool = False,
        accepts_overrides: bool = False,
        sync_to: os.PathLike[str] | str | None = None,
        sync_overwrite: bool = False,
        on_progress: Callable[[WorkspaceProgress], object] | None = None,
        file_tools: bool = True,
    ) -> None:
        super().__init__(
            title="Workspace",
            key="claude-agent-workspace",
            session=session,
            mounts=mounts,
            allowed_host_roots=allowed_host_roots,
            sync_on_cleanup=sync_on_cleanup,
            sync_to=sync_to,
            sync_overwrite=sync_overwrite,
            on_progress=on_progress,
            accepts_overrides=accepts_overrides,
            tools=vfs.file_tools(lambda: self.filesystem) if file_tools else (),
        )
        self._file_tools = file_tools
        self._mounted: dict[Segments, tuple[int, int]] = {}

    @property
    def filesystem(self) -> HostFilesystem:
        with self._lock:
            if self._cleaned:
                raise self._over()
            return HostFilesystem(self.temp_dir, known_as=WORKSPACE)

    def _place(self) -> str:
        if self._file_tools:
            return f"These are files of the host, which {vfs.how_to_use_files()}"
        return f"These files of the host are in `{self.temp_dir}` and may be changed there."

    def _copy_files(self) -> Path:
        made = super()._copy_files()
        if self._sync_on_cleanup:
            self._mounted = dict(_looks(made))
        return made

    def _fetch_changed(self, take: Take) -> None:
        source = Root(self.temp_dir)
        for at, look in _looks(self.temp_dir):
            if self._mounted.get(at) != look:
                with source.file(at) as opened, open(opened, "rb", closefd=False) as stream:
                    take(at, iter(lambda: stream.read(_PIECE), b""))


def _looks(directory: Path) -> list[tuple[Segments, tuple[int, int]]]:
    """Every file, and what would differ if it had changed."""
    root = Root(directory)
    found = []
    for at in walk(HostFilesystem(directory)):
        status = root.status(at)
        found.append((at, (status.st_size, status.st_mtime_ns)))
    return found
