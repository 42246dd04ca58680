"""What the server asks of the rooms below: nothing here knows HTTP."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Protocol

from msgspec import Struct

from belljar.gateway.engine.caller import Caller
from belljar.gateway.peers import Peers
from belljar.gateway.store.base import (
    Blob,
    Blobs,
    ContainerFileRecord,
    ContainerRecord,
    ConversationRecord,
    FileRecord,
    ItemRecord,
    KeyRecord,
    Page,
    Records,
    ResponseRecord,
)
from belljar.wire.events import Event
from belljar.wire.items import InputItem
from belljar.wire.requests import CompactRequest, CreateResponse
from belljar.wire.responses import Response
from belljar.wire.tools import NetworkPolicy


class Engine(Protocol):
    """Responses."""

    def run(
        self, request: CreateResponse, caller: Caller, *, memory: dict[str, ResponseRecord] | None = None
    ) -> AsyncGenerator[list[Event], None]:
        """Live; closing the generator stops it. Faults before the first list are raised, later ones are events.

        `memory` keeps the responses of one WebSocket that are not stored.
        """
        ...

    async def begin(self, request: CreateResponse, caller: Caller, place: AsyncExitStack) -> Response:
        """In the background; once begun, it has what is in `place` until it is over."""
        ...

    def follow(self, id: str, caller: Caller, after: int) -> AsyncGenerator[list[bytes], None]:
        """Frames of a background response after the event numbered `after`; -1 for all."""
        ...

    async def retrieve(self, id: str, caller: Caller, include: Sequence[str]) -> bytes: ...
    async def delete(self, id: str, caller: Caller) -> None: ...
    async def cancel(self, id: str, caller: Caller) -> bytes: ...
    async def list_input_items(
        self, id: str, caller: Caller, page: Page, include: Sequence[str]
    ) -> tuple[list[bytes], bool]:
        """Items in JSON, each with an id; whether there are more."""
        ...

    async def count_tokens(self, request: CreateResponse, caller: Caller) -> int: ...
    async def compact(self, request: CompactRequest, caller: Caller) -> bytes: ...


class Conversations(Protocol):
    """Conversations and their items. What is not there, or somebody else's, is `NotFound`."""

    async def create(
        self, caller: Caller, metadata: dict[str, str], items: Sequence[InputItem]
    ) -> ConversationRecord: ...
    async def get(self, id: str, caller: Caller) -> ConversationRecord: ...
    async def update(self, id: str, caller: Caller, metadata: dict[str, str]) -> ConversationRecord: ...
    async def delete(self, id: str, caller: Caller) -> None: ...
    async def add_items(self, id: str, caller: Caller, items: Sequence[InputItem]) -> list[ItemRecord]:
        """As they are kept: each with an id, in JSON."""
        ...

    async def list_items(
        self, id: str, caller: Caller, page: Page, include: Sequence[str]
    ) -> tuple[list[ItemRecord], bool]:
        """And whether there are more."""
        ...

    async def get_item(self, id: str, item_id: str, caller: Caller, include: Sequence[str]) -> ItemRecord: ...
    async def delete_item(self, id: str, item_id: str, caller: Caller) -> ConversationRecord:
        """The conversation that it was in."""
        ...


class Containers(Protocol):
    """Containers and their files. What is not there, or somebody else's, is `NotFound`."""

    async def create(
        self, owner: str, *, name: str, memory: str, minutes: int | None, network: NetworkPolicy | None
    ) -> ContainerRecord: ...
    async def get(self, id: str, owner: str) -> ContainerRecord: ...
    def status(self, record: ContainerRecord) -> str: ...
    async def list(self, owner: str, page: Page, name: str | None) -> Sequence[ContainerRecord]:
        """One more than the page holds where there are more."""
        ...

    async def delete(self, id: str, owner: str) -> None: ...
    async def drop(self, id: str) -> None:
        """It was deleted at another gateway: what runs for it here ends."""
        ...

    async def put_file(
        self, container: ContainerRecord, name: str, blob: Blob, *, type: str
    ) -> ContainerFileRecord: ...
    async def place(self, container: ContainerRecord, files: Sequence[FileRecord]) -> Sequence[ContainerFileRecord]: ...
    async def extract(self, container: ContainerRecord, blob: Blob, filename: str) -> Sequence[ContainerFileRecord]: ...
    async def list_files(self, container: ContainerRecord, page: Page) -> Sequence[ContainerFileRecord]:
        """Likewise."""
        ...

    async def get_file(self, container: ContainerRecord, id: str) -> ContainerFileRecord: ...
    async def delete_file(self, container: ContainerRecord, id: str) -> None: ...
    def stream_file(
        self, container: ContainerRecord, file: ContainerFileRecord, *, start: int, stop: int
    ) -> AsyncIterator[bytes]: ...


class ModelInfo(Protocol):
    """A model that can be asked for."""

    @property
    def id(self) -> str: ...
    @property
    def owned_by(self) -> str: ...
    @property
    def created(self) -> int: ...


class Models(Protocol):
    async def list(self) -> Sequence[ModelInfo]: ...
    async def look(self) -> Sequence[ModelInfo]:
        """The same, after another look for model servers on this machine."""
        ...

    def renew(self) -> None:
        """Have all upstreams asked for their models again, as another gateway has found others than before."""
        ...


class Keyring(Protocol):
    async def is_needed(self) -> bool:
        """Whether requests need a key."""
        ...

    async def check(self, plain: str) -> KeyRecord | None:
        """The record of a key; None if it is not good."""
        ...


class Health(Protocol):
    @property
    def isolation(self) -> str:
        """What keeps code apart here, in a few words."""
        ...

    @property
    def packages(self) -> Sequence[str]:
        """The names of what code finds installed beside the standard library."""
        ...

    async def problems(self) -> Sequence[str]:
        """Why no request should come here now; none where all is well."""
        ...


class ServerServices(Struct, frozen=True, kw_only=True):
    """The rooms below, ready."""

    engine: Engine
    conversations: Conversations
    containers: Containers
    models: Models
    records: Records
    blobs: Blobs
    health: Health
    keys: Keyring | None = None
    """None where no keys are ever asked for."""
    peers: Peers | None = None
    """None where this is the only gateway of its store."""
    clock: Callable[[], float] = time.time
    """The time that all gateways of the store go by."""
