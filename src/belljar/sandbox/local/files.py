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
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Literal

from belljar.errors import InvalidRequest, Lost, NotFound, TooLarge, WorkspaceSecurityError
from belljar.rooted_paths import PART, LastDirectory, PartFile, descend
from belljar.sandbox.base import MIB, Content, FileInfo, Readable
from belljar.sandbox.local import linux
from belljar.sandbox.mime import guess_type
from belljar.sandbox.outputs import FileChanged

MOUNT = "/mnt/data/"
_BENEATH = linux.RESOLVE_BENEATH | linux.RESOLVE_NO_SYMLINKS | linux.RESOLVE_NO_MAGICLINKS | linux.RESOLVE_NO_XDEV
_BREATH = 1000
"""Files looked at in one go."""
_SETTLED = 0.05
"""Seconds after which a change has another time than the one before it; the kernel's clock for files ticks slower."""
_TRIES = 1000
_PROGRAMS = (b"#!", b"\x7fELF")
"""How files begin that are made to be run. They come over wires that tell of no permissions, so these may be."""

Stamp = tuple[int, int, int, int]
"""Inode, size, modification and change time: differs whenever the bytes may."""


def clean_name(name: str) -> str:
    """A name as the workspace keeps it: relative, without dots. The /mnt/data/ that the code sees may lead it."""
    plain = name.removeprefix(MOUNT)
    parts = [part for part in plain.split("/") if part not in ("", ".")]
    if plain.startswith("/") or ".." in parts or not parts or "\0" in plain:
        raise WorkspaceSecurityError(
            f"name: {name!r} does not name a file under /mnt/data; use a relative path without '..'"
        )
    try:
        encoded = os.fsencode(plain)
    except UnicodeEncodeError:
        raise InvalidRequest(
            f"name: {name!r} has a lone surrogate, which no file name can hold", param="name"
        ) from None
    if len(encoded) > 255 and (len(encoded) > 4000 or max(map(len, encoded.split(b"/"))) > 255):
        raise InvalidRequest(
            f"name: {name[:80]!r}… is too long; 255 bytes a part and 4000 in all are the most", param="name"
        )
    return "/".join(parts)


class Files:
    """The files under /mnt/data of one sandbox."""

    def __init__(self, directory: int, *, owner: int | None, quota: int) -> None:
        """`directory` is an O_PATH descriptor of the mount; `owner` the uid to give files to, if not our own."""
        self._directory = directory
        self._owner = owner
        self._quota = quota
        self._known: dict[str, Stamp] = {}
        self._bare: Stamp | None = None

    def close(self) -> None:
        directory, self._directory = self._directory, -1  # the number may soon be another directory's
        self._bare = None
        os.close(directory)

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
                    if place == 0 and chunk.startswith(_PROGRAMS):
                        os.fchmod(part.descriptor, 0o755)
                    part.write(chunk)
                self._give(part.descriptor)
                part.replace(base)
                found = os.fstat(part.descriptor)
        except OSError as error:  # for one, the folder is gone or closed meanwhile, or there is no room for a name
            raise self._explained(error, name) from error
        self._known[name] = _stamp(found)
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
        self._known.pop(name, None)

    def list(self) -> list[FileInfo]:
        return sorted((_info(name, found) for name, found in self._walk()), key=lambda info: info.name)

    def untouched(self) -> bool:
        """Whether the last look found no files at all and there still are none: quicker to tell than to look again."""
        return self._bare is not None and _stamp(os.fstat(self._directory)) == self._bare

    def look(self) -> Generator[None, None, Sequence[FileChanged]]:
        """What is new or different since the last look. Pauses now and then: there may be many files."""
        now: dict[str, Stamp] = {}
        changed = []
        for count, (name, found) in enumerate(self._walk(), 1):
            if count % _BREATH == 0:
                yield
            now[name] = _stamp(found)
            before = self._known.get(name)
            if before != now[name]:
                how: Literal["created", "modified"] = "created" if before is None else "modified"
                info = _info(name, found)
                changed.append(FileChanged(info.name, info.size, info.modified, info.type, how))
        self._known = now
        self._bare = None if now else self._stamp_if_bare()
        return sorted(changed, key=lambda item: (item.modified, item.name))

    def _stamp_if_bare(self) -> Stamp | None:
        """The directory's own stamp if it has no entries, and has had none for so long that a new one will show."""
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

    def _walk(self) -> Iterator[tuple[str, os.stat_result]]:
        """All regular files, recursively; links are not followed, what vanishes meanwhile is passed over."""
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                fd = self._open(folder, os.O_RDONLY | os.O_DIRECTORY) if folder else self._open_top()
            except (NotFound, WorkspaceSecurityError, InvalidRequest):
                continue  # gone, closed to us, or deeper than a path can name
            try:
                with os.scandir(fd) as entries:
                    for entry in entries:
                        path = f"{folder}/{entry.name}" if folder else entry.name
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(path)
                        elif entry.is_file(follow_symlinks=False) and not entry.name.startswith(PART):
                            try:
                                found = entry.stat(follow_symlinks=False)
                            except OSError:
                                continue
                            yield path, found
            finally:
                os.close(fd)

    def _make_directories(self, path: str) -> int:
        """The directory of a path, made if need be; an open descriptor."""
        return descend(self._open_top(), path.split("/") if path else (), self._make_directory)

    def _make_directory(self, here: int, name: str) -> int:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=here)
            if self._owner is not None:
                os.chown(name, self._owner, self._owner, dir_fd=here, follow_symlinks=False)
        return linux.openat2(here, name, os.O_RDONLY | os.O_DIRECTORY, resolve=_BENEATH)

    def _open_top(self) -> int:
        """The workspace itself: "." leads nowhere else, so the plain call will do, and it is looked at after each cell.

        Afresh each time: a shared descriptor has one position, and two threads may look.
        """
        try:
            return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._directory)
        except OSError as error:
            raise self._explained(error, ".") from error

    def _open(self, name: str, flags: int, mode: int = 0) -> int:
        for attempt in range(_TRIES):
            try:
                return linux.openat2(self._directory, name, flags, mode=mode, resolve=_BENEATH)
            except OSError as error:
                # The tree changed under the walk: look again, but not for ever, since the code may keep at it.
                if error.errno != errno.EAGAIN or attempt == _TRIES - 1:
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
