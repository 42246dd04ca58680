"""A section that brings host files along: read when first needed, shown in the prompt, let go of at the end."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar, Literal, Self, TypeAlias

from belljar import autorun
from belljar.errors import WorkspaceError
from belljar.filesystem import Filesystem, HostFilesystem, HostMount, HostMountPreview
from belljar.filesystem.export import Export, Take, may_leave
from belljar.filesystem.mounts import MountedFiles, Stamp, check_mounts, copy_found, find_files, stamp, tell_unmatched
from belljar.filesystem.paths import Segments, join_segments
from belljar.prompt import MarkdownSection
from belljar.prompt.frozen import FrozenDataclass
from belljar.runtime import SessionProtocol
from belljar.tools import Tool

_log = logging.getLogger(__name__)

Roots: TypeAlias = Sequence[os.PathLike[str] | str]


@FrozenDataclass()
class WorkspaceProgress:
    """How far it has come with many or large files; `total` is None where that is not known yet."""

    step: Literal["copy", "upload"]
    bytes: int
    total: int | None = None


@FrozenDataclass()
class Unsynced:
    """A file of the workspace that was not brought to its place."""

    path: str
    why: str
    kept_at: Path | None = None
    """Where it is in place of that; None where it was left behind."""


@FrozenDataclass()
class WorkspaceParams:
    overview: str = ""


class MountedSection(MarkdownSection[WorkspaceParams]):
    """What workspaces share, wherever their files end up.

    Mounts are checked at once and read when their files are first asked for. Leaving the section as a context calls
    `cleanup`; the directory of a section that is forgotten goes with it.
    """

    provider: ClassVar[str]
    """Whose adapters bring the files to the model."""
    _works_in_temp_dir: ClassVar[bool] = False
    """Whether results are there, and nowhere else."""

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
        sync_overwrite: bool,
        on_progress: Callable[[WorkspaceProgress], object] | None,
        accepts_overrides: bool,
        tools: Sequence[Tool[Any, Any]] = (),
    ) -> None:
        super().__init__(title=title, key=key, template="$overview", tools=tools, accepts_overrides=accepts_overrides)
        check_mounts(mounts, allowed_host_roots=allowed_host_roots)
        self.session = session
        self.mounts = tuple(mounts)
        self._roots = tuple(allowed_host_roots)
        self._sync_on_cleanup = sync_on_cleanup
        self._sync_to = None if sync_to is None else Path(sync_to).expanduser()
        self._sync_overwrite = sync_overwrite
        self._on_progress = on_progress
        self._lock = RLock()
        self._temp_dir: Path | None = None
        self._forgotten: weakref.finalize[[str], MountedSection] | None = None
        self._is_copied = False
        self._previews: tuple[HostMountPreview, ...] | None = None
        self._cleaned = False
        self._brought: dict[Segments, Stamp] = {}
        """Files of the host as they were when they were first looked at."""
        self.results_dir: Path | None = None
        """Where `sync_on_cleanup` put files; None before, and where there were none."""
        self.synced: tuple[str, ...] = ()
        """Those files, by their paths in the workspace."""
        self.unsynced: tuple[Unsynced, ...] = ()
        """Files that did not come to their places; each is logged as well."""

    @property
    def temp_dir(self) -> Path:
        """A directory on this host with a copy of the mounts, made when it is first asked for; gone after `cleanup`."""
        with self._lock:
            if not self._cleaned and not self._is_copied:
                self._copy_files()
                self._is_copied = True
            if self._temp_dir is None:
                raise self._over()
            return self._temp_dir

    @property
    def mount_previews(self) -> tuple[HostMountPreview, ...]:
        """What each mount brings in."""
        with self._lock:
            if self._previews is None:
                return () if self._cleaned else self._find_files().previews
            return self._previews

    @property
    @abstractmethod
    def filesystem(self) -> Filesystem: ...

    def render_body(self, params: WorkspaceParams | None) -> str:
        return super().render_body(WorkspaceParams("\n".join([self._place(), *map(_line, self.mount_previews)])))

    def cleanup(self) -> None:
        """Bring results back where that was asked for, then remove the directory on this host.

        Where they cannot be brought back nothing is removed, and the next call tries again; after one that succeeded,
        more of them do nothing.
        """
        with self._lock:
            if self._cleaned:
                return
            if self._sync_on_cleanup and self._is_used():
                try:
                    self._sync()
                except BaseException as error:
                    error.add_note(self._name_results())
                    raise
            self._cleaned = True
            self._remove_directory()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.cleanup()

    @abstractmethod
    def _place(self) -> str:
        """Where the model finds the files."""

    @abstractmethod
    def _fetch_changed(self, take: Take) -> None:
        """Hand over what changed since it was mounted."""

    def _is_used(self) -> bool:
        """Whether there is anything that could have changed."""
        return self._temp_dir is not None

    def _find_files(self) -> MountedFiles:
        """What is to be brought in, as it is now."""
        found = find_files(self.mounts, allowed_host_roots=self._roots)
        if self._previews is None:
            tell_unmatched(found.previews)
        self._previews = found.previews
        if self._sync_on_cleanup:
            for file in found.files:
                self._brought.setdefault(file.target, file.stamp)
        return found

    def _reserve_directory(self) -> Path:
        """The directory, which is empty until somebody looks."""
        if self._temp_dir is None:
            self._temp_dir = Path(tempfile.mkdtemp(prefix="belljar-workspace-")).resolve()
            self._forgotten = weakref.finalize(self, _remove, str(self._temp_dir))
        return self._temp_dir

    def _remove_directory(self) -> None:
        if self._forgotten is not None:
            self._forgotten.detach()
        if self._temp_dir is not None:
            _remove(str(self._temp_dir))

    def _name_results(self) -> str:
        """What became of results that could not be brought back."""
        if self._works_in_temp_dir and self._forgotten is not None:
            self._forgotten.detach()
            return f"cleanup() may be called again; until it succeeds, all files are in {self._temp_dir}"
        return "cleanup() may be called again; until it succeeds, nothing is removed"

    def _copy_files(self) -> Path:
        made = self._reserve_directory()
        count = self._counter("copy") if self._on_progress is not None else None
        try:
            copy_found(self._find_files(), HostFilesystem(made), progress=count)
        except BaseException:
            self._remove_directory()
            self._temp_dir = None
            raise
        return made

    def _sync(self) -> None:
        into = self._sync_to or self.results_dir or Path(tempfile.mkdtemp(prefix="belljar-results-"))
        export = Export(
            into,
            overwrite=self._sync_overwrite,
            remedy="it is kept beside",
            may_replace=lambda at, found: self._brought.get(at) == stamp(found),
        )
        synced: list[str] = []
        unsynced: list[Unsynced] = []
        failures: list[Exception] = []

        def take(at: Segments, pieces: Iterable[bytes]) -> None:
            path = join_segments(at)
            if not may_leave(at):
                unsynced.append(Unsynced(path, autorun.refusal(path) or ""))
                return
            try:
                placed = export.save(at, pieces, beside=True)
            except (OSError, WorkspaceError) as error:  # the others come home all the same
                failures.append(error)
                return
            if placed.name != at[-1]:
                unsynced.append(Unsynced(path, "something else is in its place", placed))
                _log.warning("%r has something else in its place; it is %r now", path, str(placed))
                return
            synced.append(path)
            if why := autorun.warning(path):
                _log.warning("%r was brought back: %s; read it first", path, why)

        try:
            self._fetch_changed(take)
        finally:
            self.synced = tuple(sorted(synced))
            self.unsynced = tuple(sorted(unsynced, key=lambda one: one.path))
            if any(one.kept_at for one in self.unsynced) or self.synced:
                self.results_dir = into
            elif self._sync_to is None and self.results_dir is None:
                _remove(str(into))
        if failures:
            raise failures[0]

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


def _remove(directory: str) -> None:
    shutil.rmtree(directory, ignore_errors=True)


def _line(preview: HostMountPreview) -> str:
    """Paths are whole, so that each can be used as it is read."""
    what = f"`{preview.mount_path}`: {preview.bytes_copied} bytes"
    if not preview.is_directory:
        return f"- {what}"
    above = "" if preview.mount_path == "." else f"{preview.mount_path}/"
    shown = ", ".join(f"`{above}{entry}`" for entry in preview.entries) or "empty"
    return f"- {what}, first of all {shown}" if preview.entries else f"- {what}, {shown}"
