"""Copies of blobs on this machine's disk: those used last, up to a size, and none that is in use is ever removed."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from belljar.gateway.store import disk_errors
from belljar.gateway.store.blob_files import OpenFile, digest_file, write_all
from belljar.gateway.store.blob_names import is_name
from belljar.gateway.store.blob_verification import Trust

_STALE = 6 * 3600.0
"""Seconds after which nobody writes a file any more."""
_FRESH = 60.0
"""Seconds in which a use counts once."""
_ROOM = 0.9
"""What is left of a full cache, so that it is not looked through for every blob."""


class BlobCache:
    """Blobs by name in a directory that several processes may share. All of it blocks; it may be called in any thread.

    A copy lies at ab/cdef…, and what is written at the moment in `incoming`. What is in use has a second name, in a
    directory of whoever uses it below `used`: the kernel counts names, so any process sees it, and bytes stay as long
    as there is one. A file's time is when it was last used, and its fraction tells who answers for its bytes.
    """

    def __init__(self, root: Path, most: int, trust: Trust | None = None) -> None:
        self._root = root
        self._most = most
        self._trust = trust or Trust()
        self._gate = threading.Lock()
        self._size: int | None = None
        """Of all copies, as far as this process knows; None before the first look."""
        self._enough = most
        """Up to here there is nothing to do."""
        self._wanted: Counter[str] = Counter()
        self._incoming = root / "incoming"
        with disk_errors.explained(self._root):
            for directory in (root, self._incoming, root / "used"):
                directory.mkdir(mode=0o700, parents=directory == root, exist_ok=True)
            self._remove_stale()
            self._used, self._held = _hold(root / "used")

    def close(self) -> None:
        """Nothing of it is in use any more. Again is harmless."""
        shutil.rmtree(self._used, ignore_errors=True)
        held, self._held = self._held, -1
        if held >= 0:
            os.close(held)

    @property
    def root(self) -> Path:
        return self._root

    # -- copies come in -----------------------------------------------------------------------------------------------

    def new_file(self) -> Path:
        """Where the next copy can be written, to be given to `add` or removed."""
        return self._incoming / secrets.token_hex(16)

    def is_worth(self, size: int) -> bool:
        """Whether a copy that nobody has asked for yet is worth those that would have to go."""
        return size <= self._most / 4

    def add(self, path: Path, name: str) -> None:
        """A file of ours is a copy from now on; its bytes have been compared with the name."""
        with disk_errors.explained(self._root):
            place = self._place(name)
            size = path.stat().st_size
            self._trust.give(path)
            with self._gate:
                if name in self._wanted:  # and no other process may remove it either
                    self._name_again(path, self._used / name)
            try:
                os.rename(path, place)
            except FileNotFoundError:
                place.parent.mkdir(mode=0o700, exist_ok=True)
                os.rename(path, place)
            with self._gate:
                if self._size is not None:
                    self._size += size
        self.make_room()

    def add_bytes(self, data: bytes, name: str) -> None:
        path = self.new_file()
        try:
            with disk_errors.explained(self._root):
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                try:
                    write_all(file, data)
                finally:
                    os.close(file)
            self.add(path, name)
        finally:
            path.unlink(missing_ok=True)

    # -- and are used -------------------------------------------------------------------------------------------------

    def open(self, name: str) -> OpenFile | None:
        """A copy whose bytes are what its name says; None where there is none."""
        if not is_name(name):
            return None
        place = self._place(name)
        with disk_errors.explained(self._root):
            try:
                file = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            opened = OpenFile(file)
            if self._is_good(file, name):
                return opened
            place.unlink(missing_ok=True)
            return None

    def link(self, name: str, directory: Path) -> Path | None:
        """A second name for a copy, in this directory; None where there is none whose bytes are good."""
        if self.open(name) is None:
            return None
        path = directory / name
        with disk_errors.explained(self._root):
            directory.mkdir(mode=0o700, exist_ok=True)
            try:
                self._name_again(self._place(name), path)
            except FileNotFoundError:  # it was removed at this moment
                return None
        return path

    @staticmethod
    def _name_again(path: Path, name: Path) -> None:
        try:
            os.link(path, name)
        except FileExistsError:
            pass

    def pins(self) -> Pins:
        """To keep copies where they are; to be closed."""
        return Pins(self, self._used / secrets.token_hex(8))

    def _is_good(self, file: int, name: str) -> bool:
        """Compare the bytes, unless somebody answers for them; either way, this is a use."""
        found = os.fstat(file)
        if not self._trust.has(found):
            if digest_file(file) != name:
                return False
            self._trust.give(file)
        elif found.st_mtime < time.time() - _FRESH:
            self._trust.renew(file, found)
        return True

    # -- and go -------------------------------------------------------------------------------------------------------

    def drop(self, names: Iterable[str]) -> None:
        """Copies of what is no blob any more; who uses one has it until the end."""
        for name in names:
            try:
                place = self._place(name)
                size = place.stat().st_size
                place.unlink()
            except OSError:
                continue
            with self._gate:
                if self._size is not None:
                    self._size -= size

    def names(self) -> list[str]:
        return [copy.name for copy in self._copies()]

    def make_room(self) -> None:
        """Where the copies are too large together, remove those that were used longest ago, and are not in use."""
        with self._gate:
            if self._size is not None and self._size <= self._enough:
                return
            copies = sorted(self._copies(), key=lambda copy: copy.used_at)
            self._size = sum(copy.size for copy in copies)
            if self._size > self._most:
                self._remove_oldest(copies)
            # What is in use cannot go: not to be looked through again for each that comes.
            self._enough = max(self._most, int(self._size * (2 - _ROOM)))

    def unpinned(self) -> None:
        """What was in use can go now."""
        with self._gate:
            self._enough = self._most
        self.make_room()

    def _remove_oldest(self, copies: Iterable[_Copy]) -> None:
        assert self._size is not None
        for copy in copies:
            if self._size <= self._most * _ROOM:
                return
            if copy.in_use or copy.name in self._wanted:
                continue
            try:
                copy.path.unlink()
            except OSError:
                continue  # another process was faster
            self._size -= copy.size

    def want(self, name: str) -> None:
        """It is about to be used: not to be removed before that."""
        with self._gate:
            self._wanted[name] += 1

    def unwant(self, name: str) -> None:
        with self._gate:
            self._wanted[name] -= 1
            if not self._wanted[name]:
                del self._wanted[name]
                (self._used / name).unlink(missing_ok=True)

    def _copies(self) -> list[_Copy]:
        found: list[_Copy] = []
        for folder in os.scandir(self._root):
            if len(folder.name) != 2:
                continue
            for entry in os.scandir(folder.path):
                try:
                    told = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                name = folder.name + entry.name
                if is_name(name):
                    found.append(_Copy(name, Path(entry.path), told.st_size, told.st_mtime, told.st_nlink > 1))
        return found

    def _place(self, name: str) -> Path:
        return self._root / name[:2] / name[2:]

    def _remove_stale(self) -> None:
        """What processes left that were killed."""
        for path in self._incoming.iterdir():
            try:
                if path.stat().st_mtime < time.time() - _STALE:
                    path.unlink()
            except FileNotFoundError:
                pass
        for directory in (self._root / "used").iterdir():
            held = _try_to_hold(directory)
            if held is not None:
                shutil.rmtree(directory, ignore_errors=True)
                os.close(held)


class Pins:
    """Second names of copies, until they are closed."""

    def __init__(self, cache: BlobCache, directory: Path) -> None:
        self._cache = cache
        self._directory = directory
        self._turn = threading.Lock()
        self._closed = False

    def pin(self, name: str) -> Path | None:
        """A copy under a name that stays; None where there is none whose bytes are good."""
        with self._turn:
            return None if self._closed else self._cache.link(name, self._directory)

    def close(self) -> None:
        with self._turn:
            self._closed = True
            shutil.rmtree(self._directory, ignore_errors=True)
        self._cache.unpinned()


class _Copy(NamedTuple):
    name: str
    path: Path
    size: int
    used_at: float
    in_use: bool


def _hold(above: Path) -> tuple[Path, int]:
    """A new directory that is this process's for as long as it lives."""
    while True:
        made = above / secrets.token_hex(8)
        made.mkdir(mode=0o700)
        held = _try_to_hold(made)
        if held is not None and made.exists():  # else it looked stale to a process that started at this moment
            return made, held


def _try_to_hold(directory: Path) -> int | None:
    try:
        file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file
