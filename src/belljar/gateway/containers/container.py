"""One container in this process: its sandbox, its files, and whose turn it is. The only place that knows its locks.

What a container is now follows from what it has: `DELETED`, or `COLD` without a sandbox, `RUNNING` while a cell was
begun whose changes have not been taken yet, else `WARM`.

| state         | event                       | what happens                                                | next     |
|---------------|-----------------------------|-------------------------------------------------------------|----------|
| COLD          | use                         | a sandbox is made, and every file put into it               | WARM     |
| COLD          | a file is put or deleted    | in the store alone                                          | COLD     |
| WARM, RUNNING | a file is put or deleted    | in sandbox and store; undone in the one if the other fails  | the same |
| WARM          | a cell begins               | it counts, even if it never ends                            | RUNNING  |
| RUNNING       | it ends                     | what it changed is taken; a loss of variables has been told | WARM     |
| RUNNING       | its caller goes             | it is stopped, everything is compared and taken             | WARM     |
| RUNNING       | the sandbox is lost         | it is given up; the next caller is told of the loss         | COLD     |
| WARM          | idle, room needed, grown, … | everything is compared and taken, the sandbox given up      | COLD     |
| any           | delete                      | every sandbox is killed; whoever waits is told `NotFound`   | DELETED  |

Every change of its state (a cell that ended, files put or deleted, packages) makes the next version of it, whose
number the store gives in the transaction of the change: other processes may hold the same container.

Locks are taken in one order: first the turn, for whoever runs in the sandbox or ends it, then the files, for whoever
changes them or the record. Under the latter, whether it is deleted is looked at again.

Where every call has a sandbox of its own (`per_call`), the container itself stays cold: those sandboxes are scratch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

import msgspec

from belljar.errors import BelljarError, InvalidRequest, Lost, NotFound, TooLarge
from belljar.gateway.containers import names, workspace
from belljar.gateway.containers.capacity import Capacity
from belljar.gateway.containers.policy import Policy
from belljar.gateway.containers.workspace import Collected, LeftOut, Live
from belljar.gateway.store.base import (
    Blob,
    Blobs,
    Change,
    Changed,
    ContainerFileRecord,
    ContainerRecord,
    FileRecord,
    Records,
)
from belljar.sandbox import explain
from belljar.sandbox.base import Cell, FileInfo
from belljar.sandbox.outputs import Exit, FileChanged, Output
from belljar.sandbox.packages import find_unrequested
from belljar.wire import ids

_AT_ONCE = 10_000
"""Files of one commit, and so of one version: an archive may have so many more that others would wait."""


def not_found(container_id: str) -> NotFound:
    """In the words of OpenAI's wire."""
    return NotFound(f"Container with id '{container_id}' not found.")


class State(Enum):
    COLD = "cold"
    WARM = "warm"
    RUNNING = "running"
    DELETED = "deleted"


class Incoming(NamedTuple):
    """A file that is to be put at a path."""

    path: str
    blob: Blob
    type: str
    source: Literal["user", "assistant"] = "user"
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Services:
    """What all containers of a process share."""

    records: Records
    blobs: Blobs
    capacity: Capacity
    policy: Policy
    clock: Callable[[], float]


