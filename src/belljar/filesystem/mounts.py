"""Host files brought into a filesystem: which, how many bytes, and from where they may come."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

from belljar.errors import WorkspaceBudgetExceededError, WorkspaceError, WorkspaceSecurityError
from belljar.filesystem.base import Filesystem
from belljar.filesystem.file_types import unsupported_type
from belljar.filesystem.globs import leaves_out, takes
from belljar.filesystem.paths import WORKSPACE, Segments, VfsPath, join_segments, segments_of
from belljar.filesystem.safe_open import Opener

_SHOWN = 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HostMount:
    """A file or directory of the host, and what of it to bring in."""

    host_path: str | os.PathLike[str]
    """Absolute, with `~` for the home directory, or relative to an allowed root, or else to the working directory."""
    mount_path: str | VfsPath | None = None
    """Where it appears in the workspace, `repo` or `/mnt/data/repo`; None: under its own name."""
    include_glob: tuple[str, ...] = ()
    """Files to take, and directories to take whole; empty: everything."""
    exclude_glob: tuple[str, ...] = ()
    """Files and directories to leave out, as in .gitignore; wins over `include_glob`."""
    max_bytes: int | None = None
    """Of all its files together; None: unlimited."""
    follow_symlinks: bool = False

    def __post_init__(self) -> None:
        if not self.host_path:
            raise WorkspaceError("HostMount.host_path: is empty; name a file or directory of the host")
        given: object = self.host_path
        if not isinstance(given, str | os.PathLike):
            raise WorkspaceError(f"HostMount.host_path: {given!r} is no path; use a string or a pathlib.Path")
        object.__setattr__(self, "host_path", os.fspath(given))
        if self.max_bytes is not None and self.max_bytes < 0:
            raise WorkspaceError(f"HostMount.max_bytes: {self.max_bytes} is negative; use None for no limit")
        if self.mount_path is not None:
            segments_of(self.mount_path)
        for name in ("include_glob", "exclude_glob"):
            object.__setattr__(self, name, _patterns(name, getattr(self, name)))


@dataclass(frozen=True, slots=True)
class HostMountPreview:
    """What a mount brought in; `entries` are the first few, relative to the mount."""

    host_path: str
    resolved_host: Path
    mount_path: str
    entries: tuple[str, ...]
    is_directory: bool
    bytes_copied: int
    unmatched: tuple[str, ...] = ()
    """Patterns of the mount that nothing was taken or left out by."""


Stamp: TypeAlias = tuple[int, int, int, int]
"""Differs between two files, and whenever the bytes of one may."""


def stamp(found: os.stat_result) -> Stamp:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class HostFile(NamedTuple):
    """A file that a mount brings in: where it goes, where it lies, how many bytes of it, and as it was then."""

    target: Segments
    path: str
    size: int
    stamp: Stamp


class MountedFiles(NamedTuple):
    files: list[HostFile]
    previews: tuple[HostMountPreview, ...]
    directories: list[Segments]
    """Those that nothing is in."""


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
    taken = set(map(segments_of, into.glob("**"))) if mounts else set()
    found = find_files(mounts, allowed_host_roots=allowed_host_roots, taken=taken)
    tell_unmatched(found.previews)
    copy_found(found, into, progress=progress)
    return found.previews


def tell_unmatched(previews: Sequence[HostMountPreview]) -> None:
    """A pattern without effect is often one that was meant otherwise, and the files are on their way."""
    for preview in previews:
        for pattern in preview.unmatched:
            _log.warning(
                "mount %r: the pattern %r matches nothing in it, or nothing that other patterns do not leave out",
                preview.host_path,
                pattern,
            )


def copy_found(found: MountedFiles, into: Filesystem, *, progress: Callable[[int], object] | None = None) -> None:
    """Copy what was found."""
    opener = Opener()
    for directory in found.directories:
        into.mkdir(join_segments(directory))

    def open_files() -> Iterator[tuple[str, BinaryIO, int]]:
        for file in found.files:
            with opener.open(file.path) as stream:
                yield join_segments(file.target), stream, file.size
            if progress is not None:
                progress(file.size)

    into.copy_in(open_files())


def find_files(
    mounts: Sequence[HostMount],
    *,
    allowed_host_roots: Sequence[os.PathLike[str] | str],
    taken: Collection[Segments] = (),
) -> MountedFiles:
    """What the mounts bring in beside what is `taken`, without reading it; `Opener` opens it."""
    roots = allowed_roots(mounts, allowed_host_roots)
    seen = set(taken)
    files: list[HostFile] = []
    directories: list[Segments] = []
    previews = tuple(_find_files(mount, roots, seen, files, directories) for mount in mounts)
    _check_clashes(files, directories)
    return MountedFiles(files, previews, directories)


def check_mounts(mounts: Sequence[HostMount], *, allowed_host_roots: Sequence[os.PathLike[str] | str]) -> None:
    """Raise what `copy_mounts` would raise of the mounts themselves, without reading what is in them."""
    roots = allowed_roots(mounts, allowed_host_roots)
    for mount in mounts:
        _target(mount, _resolve_path(mount.host_path, roots))


def allowed_roots(mounts: Sequence[HostMount], roots: Sequence[os.PathLike[str] | str]) -> tuple[Path, ...]:
    if mounts and not roots:
        raise WorkspaceSecurityError("allowed_host_roots: is empty; name the directories that mounts may come from")
    return tuple(Path(os.path.expanduser(root)).resolve() for root in roots)


def _find_files(
    mount: HostMount, roots: tuple[Path, ...], taken: set[Segments], files: list[HostFile], directories: list[Segments]
) -> HostMountPreview:
    source = _resolve_path(mount.host_path, roots)
    is_directory = source.is_dir()
    target = _target(mount, source)
    entries: list[str] = []
    total = 0
    choice = _Choice(mount)
    empty: list[Segments] = []
    for relative, path, found in _chosen(mount, source, roots, choice, empty):
        to = (*target, *relative) if is_directory else target
        if to in taken:
            raise WorkspaceError(
                f"{mount.host_path}: {join_segments(to)} is there already; give the mount another mount_path"
            )
        if ending := unsupported_type(relative[-1]):
            raise WorkspaceError(
                f"{mount.host_path}: {join_segments(relative)!r} is of a type that is not supported ({ending}); leave "
                + (f"it out with exclude_glob=('*{ending}',)" if is_directory else "the mount out")
            )
        total += found.st_size
        if mount.max_bytes is not None and total > mount.max_bytes:
            raise WorkspaceBudgetExceededError(
                f"{mount.host_path}: holds more than max_bytes={mount.max_bytes}, reached at {join_segments(relative)}"
            )
        taken.add(to)
        files.append(HostFile(to, path, found.st_size, stamp(found)))
        if len(entries) < _SHOWN:
            entries.append(join_segments(relative))
    if is_directory and not entries:
        empty.append(())
    directories += [(*target, *relative) for relative in empty if (*target, *relative)]
    return HostMountPreview(
        os.fspath(mount.host_path), source, join_segments(target), tuple(entries), is_directory, total, choice.unmatched
    )


def _target(mount: HostMount, source: Path) -> Segments:
    """Where it appears; only a directory may be the whole workspace."""
    target = (source.name,) if mount.mount_path is None else segments_of(mount.mount_path, WORKSPACE)
    if not target and not source.is_dir():
        raise WorkspaceError(
            f"{mount.host_path}: mount_path {str(mount.mount_path)!r} is the workspace itself, and this is a file; "
            f"write {source.name!r}"
        )
    return target


def _check_clashes(files: Sequence[HostFile], directories: Sequence[Segments]) -> None:
    """Two mounts may each bring what the other's cannot be beside."""
    names = {file.target for file in files}
    above = {file.target[:-1] for file in files}.union(directories)
    for path in above:
        for depth in range(1, len(path) + 1):
            if path[:depth] in names:
                raise WorkspaceError(
                    f"{join_segments(path[:depth])}: would be a file and a directory at once; give one of the mounts "
                    "another mount_path"
                )


