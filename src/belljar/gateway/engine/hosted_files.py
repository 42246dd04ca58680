"""Files that a provider's code made, kept as files of a container of ours."""

from __future__ import annotations

import itertools
import mimetypes
from collections.abc import AsyncIterator, Container, Sequence

from msgspec import UNSET, structs

from belljar.errors import BelljarError, TooLarge
from belljar.gateway.containers import Containers
from belljar.gateway.containers.names import MOUNT
from belljar.gateway.store.base import Blobs, ContainerFileRecord, ContainerRecord
from belljar.gateway.upstream.vendor_files import HostedFiles
from belljar.output_names import free_name
from belljar.sandbox import explain
from belljar.vendors.deltas import HostedEnd
from belljar.vendors.request import HostedFile
from belljar.wire.items import CellEnd, Logs

LARGEST = 512 << 20
"""Bytes of one file that we fetch."""


class HostedFileKeeper:
    """Fetches the files of hosted cells and keeps them."""

    def __init__(self, files: HostedFiles, containers: Containers, blobs: Blobs) -> None:
        self._files = files
        self._containers = containers
        self._blobs = blobs
        self._kept: dict[str, str] = {}
        """Paths at which this keeper has put files, and their contents."""

    async def keep(
        self, end: HostedEnd, container: ContainerRecord
    ) -> tuple[HostedEnd, tuple[ContainerFileRecord, ...]]:
        """The end of a cell, told as of a cell of ours, and its files. What cannot be had is said in its output."""
        kept: list[ContainerFileRecord] = []
        notes: list[str] = []
        for file in end.files:
            try:
                record, name = await self.keep_file(file, container)
            except BelljarError as error:
                notes.append(f"[The file {file.name or file.id or 'of this cell'} could not be kept: {error}]\n")
                continue
            kept.append(record)
            if record.path != name:
                notes.append(f"[There is another {name}: this one is kept as {record.path}]\n")
        return _describe_end(end, kept, notes), tuple(kept)

    async def keep_figure(
        self, data: bytes, type: str, container: ContainerRecord, known: Container[str]
    ) -> ContainerFileRecord | None:
        """A picture that the code showed; None if its content is among the known."""
        await self._containers.check_room(container.owner, len(data))
        async with self._blobs.write() as writer:
            await writer.write(data)
            blob = await writer.finish()
        return None if blob.name in known else await self._containers.keep_figure(container, blob, type)

    async def keep_file(self, file: HostedFile, container: ContainerRecord) -> tuple[ContainerFileRecord, str]:
        """The file as it is kept, and the path that it had there.

        Where the vendor tells a name and no path, two files may have one: each is kept, the later with a number.
        """
        async with self._files.open(file) as opened:
            named = opened.path or opened.name
            path = _strip_mount(named) if named else await self._make_name(opened.type, container)
            left = await self._containers.count_left(container.owner)
            blob = await self._blobs.adopt(_limit_size(path, opened.chunks, left))
            same = opened.path or self._kept.get(path, blob.name) == blob.name
            place = path if same else free_name(path, self._kept)
            record = await self._containers.put_file(
                container, place, blob, source="assistant", type=opened.type or None
            )
        self._kept[record.path] = blob.name
        return record, path

    async def _make_name(self, type: str, container: ContainerRecord) -> str:
        taken = {one.path for one in await self._containers.all_files(container)}
        ending = mimetypes.guess_extension(type) or ""
        return next(name for n in itertools.count(1) if (name := f"output_{n}{ending}") not in taken)


def _strip_mount(path: str) -> str:
    """Below the workspace; what lies elsewhere in the vendor's container goes by its name."""
    plain = path.removeprefix(MOUNT)
    return plain.rpartition("/")[2] if plain.startswith("/") else plain


def _describe_end(end: HostedEnd, kept: Sequence[ContainerFileRecord], notes: Sequence[str]) -> HostedEnd:
    item = end.item
    how = CellEnd(exit="ok") if item.belljar is UNSET else item.belljar
    outputs = item.outputs or ()
    if notes:
        outputs = (*outputs, Logs(logs="".join(notes)))
    how = structs.replace(how, files=tuple(one.path for one in kept), file_ids=tuple(one.id for one in kept))
    item = structs.replace(item, outputs=outputs, belljar=how)
    return HostedEnd(end.index, item)


async def _limit_size(name: str, chunks: AsyncIterator[bytes], left: int | None) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > LARGEST:
            raise TooLarge(f"{name} has more than {explain.size(LARGEST)}, which are the most for one file")
        if left is not None and size > left:
            raise TooLarge(
                f"{name} has more than the {explain.size(max(left, 0))} that are left of what this key may store "
                "(quota_bytes); delete files or containers first"
            )
        yield chunk
