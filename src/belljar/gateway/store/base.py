"""The ports of the store: records and blobs, what outlives a request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct, field

from belljar.errors import Fenced, InvalidRequest, NotFound, StorageExceeded

if TYPE_CHECKING:
    from belljar.gateway.store.blob_index import BlobIndex

Order = Literal["asc", "desc"]
Kept = Literal["responses", "events", "containers", "files"]
"""What can be kept for a time only."""


class Page(Struct, frozen=True, kw_only=True):
    """Which part of a list is wanted: cursor pages as on OpenAI's wire.

    `after` and `before` are ids of rows in the list: what follows the one, or the page that ends at the other.
    """

    limit: int = 20
    order: Order = "desc"
    after: str | None = None
    before: str | None = None


class GatewayRecord(Struct, frozen=True, kw_only=True):
    """A gateway over this store: one start of one process."""

    id: str
    address: str = ""
    """Where the others reach it; nowhere where it is the only one."""
    version: str = ""


class Hold(Struct, frozen=True, array_like=True):
    """A gateway's right to work on a container: nobody else has it with this epoch or a higher one.

    A write that names it is made only while that is so, in one transaction with the look: a gateway that was stopped
    and given up on can change nothing when it comes back.
    """

    gateway: str
    epoch: int


def taken_over(container_id: str) -> Fenced:
    """What a write is told whose hold is no longer so."""
    return Fenced(f"container {container_id} is held by another gateway now, or was deleted")


def storage_exceeded(most: int) -> StorageExceeded:
    """What an owner is told who may store so many bytes."""
    return StorageExceeded(
        f"Storage quota exceeded: this key may store {most} bytes (quota_bytes). Delete files or containers first."
    )


def ended_elsewhere(response_id: str) -> Fenced:
    return Fenced(f"response {response_id!r} was ended by another gateway")


def no_response(id: str) -> NotFound:
    """What a background run is told that has more events to keep."""
    return NotFound(f"Response with id {id!r} not found: it was deleted, or never written.")


def no_conversation(id: str | None) -> NotFound:
    return NotFound(f"Conversation with id {id!r} not found.")


def no_container(id: str) -> NotFound:
    return NotFound(f"Container with id {id!r} not found.")


def item_is_there(conversation_id: str | None, id: str) -> InvalidRequest:
    return InvalidRequest(
        f"items: {id!r} is in conversation {conversation_id!r} already; send each item once", param="items"
    )


def no_cursor(param: str, cursor: str) -> InvalidRequest:
    """What is told to who asks for the rows beside one that is not in the list."""
    return InvalidRequest(
        f"{param}: nothing in this list has the id {cursor!r}; use one that the list gave, or leave it out",
        param=param,
    )


class ResponseRecord(Struct, frozen=True, kw_only=True):
    """A response: its newest snapshot and what it added to its chain, as JSON bytes."""

    id: str
    owner: str
    created_at: int
    status: str
    background: bool = False
    previous_id: str | None = None
    conversation_id: str | None = None
    container_id: str | None = None
    """The container that `auto` used or would have used, for the next in the chain."""
    container_version: int | None = None
    """The version of it that this response left: what its model knows of it."""
    input: bytes = b"[]"
    """The items of this request alone, with ids, as a JSON array."""
    output: bytes = b"[]"
    """Its output items with everything in them (`outputs` too), as a JSON array."""
    body: bytes = b"{}"
    """The snapshot, as GET answers it with everything included."""
    holder: str | None = None
    """The gateway that works on it, or did to the end; None where another has ended it in its place."""


class ContainerRecord(Struct, frozen=True, kw_only=True):
    """A container, and which gateway has it at the moment."""

    id: str
    owner: str
    name: str
    created_at: int
    last_active_at: int
    memory: str = "1g"
    minutes: int = 20
    auto: bool = False
    """Made by a response, not by POST /v1/containers."""
    network: bytes = b'{"type":"disabled"}'
    requirements: tuple[str, ...] = ()
    cells: int = 0
    """Cells begun so far, but for one whose gateway died in it: above 0, a lost sandbox means lost variables."""
    deleted: bool = False
    hosted: bytes = b""
    """What is known of the container that a provider has for it, where that runs the code."""
    version: int = 0
    """How often its state has changed: see `Version`."""
    holder: str | None = None
    """The gateway that has it, by `hold_container`; None where nobody does."""
    epoch: int = 0
    """How often it was given to a gateway."""
    sandbox: bytes = b""
    """How its sandbox is found again by another gateway, where that is possible; empty where it has none."""


class SandboxRow(Struct, frozen=True, array_like=True):
    """What a container's row says of its sandbox."""

    id: str
    epoch: int | None
    """Under which it is held now; None where nobody holds it."""
    sandbox: bytes