def _resolve_path(host_path: str | os.PathLike[str], roots: tuple[Path, ...]) -> Path:
    given = os.path.expanduser(host_path)
    candidates = [root / given for root in roots] + [Path.cwd() / given]
    found = next((candidate for candidate in candidates if candidate.exists()), None)
    if found is None:
        raise FileNotFoundError(f"{host_path}: there is no such file or directory")
    return _inside(found, roots)


def _inside(path: Path, roots: tuple[Path, ...]) -> Path:
    resolved = path.resolve(strict=True)
    if not any(resolved.is_relative_to(root) for root in roots):
        raise WorkspaceSecurityError(f"{path}: lies outside the allowed roots {', '.join(map(str, roots))}")
    return resolved


def _chosen(
    mount: HostMount, source: Path, roots: tuple[Path, ...], choice: _Choice, empty: list[Segments]
) -> Iterator[tuple[Segments, str, os.stat_result]]:
    """Its files; directories that nothing is in are added to `empty`."""
    if not source.is_dir():
        if choice.leaves_out((source.name,), is_directory=False) or not choice.takes((source.name,)):
            raise WorkspaceError(f"{mount.host_path}: is a file that its own patterns leave out; mount it without them")
        yield (source.name,), str(source), source.stat()
        return
    pending: list[tuple[Segments, str, frozenset[str]]] = [((), str(source), frozenset({str(source)}))]
    while pending:
        here, directory, above = pending.pop()
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        if here and not entries and choice.takes((*here, "")):
            empty.append(here)
        for entry in entries:
            relative, path = (*here, entry.name), entry.path
            if choice.leaves_out(relative, is_directory=entry.is_dir()):
                continue
            if entry.is_symlink():
                if not mount.follow_symlinks or not os.path.exists(path):
                    continue
                path = str(_inside(Path(path), roots))
            if entry.is_dir():
                if path not in above:  # a link to a directory it lies in would never end
                    pending.append((relative, path, above | {path}))
            elif entry.is_file() and choice.takes(relative):
                yield relative, path, entry.stat()


