"""Files held in memory, with snapshots that cost little: a tool that fails leaves no trace in them."""

from __future__ import annotations

import builtins
import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import RLock

from belljar.filesystem.base import FileEntry, FileStat, Filesystem
from belljar.filesystem.paths import Segments, join_segments, path_error
from belljar.filesystem.write_limits import WriteLimits


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    created_at: datetime
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    nodes: Mapping[Segments, _File | None]


class InMemoryFilesystem(Filesystem):
    """`max_bytes` bounds what all files hold together."""

    def __init__(
        self,
        *,
        max_bytes: int | None = None,
        read_only: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._limits = WriteLimits(read_only, max_bytes)
        self._clock = clock
        self._lock = RLock()
        self._nodes: dict[Segments, _File | None] = {(): None}  # None: a directory

    @property
    def root(self) -> str:
        return "/"

    @property
    def read_only(self) -> bool:
        return self._limits.read_only

    def read(self, path: str) -> bytes:
        segments = self.locate(path)
        with self._lock:
            node = self._node(segments)
        if node is None:
            raise path_error(errno.EISDIR, segments)
        return node.content

    def write(self, path: str, content: bytes) -> None:
        segments = self.locate(path)
        with self._lock:
            self._limits.check_writable(segments)
            if segments in self._nodes and self._nodes[segments] is None:
                raise path_error(errno.EISDIR, segments)
            old = self._nodes.get(segments)
            self._check_parents(segments)
            self._limits.check_budget(segments, len(content) - (len(old.content) if old else 0), self._size)
            self._make(segments[:-1])
            now = self._clock()
            self._nodes[segments] = _File(bytes(content), old.created_at if old else now, now)

    def append(self, path: str, content: bytes) -> None:
        with self._lock:
            super().append(path, content)

    def stat(self, path: str) -> FileStat:
        segments = self.locate(path)
        with self._lock:
            node = self._node(segments)
        if node is None:
            return FileStat(join_segments(segments), is_file=False, is_directory=True, size_bytes=0)
        return FileStat(join_segments(segments), True, False, len(node.content), node.created_at, node.modified_at)

    def list(self, path: str = ".") -> builtins.list[FileEntry]:
        segments = self.locate(path)
        with self._lock:
            if self._node(segments) is not None:
                raise path_error(errno.ENOTDIR, segments)
            inside = {at: node for at, node in self._nodes.items() if at and at[:-1] == segments}
        return [
            FileEntry(at[-1], join_segments(at), inside[at] is not None, inside[at] is None) for at in sorted(inside)
        ]

    def mkdir(self, path: str, *, parents: bool = True, exist_ok: bool = True) -> None:
        segments = self.locate(path)
        with self._lock:
            self._limits.check_writable(segments)
            if segments in self._nodes:
                if self._nodes[segments] is None and exist_ok:
                    return
                raise path_error(errno.EEXIST, segments)
            self._check_parents(segments)
            if not parents:
                self._node(segments[:-1])
            self._make(segments)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        segments = self.locate(path)
        with self._lock:
            self._limits.check_writable(segments)
            if not segments:
                raise path_error(errno.EPERM, segments)
            self._node(segments)
            beneath = [at for at in self._nodes if at[: len(segments)] == segments]
            if len(beneath) > 1 and not recursive:
                raise path_error(errno.ENOTEMPTY, segments)
            for at in beneath:
                del self._nodes[at]

    def snapshot(self) -> MemorySnapshot:
        with self._lock:
            return MemorySnapshot(dict(self._nodes))

    def restore(self, snapshot: MemorySnapshot) -> None:
        with self._lock:
            self._nodes = dict(snapshot.nodes)

    def _node(self, segments: Segments) -> _File | None:
        self._check_parents(segments)
        if segments not in self._nodes:
            raise path_error(errno.ENOENT, segments)
        return self._nodes[segments]

    def _size(self) -> int:
        return sum(len(node.content) for node in self._nodes.values() if node)

    def _make(self, segments: Segments) -> None:
        for depth in range(1, len(segments) + 1):
            self._nodes.setdefault(segments[:depth])

    def _check_parents(self, segments: Segments) -> None:
        for depth in range(1, len(segments)):
            if self._nodes.get(segments[:depth]) is not None:
                raise path_error(errno.ENOTDIR, segments[:depth])
