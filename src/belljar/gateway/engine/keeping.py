"""Files that a provider's code made, kept as files of a container of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Sequence

from msgspec import UNSET, structs

from belljar.dialects.deltas import HostedEnd, HostedFile
from belljar.errors import BelljarError, TooLarge
from belljar.gateway.containers import Containers
from belljar.gateway.store.base import Blobs, ContainerFileRecord, ContainerRecord
from belljar.gateway.upstream.hosted import HostedFiles
from belljar.sandbox import explain
from belljar.wire.items import CellEnd, Logs

LARGEST = 512 << 20
"""Bytes of one file that we fetch."""


class Keeper:
    """Fetches the files of hosted cells and keeps them."""

    def __init__(self, files: HostedFiles, containers: Containers, blobs: Blobs) -> None:
        self._files = files
        self._containers = containers
        self._blobs = blobs

    async def keep(
        self, end: HostedEnd, container: ContainerRecord
    ) -> tuple[HostedEnd, tuple[ContainerFileRecord, ...]]:
        """The end of a cell, told as of a cell of ours, and its files. What cannot be had is said in its output."""
        kept: list[ContainerFileRecord] = []
        lost: list[str] = []
        for file in end.files:
            try:
                kept.append(await self.keep_file(file, container))
            except BelljarError as error:
                lost.append(f"[The file {file.name or file.id or 'of this cell'} could not be kept: {error}]\n")
        return _told(end, [one.path for one in kept], lost), tuple(kept)

    async def keep_figure(
        self, data: bytes, type: str, container: ContainerRecord, known: Container[str]
    ) -> ContainerFileRecord | None:
        """A picture that the code showed; None if its content is among the known."""
        async with self._blobs.write() as writer:
            await writer.write(data)
            blob = await writer.finish()
        return None if blob.name in known else await self._containers.keep_figure(container, blob, type)

    async def keep_file(self, file: HostedFile, container: ContainerRecord) -> ContainerFileRecord:
        async with self._files.open(file) as opened:
            name = opened.name.rsplit("/", 1)[-1]
            blob = await self._blobs.adopt(_bounded(name, opened.chunks))
            return await self._containers.put_file(container, name, blob, source="assistant", type=opened.type or None)


def _told(end: HostedEnd, paths: Sequence[str], lost: Sequence[str]) -> HostedEnd:
    item = end.item
    how = CellEnd(exit="ok") if item.belljar is UNSET else item.belljar
    outputs = item.outputs or ()
    if lost:
        outputs = (*outputs, Logs(logs="".join(lost)))
    item = structs.replace(item, outputs=outputs, belljar=structs.replace(how, files=tuple(paths)))
    return HostedEnd(end.index, item)


async def _bounded(name: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > LARGEST:
            raise TooLarge(f"{name} has more than {explain.size(LARGEST)}, which are the most for one file")
        yield chunk