class Container:
    """One id in this process, for as long as anybody has it."""

    def __init__(self, id: str, owner: str, services: Services) -> None:
        self.id = id
        self.owner = owner
        self._services = services
        self._records = services.records
        self._blobs = services.blobs
        self._turn = asyncio.Lock()
        self._files = asyncio.Lock()
        self._users = 0
        """Callers that have or await their turn: above 0, the sandbox is not idle."""
        self._live: Live | None = None
        self._sandboxes: set[Live] = set()
        """All that are not closed yet: this one, those of one call each, and such as are being given up."""
        self._deleted = False
        self._told_of_loss = True
        """False while nobody has heard yet that the variables of an earlier sandbox are gone."""
        self._minutes = 0
        self._active_at = services.clock()
        self.cells = 0
        """Cells that it has run, in whichever sandbox."""

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        if self._deleted:
            return State.DELETED
        if self._live is None:
            return State.COLD
        return State.RUNNING if self._live.running else State.WARM

    @property
    def in_use(self) -> bool:
        return self._users > 0

    @property
    def idle(self) -> bool:
        return self._live is not None and not self._users

    @property
    def active_at(self) -> float:
        return self._active_at

    @property
    def outlived(self) -> bool:
        return self._active_at + self._minutes * 60 <= self._services.clock()

    def touch(self) -> None:
        self._active_at = self._services.clock()

    # -- use ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Use]:
        """Its sandbox for as long as the context lasts, in the order in which they asked.

        Whatever cell is left running at the end is interrupted, and what it changed is kept. `NoneFree` if all places
        are busy, `Refused` if the files cannot all be put in place.
        """
        async with self._wanted(), AsyncExitStack() as stack:
            if self._services.policy.isolation == "per_call":
                live = await self._make_scratch()
                stack.push_async_callback(self._discard, live)
            else:
                await stack.enter_async_context(self._turn)
                live = await self._warm_up()
                stack.push_async_callback(self._end_if_lost, live)
            version = (await self._fresh()).version
            use = Use(self, live, self._services, version, healed=not self._told_of_loss)
            stack.push_async_callback(use.finish)
            yield use

    @asynccontextmanager
    async def _wanted(self) -> AsyncIterator[None]:
        """While somebody waits for the sandbox or has it, it is not idle."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    async def _warm_up(self) -> Live:
        """The sandbox that is there, or a new one with the files in it."""
        if self._live is not None and self._live.usable:
            return self._live
        await self._end()
        async with AsyncExitStack() as stack:
            live = await self._acquire(stack)
            async with self._files:  # so that no file comes between the look at the store and the sandbox's arrival
                await self._fill(live)
                live.close = stack.pop_all().aclose
                self._live = live
                self._opened(live)
        return live

    async def _make_scratch(self) -> Live:
        async with AsyncExitStack() as stack:
            live = await self._acquire(stack)
            await self._fill(live)
            live.close = stack.pop_all().aclose
            self._opened(live)
        return live

    async def _acquire(self, stack: AsyncExitStack) -> Live:
        fresh = await self._fresh()
        policy = self._services.policy
        spec = policy.spec(fresh)
        sandbox = await self._services.capacity.acquire(stack, fresh.owner, spec)
        self._minutes, self.cells = fresh.minutes, fresh.cells
        self._told_of_loss = not (fresh.cells > 0 and policy.isolation == "per_container")
        self.touch()
        return Live(self.id, spec, sandbox, stack.aclose, fresh.requirements)

    async def _fresh(self) -> ContainerRecord:
        record = await self._records.get_container(self.id, self.owner)
        if record is None or record.deleted:
            raise not_found(self.id)
        return record

    async def _fill(self, live: Live) -> None:
        await workspace.restore(live, await self._records.all_container_files(self.id), self._blobs)
        self._check_deleted()

    def _check_deleted(self) -> None:
        if self._deleted:
            raise not_found(self.id)

    def loss_told(self) -> None:
        """A cell ended, and its caller knows how: the loss of variables, if there was one, has been told."""
        self._told_of_loss = True

    async def require(self, requirements: Sequence[str]) -> tuple[tuple[str, ...], int]:
        """Keep these packages for every later sandbox; what those will have then, and the version that has them."""
        async with self._files:
            while True:
                fresh = await self._fresh()
                # Of two wishes for the same package the newer counts: both together may be more than can be had.
                wanted = (*dict.fromkeys(requirements), *find_unrequested(fresh.requirements, requirements))
                change = Change(requirements=wanted, after=fresh.version)
                if changed := await self._records.change_container(self.id, change):  # else another process was first
                    return wanted, changed.version

    async def collect(self, live: Live, changed: Sequence[FileChanged], shown: Sequence[Incoming] = ()) -> Collected:
        """Take what changed in a sandbox into the store, and the pictures that a cell showed."""
        async with self._files:
            self._check_deleted()
            services = self._services
            now = services.clock()
            figures = [_figure(self.id, one, now) for one in shown]
            return await workspace.collect(
                live, changed, figures, self._records, self._blobs, services.policy, int(now)
            )

    # -- end ----------------------------------------------------------------------------------------------------

    async def end(self) -> None:
        """Give its sandbox up; what changed in it since its last cell is kept."""
        async with self._turn:
            await self._end()

    async def _end(self) -> None:
        live, self._live = self._live, None
        if live is None:
            return
        try:
            live.unseen = True  # a process or a thread that a cell left behind may have written
            with suppress(BelljarError):
                await self.collect(live, ())
        finally:
            await self._discard(live)

    async def _end_if_lost(self, live: Live) -> None:
        if live.lost:
            await self._end()

    async def _discard(self, live: Live) -> None:
        """Give a sandbox up as it is."""
        live.lost = True
        self._sandboxes.discard(live)
        if not self._sandboxes:
            self._services.capacity.note(self.id, None)
        await live.close()

    async def kill(self) -> None:
        """Give up every sandbox at once, whatever runs in it."""
        self._live = None
        await asyncio.gather(*[self._discard(live) for live in self._sandboxes])

    def _opened(self, live: Live) -> None:
        self._sandboxes.add(live)
        self._services.capacity.note(self.id, self)

    async def delete(self) -> list[ContainerFileRecord]:
        """Its sandboxes die, whatever runs in them, and its records go; the files that it had."""
        self._deleted = True
        await self.kill()
        async with self._files:
            files = await self._records.all_container_files(self.id)
            await self._records.delete_container(self.id, self.owner)
        return files

    # -- the record ---------------------------------------------------------------------------------------------

    async def grow(self, memory: str) -> ContainerRecord:
        """With more memory, from its next sandbox on, which is the next cell's."""
        async with self._wanted(), self._turn:
            await self._end()
            return await self._change(memory=memory)

    async def note_hosted(self, hosted: bytes) -> None:
        """A provider ran code for it: keep what is known of its side, and start the idle clock anew."""
        await self._change(hosted=hosted, last_active_at=int(self._services.clock()))

    async def _change(self, **fields: object) -> ContainerRecord:
        async with self._files:
            fresh = msgspec.structs.replace(await self._fresh(), **fields)
            await self._records.put_container(fresh)
        return fresh

    # -- files --------------------------------------------------------------------------------------------------

    async def put(self, incoming: Sequence[Incoming], *, disk: int) -> Changed:
        """Put these; what was at their paths is replaced and keeps its id. `disk` is what the workspace holds."""
        async with self._files:
            return await self._put(await self._there(), incoming, disk)

    async def place(self, files: Sequence[FileRecord], *, disk: int) -> list[ContainerFileRecord]:
        """Put uploaded files, each once: under its own name where that is free, else with its id before the name."""
        async with self._files:
            there = await self._there()
            by_id = {record.id: record for record in there.values()}
            blobs = {path: record.blob for path, record in there.items()}
            paths: list[str] = []
            incoming: list[Incoming] = []
            for file in files:
                id = names.placed_id(self.id, file.id)
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
            there |= {record.path: record for record in (await self._put(there, incoming, disk)).files}
            return [there[path] for path in paths]

    async def delete_file(self, id: str) -> ContainerFileRecord | None:
        """Take a file away; what it was, None if it was not there."""
        async with self._files:
            while record := await self._records.get_container_file(self.id, id):
                if self._live is not None:
                    await workspace.delete(self._live, record.path)
                changed = await self._change_state(Change(gone=[record]))
                if changed.gone:  # else another process has put newer content there, which is to go as well
                    return record
            return None

    async def keep_figure(self, blob: Blob, type: str) -> ContainerFileRecord:
        """A picture that a cell showed elsewhere, as a file named by its id."""
        figure = _figure(self.id, Incoming("", blob, type, "assistant"), self._services.clock())
        [kept] = (await self._change_state(Change(put=[figure]))).files
        return kept

    async def _change_state(self, change: Change) -> Changed:
        changed = await self._records.change_container(self.id, change)
        assert changed is not None, "it is made of whatever version there is"
        return changed

    async def _there(self) -> dict[str, ContainerFileRecord]:
        self._check_deleted()
        files = await self._records.all_container_files(self.id)
        return {record.path: record for record in files if not names.is_figure(record)}

    async def _put(self, there: dict[str, ContainerFileRecord], incoming: Sequence[Incoming], disk: int) -> Changed:
        _check_fit(there, incoming, disk)
        live = self._live if self._live is not None and not self._live.lost else None
        passed: list[str] = []
        infos: dict[str, FileInfo] = {}
        try:
            if live is not None:
                contents = [(one.path, one.blob) for one in incoming]
                infos = await workspace.write_incoming(live, contents, self._blobs, passed)
            kept = await self._keep(incoming)
        except BaseException:
            if live is not None:
                await workspace.undo(live, passed, self._blobs)
            raise
        for record in kept.files:
            if live is not None and record.path in infos:
                live.note(record, infos[record.path])
        return kept

    async def _keep(self, incoming: Sequence[Incoming]) -> Changed:
        kept: list[ContainerFileRecord] = []
        now, version = self._services.clock(), 0
        for start in range(0, len(incoming), _AT_ONCE):
            some = incoming[start : start + _AT_ONCE]
            records = [
                _record(self.id, one, one.id or id, now)
                for one, id in zip(some, ids.several("cfile", len(some)), strict=True)
            ]
            changed = await self._change_state(Change(put=records))
            kept += changed.files
            version = changed.version
        return Changed(version=version, files=tuple(kept))


