"""Files of a remote sandbox: streamed both ways, as a tar when there are many."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Iterable, Mapping

from belljar.errors import Lost
from belljar.sandbox import codec
from belljar.sandbox.base import MIB, Content, FileInfo
from belljar.sandbox.codec import Told
from belljar.sandbox.remote.http_client import file_path
from belljar.sandbox.remote.lease import Lease
from belljar.sandbox.remote.upload_body import SMALL, Pieces, TarBody, chunks


class RemoteWorkspace:
    """Every call asks the server."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    async def write(self, name: str, content: Content) -> FileInfo:
        headers = {"Content-Type": "application/octet-stream"}
        if isinstance(content, str):
            content = content.encode("utf-8")
        if isinstance(content, bytes):
            headers["Content-Length"] = str(len(content))
            data = content if len(content) <= SMALL else Pieces(chunks(content))
        else:
            data = Pieces(chunks(content))
        return codec.decode_file(await self._put(f"/files/{file_path(name)}", data, headers))

    async def write_many(self, files: Iterable[tuple[str, Content]]) -> builtins.list[FileInfo]:
        archive = TarBody(files)
        told = await self._put("/files", Pieces(archive.pieces()), {"Content-Type": "application/x-tar"})
        if archive.failed is not None:
            raise archive.failed
        return _read_files(told)

    async def read(self, name: str, *, limit: int | None = None) -> bytes:
        query = "" if limit is None else f"?limit={limit}"
        async with self._lease.ask("GET", f"/files/{file_path(name)}{query}") as answer:
            return await answer.read()

    async def stream(self, name: str, *, chunk: int = MIB) -> AsyncIterator[bytes]:
        async with self._lease.ask("GET", f"/files/{file_path(name)}") as answer:
            async for data in answer.content.iter_chunked(chunk):
                yield data

    async def delete(self, name: str) -> None:
        await self._lease.tell("DELETE", f"/files/{file_path(name)}")

    async def list(self) -> builtins.list[FileInfo]:
        return _read_files(await self._lease.tell("GET", "/files"))

    async def _put(self, path: str, data: bytes | Pieces, headers: Mapping[str, str]) -> Told:
        try:
            async with self._lease.ask("PUT", path, data=data, headers=headers) as answer:
                return codec.decode_line(await answer.read())
        except Lost:
            if isinstance(data, Pieces) and data.failed is not None:  # the caller's own, and not the server's
                raise data.failed from None
            raise


def _read_files(told: Told) -> list[FileInfo]:
    match told:
        case {"files": list(files)}:
            return [codec.decode_file(one) for one in files]
    raise Lost("the sandbox server's answer has no list of files; is it a belljar sandbox of this version?")
