"""Who may work on a container: held under an epoch, with the sandbox that another gateway left, and let go again.

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

A sandbox that outlives its gateway is *noted* in the container's row: where it is, and of which version. Whoever holds
the container next looks there first, and takes it over with its variables.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AsyncExitStack, suppress
from typing import NamedTuple

import msgspec
from msgspec import Struct

from belljar.errors import BelljarError, HeldElsewhere, NotFound, OverQuota, SandboxError
from belljar.gateway.containers import workspace
from belljar.gateway.containers.services import Services
from belljar.gateway.containers.workspace import Live
from belljar.gateway.store.base import ContainerRecord, Hold, Records
from belljar.sandbox.base import Sandbox, SandboxHandle


def not_found(container_id: str) -> NotFound:
    """In the words of OpenAI's wire."""
    return NotFound(f"Container with id '{container_id}' not found.")


def held_elsewhere(container_id: str, gateway_id: str) -> HeldElsewhere:
    """What is told of a container whose sandbox another gateway has."""
    return HeldElsewhere(
        f"Container {container_id} is in use at another gateway of this deployment; try again in a moment.",
        gateway_id=gateway_id,
    )


class Held(NamedTuple):
    """A container that this gateway holds: as it was when that began, and by what right."""

    record: ContainerRecord
    hold: Hold


class TakenOver(NamedTuple):
    """A sandbox that another gateway had."""

    live: Live
    kept_variables: bool
    """False where its interpreter was started anew meanwhile."""


class Holding:
    """The hold on one container, as the store has it."""

    def __init__(self, container_id: str, owner: str, services: Services) -> None:
        self._id = container_id
        self._owner = owner
        self._services = services
        self._records = services.records

    async def read(self) -> ContainerRecord:
        """The container as it is by now, whoever holds it; `NotFound` where it was deleted."""
        record = await self._records.get_container(self._id, self._owner)
        if record is None or record.deleted:
            raise not_found(self._id)
        return record

    async def take(self) -> Held:
        """From now on it is ours, under the next epoch; `HeldElsewhere` where another gateway has it that lives."""
        membership = self._services.membership
        held = await self._records.hold_container(self._id, self._owner, membership.id)
        if held is None or held.deleted:
            raise not_found(self._id)
        if held.holder != membership.id:
            raise held_elsewhere(self._id, held.holder or "")
        return Held(held, Hold(membership.id, held.epoch))

    async def let_go(self, hold: Hold) -> None:
        with suppress(BelljarError):  # a store that is away hears nothing; then it is let go with this gateway's id
            await self._records.release_container(self._id, hold)

    async def take_over(self, stack: AsyncExitStack, held: Held) -> TakenOver | None:
        """The sandbox that is noted, up to date; None where there is none, or no longer."""
        fresh, hold = held
        note = _read_note(fresh.sandbox)
        if note is None or note.memory != fresh.memory:
            return None
        try:
            async with AsyncExitStack() as attempt:
                handle = SandboxHandle(note.url, note.id)
                attached = await self._services.capacity.attach(attempt, fresh.owner, handle, hold.epoch)
                live = self.make_live(attached.sandbox, fresh, hold)
                before = await self._records.get_version(self._id, note.version)
                files = await self._records.all_container_files(self._id)
                await workspace.take_over(live, attached.files, before, files, self._services.blobs)
                stack.push_async_exit(attempt.pop_all())
        except (SandboxError, OverQuota):  # the owner may have no room at the moment: that is for `acquire` to wait for
            return None
        return TakenOver(live, kept_variables=attached.interpreter == 1)

    def make_live(self, sandbox: Sandbox, fresh: ContainerRecord, hold: Hold | None) -> Live:
        """This sandbox, for the container as it is; whoever opened it sees to its end until `close` is set."""
        return Live(
            self._id,
            self._services.policy.spec(fresh),
            sandbox,
            _never_opened,
            fresh.requirements,
            hold=hold,
            version=fresh.version,
            memory=fresh.memory,
        )

    async def note(self, live: Live) -> None:
        """By what the next gateway finds the sandbox, where it can be found, and of which version it is."""
        note = write_note(live, live.version)
        if note is not None and live.hold is not None and live.noted != live.version:
            await self._records.note_sandbox(self._id, live.hold, note)
            live.noted = live.version

    async def forget(self, live: Live) -> None:
        """Nobody needs to look for a sandbox that is given up."""
        if live.noted is not None and live.hold is not None:
            with suppress(BelljarError):
                await self._records.note_sandbox(self._id, live.hold, b"")


class _Note(Struct, frozen=True, array_like=True):
    """What is written down of a sandbox: where it is, of which version it is, and with how much memory it was made."""

    url: str
    id: str
    version: int
    memory: str


def write_note(live: Live, version: int) -> bytes | None:
    """Where a sandbox is that is of this version; None for one that nobody else could find."""
    handle = live.sandbox.handle
    if live.hold is None or handle is None:
        return None
    return msgspec.json.encode(_Note(handle.url, handle.id, version, live.memory))


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
