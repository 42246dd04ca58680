"""The workspace as the host touches it: every step from one descriptor, never along a link, never out of the mount.

The jailed code owns the directory and may change anything in it at any moment, so no path is checked first and used
later: `openat2` resolves and refuses in one step, and only regular files are read.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from belljar.errors import InvalidRequest, Lost, NotFound, TooLarge, WorkspaceSecurityError
from belljar.rooted_paths import PART, LastDirectory, PartFile, descend
from belljar.sandbox.base import MIB, Content, FileInfo, Readable
from belljar.sandbox.file_names import LONGEST, PROGRAMS, clean_name
from belljar.sandbox.local import change_queue, linux, tree_walk
from belljar.sandbox.local.tree_walk import BENEATH
from belljar.sandbox.mime import guess_type
from belljar.sandbox.outputs import FileChanged

_GLANCE, _MOMENT = 500, 0.01
"""Entries and seconds that a look may take on the caller's own thread; a longer one is for a worker."""
_LONGEST_LOOK = 2.0
"""Seconds after which a look is cut off, in a tree that is too large or never stands still."""
_OF_LATE, _HELD = 16, 256
"""Files that are looked at after every cell, since a mapping of them may be written to without a word: those that
something happened to of late, and those that were opened and not closed.
"""
_LONG_NAMES = 256 << 10
"""Bytes of the names to be looked at beyond which a walk is quicker."""
_SETTLED = 0.05
"""Seconds after which a change has another time than the one before it; the kernel's clock for files ticks slower."""
_TRIES = 1000

Stamp = tuple[int, int, int, int]
"""Inode, size, modification and change time: differs whenever the bytes may."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is new or different since the last look, oldest first."""

    changes: Sequence[FileChanged] = ()
    cut: str = ""
    """What was not looked at, in words."""


@dataclass(slots=True)
class _Plan:
    """What a look has to look at."""

    whole: bool = False
    names: set[str] = field(default_factory=set)
    starts: list[str] = field(default_factory=list)
    """New directories."""
    unplaced: dict[tuple[bytes, str], int] = field(default_factory=dict)
    """What happened in directories whose handles nobody knows yet."""


