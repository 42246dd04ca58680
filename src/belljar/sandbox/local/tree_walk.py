"""Walk a tree that somebody hostile owns: by directory descriptors, never along a link, bounded in depth and time."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from belljar.rooted_paths import PART
from belljar.sandbox.file_names import LONGEST
from belljar.sandbox.local import linux

BENEATH = linux.RESOLVE_BENEATH | linux.RESOLVE_NO_SYMLINKS | linux.RESOLVE_NO_MAGICLINKS | linux.RESOLVE_NO_XDEV
_STRIDE = 32
"""Directories between two descriptors that are kept: from the top each would be found by its whole path again."""
_ATTEMPTS = 8
_CLOCK = 64
"""Entries between two looks at the time."""


@dataclass(slots=True)
class Tree:
    """What a walk found: regular files, the directories on the way, and what kept it from seeing all."""

    files: dict[str, os.stat_result] = field(default_factory=dict)
    folders: dict[bytes, str] = field(default_factory=dict)
    """By the kernel's handle, where handles were asked for."""
    late: bool = False
    """It ran out of time."""
    deep: bool = False
    """Something lies deeper than a path can name."""


class _Anchor:
    """An open directory from which those below it are found; closed when none of them is left to be walked."""

    __slots__ = ("fd", "users")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.users = 0

    def leave(self) -> None:
        self.users -= 1
        if self.users == 0:
            os.close(self.fd)


@dataclass(slots=True)
class _Folder:
    anchor: _Anchor
    below: str
    """The path from the anchor."""
    steps: int
    path: str
    """The path from the top."""


def walk(
    top: int,
    starts: Sequence[str] = ("",),
    *,
    handle: Callable[[int], bytes] | None = None,
    most: int | None = None,
    seconds: float | None = None,
) -> Tree:
    """All regular files below `top`, or below these directories of it. Takes `top` over, and closes it.

    With `handle`, directories are told too, by what it says of a descriptor. Stops after `most` entries or `seconds`.
    What vanishes meanwhile, or is closed to us, is passed over.
    """
    tree = Tree()
    budget = _Budget(most, None if seconds is None else time.monotonic() + seconds)
    root = _Anchor(top)
    root.users = 1  # this function's own, so that an empty list closes it too
    waiting: list[_Folder] = []
    try:
        for path in starts:
            root.users += 1
            waiting.append(_Folder(root, path or ".", path.count("/") + 1, path))
        while waiting and not tree.late:
            here = waiting.pop()
            try:
                fd = _open(here)
                if fd is not None:
                    _take(fd, here, waiting, tree, handle, budget)
            finally:
                here.anchor.leave()
    finally:
        for left in waiting:
            left.anchor.leave()
        root.leave()
    return tree


class _Budget:
    def __init__(self, most: int | None, deadline: float | None) -> None:
        self._left = most
        self._deadline = deadline
        self._seen = 0

    def is_spent(self) -> bool:
        """Count one more entry."""
        self._seen += 1
        if self._left is not None and self._seen > self._left:
            return True
        return self._deadline is not None and self._seen % _CLOCK == 0 and time.monotonic() > self._deadline


def _open(folder: _Folder) -> int | None:
    for _ in range(_ATTEMPTS):
        try:
            return linux.openat2(folder.anchor.fd, folder.below, os.O_RDONLY | os.O_DIRECTORY, resolve=BENEATH)
        except BlockingIOError:  # the tree changed under the call
            continue
        except PermissionError:
            if not let_in(folder.anchor.fd, folder.below):
                return None
        except OSError:
            return None
    return None


def let_in(top: int, path: str) -> bool:
    """Open what the code has closed to its own user, who is also us, on the way to this path: whether there was any.

    Root is kept out by no such thing, and code must not have more to hide from a user than from root.
    """
    opened = _open_up(top)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    for count in range(1, len(parts) + 1):
        try:
            fd = linux.openat2(top, "/".join(parts[:count]), os.O_PATH | os.O_NOFOLLOW, resolve=BENEATH)
        except OSError:
            break
        try:
            opened |= _open_up(fd)
        finally:
            os.close(fd)
    return opened


def _open_up(fd: int) -> bool:
    """By the descriptor itself, an O_PATH one: no name is looked up again."""
    found = os.fstat(fd)
    wanted = {stat.S_IFDIR: 0o700, stat.S_IFREG: 0o400}.get(stat.S_IFMT(found.st_mode), 0)
    if found.st_mode & wanted == wanted or found.st_uid != os.geteuid():
        return False
    os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(found.st_mode) | wanted)
    return True


def _take(
    fd: int,
    here: _Folder,
    waiting: list[_Folder],
    tree: Tree,
    handle: Callable[[int], bytes] | None,
    budget: _Budget,
) -> None:
    """Read one directory; those in it wait for their turn. Closes `fd`, now or with the last that starts from it."""
    anchor = _Anchor(fd)
    anchor.users = 1
    far = here.steps >= _STRIDE
    prefix, below = f"{here.path}/" if here.path else "", "" if far or here.below == "." else f"{here.below}/"
    room = LONGEST - len(os.fsencode(prefix))
    try:
        if handle is not None:
            with suppress(OSError):
                tree.folders[handle(fd)] = here.path
        for entry in _entries(fd):
            if budget.is_spent():
                tree.late = True
                return
            name = entry.name
            if len(name) * 4 > room and len(os.fsencode(name)) > room:
                tree.deep = True
                continue
            if entry.is_dir(follow_symlinks=False):
                start = anchor if far else here.anchor
                start.users += 1
                steps = 1 if far else here.steps + 1
                waiting.append(_Folder(start, below + name, steps, prefix + name))
            elif entry.is_file(follow_symlinks=False) and not name.startswith(PART):
                with suppress(OSError):
                    tree.files[prefix + name] = entry.stat(follow_symlinks=False)
    finally:
        anchor.leave()


def _entries(fd: int) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(fd) as entries:
            yield from entries
    except OSError:
        return


def stat_files(top: int, names: Sequence[str]) -> dict[str, os.stat_result | None]:
    """These files as they are now; None for what is there no more, or is no regular file."""
    found: dict[str, os.stat_result | None] = {}
    folders: dict[str, list[str]] = {}
    for name in names:
        above, _, base = name.rpartition("/")
        folders.setdefault(above, []).append(base)
    for above, bases in folders.items():
        prefix = f"{above}/" if above else ""
        try:
            fd = _find_folder(top, above) if above else top
        except OSError:
            found.update((prefix + base, None) for base in bases)
            continue
        try:
            _open_up(fd)
            for base in bases:
                found[prefix + base] = _stat_regular(base, fd)
        finally:
            if fd != top:
                os.close(fd)
    return found


def _find_folder(top: int, path: str) -> int:
    flags = os.O_PATH | os.O_DIRECTORY
    try:
        return linux.openat2(top, path, flags, resolve=BENEATH)
    except PermissionError:
        let_in(top, path)
        return linux.openat2(top, path, flags, resolve=BENEATH)


def _stat_regular(name: str, folder: int) -> os.stat_result | None:
    try:
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return seen if stat.S_ISREG(seen.st_mode) else None
