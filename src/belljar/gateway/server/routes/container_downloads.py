"""The files of a container as the page shows them: with their types, under names for people, all of them as a zip."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, cast

from msgspec import Struct

from belljar import autorun
from belljar.errors import NotFound
from belljar.gateway.containers.names import is_figure
from belljar.gateway.server.interfaces import ServerServices
from belljar.gateway.server.page_bodies import ShownFile, ShownFiles
from belljar.gateway.server.request import Request
from belljar.gateway.store.base import ContainerFileRecord
from belljar.http_server import filenames
from belljar.http_server.reply import NOSNIFF, Answer, Reply, Stream
from belljar.http_server.routing import Content, Operation, Parameter, Route, json_of
from belljar.visible import visible
from belljar.wire.codec import encode

_ZIP64 = 1 << 30
"""Files from this size on get the wider fields; those of a smaller one cannot overflow."""


_ZIP = Operation(
    "Its files in one archive",
    (Content(None, "application/zip"),),
    query=(Parameter("file_id", list[str], "Only these."),),
)


class NamedFile(Struct, frozen=True):
    """A file and what people call it: its path, or a number for a picture that a cell showed."""

    name: str
    record: ContainerFileRecord


class DownloadRoutes:
    def __init__(self, services: ServerServices) -> None:
        self._containers = services.containers
        self._records = services.records
        self._blobs = services.blobs

    def routes(self) -> list[Route]:
        return [
            Route(
                "GET",
                "/belljar/containers/{id}/files",
                self.index,
                Operation("Its files, as the page shows them", json_of(ShownFiles)),
            ),
            Route("GET", "/belljar/containers/{id}/zip", self.send_zip, _ZIP),
        ]

    async def index(self, request: Request) -> Answer:
        files = await self.list_files(request.params["id"], request.caller.owner)
        return Reply(200, encode(ShownFiles(data=tuple(map(_describe_file, files)))))

    async def send_zip(self, request: Request) -> Answer:
        """`?file_id=…` for each that is wanted, or all, but for what would run by itself where it is unpacked."""
        files = await self.list_files(request.params["id"], request.caller.owner)
        if wanted := request.query.all("file_id"):
            files = choose_files(files, wanted)
        files = [one for one in files if autorun.refusal(one.name) is None]
        headers = ((b"content-type", b"application/zip"), (b"content-disposition", filenames.attachment("files.zip")))
        return Stream(pieces=self._write_zip(files), headers=(*headers, NOSNIFF))

    async def list_files(self, container_id: str, owner: str) -> list[NamedFile]:
        """All files of a container, oldest first."""
        container = await self._containers.get(container_id, owner)
        return name_files(await self._records.all_container_files(container.id))

    async def _write_zip(self, files: Iterable[NamedFile]) -> AsyncGenerator[bytes, None]:
        """Piece by piece and not packed: what is large in there is packed already, or wanted fast."""
        out = _Pipe()
        with zipfile.ZipFile(cast(Any, out), "w") as archive:
            for one in files:
                about = zipfile.ZipInfo(one.name, time.localtime(max(one.record.modified, 315619200))[:6])
                about.external_attr = 0o644 << 16
                with archive.open(about, "w", force_zip64=one.record.size >= _ZIP64) as entry:
                    async for chunk in self._blobs.stream(one.record.blob):
                        entry.write(chunk)
                        yield out.take()
                yield out.take()
        yield out.take()


class _Pipe(io.RawIOBase):
    """What was written since it was last taken; it cannot be sought in, so that nothing is written twice."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def name_files(records: Sequence[ContainerFileRecord]) -> list[NamedFile]:
    """Names that are all different."""
    taken = {record.path for record in records}
    found: list[NamedFile] = []
    number = 0
    for record in sorted(records, key=lambda one: (one.created_at, one.modified)):
        name = record.path
        while is_figure(record) and name in taken:
            number += 1
            name = f"figure-{number}.{record.path.rpartition('.')[2]}"
        found.append(NamedFile(name, record))
    return found


def choose_files(files: Sequence[NamedFile], wanted: Iterable[str]) -> list[NamedFile]:
    """Those with these ids, in this order."""
    by_id = {one.record.id: one for one in files}
    for id in wanted:
        if id not in by_id:
            raise NotFound(f"There is no file {id} in this container any more.", param="file_id")
    return [by_id[id] for id in wanted]


def _describe_file(one: NamedFile) -> ShownFile:
    record = one.record
    return ShownFile(
        id=record.id,
        container_id=record.container_id,
        name=one.name,
        shown=visible(one.name),
        refused=autorun.refusal(one.name),
        warning=autorun.warning(one.name),
        path=record.path,
        size=record.size,
        type=record.type,
        source=record.source,
        figure=is_figure(record),
    )
