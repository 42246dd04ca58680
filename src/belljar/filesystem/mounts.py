"""Host files brought into a filesystem: which, how many bytes, and from where they may come."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from belljar.errors import WorkspaceBudgetExceededError, WorkspaceError, WorkspaceSecurityError
from belljar.filesystem.base import Filesystem, walk
from belljar.filesystem.globs import excluded, matches
from belljar.filesystem.paths import Segments, VfsPath, segments_of, spelled

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class HostMount:
    """A file or directory of the host, and what of it to bring in."""

    host_path: str
    """Absolute, or relative to one of the allowed roots, or else to the working directory."""
    mount_path: str | VfsPath | None = None
    """Where it appears; None: under its own name."""
    include_glob: tuple[str, ...] = ()
    """Empty: everything."""
    exclude_glob: tuple[str, ...] = ()
    """Wins over `include_glob`."""
    max_bytes: int | None = None
    """Of all its files together; None: unlimited."""
    follow_symlinks: bool = False

    def __post_init__(self) -> None:
        if not self.host_path:
            raise WorkspaceError("HostMount.host_path: is empty; name a file or directory of the host")
        if self.max_bytes is not None and self.max_bytes < 0:
            raise WorkspaceError(f"HostMount.max_bytes: {self.max_bytes} is negative; use None for no limit")
        if self.mount_path is not None:
            segments_of(self.mount_path)


@dataclass(frozen=True, slots=True)
class HostMountPreview:
    """What a mount brought in; `entries` are the first few, relative to the mount."""

    host_path: str
    resolved_host: Path
    mount_path: str
    entries: tuple[str, ...]
    is_directory: bool
    bytes_copied: int


def copy_mounts(
    mounts: Sequence[HostMount],
    *,
    allowed_host_roots: Sequence[os.PathLike[str] | str],
    into: Filesystem,
    progress: Callable[[int], object] | None = None,
) -> tuple[HostMountPreview, ...]:
    """Copy each mount; nothing outside the allowed roots is read. `("/",)` allows the whole host.

    `progress` is told the bytes of each file as it has come in.
    """
    roots = allowed(mounts, allowed_host_roots)
    taken = set(walk(into)) if mounts else set()
    return tuple(_copied(mount, roots, into, taken, progress) for mount in mounts)


def check_mounts(mounts: Sequence[HostMount], *, allowed_host_roots: Sequence[os.PathLike[str] | str]) -> None:
    """Raise what `copy_mounts` would raise of the mounts themselves, without reading what is in them."""
    roots = allowed(mounts, allowed_host_roots)
    for mount in mounts:
        _resolved(mount.host_path, roots)


def allowed(mounts: Sequence[HostMount], roots: Sequence[os.PathLike[str] | str]) -> tuple[Path, ...]:
    if mounts and not roots:
        raise WorkspaceSecurityError("allowed_host_roots: is empty; name the directories that mounts may come from")
    return tuple(Path(root).resolve() for root in roots)


def _copied(
    mount: HostMount,
    roots: tuple[Path, ...],
    into: Filesystem,
    taken: set[Segments],
    progress: Callable[[int], object] | None,
) -> HostMountPreview:
    source = _resolved(mount.host_path, roots)
    is_directory = source.is_dir()
    target = (source.name,) if mount.mount_path is None else segments_of(mount.mount_path)
    entries: list[str] = []
    copied = 0

    def files() -> Iterator[tuple[str, BinaryIO, int]]:
        nonlocal copied
        for relative, path in _chosen(mount, source, roots):
            to = (*target, *relative) if is_directory else target
            name = spelled(to)
            if to in taken:
                raise WorkspaceError(f"{mount.host_path}: {name} is there already; give the mount another mount_path")
            with _opened(path) as stream:
                size = os.fstat(stream.fileno()).st_size
                copied += size
                if mount.max_bytes is not None and copied > mount.max_bytes:
                    at = spelled(relative)
                    raise WorkspaceBudgetExceededError(
                        f"{mount.host_path}: holds more than max_bytes={mount.max_bytes}, reached at {at}"
                    )
                yield name, stream, size
            taken.add(to)
            if len(entries) < _SHOWN:
                entries.append(spelled(relative))
            if progress is not None:
                progress(size)

    into.copy_in(files())
    return HostMountPreview(mount.host_path, source, spelled(target), tuple(entries), is_directory, bytes_copied=copied)


def _resolved(host_path: str, roots: tuple[Path, ...]) -> Path:
    candidates = [root / host_path for root in roots] + [Path.cwd() / host_path]
    found = next((candidate for candidate in candidates if candidate.exists()), None)
    if found is None:
        raise FileNotFoundError(f"{host_path}: there is no such file or directory")
    return _inside(found, roots)


def _inside(path: Path, roots: tuple[Path, ...]) -> Path:
    resolved = path.resolve(strict=True)
    if not any(resolved.is_relative_to(root) for root in roots):
        raise WorkspaceSecurityError(f"{path}: lies outside the allowed roots {', '.join(map(str, roots))}")
    return resolved


def _chosen(mount: HostMount, source: Path, roots: tuple[Path, ...]) -> Iterator[tuple[Segments, str]]:
    if not source.is_dir():
        yield (source.name,), str(source)
        return
    pending: list[tuple[Segments, str, frozenset[str]]] = [((), str(source), frozenset({str(source)}))]
    while pending:
        here, directory, above = pending.pop()
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            relative, path = (*here, entry.name), entry.path
            if entry.is_symlink():
                if not mount.follow_symlinks or not os.path.exists(path):
                    continue
                path = str(_inside(Path(path), roots))
            if entry.is_dir():
                if path not in above:  # a link to a directory it lies in would never end
                    pending.append((relative, path, above | {path}))
            elif entry.is_file() and _wanted(mount, relative):
                yield relative, path


def _wanted(mount: HostMount, path: Segments) -> bool:
    included = not mount.include_glob or any(matches(path, pattern) for pattern in mount.include_glob)
    return included and not excluded(path, mount.exclude_glob)


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """A link or a pipe put here since we looked is not opened."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if os.path.islink(path):
            raise WorkspaceSecurityError(f"{path}: turned into a link while it was copied") from error
        raise
    with open(opened, "rb") as stream:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise WorkspaceSecurityError(f"{path}: is no plain file")
        yield stream