class _Choice:
    """What of a mount comes in, and which of its patterns had a part in that."""

    def __init__(self, mount: HostMount) -> None:
        self._mount = mount
        self._effective: set[str] = set()

    def leaves_out(self, path: Segments, *, is_directory: bool) -> bool:
        found = [one for one in self._mount.exclude_glob if leaves_out(path, one, is_directory=is_directory)]
        self._effective.update(found)
        return bool(found)

    def takes(self, path: Segments) -> bool:
        found = [one for one in self._mount.include_glob if takes(path, one)]
        self._effective.update(found)
        return bool(found) or not self._mount.include_glob

    @property
    def unmatched(self) -> tuple[str, ...]:
        given = dict.fromkeys((*self._mount.include_glob, *self._mount.exclude_glob))
        return tuple(pattern for pattern in given if pattern not in self._effective)


def _patterns(name: str, given: object) -> tuple[str, ...]:
    """As they were given, checked: one that can never match would bring in what it was to keep out."""
    if isinstance(given, str):
        raise WorkspaceError(f"HostMount.{name}: {given!r} is one string, and patterns are a tuple; write ({given!r},)")
    if not isinstance(given, Sequence) or not all(isinstance(pattern, str) for pattern in given):
        raise WorkspaceError(f"HostMount.{name}: {given!r} is no tuple of patterns such as ('*.csv', 'data/')")
    for pattern in given:
        if not pattern.strip("/."):
            raise WorkspaceError(f"HostMount.{name}: {pattern!r} names nothing; use '*' for everything")
        if ".." in pattern.split("/"):
            raise WorkspaceError(f"HostMount.{name}: {pattern!r} leads out of the mount; name what is in it")
        if pattern.startswith("!"):
            raise WorkspaceError(
                f"HostMount.{name}: {pattern!r} would take back what another leaves out, which is not known here; "
                f"leave out less, or write '?{pattern[1:]}' for a name that begins with '!'"
            )
    return tuple(given)
