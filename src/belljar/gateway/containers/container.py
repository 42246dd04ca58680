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

A gateway *holds* a container while it has a sandbox for it, and one alone does (`Records.hold_container`). What a
cell changed is written under that hold: a gateway that was stopped, and whose container another has taken over since,
writes nothing (`Fenced`). Files may be put and deleted at any gateway; the holder compares versions before each cell.

| hold                  | event                   | what happens                                  | next               |
|-----------------------|-------------------------|-----------------------------------------------|--------------------|
| free                  | use                     | held under the next epoch                     | ours               |
| ours                  | use                     | what others changed is brought in             | ours               |
| free                  | a provider runs code    | held under the next epoch for as long         | ours, then free    |
| ours                  | the sandbox is given up | what is in it is kept, then it is let go      | free               |
| another's, that lives | use                     | `HeldElsewhere`: it is asked there            | another's          |
| another's, that died  | use                     | held under the next epoch, the loss is told   | ours               |
| ours                  | we were silent too long | the sandbox is killed, nothing of it is kept  | free, or another's |
| any                   | delete                  | the row goes; the holder's next write is told | gone               |

Every change of its state (a cell that ended, files put or deleted, packages) makes the next version of it, whose
number the store gives in the transaction of the change: other processes may hold the same container.

Locks are taken in one order: first the turn, for whoever runs in the sandbox or ends it, then the files, for whoever
changes them or the record. Under the latter, whether it is deleted is looked at again.

Where every call has a sandbox of its own (`per_call`), the container itself stays cold: those sandboxes are scratch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from belljar.errors import (
    BelljarError,
    Fenced,
    HeldElsewhere,
    InvalidRequest,
    Lost,
    NotFound,
    OverQuota,
    SandboxError,
    TooLarge,
)
from belljar.gateway.containers import names, workspace
from belljar.gateway.containers.capacity import Capacity
from belljar.gateway.containers.policy import Policy
from belljar.gateway.containers.workspace import Collected, LeftOut, Live
from belljar.gateway.membership import Membership
from belljar.gateway.store.base import (
    Blob,
    Blobs,
    Change,
    Changed,
    ContainerFileRecord,
    ContainerRecord,
    FileRecord,
    Hold,
    Records,
)
from belljar.sandbox import explain
from belljar.sandbox.base import Cell, FileInfo, Sandbox, SandboxHandle
from belljar.sandbox.outputs import Exit, FileChanged, Output
from belljar.sandbox.packages import find_unrequested
from belljar.wire import ids

_AT_ONCE = 10_000
"""Files of one commit, and so of one version: an archive may have so many more that others would wait."""


def not_found(container_id: str) -> NotFound:
    """In the words of OpenAI's wire."""
    return NotFound(f"Container with id '{container_id}' not found.")


def held_elsewhere(container_id: str, gateway_id: str) -> HeldElsewhere:
    """What is told of a container whose sandbox another gateway has."""
    return HeldElsewhere(
        f"Container {container_id} is in use at another gateway of this deployment; try again in a moment.",
        gateway_id=gateway_id,
    )


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


class Hosting(NamedTuple):
    """A container for which a provider runs code, as it was when that began, and by what right."""

    record: ContainerRecord
    hold: Hold


