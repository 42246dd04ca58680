"""What this process knows of a container: whose turn it is, and the sandbox that holds it now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from belljar.gateway.store.base import ContainerFileRecord, ContainerRecord
from belljar.sandbox.base import FileInfo, Sandbox, Spec
from belljar.sandbox.outputs import FileChanged


class Known(NamedTuple):
    """A file that is both in the store and in the workspace, and how it looked there."""

    record: ContainerFileRecord
    size: int
    modified: float


@dataclass(slots=True, eq=False)
class Held:
    """A sandbox that holds a container, with the files it is known to have."""

    id: str
    owner: str
    minutes: int
    spec: Spec
    sandbox: Sandbox
    close: Callable[[], Awaitable[None]]
    cells: int
    """Cells that the container has run, in whichever sandbox."""
    requirements: tuple[str, ...]
    healed: bool
    """Nobody has been told yet that the variables of an earlier sandbox are gone."""
    active_at: float
    known: dict[str, Known] = field(default_factory=dict)
    open: bool = False
    """A cell was begun, and what it changed has not been taken yet."""
    stale: bool = False
    """A cell was left before it told what it changed."""
    lost: bool = False

    def note(self, record: ContainerFileRecord, info: FileInfo | FileChanged) -> None:
        self.known[record.path] = Known(record, info.size, info.modified)

    @property
    def usable(self) -> bool:
        return not self.lost and self.sandbox.alive


@dataclass(slots=True, eq=False, weakref_slot=True)
class Slot:
    """One container in this process.

    `turn` is held by the lease that runs in its sandbox, and by whoever ends that; `filing` by whoever changes its
    files or its record. Both at once are taken in this order.
    """

    id: str
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    filing: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    """Leases that have or await their turn: above 0, the sandbox is not idle."""
    held: Held | None = None
    deleted: bool = False


def expired(container: ContainerRecord, now: float) -> bool:
    return container.last_active_at + container.minutes * 60 <= now