class ContainerFileRecord(Struct, frozen=True, kw_only=True):
    """A file of a container: `path` is relative to /mnt/data and exact, at most one live record a path."""

    id: str
    container_id: str
    path: str
    created_at: int
    size: int
    modified: float
    source: Literal["user", "assistant"]
    blob: str
    type: str = "application/octet-stream"


class FoundContainer(Struct, frozen=True, array_like=True):
    """A container with the files that it had at that moment, oldest first."""

    record: ContainerRecord
    files: tuple[ContainerFileRecord, ...] = ()


class FileRef(Struct, frozen=True, array_like=True):
    """A file of a version, by its id and its content, whose bytes may be gone by now."""

    id: str
    blob: str


class Version(Struct, frozen=True, kw_only=True):
    """The state of a container after so many changes: its files by path, its packages, the cells that it had begun.

    It keeps no bytes: what was replaced or deleted since is known by its digest alone.
    """

    number: int
    files: Mapping[str, FileRef]
    requirements: tuple[str, ...]
    cells: int


class Seen(Struct, frozen=True, kw_only=True):
    """What its holder knows of a container: where that is still so, a change of it needs no look before."""

    version: int
    files: Mapping[str, ContainerFileRecord] = {}
    """By path, what is there of what the change puts."""
    sandbox: bytes | None = None
    """To be noted of its sandbox if the change makes the version after this one; None leaves what is noted."""


class Change(Struct, frozen=True, kw_only=True):
    """What makes the next version of a container, whole or not at all."""

    put: Sequence[ContainerFileRecord] = ()
    """New at their paths, or the newer content of the files that were there, under the ids they had."""
    gone: Sequence[ContainerFileRecord] = ()
    """To be taken away, where they still have this content: a newer one stays."""
    requirements: tuple[str, ...] | None = None
    """All packages that it has from now on; None leaves them."""
    ran: bool = False
    """A cell ended: that is a change even if no file did."""
    cells: int = 0
    """Cells that it has begun more than are counted yet."""
    at: int = 0
    """When it was in use, where the change makes a version."""
    seen: Seen | None = None
    after: int | None = None
    """Make it of this version alone; None takes whatever there is."""
    hold: Hold | None = None
    """Make it only while this is so; None for those who need no sandbox to know what they change."""
    most: int | None = None
    """Bytes that the owner's files may have when it is made; None for any number."""


class Changed(Struct, frozen=True, kw_only=True):
    """What came of a change."""

    version: int
    """The new number, or the old one where nothing changed."""
    files: tuple[ContainerFileRecord, ...] = ()
    """What was put, as it is kept."""
    gone: tuple[ContainerFileRecord, ...] = ()
    """What was taken away."""


class FileRecord(Struct, frozen=True, kw_only=True):
    """An uploaded file."""

    id: str
    owner: str
    filename: str
    purpose: str
    created_at: int
    size: int
    blob: str
    type: str = "application/octet-stream"
    expires_at: int | None = None


class ConversationRecord(Struct, frozen=True, kw_only=True):
    id: str
    owner: str
    created_at: int
    metadata: dict[str, str] = field(default_factory=dict)


class ItemRecord(Struct, frozen=True, kw_only=True):
    """An item of a conversation, as JSON bytes."""

    id: str
    body: bytes


