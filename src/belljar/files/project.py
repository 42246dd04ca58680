"""The directory that files come from and are saved into: nothing outside it is reached, and a file is saved whole."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from belljar import autorun
from belljar.errors import WorkspaceSecurityError
from belljar.rooted_paths import PartFile, descend, find, open_directory, open_plain
from belljar.visible import visible

State: TypeAlias = Literal["new", "overwrites"]

_LONGEST = 255


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or a directory of the project."""

    name: str
    kind: Literal["file", "directory"]
    size: int
    modified: float


class Project:
    """A root, and the plain files below it. Links are never followed below the root."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).expanduser().resolve()
        if not self.root.is_dir():
            raise WorkspaceSecurityError(f"{str(root)!r} is not a directory; name one to save into")

    def state(self, destination: str) -> State:
        """Whether something is there already; `WorkspaceSecurityError` where nothing may be saved."""
        *above, name = parts(destination)
        with self._directory(above, make=False) as directory:
            found = None if directory is None else _plain(directory, name, destination)
        return "new" if found is None else "overwrites"

    def read(self, destination: str, most: int) -> bytes | None:
        """What is there now; None where nothing is, or more than `most` bytes."""
        *above, name = parts(destination)
        with self._directory(above, make=False) as directory:
            found = None if directory is None else _plain(directory, name, destination)
            if directory is None or found is None or found.st_size > most:
                return None
            with _open_file(directory, name, destination) as file:
                data = file.read(most + 1)
        return data if len(data) <= most else None

    def stamp(self, destination: str) -> str:
        """Another text whenever there is another file, or other content."""
        *above, name = parts(destination)
        with self._directory(above, make=False) as directory:
            found = None if directory is None else _plain(directory, name, destination)
        return "" if found is None else f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"

    def entries(self, directory: str = "", *, hidden: bool = False) -> list[Entry]:
        """What can be opened in a directory: directories first. Links are left out, and names that begin with a dot."""
        above = parts(directory) if directory else []
        found: list[Entry] = []
        with self._directory(above, make=False) as here:
            if here is None:
                raise WorkspaceSecurityError(f"{directory!r} is not there; choose another directory")
            for name in os.listdir(here):
                one = _entry(here, name) if hidden or not name.startswith(".") else None
                if one is not None:
                    found.append(one)
        return sorted(found, key=lambda one: (one.kind, one.name.casefold(), one.name))

    def open_file(self, path: str) -> BinaryIO:
        """A file, to be read."""
        *above, name = parts(path)
        with self._directory(above, make=False) as directory:
            if directory is None or _plain(directory, name, path) is None:
                raise WorkspaceSecurityError(f"{path!r} is not there; choose another file")
            return _open_file(directory, name, path)

    def write(self, destination: str, pieces: Iterable[bytes]) -> Path:
        """Save a file beside its place and then put it there in one step. The mode of one that was there is kept."""
        *above, name = parts(destination)
        with self._directory(above, make=True) as directory:
            assert directory is not None
            before = _plain(directory, name, destination)
            with PartFile(directory) as part:
                for piece in pieces:
                    part.write(piece)
                part.replace(name, before, sync=True)
        return self.root.joinpath(*above, name)

    @contextmanager
    def _directory(self, above: list[str], *, make: bool) -> Iterator[int | None]:
        """The directory by its own handle, step by step, so that no link can be put in the way; None if missing."""
        top = open_directory(self.root)
        here: int | None = None
        try:
            here = descend(top, above, _make_step if make else _step)
        except FileNotFoundError:
            if make:
                raise
        try:
            yield here
        finally:
            if here is not None:
                os.close(here)


def _step(directory: int, name: str) -> int:
    try:
        return open_directory(name, directory)
    except FileNotFoundError:
        raise
    except OSError:
        raise WorkspaceSecurityError(f"{name!r} is a link or no directory; choose another place") from None


def _make_step(directory: int, name: str) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=directory)
    return _step(directory, name)


def _open_file(directory: int, name: str, destination: str) -> BinaryIO:
    """What is something else by now is refused."""
    try:
        return open(open_plain(name, directory), "rb")
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise WorkspaceSecurityError(f"{destination!r} is no plain file; choose another") from None


def _entry(directory: int, name: str) -> Entry | None:
    try:
        parts(name)
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except (WorkspaceSecurityError, OSError):
        return None
    if stat.S_ISDIR(found.st_mode):
        return Entry(name, "directory", 0, found.st_mtime)
    return Entry(name, "file", found.st_size, found.st_mtime) if stat.S_ISREG(found.st_mode) else None


def parts(destination: str) -> list[str]:
    """The names on the way to a file; refused where they would lead out, or mean something else elsewhere."""
    names = destination.split("/")
    why = None
    if not destination or destination.endswith("/"):
        why = "it names no file"
    elif destination.startswith("/") or "\\" in destination:
        why = "it is not a path below the project"
    elif any(name in ("", ".", "..") for name in names):
        why = "it leads out of the project, or astray in it"
    elif destination != visible(destination):
        why = "it has characters that cannot be shown"
    elif any(len(os.fsencode(name)) > _LONGEST for name in names):
        why = "a name in it is too long"
    else:
        why = autorun.refusal(destination)
    if why:
        raise WorkspaceSecurityError(f"{destination!r}: {why}; choose another name")
    return names


def _plain(directory: int, name: str, destination: str) -> os.stat_result | None:
    """The file that is there; None where nothing is. A link, a directory or a device is refused."""
    found = find(name, directory)
    if found is not None and not stat.S_ISREG(found.st_mode):
        what = "a link" if stat.S_ISLNK(found.st_mode) else "no plain file"
        raise WorkspaceSecurityError(f"{destination!r} is {what}; choose another name")
    return found
