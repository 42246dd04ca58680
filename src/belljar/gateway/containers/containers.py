"""Containers as the API has them: made, found, expired, deleted, with their files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, TypeGuard
from weakref import WeakValueDictionary

import msgspec

from belljar.config import size
from belljar.errors import ContainerExpired, InvalidRequest, NotFound, TooLarge
from belljar.gateway.containers import extract, names, workspace
from belljar.gateway.containers.capacity import Capacity
from belljar.gateway.containers.container import Container
from belljar.gateway.containers.hold import Held, held_elsewhere, not_found
from belljar.gateway.containers.incoming import Incoming
from belljar.gateway.containers.policy import Policy
from belljar.gateway.containers.released_blobs import ReleasedBlobs
from belljar.gateway.containers.services import Services
from belljar.gateway.containers.use import Use
from belljar.gateway.containers.versions import Differences, compare
from belljar.gateway.membership import Membership
from belljar.gateway.store import blob_slices
from belljar.gateway.store.base import (
    Blob,
    Blobs,
    ContainerFileRecord,
    ContainerRecord,
    FileRecord,
    FoundContainer,
    Page,
    Records,
    Version,
    storage_exceeded,
)
from belljar.sandbox import explain
from belljar.sandbox.base import SandboxSource
from belljar.sandbox.mime import guess_type
from belljar.wire import codec, ids
from belljar.wire.tools import NetworkPolicy

AUTO = "auto"
"""The name of containers that nobody named."""
_OFF = NetworkPolicy(type="disabled")


class Containers:
    """The containers of a store, held by the sandboxes of a source."""

    def __init__(
        self,
        records: Records,
        blobs: Blobs,
        source: SandboxSource,
        policy: Policy,
        *,
        membership: Membership | None = None,
        tell_dropped: Callable[[str, str], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.time,
        stateless: Callable[[], bool] = bool,
    ) -> None:
        """Without a `membership` nobody else has this store; `tell_dropped` tells another that a container is gone.

        `stateless` tells whether the source's sandboxes keep nothing but their files from cell to cell.
        """
        self._tell_dropped = tell_dropped
        self._membership = membership or Membership(records)
        self._membership.on_loss(self._drop)
        self._records = records
        self._blobs = blobs
        self._policy = policy
        self._clock = clock
        self._capacity = Capacity(source, policy, clock)
        self._released = ReleasedBlobs(records, blobs)
        self._services = Services(
            records, blobs, self._capacity, policy, self._membership, clock, self._released, stateless
        )
        self._live: WeakValueDictionary[str, Container] = WeakValueDictionary()

    @property
    def stateless(self) -> bool:
        """Whether no sandbox keeps anything but its files from cell to cell, whatever the policy says."""
        return self._services.stateless()

    @property
    def per_call(self) -> bool:
        """Whether every call has a sandbox of its own."""
        return self._services.per_call

    def _container(self, record: ContainerRecord) -> Container:
        """The one of this id, for as long as anybody has it."""
        found = self._live.get(record.id)
        if found is None:
            found = self._live[record.id] = Container(record.id, record.owner, self._services)
        return found

    # -- containers ---------------------------------------------------------------------------------------------

    async def create(
        self,
        owner: str,
        *,
        name: str,
        memory: str | None = None,
        minutes: int | None = None,
        network: NetworkPolicy | None = None,
        auto: bool = False,
        id: str | None = None,
    ) -> ContainerRecord:
        """A new container. Its sandbox is made when the first cell is run."""
        if network is not None and network.type != "disabled":
            raise InvalidRequest(
                f"network_policy: {network.type!r} cannot be had, since there is no network in a sandbox here; leave "
                'it out, or send {"type": "disabled"}, and upload what the code needs',
                param="network_policy",
                fault="invalid_value",
            )
        now = int(self._clock())
        record = ContainerRecord(
            id=id or ids.new("cntr"),
            owner=owner,
            name=name,
            created_at=now,
            last_active_at=now,
            memory=self._policy.tier(memory or self._policy.memory),
            minutes=self._policy.minutes if minutes is None else minutes,
            auto=auto,
            network=codec.encode(_OFF),
        )
        await self._records.create_container(record)
        return record

    async def get(self, id: str, owner: str) -> ContainerRecord:
        record = await self._records.get_container(id, owner)
        if record is None or record.deleted:
            raise not_found(id)
        return record

    def status(self, record: ContainerRecord) -> Literal["running", "expired"]:
        """By the idle clock; whether a sandbox holds it at the moment is nobody's concern."""
        live = self._live.get(record.id)
        busy = live is not None and live.in_use
        return "expired" if _expired(record, self._clock()) and not busy else "running"

    async def named(self, id: str, owner: str) -> FoundContainer:
        """A container that a request names; `ContainerExpired` if it is, unless the policy lets those come back."""
        found = await self._records.find_container([id], owner)
        if found is None:
            raise not_found(id)
        return await self._revived_with_files(found, self._policy.heal_named)

    async def auto(
        self,
        owner: str,
        candidates: Sequence[str],
        *,
        memory: str | None = None,
        id: str | None = None,
        ahead: FoundContainer | None = None,
    ) -> FoundContainer:
        """The container of a chain: the first of the candidates, newest first, that is still there, else a new one.

        An expired one comes back under its id, with its files. One with less memory than asked for gets more. What was
        read `ahead`, a moment ago, is not looked for again.
        """
        found = await self._chained(owner, candidates, memory, ahead)
        if found is None:
            return FoundContainer(await self.create(owner, name=AUTO, memory=memory, auto=True, id=id))
        if _outgrows(memory, found.record):
            found = FoundContainer(await self._container(found.record).grow(memory), found.files)
        return await self._revived_with_files(found, True)

    async def prospect(
        self,
        owner: str,
        candidates: Sequence[str],
        *,
        memory: str | None = None,
        ahead: FoundContainer | None = None,
    ) -> FoundContainer:
        """What `auto` would give, while nothing is made and nothing changes; one that is yet to be made has no id."""
        found = await self._chained(owner, candidates, memory, ahead)
        if found is None:
            record = ContainerRecord(
                id="", owner=owner, name=AUTO, created_at=0, last_active_at=0, memory=memory or self._policy.memory
            )
            return FoundContainer(record)
        if _outgrows(memory, found.record):
            return FoundContainer(msgspec.structs.replace(found.record, memory=memory), found.files)
        return found

    async def _chained(
        self, owner: str, candidates: Sequence[str], memory: str | None, ahead: FoundContainer | None = None
    ) -> FoundContainer | None:
        """The first of the candidates that is still there, whatever its memory; which must be one that can be had."""
        if memory is not None:
            self._policy.tier(memory)
        if not candidates or (ahead is not None and ahead.record.id == candidates[0]):
            return ahead if candidates else None
        return await self._records.find_container([*dict.fromkeys(candidates)], owner)

    def is_warm(self, record: ContainerRecord) -> bool:
        """Whether its sandbox is here, as large as the record says: who deletes it anywhere tells us, and ends that."""
        live = self._live.get(record.id)
        return live is not None and live.has_sandbox(record.memory) and self.status(record) == "running"

    async def _revived_with_files(self, found: FoundContainer, may: bool) -> FoundContainer:
        return FoundContainer(await self._revived(found.record, may), found.files)

    async def _revived(self, record: ContainerRecord, may: bool) -> ContainerRecord:
        if self.status(record) == "running":
            return record
        if not may:
            raise ContainerExpired("Container is expired.")
        now = int(self._clock())
        await self._records.touch_container(record.id, now)
        return msgspec.structs.replace(record, last_active_at=now)

    def host(self, container: ContainerRecord) -> AbstractAsyncContextManager[Held]:
        """The container for as long as a provider runs code for it: see `Container.host`."""
        return self._container(container).host()

    async def note_hosted(self, hosting: Held, hosted: bytes) -> None:
        """A provider ran code for it: keep what is known of its side, and start the idle clock anew."""
        await self._container(hosting.record).note_hosted(hosted, hosting.hold)

    async def delete(self, id: str, owner: str) -> None:
        """Its sandbox dies, whatever runs in it and at whichever gateway, and its files go."""
        record = await self.get(id, owner)
        files = await self._container(record).delete()
        if record.holder not in (None, self._membership.id) and self._tell_dropped is not None:
            await self._tell_dropped(record.holder or "", id)
        released = {file.blob for file in files}
        await self._blobs.remove_unused(self._records, released)
        self._released.add(released)  # those of a moment ago could not go yet

    # -- files --------------------------------------------------------------------------------------------------

    async def count_left(self, owner: str) -> int | None:
        """Bytes that an owner may store yet; None for any number."""
        return await self._services.count_left(owner)

    async def check_room(self, owner: str, size: int) -> None:
        """Before bytes are kept that a record is to name: `StorageExceeded` where they are more than there may be.

        The record is counted when it is written. But bytes that are refused only then lie on the disk for a while.
        """
        most = self._policy.bytes_per_owner
        left = await self.count_left(owner)
        if most is not None and left is not None and size > left:
            raise storage_exceeded(most)

    async def put_file(
        self,
        container: ContainerRecord,
        name: str,
        blob: Blob,
        *,
        source: Literal["user", "assistant"] = "user",
        type: str | None = None,
    ) -> ContainerFileRecord:
        """A file under its own name; the newest content wins, under the id that the file had before."""
        path = names.checked(name)
        self._check_size(path, blob)
        incoming = Incoming(path, blob, type or guess_type(path), source)
        [record] = await self._put(container, [incoming])
        return record

    async def keep_figure(self, container: ContainerRecord, blob: Blob, type: str) -> ContainerFileRecord:
        """A picture that code showed."""
        return await self._container(container).keep_figure(blob, type)

    async def place(self, container: ContainerRecord, files: Sequence[FileRecord]) -> list[ContainerFileRecord]:
        """Uploaded files, each at most once, under its own name or, where that is taken, with its id before it."""
        for file in files:
            self._check_size(file.filename, Blob(file.blob, file.size))
        container = await self._in_use(container)
        disk = self._policy.spec(container).limits.disk
        return await self._container(container).place(files, disk=disk)

    async def extract(self, container: ContainerRecord, blob: Blob, filename: str) -> list[ContainerFileRecord]:
        """The files of a tar or zip archive; if anything is wrong with it, none of them."""
        container = await self._in_use(container)
        left = await self.count_left(container.owner)
        disk = self._policy.spec(container).limits.disk
        bounds = extract.Bounds(self._policy.archive_files, disk if left is None else min(disk, max(left, 0)))
        async with workspace.opened(blob.name, self._blobs) as file:
            parts = None
            if self._policy.whole_archives:
                parts = await asyncio.to_thread(extract.parts, file, filename, bounds)
            if parts is None:
                try:
                    members = await self._unpacked(extract.unpack(file, filename, bounds))
                except TooLarge:
                    if left is None or left >= disk or self._policy.bytes_per_owner is None:
                        raise
                    raise storage_exceeded(self._policy.bytes_per_owner) from None
            else:
                members = [(path, blob_slices.Slice(blob.name, start, size).blob) for path, start, size in parts]
        for path, content in members:
            self._check_size(path, content)
        return await self._put(container, [Incoming(path, content, guess_type(path)) for path, content in members])

    async def _unpacked(self, steps: Iterator[str | bytes]) -> list[tuple[str, Blob]]:
        found: list[tuple[str, Blob]] = []
        source = extract.Sorted(steps)
        while True:
            batch = await asyncio.to_thread(source.batch)
            while batch:  # the next is read while these are written
                kept, batch = await asyncio.gather(self._kept(batch), asyncio.to_thread(source.batch))
                found += kept
            path = await asyncio.to_thread(source.large)
            if path is None:
                return found
            async with self._blobs.write() as writer:
                while piece := await asyncio.to_thread(source.piece):
                    await writer.write(piece)
                found.append((path, await writer.finish()))

    async def _kept(self, files: Sequence[tuple[str, bytes]]) -> list[tuple[str, Blob]]:
        kept = await self._blobs.keep([content for _, content in files])
        return list(zip((path for path, _ in files), kept, strict=True))

    async def _put(self, container: ContainerRecord, incoming: Sequence[Incoming]) -> list[ContainerFileRecord]:
        container = await self._in_use(container)
        disk = self._policy.spec(container).limits.disk
        return [*(await self._container(container).put(incoming, disk=disk)).files]

    def _check_size(self, name: str, blob: Blob) -> None:
        most = self._policy.largest_file
        if most is not None and blob.size > most:
            has, may = explain.size(blob.size), explain.size(most)
            raise TooLarge(f"file: {names.shown(name)} has {has}; {may} are the most for one file")

    async def get_file(self, container: ContainerRecord, id: str) -> ContainerFileRecord:
        record = await self._records.get_container_file(container.id, id)
        if record is None:
            raise _no_file(container, id)
        await self._touch(container)
        return record

    async def delete_file(self, container: ContainerRecord, id: str) -> None:
        gone = await self._container(container).delete_file(id)
        if gone is None:
            raise _no_file(container, id)
        await self._blobs.remove_unused(self._records, [gone.blob])
        self._released.add([gone.blob])
        await self._touch(container)

    async def stream_file(
        self, container: ContainerRecord, file: ContainerFileRecord, *, start: int = 0, stop: int | None = None
    ) -> AsyncIterator[bytes]:
        """Its bytes, or some of them; `NotFound` before the first of them if they are gone."""
        await self._touch(container)
        async for chunk in self._blobs.stream(file.blob, start=start, stop=stop):
            yield chunk

    async def list_files(self, container: ContainerRecord, page: Page) -> list[ContainerFileRecord]:
        await self._touch(container)
        return await self._records.list_container_files(container.id, page)

    async def all_files(self, container: ContainerRecord) -> list[ContainerFileRecord]:
        """Everything that the code finds in /mnt/data, by path: what the model is told of."""
        files = await self._records.all_container_files(container.id)
        return sorted((one for one in files if not names.is_figure(one)), key=lambda one: one.path)

    async def version(self, container: ContainerRecord, number: int) -> tuple[Version, frozenset[str]]:
        """Its state as it was at this number, and of which paths the bytes are kept no more."""
        version = await self._records.get_version(container.id, number)
        if version is None:
            raise NotFound(f"Container {container.id} has no version {number}; its newest is {container.version}.")
        wholes = {path: blob_slices.whole(file.blob) for path, file in version.files.items()}
        unused = frozenset(await self._records.unused_blobs([*dict.fromkeys(wholes.values())]))
        return version, frozenset(path for path, whole in wholes.items() if whole in unused)

    async def differences(self, container: ContainerRecord, since: int, until: int) -> Differences:
        """What changed in it from one version to another; nothing where it has not had them."""
        if since >= until:
            return Differences()
        before, after = [await self._records.get_version(container.id, number) for number in (since, until)]
        return Differences() if before is None or after is None else compare(before, after)

    async def _in_use(self, container: ContainerRecord) -> ContainerRecord:
        """As for a request that names it; and its idle clock starts anew."""
        container = await self._revived(container, self._policy.heal_named)
        await self._touch(container)
        return container

    async def _touch(self, container: ContainerRecord) -> None:
        """Start the idle clock anew, unless it has run out."""
        now = self._clock()
        if container.last_active_at < int(now) and not _expired(container, now):
            await self._records.touch_container(container.id, int(now))
        if container.id in self._live:
            self._live[container.id].touch()

    # -- sandboxes ----------------------------------------------------------------------------------------------

    def use(self, container: ContainerRecord) -> AbstractAsyncContextManager[Use]:
        """The container's sandbox for as long as the context lasts: see `Container.use`."""
        return self._container(container).use()

    def count_sandboxes(self) -> tuple[int, int]:
        """How many are in use, and how many are held by a container that runs nothing."""
        return self._capacity.count()

    async def check_here(self, container: ContainerRecord) -> None:
        """`HeldElsewhere` where another gateway has its sandbox, and lives: what runs code has to be asked there."""
        holder = container.holder
        if holder is not None and await self._membership.find(holder) is not None:
            raise held_elsewhere(container.id, holder)

    async def drop(self, id: str) -> None:
        """It was deleted at another gateway: what runs for it here ends at once."""
        live = self._live.get(id)
        if live is not None:
            await live.kill()

    async def _drop(self) -> None:
        """What is held here is no longer ours."""
        await self._capacity.kill_all()

    async def sweep(self) -> None:
        """End the sandboxes of expired containers; to be called every now and then.

        Those that run something are in use for as long as they do, which other gateways see by the store.
        """
        now = int(self._clock())
        for one in [one for one in self._live.values() if one.in_use]:
            await self._records.touch_container(one.id, now)
        await self._capacity.sweep()
        await self._released.remove()

    async def close(self) -> None:
        """End all sandboxes. The containers and their files stay."""
        await self._capacity.close()

    # Last, as it would hide the builtin from the annotations above.
    async def list(self, owner: str, page: Page, name: str | None = None) -> list[ContainerRecord]:
        return await self._records.list_containers(owner, page, name)


def _expired(container: ContainerRecord, now: float) -> bool:
    return container.last_active_at + container.minutes * 60 <= now


def _outgrows(memory: str | None, record: ContainerRecord) -> TypeGuard[str]:
    """More is asked for than the container has."""
    return memory is not None and size(memory) > size(record.memory)


def _no_file(container: ContainerRecord, id: str) -> NotFound:
    return NotFound(f"File {id} not found on container {container.id}.")
