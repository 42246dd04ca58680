"""The files of a container as a `Filesystem`: looked up by path in its listing, replaced with it when it is gone."""

from __future__ import annotations

import builtins
import contextlib
import errno
import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from belljar.adapters.openai.archives import MARKER, HostTree, OutgoingArchive, Tarball
from belljar.adapters.openai.config import ContainerConfig
from belljar.adapters.openai.container import NAME, ContainerManager, Filling
from belljar.adapters.openai.container_files import ROOT, ContainerFiles, Kept, Progress, each
from belljar.adapters.openai.listing import Listing
from belljar.errors import WorkspaceBudgetExceededError, WorkspaceError
from belljar.filesystem import FileEntry, FileStat, Filesystem, GrepMatch
from belljar.filesystem.export import OVERWRITE, Export, Take, may_leave
from belljar.filesystem.file_types import unsupported_type
from belljar.filesystem.paths import Segments, join_segments
from belljar.filesystem.rooted import Root
from belljar.runtime import Deadline

if TYPE_CHECKING:
    from openai import OpenAI

_log = logging.getLogger(__name__)


class ContainerFilesystem(Filesystem):
    """The container is made at the first operation, with `tarball_path` in it, or what `mounted` gives, or else what
    `local_root` holds.

    When it has expired or is gone, any operation makes another, uploads those files again (mounted ones as they are
    then) and what was written through this object since, and goes on; ContainerExpiredError where that fails too. What
    code had made comes along where the server still has it: our gateway does, of a container that has expired.
    `local_root` mirrors what goes through this object. `client` may also be a function that gives one when it is
    first needed; `on_progress` is told of bytes as they go out; `max_bytes` bounds what all files hold together.

    A container lists files only, so an empty directory is kept by a small file in it that is shown to nobody here.
    """

    def __init__(
        self,
        *,
        client: OpenAI | Callable[[], OpenAI],
        container_config: ContainerConfig,
        tarball_path: Path | None = None,
        local_root: Path | None = None,
        mounted: Callable[[], OutgoingArchive] | None = None,
        name: str = NAME,
        max_bytes: int | None = None,
        read_only: bool = False,
        on_progress: Progress | None = None,
    ) -> None:
        self._manager = ContainerManager(client, container_config, self._fill, name=name)
        self._given = mounted if tarball_path is None else partial(Tarball, tarball_path)
        self._local_root = local_root
        self._mirror = None if local_root is None else Root(local_root)
        self._max_bytes = max_bytes
        self._read_only = read_only
        self._on_progress = on_progress
        self._uploaded: dict[Segments, int] = {}
        self._deleted: set[Segments] = set()
        self._spool: Callable[[], object] | None = None
        self._looked: tuple[ContainerFiles, Listing] | None = None

    # -- the container -------------------------------------------------------------------------------------------------

    @property
    def container_id(self) -> str | None:
        """None until it is made."""
        return self._manager.container_id

    def ensure_container(self, *, deadline: Deadline | None = None) -> str:
        """The id of a container that is there, made or replaced if need be."""
        return self._manager.ensure(deadline=deadline)

    def cleanup(self, *, delete_container: bool = False) -> None:
        """Let go of what is kept on this host. The container expires by itself, unless it is to be deleted now."""
        if delete_container:
            self._manager.delete()
        self._uploaded = {}
        if self._spool is not None:
            self._spool()
            self._spool = self._mirror = None

    # -- the port ------------------------------------------------------------------------------------------------------

    @property
    def root(self) -> str:
        return ROOT

    @property
    def read_only(self) -> bool:
        return self._read_only

    def read(self, path: str) -> bytes:
        segments = self.locate(path)
        return self._manager.use(lambda files: b"".join(files.chunks(self._listing(files, segments).file(segments))))

    def write(self, path: str, content: bytes) -> None:
        segments = self.locate(path)
        self._check_writable(segments)
        if not segments:
            raise _fault(errno.EISDIR, segments)

        def put(files: ContainerFiles) -> None:
            listing = self._listing(files, segments if self._max_bytes is None else None)
            listing.check_place(segments)
            self._check_budget(listing, segments, len(content))
            files.put(segments, content, older=[kept for kept in listing.of(segments) if kept.id])
            listing.replace(segments, len(content))

        self._manager.use(put)
        self._mirror_file(segments, content)

    def stat(self, path: str) -> FileStat:
        segments = self.locate(path)
        found = self._manager.use(lambda files: self._listing(files, segments).find_file(segments))
        at = None if found is None else datetime.fromtimestamp(found.created_at, UTC)
        return FileStat(
            path=join_segments(segments),
            is_file=found is not None,
            is_directory=found is None,
            size_bytes=0 if found is None else found.size,
            created_at=at,
            modified_at=at,
        )

    def list(self, path: str = ".") -> builtins.list[FileEntry]:
        segments = self.locate(path)
        names = self._manager.use(lambda files: self._listing(files).names(segments))
        return [
            FileEntry(name, join_segments((*segments, name)), is_file=not is_directory, is_directory=is_directory)
            for name, is_directory in names
        ]

    def mkdir(self, path: str, *, parents: bool = True, exist_ok: bool = True) -> None:
        segments = self.locate(path)
        self._check_writable(segments)

        def make(files: ContainerFiles) -> bool:
            listing = self._listing(files)
            if listing.is_directory(segments) and exist_ok:
                return False
            if listing.is_directory(segments) or listing.is_file(segments):
                raise _fault(errno.EEXIST, segments)
            listing.check_place(segments)
            if not parents:
                listing.names(segments[:-1])
            files.put((*segments, MARKER), b"")
            return True

        if self._manager.use(make):
            self._mirror_file((*segments, MARKER), b"")

    def delete(self, path: str, *, recursive: bool = False) -> None:
        segments = self.locate(path)
        self._check_writable(segments)
        if not segments:
            raise _fault(errno.EPERM, segments)

        def remove(files: ContainerFiles) -> builtins.list[Kept]:
            listing = self._listing(files)
            if listing.find_file(segments) is None and not recursive and listing.names(segments):
                raise _fault(errno.ENOTEMPTY, segments)
            gone = listing.beneath(segments)
            if len(segments) > 1 and listing.names(segments[:-1]) == [(segments[-1], listing.is_directory(segments))]:
                files.put((*segments[:-1], MARKER), b"")
            each(files.delete, gone)
            return gone

        for kept in self._manager.use(remove):
            self._forget(kept.segments)

    def append(self, path: str, content: bytes) -> None:
        with self._one_look():
            super().append(path, content)

    def copy_in(self, files: Iterable[tuple[str, BinaryIO, int]]) -> None:
        with self._one_look():
            super().copy_in(files)

    def glob(self, pattern: str, *, path: str = ".") -> builtins.list[str]:
        with self._one_look():
            return super().glob(pattern, path=path)

    def grep(
        self, pattern: str, *, path: str = ".", glob: str | None = None, max_matches: int | None = None
    ) -> builtins.list[GrepMatch]:
        with self._one_look():
            return super().grep(pattern, path=path, glob=glob, max_matches=max_matches)

    def download_all(self, dest: Path, *, overwrite: bool = False) -> None:
        export = Export(dest, overwrite=overwrite, remedy=OVERWRITE)
        self._fetch(export.save, lambda kept: may_leave(kept.segments), heal=True)

    def fetch_changed(self, take: Take) -> None:
        """Hand over what code made or changed, and what is not as it was uploaded; several files at a time.

        A container that is gone is not replaced for this: another has nothing that is new.
        """
        self._fetch(take, self._is_changed, heal=False)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _fill(self, filling: Filling) -> None:
        files, lost = filling.files, filling.lost
        there = frozenset(kept.segments for kept in files.newest_first()) if filling.found else frozenset()
        if self._given is not None and (lost is None or self._local_root is None):
            given = self._given()
            _check_types(given)
            files.put_all(given, there=there, progress=self._on_progress)
            self._uploaded = {member.segments: member.size for member in given.members()}
        if self._mirror is not None and (lost is not None or self._given is None):
            tree = HostTree(self._mirror.path)
            if lost is None:
                _check_types(tree)
            files.put_all(tree, there=there, progress=self._on_progress)
        if lost is not None:
            if self._deleted:
                each(files.delete, [kept for kept in files.newest_first() if kept.segments in self._deleted])
            self._rescue(lost, files)

    def _rescue(self, lost: ContainerFiles, files: ContainerFiles) -> None:
        """What code had made, from a server that still has it."""
        try:
            made = [kept for kept in lost.newest_first() if kept.source != "user"]
            each(lambda kept: files.put(kept.segments, b"".join(lost.chunks(kept))), made)
        except Exception as error:  # noqa: BLE001 - most servers have nothing left, and say so in one way or another
            _log.info("what code had made is gone with its container: %s", error)

    def _listing(self, files: ContainerFiles, wanted: Segments | None = None) -> Listing:
        """Where a file is wanted, only as far down as it is found: the newest come first, and the newest wins.

        Within one look it is all of them, and again only where the container was replaced.
        """
        if self._looked is not None:
            if self._looked[0] is not files:
                self._looked = (files, self._list_files(files))
            return self._looked[1]
        return self._list_files(files, wanted)

    def _list_files(self, files: ContainerFiles, wanted: Segments | None = None) -> Listing:
        listing = Listing()
        for kept in files.newest_first():
            listing.add(kept)
            if kept.segments == wanted:
                break
        return listing

    @contextmanager
    def _one_look(self) -> Iterator[None]:
        """One listing for all that happens in here; one look inside another is the same."""
        with self._manager.lock:
            before = self._looked
            if before is None:
                self._looked = self._manager.use(lambda files: (files, self._list_files(files)))
            try:
                yield
            finally:
                if before is None:
                    self._looked = None

    def _fetch(self, take: Take, wanted: Callable[[Kept], bool], *, heal: bool) -> None:
        def fetch(files: ContainerFiles) -> None:
            chosen = [kept for kept in self._listing(files).files() if wanted(kept)]
            each(lambda kept: take(kept.segments, files.chunks(kept)), chosen)

        self._manager.use(fetch, heal=heal)

    def _is_changed(self, kept: Kept) -> bool:
        return kept.source != "user" or kept.size != self._size(kept.segments)

    def _size(self, segments: Segments) -> int | None:
        """As it came from this side, if it did."""
        if self._mirror is not None:
            with contextlib.suppress(OSError):
                return self._mirror.status(segments).st_size
        return self._uploaded.get(segments)

    def _mirror_file(self, segments: Segments, content: bytes) -> None:
        """Keep what was written, for a container in the place of this one."""
        if self._mirror is None:
            spool = tempfile.mkdtemp(prefix="belljar-")
            self._spool = weakref.finalize(self, shutil.rmtree, spool, ignore_errors=True)
            self._mirror = Root(Path(spool))
        self._mirror.write(segments, content)
        self._deleted.discard(segments)

    def _forget(self, segments: Segments) -> None:
        self._deleted.add(segments)
        if self._mirror is not None:
            with contextlib.suppress(OSError), self._mirror.directory(segments[:-1]) as parent:
                os.unlink(segments[-1], dir_fd=parent)

    def _check_writable(self, segments: Segments) -> None:
        if self._read_only:
            raise _fault(errno.EPERM, segments)

    def _check_budget(self, listing: Listing, segments: Segments, size: int) -> None:
        if self._max_bytes is None:
            return
        old = listing.of(segments)
        more = size - (old[0].size if old else 0)
        total = sum(kept.size for kept in listing.files()) + more
        if more > 0 and total > self._max_bytes:
            raise WorkspaceBudgetExceededError(
                f"{join_segments(segments)}: makes {total} bytes in all, and {self._max_bytes} are allowed"
            )


def _check_types(given: OutgoingArchive) -> None:
    """Of files that come from the host; what was written here is its writer's affair."""
    for member in given.members():
        if ending := unsupported_type(member.segments[-1]):
            raise WorkspaceError(
                f"{join_segments(member.segments)!r} is of a type that is not supported ({ending}); leave it out of "
                "what is uploaded"
            )


def _fault(code: int, segments: Segments) -> OSError:
    return OSError(code, os.strerror(code), join_segments(segments))
