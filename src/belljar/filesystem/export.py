"""Files that leave a sandbox for the host: what runs by itself is refused, and what is there stays unless told."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

from belljar import autorun
from belljar.errors import WorkspaceConflictError, WorkspaceSecurityError
from belljar.filesystem.paths import Segments, VfsPath, join_segments
from belljar.filesystem.rooted import Root
from belljar.output_names import free_name
from belljar.rooted_paths import PartFile, find, open_plain

_log = logging.getLogger(__name__)

_CHUNK = 1 << 20


Take: TypeAlias = Callable[[Segments, Iterable[bytes]], object]
"""Whoever takes a file that leaves: its path in the workspace, and its content in pieces."""

OVERWRITE = "to overwrite it, pass overwrite=True"


class Export:
    """Each file is there whole or not at all, and none goes along a link.

    `overwrite`: what is in a file's place gives way, be it a link. Without, only what `may_replace` says may go; what
    has the same content is left. `remedy` is what the refusal tells to do.
    """

    def __init__(
        self,
        directory: Path,
        *,
        overwrite: bool,
        remedy: str,
        may_replace: Callable[[Segments, os.stat_result], bool] = lambda at, found: False,
    ) -> None:
        directory = directory.expanduser()
        directory.mkdir(parents=True, exist_ok=True)
        self._root = Root(directory)
        self._overwrite = overwrite
        self._there = f"there already and differs; {remedy}"
        self._may_replace = may_replace

    def save(self, at: Segments, pieces: Iterable[bytes], *, beside: bool = False) -> Path:
        """Where it is now: in its place or, `beside` what must stay there, under a name that is free.

        WorkspaceSecurityError where it runs by itself, WorkspaceConflictError where something must stay.
        """
        VfsPath(at)
        if why := autorun.refusal(join_segments(at)):
            raise WorkspaceSecurityError(f"{join_segments(at)!r} is not taken out of the sandbox: {why}")
        with self._root.directory(at[:-1], create=True) as parent, PartFile(parent) as part:
            for piece in pieces:
                part.write(piece)
            name = self._place_file(parent, part, at, beside=beside)
        return self._root.path.joinpath(*at[:-1], name)

    def _place_file(self, parent: int, part: PartFile, at: Segments, *, beside: bool) -> str:
        name, tried = at[-1], set[str]()
        while True:
            if part.place(name):
                return name
            found = find(name, parent)
            if found is None:
                continue  # gone meanwhile
            if _same(parent, part, name, found):
                return name
            if not tried and self._gives_way(at, found):
                part.replace(name, found)
                return name
            if not beside:
                what = "a directory there; move it away" if stat.S_ISDIR(found.st_mode) else self._there
                raise WorkspaceConflictError(f"{join_segments(at)!r} is {what}")
            tried.add(name)
            name = free_name(at[-1], tried)

    def _gives_way(self, at: Segments, found: os.stat_result) -> bool:
        return not stat.S_ISDIR(found.st_mode) and (self._overwrite or self._may_replace(at, found))


def may_leave(at: Segments) -> bool:
    """Whether a file of this name may be put on a host; one that may not is logged."""
    why = autorun.refusal(join_segments(at))
    if why is not None:
        _log.warning("%r is not taken out of the sandbox: %s", join_segments(at), why)
    return why is None


def _same(parent: int, part: PartFile, name: str, found: os.stat_result) -> bool:
    if not stat.S_ISREG(found.st_mode) or os.fstat(part.descriptor).st_size != found.st_size:
        return False
    try:
        with open(open_plain(part.name, parent), "rb") as new, open(open_plain(name, parent), "rb") as old:
            return all(piece == old.read(_CHUNK) for piece in iter(lambda: new.read(_CHUNK), b""))
    except OSError:  # whatever cannot be read is another
        return False
