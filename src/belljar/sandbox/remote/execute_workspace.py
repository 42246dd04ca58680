"""The files of a sandbox whose server keeps none: held here between cells, sent along with each."""

from __future__ import annotations

import asyncio
import builtins
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from belljar.errors import InvalidRequest, NotFound, TooLarge, WorkspaceSecurityError
from belljar.sandbox.base import MIB, Content, FileInfo
from belljar.sandbox.file_names import clean_name
from belljar.sandbox.mime import guess_type
from belljar.sandbox.outputs import FileChanged
from belljar.sandbox.remote.execute_codec import Produced
from belljar.sandbox.remote.upload_body import chunks


class _File(NamedTuple):
    data: bytes
    modified: float


class HeldWorkspace:
    """`Workspace` in this process's memory: such servers take little at once."""

    def __init__(self, most: int, check: Callable[[], None]) -> None:
        """`most` bytes in all; `check` raises once the sandbox is gone."""
        self._most = most
        self._check = check
        self._files: dict[str, _File] = {}

    async def write(self, name: str, content: Content) -> FileInfo:
        [info] = await self.write_many([(name, content)])
        return info

    async def write_many(self, files: Iterable[tuple[str, Content]]) -> builtins.list[FileInfo]:
        self._check()
        return await asyncio.to_thread(self._put_all, files)

    def _put_all(self, files: Iterable[tuple[str, Content]]) -> builtins.list[FileInfo]:
        return [self._put(clean_name(name), content) for name, content in files]

    def _put(self, name: str, content: Content) -> FileInfo:
        self._find_clash(name)
        room = self._most - sum(len(file.data) for other, file in [*self._files.items()] if other != name)
        pieces, size = [], 0
        for piece in chunks(content):
            size += len(piece)
            if size > room:
                raise TooLarge(f"name: {name!r} does not fit: the workspace holds {self._most} bytes in all")
            pieces.append(piece)
        self._files[name] = _File(b"".join(pieces), time.time())
        return self._info(name)

    def _find_clash(self, name: str) -> None:
        """A file is no directory, and the other way round."""
        if any(other.startswith(f"{name}/") for other in [*self._files]):
            raise InvalidRequest(f"name: {name!r} is a directory", param="name")
        above, slash, _ = name.rpartition("/")
        while slash:
            if above in self._files:
                raise WorkspaceSecurityError(f"name: {name!r} is not a plain file or leads elsewhere (Not a directory)")
            above, slash, _ = above.rpartition("/")

    async def read(self, name: str, *, limit: int | None = None) -> bytes:
        data = self._find(name).data
        if limit is not None and len(data) > limit:
            raise TooLarge(f"name: {name!r} has {len(data)} bytes, more than the {limit} asked for; stream it")
        return data

    async def stream(self, name: str, *, chunk: int = MIB) -> AsyncIterator[bytes]:
        data = self._find(name).data
        for start in range(0, len(data), chunk):
            yield data[start : start + chunk]

    async def list(self) -> builtins.list[FileInfo]:
        self._check()
        return [self._info(name) for name in sorted(self._files)]

    async def delete(self, name: str) -> None:
        self._find(name)
        del self._files[clean_name(name)]

    def _find(self, name: str) -> _File:
        self._check()
        clean = clean_name(name)
        if clean not in self._files:
            if any(other.startswith(f"{clean}/") for other in self._files):
                raise InvalidRequest(f"name: {name!r} is a directory", param="name")
            raise NotFound(f"name: there is no {name!r} under /mnt/data")
        return self._files[clean]

    def _info(self, name: str) -> FileInfo:
        data, modified = self._files[name]
        return FileInfo(name, len(data), modified, guess_type(name))

    # -- what goes along with a cell, and what comes back ---------------------------------------------------------

    def snapshot(self) -> Mapping[str, bytes]:
        return {name: file.data for name, file in [*self._files.items()]}

    def merge(self, sent: Mapping[str, bytes], files: Iterable[Produced], gone: Iterable[str]) -> Iterable[FileChanged]:
        """Keep what a cell made of the files that were `sent`, and tell of it.

        A file that came back as it was is none of its doing, where nobody tells (`modified` is None). What somebody
        else put here meanwhile is not removed.
        """
        for name in gone:
            if name in self._files and self._files[name].data is sent.get(name):
                del self._files[name]
        for name, data, modified in ((one.name, one.data, one.modified) for one in files):
            if modified is None and sent.get(name) == data:
                continue
            self._files[name] = _File(data, time.time() if modified is None else modified)
            info = self._info(name)
            change: Literal["created", "modified"] = "modified" if name in sent else "created"
            yield FileChanged(info.name, info.size, info.modified, info.type, change)
