"""One container in this process: its sandbox, its files, and whose turn it is. The only place that knows its locks.

What a container is now follows from what it has: `DELETED`, or `COLD` without a sandbox, `RUNNING` while a cell was
begun whose changes have not been taken yet, else `WARM`.

| state         | event                       | what happens                                                | next     |
|---------------|-----------------------------|-------------------------------------------------------------|----------|
| COLD          | use                         | a sandbox is made, and every file put into it               | WARM     |
| COLD          | a file is put or deleted    | in the store alone                                          | COLD     |
| WARM, RUNNING | a file is put or deleted    | in sandbox and store; undone in the one if the other fails  | the same |
| WARM          | a cell begins               | it counts; the first of all, even if its gateway dies in it | RUNNING  |
| RUNNING       | it ends                     | what it changed is taken; a loss of variables has been told | WARM     |
| RUNNING       | its caller goes             | it is stopped, everything is compared and taken             | WARM     |
| RUNNING       | the sandbox is lost         | it is given up; the next caller is told of the loss         | COLD     |
| WARM          | idle, room needed, grown, … | everything is compared and taken, the sandbox given up      | COLD     |
| any           | delete                      | every sandbox is killed; whoever waits is told `NotFound`   | DELETED  |

Which gateway may have a sandbox for it, and by what right: `hold`.

Every change of its state (a cell that ended, files put or deleted, packages) makes the next version of it, whose
number the store gives in the transaction of the change: other processes may hold the same container.

Locks are taken in one order: first the turn, for whoever runs in the sandbox or ends it, then the files, for whoever
changes them or the record. Under the latter, whether it is deleted is looked at again.

Where every call has a sandbox of its own (`per_call`), the container itself stays cold: those sandboxes are scratch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from enum import Enum

from belljar.errors import BelljarError, Fenced
from belljar.gateway.containers import incoming as arriving
from belljar.gateway.containers import names, workspace
from belljar.gateway.containers.hold import Held, Holding, not_found, write_note
from belljar.gateway.containers.incoming import Incoming
from belljar.gateway.containers.services import Services
from belljar.gateway.containers.use import Use
from belljar.gateway.containers.workspace import Collected, Live
from belljar.gateway.store.base import (
    Blob,
    Change,
    Changed,
    ContainerFileRecord,
    ContainerRecord,
    FileRecord,
    Hold,
    Seen,
)
from belljar.sandbox.base import FileInfo
from belljar.sandbox.outputs import FileChanged
from belljar.sandbox.packages import find_unrequested

_AT_ONCE = 10_000
"""Files of one commit, and so of one version: an archive may have so many more that others would wait."""


class State(Enum):
    COLD = "cold"
    WARM = "warm"
    RUNNING = "running"
    DELETED = "deleted"


class Container:
    """One id in this process, for as long as anybody has it."""

    def __init__(self, id: str, owner: str, services: Services) -> None:
        self.id = id
        self.owner = owner
        self._services = services
        self._records = services.records
        self._blobs = services.blobs
        self._holding = Holding(id, owner, services)
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
        self.stored_active_at = 0
        """When it was in use last, as far as the store is known to know."""

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
    def dead(self) -> bool:
        return self._live is not None and not self._users and not self._live.usable

    @property
    def active_at(self) -> float:
        return self._active_at

    def has_sandbox(self, memory: str) -> bool:
        """Whether it has one of this size that can be used."""
        return not self._deleted and self._live is not None and self._live.usable and self._live.memory == memory

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
            if self._services.per_call:
                await self._end_idle()
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
    async def host(self) -> AsyncIterator[Held]:
        """While a provider runs code for it: nobody else runs any for it meanwhile, at whichever gateway."""
        async with self._wanted(), self._turn:
            self._services.membership.check()
            fresh = await self._holding.read()
            if self._live is not None and self._live.hold == Hold(fresh.holder or "", fresh.epoch):
                yield Held(fresh, self._live.hold)
                return
            await self._end()
            held = await self._holding.take()
            try:
                yield held
            finally:
                await self._holding.let_go(held.hold)

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
            held = await self._holding.take()
            stack.push_async_callback(self._holding.let_go, held.hold)  # once the sandbox is closed
            found = await self._holding.take_over(stack, held)
            if found is None:
                live = await self._acquire(stack, held.record, held.hold)
            else:
                live, self._told_of_loss = found.live, found.kept_variables
                self._know(held.record)
            async with self._files:  # so that no file comes between the look at the store and the sandbox's arrival
                if found is None:
                    await self._fill(live)
                live.close = stack.pop_all().aclose
                self._live = live
                self._opened(live)
        await self.note(live)
        if found is not None:
            await self.collect(live, ())  # what its code did that nobody has taken
        return live

    async def _catch_up(self, live: Live) -> bool:
        """Bring what others changed into the sandbox; False where it has to be another: it is no longer ours."""
        fresh = await self._holding.read()
        if live.hold != Hold(fresh.holder or "", fresh.epoch):
            live.lost = True
            return False
        if self._services.policy.spec(fresh).limits != live.spec.limits:
            return False
        self.stored_active_at = fresh.last_active_at
        if fresh.version != live.version:
            async with self._files:
                await workspace.reconcile(live, await self._records.all_container_files(self.id), self._blobs)
                live.version = fresh.version
        return True

    async def _end_idle(self) -> None:
        """Give up a sandbox that was there before its server began to keep none."""
        if self._live is not None:
            async with self._turn:
                await self._end()

    async def _make_scratch(self) -> Live:
        async with AsyncExitStack() as stack:
            live = await self._acquire(stack, await self._holding.read())
            await self._fill(live)
            live.close = stack.pop_all().aclose
            self._opened(live)
        return live

    async def _acquire(self, stack: AsyncExitStack, fresh: ContainerRecord, hold: Hold | None = None) -> Live:
        services = self._services
        policy = services.policy
        spec = policy.spec(fresh)
        ends_with_us = services.membership.alone and not policy.lasting
        epoch = None if hold is None or ends_with_us else hold.epoch
        sandbox = await services.capacity.acquire(stack, fresh.owner, spec, container=self.id, epoch=epoch)
        self._told_of_loss = not (fresh.cells > 0 and not services.per_call)
        self._know(fresh)
        return self._holding.make_live(sandbox, fresh, hold)

    def _know(self, fresh: ContainerRecord) -> None:
        self._minutes, self.cells, self.stored_active_at = fresh.minutes, fresh.cells, fresh.last_active_at
        self.touch()

    async def note(self, live: Live) -> None:
        """See that the next gateway finds the sandbox as it is."""
        await self._holding.note(live)

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
                fresh = await self._holding.read()
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
            figures = [arriving.make_figure(self.id, one, now) for one in shown]
            note = write_note(live, live.version + 1)
            try:
                collected = await workspace.collect(
                    live,
                    changed,
                    figures,
                    self._records,
                    self._blobs,
                    services.policy,
                    int(now),
                    note,
                    await self.count_left(),
                )
            except Fenced:
                live.lost = True
                if live.given_up:
                    await self._holding.read()  # it may be gone, which says more
                raise
            self.stored_active_at = int(now)
            services.released.add(collected.released)
            return collected

    async def count_left(self) -> int | None:
        """Bytes that its owner may store yet; None for any number."""
        return await self._services.count_left(self.owner)

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
        await self._holding.forget(live)
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
            return await self._holding.read()

    async def note_hosted(self, hosted: bytes, hold: Hold) -> None:
        """A provider ran code for it: keep what is known of its side, and start the idle clock anew."""
        try:
            await self._records.update_container(self.id, hosted=hosted, hold=hold)
        except Fenced:
            await self._holding.read()  # deleted meanwhile, or another's
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
                paths, incoming = arriving.find_places(self.id, there, files)
                if changed := await self._put(version, there, incoming, disk):
                    there |= {record.path: record for record in changed.files}
                    return [there[path] for path in paths]

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
        figure = arriving.make_figure(self.id, Incoming("", blob, type, "assistant"), self._services.clock())
        [kept] = (await self._change_state(Change(put=[figure]))).files
        return kept

    async def _change_state(self, change: Change) -> Changed:
        changed = await self._records.change_container(self.id, change)
        assert changed is not None, "it is made of whatever version there is"
        return changed

    async def _there(self) -> tuple[int, dict[str, ContainerFileRecord]]:
        """Its version, and the files that it has: of this version, or a newer one."""
        self._check_deleted()
        found = await self._records.find_container([self.id], self.owner)
        if found is None:
            raise not_found(self.id)
        return found.record.version, {one.path: one for one in found.files if not names.is_figure(one)}

    async def _put(
        self, version: int, there: Mapping[str, ContainerFileRecord], incoming: Sequence[Incoming], disk: int
    ) -> Changed | None:
        """None where the version is no more, of which it was found that they fit."""
        arriving.check_fit(there, incoming, disk)
        live = self._live if self._live is not None and not self._live.lost else None
        passed: list[str] = []
        infos: dict[str, FileInfo] = {}
        try:
            if live is not None:
                contents = [(one.path, one.blob) for one in incoming]
                infos = await workspace.write_incoming(live, contents, self._blobs, passed)
            kept = await self._keep(version, there, incoming)
        except BaseException:
            if live is not None:
                await workspace.undo(live, passed, self._blobs)
            self._services.released.add(one.blob.name for one in incoming)
            raise
        if kept is not None:
            self._services.released.add(there[one.path].blob for one in incoming if one.path in there)
        if kept is None and live is not None:
            await workspace.undo(live, passed, self._blobs)
        if kept is not None and live is not None:
            live.reach(kept.version, ours=bool(kept.files))
            for record in kept.files:
                if record.path in infos:
                    live.note(record, infos[record.path])
        return kept

    async def _keep(
        self, after: int, there: Mapping[str, ContainerFileRecord], incoming: Sequence[Incoming]
    ) -> Changed | None:
        kept: list[ContainerFileRecord] = []
        now, version = self._services.clock(), after
        for start in range(0, len(incoming), _AT_ONCE):
            records = arriving.make_records(self.id, incoming[start : start + _AT_ONCE], now)
            most = self._services.policy.bytes_per_owner
            seen = Seen(version=after, files={one.path: there[one.path] for one in records if one.path in there})
            first = start == 0
            change = Change(put=records, most=most, after=after if first else None, seen=seen if first else None)
            changed = await self._records.change_container(self.id, change)
            if changed is None:
                return None
            kept += changed.files
            version = changed.version
        return Changed(version=version, files=tuple(kept))