class KeyRecord(Struct, frozen=True, kw_only=True):
    """A caller's key; the key itself is never kept."""

    id: str
    name: str
    digest: str
    shown: str
    """Enough of its end to tell it from others."""
    created_at: int
    last_used_at: int | None = None
    revoked_at: int | None = None


class Old(Struct, frozen=True):
    """How much of something there is that may go."""

    count: int
    size: int
    """Bytes of it."""


class Records(Protocol):
    """Rows. A write survives the process when its call returns; reads see every finished write, of other processes too.

    `owner` is checked here: a row of somebody else's is not found. Lists give one row more than `page.limit` where
    there are more, so that the caller can tell; it comes last. A cursor that is not in the list is `InvalidRequest`.
    What belongs to something goes when that is deleted, and adding to what is not there is `NotFound`.

    Several gateways may share them. So nothing is read, changed and written back as a whole: every write is a
    transition that says what it changes and what must be so, and is made in one transaction with the look whether it
    is. What is over does not change any more, and what was deleted does not come back. A write whose `Hold` or holder
    is no longer the row's is `Fenced`.
    """

    # Gateways

    async def now(self) -> float:
        """The time that all gateways go by, in seconds since 1970."""
        ...

    async def beat(self, gateway: GatewayRecord, seconds: float) -> float | None:
        """The gateway lives, and will for so long from now; the time by which that is reckoned.

        None where it has been silent for longer than it said: others may have given up on it, so it must take a new id.
        """
        ...

    async def leave(self, gateway_id: str) -> None:
        """The gateway ends: it holds nothing any more, and what it worked on can be given up on."""
        ...

    async def get_gateways(self) -> list[GatewayRecord]:
        """Those that live."""
        ...

    # Responses

    async def add_response(self, record: ResponseRecord, items: Sequence[ItemRecord] = ()) -> None:
        """A new one; these items go to the end of its conversation with it, or neither is kept."""
        ...

    async def end_response(
        self,
        record: ResponseRecord,
        *,
        items: Sequence[ItemRecord] = (),
        events: Sequence[tuple[int, bytes]] = (),
        abandoned: bool = False,
    ) -> bool:
        """The last state of one that was queued or in progress; False if it is not, or not `record.holder`'s to end.

        Others may end one that is `abandoned`, whose holder lives no more: that has no further say in it then. Its
        events may not have numbers that are taken: False then, too.
        """
        ...

    async def get_response(self, id: str, owner: str) -> ResponseRecord | None: ...
    async def delete_response(self, id: str, owner: str) -> bool: ...
    async def chain(self, id: str, owner: str) -> list[ResponseRecord]:
        """The response and all before it, oldest first; stops short where one was deleted (its `previous_id` tells)."""
        ...

    async def chain_with_container(self, id: str, owner: str) -> tuple[list[ResponseRecord], FoundContainer | None]:
        """The same, and the container that the newest of them names, if that is still there: one look for both."""
        ...

    async def abandoned(self, limit: int = 100) -> list[ResponseRecord]:
        """Responses that are queued or in progress, while the gateway that worked on them lives no more."""
        ...

    async def add_events(self, response_id: str, holder: str, events: Sequence[tuple[int, bytes]]) -> None:
        """`NotFound` tells a background run that its response was deleted, `Fenced` that another has ended it."""
        ...

    async def get_events(self, response_id: str, after: int) -> list[tuple[int, bytes]]: ...

    # Conversations

    async def create_conversation(self, record: ConversationRecord, items: Sequence[ItemRecord] = ()) -> None: ...
    async def update_conversation(self, id: str, owner: str, metadata: Mapping[str, str]) -> bool:
        """False where it is not there."""
        ...

    async def get_conversation(self, id: str, owner: str) -> ConversationRecord | None: ...
    async def delete_conversation(self, id: str, owner: str) -> bool: ...
    async def add_items(self, conversation_id: str, items: Sequence[ItemRecord]) -> None:
        """All of them or none; `InvalidRequest` where an id is in the conversation already."""
        ...

    async def list_items(self, conversation_id: str, page: Page) -> list[ItemRecord]: ...
    async def all_items(self, conversation_id: str) -> list[ItemRecord]: ...
    async def get_item(self, conversation_id: str, id: str) -> ItemRecord | None: ...
    async def delete_item(self, conversation_id: str, id: str) -> bool: ...

    # Containers

    async def create_container(self, record: ContainerRecord) -> None: ...
    async def get_container(self, id: str, owner: str) -> ContainerRecord | None: ...
    async def find_container(self, ids: Sequence[str], owner: str) -> FoundContainer | None:
        """The first of these that is there, and whose record does not say `deleted`."""
        ...

    async def list_containers(self, owner: str, page: Page, name: str | None = None) -> list[ContainerRecord]:
        """Without those whose record says `deleted`."""
        ...

    async def delete_container(self, id: str, owner: str) -> bool:
        """The row, its files' rows and its versions; blobs are for `Blobs.remove_unused`."""
        ...

    async def update_container(
        self, id: str, *, memory: str | None = None, hosted: bytes | None = None, hold: Hold | None = None
    ) -> bool:
        """Change what is given and nothing else; False where the container is not there."""
        ...

    async def touch_container(self, id: str, at: int, cells: int = 0, hold: Hold | None = None) -> None:
        """It is in use, and has begun so many cells more."""
        ...

    async def hold_container(self, id: str, owner: str, gateway_id: str) -> ContainerRecord | None:
        """Give it to this gateway, if nobody has it or who has it lives no more; the record tells who has it now.

        Given, it has a higher epoch than ever before, also where the gateway had it already. None where there is none.
        """
        ...

    async def note_sandbox(self, id: str, hold: Hold, sandbox: bytes) -> None:
        """Which sandbox has it, for whoever holds it next; empty where none has any more."""
        ...

    async def release_container(self, id: str, hold: Hold) -> bool:
        """Let anybody have it, if the hold is still so."""
        ...

    async def find_sandboxes(self, ids: Sequence[str]) -> list[SandboxRow]:
        """Of these containers, whoever's they are, those that are there: for housekeeping."""
        ...

    async def change_container(self, id: str, change: Change) -> Changed | None:
        """Make its next version: no other change has the same number, in this process or another.

        None where it is not at the version that the change is to be made of: then nothing has happened.
        `StorageExceeded` where the owner would have more bytes than the change says.
        """
        ...

    async def get_version(self, id: str, number: int) -> Version | None:
        """Its state as it was; None for a number that it has not reached."""
        ...

    async def get_container_file(self, container_id: str, id: str) -> ContainerFileRecord | None: ...
    async def list_container_files(self, container_id: str, page: Page) -> list[ContainerFileRecord]: ...
    async def all_container_files(self, container_id: str) -> list[ContainerFileRecord]: ...

    # Files

    async def add_file(self, record: FileRecord, most: int | None = None) -> None:
        """`StorageExceeded` where its owner would have more than `most` bytes then."""
        ...

    async def get_file(self, id: str, owner: str) -> FileRecord | None: ...
    async def get_files(self, ids: Sequence[str], owner: str) -> list[FileRecord]:
        """Those of them that are there, in the order of the ids."""
        ...

    async def list_files(self, owner: str, page: Page, purpose: str | None = None) -> list[FileRecord]: ...
    async def delete_file(self, id: str, owner: str) -> bool: ...
    async def expire_files(self, now: int) -> int: ...
    async def bytes_of(self, owner: str) -> int:
        """Of files and container files together: for quotas."""
        ...

    async def spend_requests(self, owner: str, minute: int, wanted: int, most: int) -> int:
        """Take so many of the requests that the owner has in this minute, or as many as are left; how many were."""
        ...

    async def take_place(self, owner: str, place: str, gateway_id: str, most: int) -> bool:
        """Let this gateway have one more of the responses that the owner may have at once; False where all are taken.

        Those of a gateway that lives no more are free. A place that is taken already is taken as it is.
        """
        ...

    async def give_place(self, owner: str, place: str) -> None: ...

    # Retention

    async def count_old(self, kind: Kept, before: int) -> Old:
        """What `remove_old` would remove in all, if nothing changed meanwhile."""
        ...

    async def remove_old(self, kind: Kept, before: int, limit: int = 500) -> int:
        """Remove up to so many of what has not been used since then; how many, and 0 once there are none.

        A response goes when it is over and nothing goes on from it: a chain that is in use stays whole. Events go with
        all others of their response. A container goes unless a gateway that lives has it, with its files; their bytes
        are for `Blobs.sweep`.
        """
        ...

    async def take_turn(self, name: str, who: str, seconds: float) -> bool:
        """Whether this work is `who`'s for so long from now, as nobody else has it; no seconds give it back."""
        ...

    # Keys and secrets

    async def put_key(self, record: KeyRecord) -> None:
        """What was revoked stays so, whatever the record says."""
        ...

    async def get_key(self, digest: str) -> KeyRecord | None: ...
    async def keys(self) -> list[KeyRecord]: ...

    async def secret(self, name: str) -> bytes:
        """32 random bytes under this name, made when first asked for: the key that seals compacted history."""
        ...

    async def agree(self, name: str, value: bytes) -> bytes:
        """What all gateways have under this name: this, unless one of them was earlier with something else."""
        ...

    def blob_index(self) -> BlobIndex:
        """For blobs that are kept in a bucket; good for as long as the records are open."""
        ...

    async def unused_blobs(self, known: Sequence[str]) -> list[str]:
        """Those of these blobs that no record names, nor a part of them (see `slices`)."""
        ...

    async def close(self) -> None: ...