def _check_fit(there: dict[str, ContainerFileRecord], incoming: Sequence[Incoming], disk: int) -> None:
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


def _record(container_id: str, file: Incoming, id: str, now: float) -> ContainerFileRecord:
    return ContainerFileRecord(
        id=id,
        container_id=container_id,
        path=file.path,
        created_at=int(now),
        size=file.blob.size,
        modified=now,
        source=file.source,
        blob=file.blob.name,
        type=file.type,
    )


def _figure(container_id: str, shown: Incoming, now: float) -> ContainerFileRecord:
    """A picture as a file named by its id.

    It is in the store alone: in the workspace, code that takes every picture there would meet it.
    """
    id = ids.new("cfile")
    return _record(container_id, shown._replace(path=f"{id}.{shown.type.partition('/')[2]}"), id, now)


class Use:
    """The right to run cells in a container's sandbox, one after the other, while the context lasts."""

    def __init__(self, container: Container, live: Live, services: Services, version: int, *, healed: bool) -> None:
        self._container = container
        self._live = live
        self._records = services.records
        self._blobs = services.blobs
        self._clock = services.clock
        self._outputs: AsyncGenerator[Output, None] | None = None
        self._touching: asyncio.Future[None] | None = None
        self._touched_at = 0
        self.began = version
        """The version that it found."""
        self.version = version
        """The version that it leaves: the last of those that followed one another without one of somebody else's."""
        self.healed = healed
        """The container had run cells before and its sandbox was gone: files are back, variables are not."""
        self.left_out: tuple[LeftOut, ...] = ()
        """What the last `collect` could not keep, and why."""
        self.gone: tuple[ContainerFileRecord, ...] = ()
        """What it found deleted."""
        self.figures: tuple[ContainerFileRecord, ...] = ()
        """What it kept of the pictures that the cell showed."""

    @property
    def cells(self) -> int:
        """Cells that the container has run, the newest included."""
        return self._container.cells

    async def run(self, cell: Cell) -> AsyncGenerator[Output, None]:
        """Outputs as they come; the last is an `Exit`. `Lost` if the sandbox had died before the cell could begin."""
        live = self._live
        live.unseen |= live.running
        live.running = True
        self._container.cells += 1
        await self._touch(1)
        outputs = self._outputs = live.sandbox.run(cell)
        end: Exit | None = None
        try:
            async with aclosing(outputs):
                async for output in outputs:
                    if isinstance(output, Exit):
                        end = output
                    yield output
        except Lost:
            live.lost = True
            raise
        finally:
            if end is None:
                live.unseen = True
            else:
                self._container.loss_told()
                live.lost |= end.reason == "lost"

    async def require(self, requirements: Sequence[str]) -> None:
        """Make these packages importable, now and in every later sandbox of the container.

        Raises what `Sandbox.install` raises; nothing changes then.
        """
        live = self._live
        if all(one in live.requirements for one in requirements):
            return
        await live.sandbox.install(requirements)
        await self._touch()
        live.requirements, version = await self._container.require(requirements)
        self._leave(version)

    async def collect(
        self, changed: Sequence[FileChanged], pictures: Sequence[tuple[bytes, str]] = ()
    ) -> list[ContainerFileRecord]:
        """Take the files that the cell changed into the store, and these pictures with their types that it showed.

        `left_out` tells which could not be kept, `gone` which were deleted, `figures` how the pictures were kept.
        """
        blobs = await asyncio.gather(*(self._blob(data) for data, _ in pictures))
        shown = [Incoming("", blob, type, "assistant") for blob, (_, type) in zip(blobs, pictures, strict=True)]
        collected = await self._container.collect(self._live, changed, shown)
        self.left_out, self.gone = tuple(collected.left_out), tuple(collected.gone)
        self.figures = tuple(collected.figures)
        self._leave(collected.version)
        return collected.taken

    async def save(self, path: str, content: bytes, type: str) -> ContainerFileRecord:
        """Put a file of ours where the code can read it."""
        incoming = Incoming(path, await self._blob(content), type, "assistant")
        changed = await self._container.put([incoming], disk=self._live.spec.limits.disk)
        self._leave(changed.version)
        return changed.files[0]

    def _leave(self, version: int) -> None:
        if version == self.version + 1:
            self.version = version

    async def finish(self) -> None:
        """Stop a cell that nobody listens to any more, and see that what it changed is kept."""
        live = self._live
        try:
            if self._outputs is not None:
                await self._outputs.aclose()
            if live.running:
                live.unseen = True
                with suppress(BelljarError):
                    await self.collect(())
            if self._touching is not None:
                if int(self._clock()) > self._touched_at:
                    await self._touch()
                await self._touching
        finally:
            self._container.touch()

    async def _blob(self, data: bytes) -> Blob:
        async with self._blobs.write() as writer:
            await writer.write(data)
            return await writer.finish()

    async def _touch(self, cells: int = 0) -> None:
        """Tell the store that the container is in use, and of cells that begin; it writes that while the cell runs."""
        if self._touching is not None:
            await self._touching
        self._touched_at = int(self._clock())
        writing = self._records.touch_container(self._container.id, self._touched_at, cells)
        self._touching = asyncio.ensure_future(writing)