@dataclass(frozen=True, slots=True)
class Services:
    """What all containers of a process share."""

    records: Records
    blobs: Blobs
    capacity: Capacity
    policy: Policy
    membership: Membership
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

    async def is_outlived(self) -> bool:
        if not self._has_run_out():
            return False
        fresh = await self._records.get_container(self.id, self.owner)
        if fresh is not None:
            self._active_at = max(self._active_at, fresh.last_active_at)
        return self._has_run_out()

    def _has_run_out(self) -> bool:
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
            self._services.membership.check()
            if self._services.policy.isolation == "per_call":
                live = await self._make_scratch()
                stack.push_async_callback(self._discard, live)
            else:
                await stack.enter_async_context(self._turn)
                live = await self._warm_up()
                stack.push_async_callback(self._end_if_lost, live)
            use = Use(self, live, self._services, live.version, healed=not self._told_of_loss)
            stack.push_async_callback(use.finish)
            yield use

    @asynccontextmanager
    async def host(self) -> AsyncIterator[Hosting]:
        """While a provider runs code for it: nobody else runs any for it meanwhile, at whichever gateway."""
        async with self._wanted(), self._turn:
            self._services.membership.check()
            fresh = await self._fresh()
            if self._live is not None and self._live.hold == Hold(fresh.holder or "", fresh.epoch):
                yield Hosting(fresh, self._live.hold)
                return
            await self._end()
            fresh = await self._take_hold()
            hold = Hold(self._services.membership.id, fresh.epoch)
            try:
                yield Hosting(fresh, hold)
            finally:
                await self._let_go(hold)

    @asynccontextmanager
    async def _wanted(self) -> AsyncIterator[None]:
        """While somebody waits for the sandbox or has it, it is not idle."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self._services.capacity.wake()

    async def _warm_up(self) -> Live:
        """The sandbox that is there, up to date, or a new one with the files in it."""
        if self._live is not None and self._live.usable and await self._catch_up(self._live):
            return self._live
        await self._end()
        async with AsyncExitStack() as stack:
            fresh = await self._take_hold()
            hold = Hold(self._services.membership.id, fresh.epoch)
            stack.push_async_callback(self._let_go, hold)  # once the sandbox is closed
            live = await self._take_over(stack, fresh, hold)
            found = live is not None
            if live is None:
                live = await self._acquire(stack, fresh, hold)
            async with self._files:  # so that no file comes between the look at the store and the sandbox's arrival
                if not found:
                    await self._fill(live)
                live.close = stack.pop_all().aclose
                self._live = live
                self._opened(live)
        await self.note(live)
        if found:
            await self.collect(live, ())  # what its code did that nobody has taken
        return live

    async def _take_over(self, stack: AsyncExitStack, fresh: ContainerRecord, hold: Hold) -> Live | None:
        """The sandbox that another gateway had, with its variables; None where there is none, or no longer."""
        note = _read_note(fresh.sandbox)
        if note is None or note.memory != fresh.memory:
            return None
        try:
            async with AsyncExitStack() as attempt:
                handle = SandboxHandle(note.url, note.id)
                attached = await self._services.capacity.attach(attempt, fresh.owner, handle, hold.epoch)
                live = self._make_live(attached.sandbox, fresh, hold)
                before = await self._records.get_version(self.id, note.version)
                files = await self._records.all_container_files(self.id)
                await workspace.take_over(live, attached.files, before, files, self._blobs)
                stack.push_async_exit(attempt.pop_all())
        except (SandboxError, OverQuota):  # the owner may have no room at the moment: that is for `acquire` to wait for
            return None
        self._told_of_loss = attached.interpreter == 1
        return live

    async def note(self, live: Live) -> None:
        """By what the next gateway finds the sandbox, where it can be found, and of which version it is."""
        handle = live.sandbox.handle
        if live.hold is not None and handle is not None and live.noted != live.version:
            note = _Note(handle.url, handle.id, live.version, live.memory)
            await self._records.note_sandbox(self.id, live.hold, msgspec.json.encode(note))
            live.noted = live.version

    async def _catch_up(self, live: Live) -> bool:
        """Bring what others changed into the sandbox; False where it has to be another: it is no longer ours."""
        fresh = await self._fresh()
        if live.hold != Hold(fresh.holder or "", fresh.epoch):
            live.lost = True
            return False
        if self._services.policy.spec(fresh).limits != live.spec.limits:
            return False
        if fresh.version != live.version:
            async with self._files:
                await workspace.reconcile(live, await self._records.all_container_files(self.id), self._blobs)
                live.version = fresh.version
        return True

    async def _take_hold(self) -> ContainerRecord:
        """`HeldElsewhere` where another gateway has it that lives."""
        membership = self._services.membership
        held = await self._records.hold_container(self.id, self.owner, membership.id)
        if held is None or held.deleted:
            raise not_found(self.id)
        if held.holder != membership.id:
            raise held_elsewhere(self.id, held.holder or "")
        return held

    async def _let_go(self, hold: Hold) -> None:
        with suppress(BelljarError):  # a store that is away hears nothing; then it is let go with this gateway's id
            await self._records.release_container(self.id, hold)

    async def _forget(self, live: Live) -> None:
        """Nobody needs to look for a sandbox that is given up."""
        if live.noted is not None and live.hold is not None:
            with suppress(BelljarError):
                await self._records.note_sandbox(self.id, live.hold, b"")

    async def _make_scratch(self) -> Live:
        async with AsyncExitStack() as stack:
            live = await self._acquire(stack, await self._fresh())
            await self._fill(live)
            live.close = stack.pop_all().aclose
            self._opened(live)
        return live

    async def _acquire(self, stack: AsyncExitStack, fresh: ContainerRecord, hold: Hold | None = None) -> Live:
        services = self._services
        policy = services.policy
        spec = policy.spec(fresh)
        epoch = None if hold is None or services.membership.alone else hold.epoch
        sandbox = await services.capacity.acquire(stack, fresh.owner, spec, container=self.id, epoch=epoch)
        self._told_of_loss = not (fresh.cells > 0 and policy.isolation == "per_container")
        return self._make_live(sandbox, fresh, hold)

    def _make_live(self, sandbox: Sandbox, fresh: ContainerRecord, hold: Hold | None) -> Live:
        self._minutes, self.cells = fresh.minutes, fresh.cells
        self.touch()
        spec = self._services.policy.spec(fresh)
        return Live(
            self.id,
            spec,
            sandbox,
            _never_opened,
            fresh.requirements,
            hold=hold,
            version=fresh.version,
            memory=fresh.memory,
        )

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

    async def require(self, live: Live, requirements: Sequence[str]) -> tuple[tuple[str, ...], int]:
        """Keep these packages for every later sandbox; what those will have then, and the version that has them."""
        async with self._files:
            while True:
                fresh = await self._fresh()
                # Of two wishes for the same package the newer counts: both together may be more than can be had.
                wanted = (*dict.fromkeys(requirements), *find_unrequested(fresh.requirements, requirements))
                change = Change(requirements=wanted, after=fresh.version, hold=live.hold)
                if changed := await self._records.change_container(self.id, change):  # else another process was first
                    live.reach(changed.version, ours=wanted != fresh.requirements)
                    return wanted, changed.version

    async def collect(self, live: Live, changed: Sequence[FileChanged], shown: Sequence[Incoming] = ()) -> Collected:
        """Take what changed in a sandbox into the store, and the pictures that a cell showed."""
        async with self._files:
            self._check_deleted()
            services = self._services
            now = services.clock()
            figures = [_figure(self.id, one, now) for one in shown]
            try:
                return await workspace.collect(
                    live, changed, figures, self._records, self._blobs, services.policy, int(now)
                )
            except Fenced:
                if live.given_up:
                    await self._fresh()  # it may be gone, which says more
                raise

    # -- end ----------------------------------------------------------------------------------------------------

    async def end(self) -> None:
        """Give its sandbox up; what changed in it since its last cell is kept."""
        async with self._turn:
            await self._end()

    async def leave(self) -> None:
        """Give its sandbox up, and leave it to whoever holds the container next, where it can be found again."""
        async with self._turn:
            live = self._live
            if live is not None and live.usable and live.sandbox.handle is not None and live.hold is not None:
                live.unseen = True
                with suppress(BelljarError):
                    await self.collect(live, ())
                    await self.note(live)
                    await live.sandbox.detach()
                    self._live, live.noted = None, None
                    await self._discard(live)
                    return
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
        await self._forget(live)
        self._sandboxes.discard(live)
        if not self._sandboxes:
            self._services.capacity.note(self.id, None)
        await live.close()

    async def kill(self) -> None:
        """Give up every sandbox at once, whatever runs in it."""
        self._live = None
        for live in self._sandboxes:
            live.given_up = True
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
            if not await self._records.update_container(self.id, memory=memory):
                raise not_found(self.id)
            return await self._fresh()

    async def note_hosted(self, hosted: bytes, hold: Hold) -> None:
        """A provider ran code for it: keep what is known of its side, and start the idle clock anew."""
        try:
            await self._records.update_container(self.id, hosted=hosted, hold=hold)
        except Fenced:
            await self._fresh()  # deleted meanwhile, or another's
            raise
        await self._records.touch_container(self.id, int(self._services.clock()))

    # -- files --------------------------------------------------------------------------------------------------

    async def put(self, incoming: Sequence[Incoming], *, disk: int) -> Changed:
        """Put these; what was at their paths is replaced and keeps its id. `disk` is what the workspace holds."""
        async with self._files:
            while True:
                version, there = await self._there()
                if changed := await self._put(version, there, incoming, disk):  # else somebody was faster: look again
                    return changed

    async def place(self, files: Sequence[FileRecord], *, disk: int) -> list[ContainerFileRecord]:
        """Put uploaded files, each once: under its own name where that is free, else with its id before the name."""
        async with self._files:
            while True:
                version, there = await self._there()
                paths, incoming = self._find_places(there, files)
                if changed := await self._put(version, there, incoming, disk):
                    there |= {record.path: record for record in changed.files}
                    return [there[path] for path in paths]

    def _find_places(
        self, there: Mapping[str, ContainerFileRecord], files: Sequence[FileRecord]
    ) -> tuple[list[str], list[Incoming]]:
        """Where each of them is to be, and what of them is not there yet."""
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
        return paths, incoming

    async def delete_file(self, id: str) -> ContainerFileRecord | None:
        """Take a file away; what it was, None if it was not there."""
        async with self._files:
            while record := await self._records.get_container_file(self.id, id):
                if self._live is not None:
                    await workspace.delete(self._live, record.path)
                changed = await self._change_state(Change(gone=[record]))
                if self._live is not None:
                    self._live.reach(changed.version, ours=bool(changed.gone))
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

    async def _there(self) -> tuple[int, dict[str, ContainerFileRecord]]:
        """Its version, and the files that it has: of this version, or a newer one."""
        self._check_deleted()
        version = (await self._fresh()).version
        files = await self._records.all_container_files(self.id)
        return version, {record.path: record for record in files if not names.is_figure(record)}

    async def _put(
        self, version: int, there: Mapping[str, ContainerFileRecord], incoming: Sequence[Incoming], disk: int
    ) -> Changed | None:
        """None where the version is no more, of which it was found that they fit."""
        _check_fit(there, incoming, disk)
        live = self._live if self._live is not None and not self._live.lost else None
        passed: list[str] = []
        infos: dict[str, FileInfo] = {}
        try:
            if live is not None:
                contents = [(one.path, one.blob) for one in incoming]
                infos = await workspace.write_incoming(live, contents, self._blobs, passed)
            kept = await self._keep(version, incoming)
        except BaseException:
            if live is not None:
                await workspace.undo(live, passed, self._blobs)
            raise
        if kept is None and live is not None:
            await workspace.undo(live, passed, self._blobs)
        if kept is not None and live is not None:
            live.reach(kept.version, ours=bool(kept.files))
            for record in kept.files:
                if record.path in infos:
                    live.note(record, infos[record.path])
        return kept

    async def _keep(self, after: int, incoming: Sequence[Incoming]) -> Changed | None:
        kept: list[ContainerFileRecord] = []
        now, version = self._services.clock(), after
        for start in range(0, len(incoming), _AT_ONCE):
            some = incoming[start : start + _AT_ONCE]
            records = [
                _record(self.id, one, one.id or id, now)
                for one, id in zip(some, ids.several("cfile", len(some)), strict=True)
            ]
            most = self._services.policy.bytes_per_owner
            change = Change(put=records, most=most, after=None if start else after)
            changed = await self._records.change_container(self.id, change)
            if changed is None:
                return None
            kept += changed.files
            version = changed.version
        return Changed(version=version, files=tuple(kept))


def _check_fit(there: Mapping[str, ContainerFileRecord], incoming: Sequence[Incoming], disk: int) -> None:
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


class _Note(Struct, frozen=True, array_like=True):
    """What is written down of a sandbox: where it is, of which version it is, and with how much memory it was made."""

    url: str
    id: str
    version: int
    memory: str


def _read_note(noted: bytes) -> _Note | None:
    try:
        return msgspec.json.decode(noted, type=_Note) if noted else None
    except msgspec.DecodeError:
        return None  # by another version of ours: then nobody finds it, and the container heals


async def find_sandboxes(records: Records, ids: Collection[str]) -> dict[str, tuple[int | None, SandboxHandle | None]]:
    """Of these containers, those that are there: the epoch under which one is held, and the sandbox that it has.

    For whoever looks after sandboxes that outlive a gateway.
    """
    found: dict[str, tuple[int | None, SandboxHandle | None]] = {}
    for row in await records.find_sandboxes([*ids]):
        note = _read_note(row.sandbox)
        found[row.id] = row.epoch, None if note is None else SandboxHandle(note.url, note.id)
    return found


async def _never_opened() -> None:
    """What closes a sandbox that is not open yet: whoever opens it sees to that."""


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
        live.requirements, version = await self._container.require(live, requirements)
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
            await self._container.note(live)
            if self._touching is not None:
                if int(self._clock()) > self._touched_at:
                    await self._touch()
                await self._touching
        except Fenced:
            live.lost = True
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
        writing = self._records.touch_container(self._container.id, self._touched_at, cells, self._live.hold)
        self._touching = asyncio.ensure_future(writing)