class Files:
    """The files under /mnt/data of one sandbox."""

    def __init__(self, directory: int, *, owner: int | None, quota: int, queue: int | None = None) -> None:
        """`directory` is an O_PATH descriptor of the mount; `owner` the uid to give files to, if not our own.

        `queue` tells what changes in it, from before anything was in it; without one, all of it is walked.
        """
        self._directory = directory
        self._owner = owner
        self._quota = quota
        self._queue = queue
        self._folders: dict[bytes, str] = {} if queue is None else {linux.get_handle(directory): ""}
        """Every directory that may be known by its handle."""
        self._merging = threading.Lock()
        """Held while what is known changes: a look may come from a worker, files from any thread."""
        self._known: dict[str, Stamp] = {}
        self._given: set[str] = set()
        """What the host has put in place since a look began."""
        self._linked: set[str] = set()
        """Files that have other names: events tell one of them."""
        self._of_late: dict[str, None] = {}
        self._held: dict[str, None] = {}
        self._behind = False
        """The last look was cut off."""
        self._bare: Stamp | None = None

    def close(self) -> int | None:
        """Let go of the directory. The queue, if there is one, is the caller's to close: whoever does it last waits."""
        directory, self._directory = self._directory, -1  # the number may soon be another directory's
        queue, self._queue = self._queue, None
        self._bare = None
        os.close(directory)
        return queue

    def write(self, name: str, content: Content) -> FileInfo:
        """Put a file in place, whole or not at all."""
        [info] = self.write_many([(name, content)])
        return info

    def write_many(self, files: Iterable[tuple[str, Content]]) -> list[FileInfo]:
        """Put files in place in their order; the first that fails ends it, and those before it stay."""
        written: list[FileInfo] = []
        with contextlib.closing(LastDirectory(self._make_directories, hostile=True)) as last:
            for given, content in files:
                name = clean_name(given)
                above, _, base = name.rpartition("/")
                try:
                    folder = last.enter(above)
                except OSError as error:
                    raise self._explained(error, name) from error
                written.append(self._put(folder, base, name, content))
        return written

    def _put(self, folder: int, base: str, name: str, content: Content) -> FileInfo:
        try:
            with PartFile(folder, 0o644) as part:
                for place, chunk in enumerate(_chunks(content)):
                    if place == 0 and chunk.startswith(PROGRAMS):
                        os.fchmod(part.descriptor, 0o755)
                    part.write(chunk)
                self._give(part.descriptor)
                part.replace(base)
                found = os.fstat(part.descriptor)
        except OSError as error:  # for one, the folder is gone or closed meanwhile, or there is no room for a name
            raise self._explained(error, name) from error
        with self._merging:
            self._known[name] = _stamp(found)
            self._given.add(name)
        return _info(name, found)

    def open(self, name: str) -> io.FileIO:
        """A regular file, for reading."""
        name = clean_name(name)
        fd = self._open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise WorkspaceSecurityError(f"name: {name!r} is not a regular file")
        return io.FileIO(fd)

    def read(self, name: str, *, limit: int | None = None) -> bytes:
        with self.open(name) as file:
            size = os.fstat(file.fileno()).st_size
            if limit is not None and size > limit:
                raise TooLarge(f"name: {name!r} has {size} bytes, more than the {limit} asked for; stream it")
            return file.read()

    def stream(self, name: str, *, chunk: int = MIB) -> Generator[bytes, None, None]:
        with self.open(name) as file:
            while data := file.read(chunk):
                yield data

    def delete(self, name: str) -> None:
        """Remove a file, or a link; never what a link points to."""
        name = clean_name(name)
        parent, _, base = name.rpartition("/")
        folder = self._open(parent or ".", os.O_PATH | os.O_DIRECTORY)
        try:
            os.unlink(base, dir_fd=folder)
        except OSError as error:
            raise self._explained(error, name) from error
        finally:
            os.close(folder)
        with self._merging:
            self._known.pop(name, None)

    def list(self) -> list[FileInfo]:
        found = tree_walk.walk(self._copy_top()).files
        return [_info(name, found[name]) for name in sorted(found)]

    # -- what has changed -------------------------------------------------------------------------------------------

    def glance(self) -> Look | Callable[[], Look]:
        """What is new or different since the last look; where that takes a while, a function for a worker to call."""
        self._given.clear()
        if self._queue is None:
            if self._is_bare():
                return Look()
            plan = _Plan(whole=True)
        else:
            changes = change_queue.read(self._queue)
            if changes is None and not (self._of_late or self._held or self._behind):
                return Look()
            plan = self._plan(changes)
        self._bare = None
        top = self._copy_top()
        size = len(self._known) + len(self._folders) if plan.whole else sum(8 + len(name) for name in plan.names) // 64
        if size <= _GLANCE:
            looked = self._look(os.dup(top), plan, most=_GLANCE, seconds=_MOMENT)
            if looked is not None:
                os.close(top)
                return looked
        return lambda: self._look(top, plan, most=None, seconds=_LONGEST_LOOK) or Look()

    def _plan(self, changes: change_queue.Changes | None) -> _Plan:
        plan = _Plan(whole=self._behind)
        if changes is not None:
            plan.whole |= changes.unclear
            for (handle, name), bits in changes.names.items():
                if handle not in self._folders:
                    plan.unplaced[handle, name] = bits
                elif not name.startswith(PART):
                    plan.names.add(path := self._path(handle, name))
                    self._suspect(path, bits)
            for handle, name in changes.made:
                if handle not in self._folders:
                    plan.unplaced[handle, name] = 0
                else:
                    plan.starts.append(self._path(handle, name))
        plan.names.update(self._of_late, self._held)
        plan.whole |= not self._linked.isdisjoint(plan.names) or sum(map(len, plan.names)) > _LONG_NAMES
        return plan

    def _path(self, handle: bytes, name: str) -> str:
        folder = self._folders[handle]
        return f"{folder}/{name}" if folder else name

    def _suspect(self, path: str, bits: int) -> None:
        """Remember that something happened to it."""
        self._of_late.pop(path, None)
        self._held.pop(path, None)
        left_open = change_queue.is_left_open(bits)
        kept, most = (self._held, _HELD) if left_open else (self._of_late, _OF_LATE)
        kept[path] = None
        while len(kept) > most:
            del kept[next(iter(kept))]

    def _look(self, top: int, plan: _Plan, *, most: int | None, seconds: float) -> Look | None:
        """Carry a plan out. None where it would take longer, and nothing is done then. Takes `top` over."""
        handle = linux.get_handle if self._queue is not None else None
        try:
            if not plan.whole:
                tree = tree_walk.Tree()
                if plan.starts:
                    tree = tree_walk.walk(os.dup(top), plan.starts, handle=handle, most=most, seconds=seconds)
                named = tree_walk.stat_files(top, sorted(plan.names))
                alone = all(one is None or one.st_nlink == 1 for one in [*tree.files.values(), *named.values()])
                if not tree.late and alone and {handle for handle, _ in plan.unplaced} <= tree.folders.keys():
                    return self._merge(plan, tree, named)
                if tree.late and most is not None:
                    return None
            tree = tree_walk.walk(os.dup(top), handle=handle, most=most, seconds=seconds)
            if tree.late and most is not None:
                return None
            plan.whole = True
            return self._merge(plan, tree, {})
        finally:
            os.close(top)

    def _merge(self, plan: _Plan, tree: tree_walk.Tree, named: dict[str, os.stat_result | None]) -> Look:
        """Compare what was found with what is known, which is then what was found."""
        changed = []
        with self._merging:
            for name, found in {**named, **tree.files}.items():
                if found is None:
                    if name not in self._given:
                        self._forget(name)
                    continue
                stamp, before = _stamp(found), self._known.get(name)
                if before == stamp or (before is not None and name in self._given and before[3] > stamp[3]):
                    continue
                self._known[name] = stamp
                how: Literal["created", "modified"] = "created" if before is None else "modified"
                info = _info(name, found)
                changed.append(FileChanged(info.name, info.size, info.modified, info.type, how))
            if plan.whole:
                self._behind = tree.late
                if not tree.late:
                    for name in self._known.keys() - tree.files.keys() - self._given:
                        self._forget(name)
                    self._folders = tree.folders
                    self._linked = {name for name, found in tree.files.items() if found.st_nlink > 1}
                    self._bare = None if self._known else self._stamp_if_bare()
            else:
                self._folders.update(tree.folders)
            for (handle, name), bits in plan.unplaced.items():
                if bits and handle in self._folders and not name.startswith(PART):
                    self._suspect(self._path(handle, name), bits)
        changed.sort(key=lambda item: (item.modified, item.name))
        return Look(changed, _explain_cut(tree))

    def _forget(self, name: str) -> None:
        self._known.pop(name, None)
        self._of_late.pop(name, None)
        self._held.pop(name, None)

    def _copy_top(self) -> int:
        """The workspace under another number, which stays its own should the sandbox be closed meanwhile."""
        try:
            return os.dup(self._directory)
        except OSError as error:
            raise self._explained(error, ".") from error

    def _is_bare(self) -> bool:
        """Whether the last look found no files at all and there still are none: quicker to tell than to look again."""
        return self._bare is not None and _stamp(os.fstat(self._directory)) == self._bare

    def _stamp_if_bare(self) -> Stamp | None:
        """The directory's own stamp if it has no entries, and has had none for so long that a new one will show."""
        if self._queue is not None:
            return None  # which tells, and sooner
        found = os.fstat(self._directory)
        if abs(time.time() - max(found.st_mtime, found.st_ctime)) < _SETTLED:
            return None
        fd = self._open_top()
        try:
            return None if os.listdir(fd) else _stamp(found)
        finally:
            os.close(fd)

    def append(self, name: str) -> int:
        """A descriptor to write a log of ours to; the caller closes it.

        What the code has put in its place is moved aside. Where none can be made, writing answers "no space left".
        """
        for _ in range(8):
            try:
                fd = self._open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode=0o644)
            except (InvalidRequest, WorkspaceSecurityError):
                aside = f"{name}.{secrets.token_hex(4)}"
                with contextlib.suppress(OSError):
                    os.rename(name, aside, src_dir_fd=self._directory, dst_dir_fd=self._directory)
                continue
            except (TooLarge, NotFound, OSError):
                break
            self._give(fd)
            return fd
        return os.open("/dev/full", os.O_WRONLY | os.O_CLOEXEC)

    def _make_directories(self, path: str) -> int:
        """The directory of a path, made if need be; an open descriptor."""
        return descend(self._open_top(), path.split("/") if path else (), self._make_directory)

    def _make_directory(self, here: int, name: str) -> int:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=here)
            if self._owner is not None:
                os.chown(name, self._owner, self._owner, dir_fd=here, follow_symlinks=False)
        flags = os.O_RDONLY | os.O_DIRECTORY
        try:
            return linux.openat2(here, name, flags, resolve=BENEATH)
        except PermissionError:
            tree_walk.let_in(here, name)
            return linux.openat2(here, name, flags, resolve=BENEATH)

    def _open_top(self) -> int:
        """The workspace itself: "." leads nowhere else, so the plain call will do, and it is looked at after each cell.

        Afresh each time: a shared descriptor has one position, and two threads may look.
        """
        try:
            tree_walk.let_in(self._directory, "")
            return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._directory)
        except OSError as error:
            raise self._explained(error, ".") from error

    def _open(self, name: str, flags: int, mode: int = 0) -> int:
        for attempt in range(_TRIES):
            try:
                return linux.openat2(self._directory, name, flags, mode=mode, resolve=BENEATH)
            except OSError as error:
                # The tree changed under the walk, or its owner is let in: look again, but not for ever, since the code
                # may keep at it.
                again = error.errno == errno.EAGAIN or (
                    error.errno == errno.EACCES and tree_walk.let_in(self._directory, name)
                )
                if not again or attempt == _TRIES - 1:
                    raise self._explained(error, name) from error
        raise AssertionError("unreachable")

    def _give(self, fd: int) -> None:
        if self._owner is not None:
            os.fchown(fd, self._owner, self._owner)

    def _explained(self, error: OSError, name: str) -> Exception:
        match error.errno:
            case errno.EBADF:
                return Lost("the sandbox is closed")
            case errno.ENOENT:
                return NotFound(f"name: there is no {name!r} under /mnt/data")
            case errno.ENOSPC | errno.EDQUOT:
                return TooLarge(f"name: {name!r} does not fit: the workspace holds {self._quota} bytes in all")
            case errno.EISDIR | errno.ENOTEMPTY | errno.EEXIST:
                return InvalidRequest(f"name: {name!r} is a directory", param="name")
            case errno.ENAMETOOLONG:
                return InvalidRequest(f"name: {name[:80]!r}… is too long", param="name")
            case errno.ELOOP | errno.EXDEV | errno.ENOTDIR | errno.ENXIO | errno.EACCES | errno.EPERM | errno.EAGAIN:
                return WorkspaceSecurityError(
                    f"name: {name!r} is not a plain file or leads elsewhere ({error.strerror})"
                )
            case _:
                return error


def _explain_cut(tree: tree_walk.Tree) -> str:
    if tree.late:
        return (
            f"Not all of /mnt/data could be looked at within {_LONGEST_LOOK:g} s; files may be missing from this list."
        )
    if tree.deep:
        return f"Files in /mnt/data whose paths are longer than {LONGEST} bytes were not looked at."
    return ""


def _chunks(content: Content) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
    elif isinstance(content, str):
        yield content.encode("utf-8")
    elif isinstance(content, Readable):
        while chunk := content.read(MIB):
            yield chunk
    else:
        yield from content


def _stamp(found: os.stat_result) -> Stamp:
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _info(name: str, found: os.stat_result) -> FileInfo:
    return FileInfo(name, found.st_size, found.st_mtime, guess_type(name))