class BlobWriter(Protocol):
    """A blob that is coming in. Nothing is visible until `finish`; leaving the context without it removes the bytes."""

    async def write(self, data: bytes) -> None:
        """The next piece, however small: gathering them is not the caller's business."""

    async def drain(self, read: Callable[[memoryview], int]) -> None:
        """All that `read` puts into a buffer until it puts nothing; it is called in a thread of its own, and may wait.

        Whoever cancels this has to see to it that `read` ends.
        """

    async def finish(self) -> Blob: ...
    async def __aenter__(self) -> BlobWriter: ...
    async def __aexit__(self, *error: object) -> None: ...


class Blob(Struct, frozen=True):
    """Content by its SHA-256: the same bytes are kept once."""

    name: str
    size: int


class Blobs(Protocol):
    """Bytes. Never whole in memory. A part of a blob is a blob as well, by the name that `slices` gives it.

    A finished blob survives the process. One that the machine's end has damaged is `NotFound`, never other bytes.
    """

    def write(self) -> BlobWriter: ...
    def stream(
        self, name: str, *, start: int = 0, stop: int | None = None, chunk: int = 1 << 20
    ) -> AsyncIterator[bytes]:
        """Its bytes from `start` up to `stop`, without reading those before. `NotFound` before the first chunk."""
        ...

    def local(self, names: Sequence[str]) -> AbstractAsyncContextManager[Mapping[str, Path | NotFound]]:
        """These as files of this machine, which stay for as long as the context lasts; or why one cannot be had.

        Only for wholes: a part is read from the whole that it is of.
        """
        ...

    async def settle(self, name: str) -> None:
        """Have it where no power cut can take it: before a row says that it is kept for good."""
        ...

    async def adopt(self, chunks: AsyncIterator[bytes]) -> Blob:
        """All that the chunks hold, as a blob."""
        ...

    async def keep(self, contents: Sequence[bytes]) -> list[Blob]:
        """Each of these, which are small and many."""
        ...

    async def remove_unused(self, records: Records, names: Iterable[str]) -> int:
        """Remove those that no record names any more, after records were deleted; how many.

        One that was finished minutes ago is left to `sweep`: somebody may be about to name it.
        """
        ...

    async def count_unused(self, records: Records) -> Old:
        """What `sweep` would remove of whole blobs."""
        ...

    async def sweep(self, records: Records) -> int:
        """Remove what no record names for an hour and what half-finished writes left; how many."""
        ...

    async def close(self) -> None: ...
