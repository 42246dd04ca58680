"""A section that brings host files along: read when first needed, shown in the prompt, let go of at the end."""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import RLock
from typing import Literal, Self, TypeAlias

from belljar.errors import WorkspaceError
from belljar.filesystem import Filesystem, HostFilesystem, HostMount, HostMountPreview, copy_mounts
from belljar.filesystem.mounts import Found, check_mounts, find_files
from belljar.prompt import MarkdownSection
from belljar.prompt.frozen import FrozenDataclass
from belljar.runtime import SessionProtocol

Roots: TypeAlias = Sequence[os.PathLike[str] | str]


@FrozenDataclass()
class WorkspaceProgress:
    """How far it has come with many or large files; `total` is None where that is not known yet."""

    step: Literal["copy", "upload"]
    bytes: int
    total: int | None = None


@FrozenDataclass()
class WorkspaceParams:
    overview: str = ""


class MountedSection(MarkdownSection[WorkspaceParams]):
    """What workspaces share, wherever their files end up.

    Mounts are checked at once and read when their files are first asked for; `cleanup` may be called any number of
    times, and leaving the section as a context calls it.
    """

    def __init__(
        self,
        *,
        title: str,
        key: str,
        session: SessionProtocol,
        mounts: Sequence[HostMount],
        allowed_host_roots: Roots,
        sync_on_cleanup: bool,
        sync_to: os.PathLike[str] | str | None,
        on_progress: Callable[[WorkspaceProgress], object] | None,
        accepts_overrides: bool,
    ) -> None:
        super().__init__(title=title, key=key, template="$overview", accepts_overrides=accepts_overrides)
        check_mounts(mounts, allowed_host_roots=allowed_host_roots)
        self.session = session
        self.mounts = tuple(mounts)
        self._roots = tuple(allowed_host_roots)
        self._sync_on_cleanup = sync_on_cleanup
        self._sync_to = None if sync_to is None else Path(sync_to)
        self._on_progress = on_progress
        self._lock = RLock()
        self._temp_dir: Path | None = None
        self._is_copied = False
        self._previews: tuple[HostMountPreview, ...] | None = None
        self._cleaned = False
        self.results_dir: Path | None = None
        """Where `sync_on_cleanup` put files; None before, and where there were none."""
        self.synced: tuple[str, ...] = ()
        """Those files, by their paths in the workspace."""

    @property
    def temp_dir(self) -> Path:
        """A directory on this host with a copy of the mounts, made when it is first asked for; gone after `cleanup`."""
        with self._lock:
            if not self._cleaned and not self._is_copied:
                self._copied()
                self._is_copied = True
            if self._temp_dir is None:
                raise self._over()
            return self._temp_dir

    @property
    def mount_previews(self) -> tuple[HostMountPreview, ...]:
        """What each mount brings in."""
        with self._lock:
            if self._previews is None:
                return () if self._cleaned else self._found().previews
            return self._previews

    @property
    @abstractmethod
    def filesystem(self) -> Filesystem: ...

    def render_body(self, params: WorkspaceParams | None) -> str:
        return super().render_body(WorkspaceParams("\n".join([self._place(), *map(_line, self.mount_previews)])))

    def cleanup(self) -> None:
        """Bring results back where that was asked for, then remove the directory on this host."""
        with self._lock:
            if self._cleaned:
                return
            self._cleaned = True
            try:
                if self._sync_on_cleanup and self._is_used():
                    self._sync()
            finally:
                if self._temp_dir is not None:
                    shutil.rmtree(self._temp_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.cleanup()

    @abstractmethod
    def _place(self) -> str:
        """Where the model finds the files."""

    @abstractmethod
    def _download(self, into: Path) -> tuple[str, ...]:
        """What changed since it was mounted, into a directory of this host."""

    def _is_used(self) -> bool:
        """Whether there is anything that could have changed."""
        return self._temp_dir is not None

    def _found(self) -> Found:
        """What is to be brought in, as it is now."""
        found = find_files(self.mounts, allowed_host_roots=self._roots)
        self._previews = found.previews
        return found

    def _reserved(self) -> Path:
        """The directory, which is empty until somebody looks."""
        if self._temp_dir is None:
            self._temp_dir = Path(tempfile.mkdtemp(prefix="belljar-workspace-")).resolve()
        return self._temp_dir

    def _copied(self) -> Path:
        made = self._reserved()
        count = self._counter("copy") if self._on_progress is not None else None
        try:
            self._previews = copy_mounts(
                self.mounts, allowed_host_roots=self._roots, into=HostFilesystem(made), progress=count
            )
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            self._temp_dir = None
            raise
        return made

    def _sync(self) -> None:
        into = self._sync_to
        if into is None:
            into = Path(tempfile.mkdtemp(prefix="belljar-results-"))
        self.synced = self._download(into)
        if self.synced:
            self.results_dir = into
        elif self._sync_to is None:
            into.rmdir()

    def _counter(self, step: Literal["copy", "upload"]) -> Callable[[int], None]:
        done = 0

        def count(more: int) -> None:
            nonlocal done
            done += more
            total = None
            if step == "upload":
                total = sum(preview.bytes_copied for preview in self.mount_previews)
                done = min(done, total)  # the rest is headers, and another try
            if self._on_progress is not None:
                self._on_progress(WorkspaceProgress(step, done, total))

        return count

    def _over(self) -> WorkspaceError:
        return WorkspaceError(f"section {self.key!r}: the workspace was cleaned up; make a new one")


def _line(preview: HostMountPreview) -> str:
    what = f"`{preview.mount_path}`: {preview.bytes_copied} bytes"
    if not preview.is_directory:
        return f"- {what}"
    shown = ", ".join(f"`{entry}`" for entry in preview.entries) or "empty"
    return f"- {what}, first of all {shown}" if preview.entries else f"- {what}, {shown}"
