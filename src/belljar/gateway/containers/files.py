"""Files that come from outside: put into the store and into a live sandbox alike, all of them or none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from belljar.errors import BelljarError, InvalidRequest, Lost, NotFound, TooLarge, WorkspaceError
from belljar.gateway.containers import names, workspace
from belljar.gateway.containers.sandboxes import not_found
from belljar.gateway.containers.slots import Held, Slot
from belljar.gateway.containers.workspace import Wanted
from belljar.gateway.store.base import Blob, Blobs, ContainerFileRecord, FileRecord, Records
from belljar.sandbox import explain
from belljar.sandbox.base import FileInfo
from belljar.wire import ids

_AT_ONCE = 500
"""Records of one commit: an archive may have so many that others would wait."""


class Incoming(NamedTuple):
    """A file that is to be put at a path."""

    path: str
    blob: Blob
    type: str
    source: Literal["user", "assistant"] = "user"
    id: str | None = None


async def keep_figure(records: Records, container_id: str, blob: Blob, type: str, now: float) -> ContainerFileRecord:
    """A picture that a cell showed, as a file named by its id.

    It is in the store alone: in the workspace, code that takes every picture there would meet it.
    """
    id = ids.new("cfile")
    return await records.put_container_file(
        ContainerFileRecord(
            id=id,
            container_id=container_id,
            path=f"{id}.{type.partition('/')[2]}",
            created_at=int(now),
            size=blob.size,
            modified=now,
            source="assistant",
            blob=blob.name,
            type=type,
        )
    )


class Files:
    """Puts files into containers and takes them away, one caller at a time for each."""

    def __init__(self, records: Records, blobs: Blobs, clock: Callable[[], float]) -> None:
        self._records = records
        self._blobs = blobs
        self._clock = clock

    async def put(self, slot: Slot, incoming: Sequence[Incoming], *, disk: int) -> list[ContainerFileRecord]:
        """Put these; what was at their paths is replaced and keeps its id. `disk` is what the workspace holds."""
        async with slot.filing:
            return await self._put(slot, await self._there(slot), incoming, disk)

    async def place(self, slot: Slot, files: Sequence[FileRecord], *, disk: int) -> list[ContainerFileRecord]:
        """Put uploaded files, each once: under its own name where that is free, else with its id before the name."""
        async with slot.filing:
            there = await self._there(slot)
            by_id = {record.id: record for record in there.values()}
            blobs = {path: record.blob for path, record in there.items()}
            paths: list[str] = []
            incoming: list[Incoming] = []
            for file in files:
                id = names.placed_id(slot.id, file.id)
                if id in by_id:
                    paths.append(by_id[id].path)
                    continue
                path = names.checked(file.filename)
                if blobs.get(path, file.blob) != file.blob or names.clashing([*blobs, path]):
                    path = names.checked(names.apart(path, file.id))
                paths.append(path)
                if path not in blobs:
                    blobs[path] = file.blob
                    incoming.append(Incoming(path, Blob(file.blob, file.size), file.type, id=id))
            there |= {record.path: record for record in await self._put(slot, there, incoming, disk)}
            return [there[path] for path in paths]

    async def delete(self, slot: Slot, id: str) -> ContainerFileRecord | None:
        """Take a file away; what it was, None if it was not there."""
        async with slot.filing:
            record = await self._records.get_container_file(slot.id, id)
            if record is None:
                return None
            held = slot.held
            if held is not None and held.known.pop(record.path, None) is not None:
                with contextlib.suppress(NotFound, WorkspaceError, Lost):  # the code may have been faster
                    await held.sandbox.files.delete(record.path)
            await self._records.delete_container_file(slot.id, id)
            return record

    async def _there(self, slot: Slot) -> dict[str, ContainerFileRecord]:
        if slot.deleted:
            raise not_found(slot.id)
        files = await self._records.all_container_files(slot.id)
        return {record.path: record for record in files if not names.is_figure(record)}

    async def _put(
        self, slot: Slot, there: dict[str, ContainerFileRecord], incoming: Sequence[Incoming], disk: int
    ) -> list[ContainerFileRecord]:
        sizes = {record.path: record.size for record in there.values()} | {one.path: one.blob.size for one in incoming}
        if clash := names.clashing(sizes):
            raise InvalidRequest(
                f"file: {names.shown(clash)} would be a file and a directory at once; choose another name", param="file"
            )
        needed = workspace.room(sizes.values())
        if incoming and needed > disk:
            raise TooLarge(
                f"file: {names.shown(incoming[-1].path)} does not fit: the container's files would have "
                f"{explain.size(needed)} and its workspace holds {explain.size(disk)}; delete some, or use a "
                "container with a larger memory_limit"
            )
        held = slot.held if slot.held is not None and not slot.held.lost else None
        passed: list[str] = []
        infos: dict[str, FileInfo] = {}
        try:
            if held is not None:
                infos = await self._write(held, incoming, passed)
            kept: list[ContainerFileRecord] = []
            for start in range(0, len(incoming), _AT_ONCE):
                some = self._recorded(slot.id, incoming[start : start + _AT_ONCE])
                kept += await self._records.put_container_files(slot.id, some)
        except BaseException:
            if held is not None:
                await self._undo(held, passed)
            raise
        for record in kept:
            if held is not None and record.path in infos:
                held.note(record, infos[record.path])
        return kept

    async def _write(self, held: Held, incoming: Sequence[Incoming], passed: list[str]) -> dict[str, FileInfo]:
        wanted = [Wanted.of(one.path, one.blob.name, one.blob.size) for one in incoming]
        try:
            infos = await workspace.write(held.sandbox.files, wanted, self._blobs, passed)
        except Lost:
            held.lost = True  # whoever leases next gets another, with these files in it
            return {}
        return {one.path: info for one, info in zip(wanted, infos, strict=True)}

    async def _undo(self, held: Held, passed: Sequence[str]) -> None:
        for path in passed:
            known = held.known.get(path)
            with contextlib.suppress(BelljarError):
                if known is None:
                    await held.sandbox.files.delete(path)
                else:
                    before = Wanted.of(path, known.record.blob, known.record.size)
                    [info] = await workspace.write(held.sandbox.files, [before], self._blobs, [])
                    held.note(known.record, info)

    def _recorded(self, container_id: str, incoming: Sequence[Incoming]) -> list[ContainerFileRecord]:
        now = self._clock()
        return [
            ContainerFileRecord(
                id=one.id or id,
                container_id=container_id,
                path=one.path,
                created_at=int(now),
                size=one.blob.size,
                modified=now,
                source=one.source,
                blob=one.blob.name,
                type=one.type,
            )
            for one, id in zip(incoming, ids.several("cfile", len(incoming)), strict=True)
        ]
