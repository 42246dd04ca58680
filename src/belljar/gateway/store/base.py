"""The ports of the store: records and blobs, what outlives a request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field

Order = Literal["asc", "desc"]


class Page(Struct, frozen=True, kw_only=True):
    """Which part of a list is wanted: cursor pages as on OpenAI's wire.

    `after` and `before` are ids of rows in the list: what follows the one, or the page that ends at the other.
    """

    limit: int = 20
    order: Order = "desc"
    after: str | None = None
    before: str | None = None


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


class ContainerRecord(Struct, frozen=True, kw_only=True):
    """A container; `sandbox` says nothing of it: that is the process that holds it now."""

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
    """Cells begun so far: above 0, a lost sandbox means lost variables."""
    deleted: bool = False
    hosted: bytes = b""
    """What is known of the container that a provider has for it, where that runs the code."""
    version: int = 0
    """How often its state has changed: see `Version`."""


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
    after: int | None = None
    """Make it of this version alone; None takes whatever there is."""


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


class Records(Protocol):
    """Rows. A write survives the process when its call returns; reads see every finished write, of other processes too.

    `owner` is checked here: a row of somebody else's is not found. Lists give one row more than `page.limit` where
    there are more, so that the caller can tell; it comes last. A cursor that is not in the list is `InvalidRequest`.
    What is written again keeps its owner and `created_at`. What belongs to something goes when that is deleted, and
    adding to what is not there is `NotFound`.
    """

    async def put_response(self, record: ResponseRecord) -> None: ...
    async def get_response(self, id: str, owner: str) -> ResponseRecord | None: ...
    async def delete_response(self, id: str, owner: str) -> bool: ...
    async def chain(self, id: str, owner: str) -> list[ResponseRecord]:
        """The response and all before it, oldest first; stops short where one was deleted (its `previous_id` tells)."""
        ...

    async def unfinished(self) -> list[ResponseRecord]:
        """Responses that are queued or in progress: after a crash, nobody works on them."""
        ...

    async def add_events(self, response_id: str, events: Sequence[tuple[int, bytes]]) -> None:
        """`NotFound` tells a background run that its response was deleted."""
        ...

    async def get_events(self, response_id: str, after: int) -> list[tuple[int, bytes]]: ...

    async def put_conversation(self, record: ConversationRecord) -> None: ...
    async def get_conversation(self, id: str, owner: str) -> ConversationRecord | None: ...
    async def delete_conversation(self, id: str, owner: str) -> bool: ...
    async def add_items(self, conversation_id: str, items: Sequence[ItemRecord]) -> None:
        """All of them or none; `InvalidRequest` where an id is in the conversation already."""
        ...

    async def list_items(self, conversation_id: str, page: Page) -> list[ItemRecord]: ...
    async def all_items(self, conversation_id: str) -> list[ItemRecord]: ...
    async def get_item(self, conversation_id: str, id: str) -> ItemRecord | None: ...
    async def delete_item(self, conversation_id: str, id: str) -> bool: ...

    async def put_container(self, record: ContainerRecord) -> None:
        """One that is there keeps its requirements, cells and version: `change_container` is for those."""
        ...

    async def touch_container(self, id: str, at: int, cells: int = 0) -> None:
        """It is in use, and has begun so many cells more."""
        ...

    async def get_container(self, id: str, owner: str) -> ContainerRecord | None: ...
    async def list_containers(self, owner: str, page: Page, name: str | None = None) -> list[ContainerRecord]:
        """Without those whose record says `deleted`."""
        ...

    async def delete_container(self, id: str, owner: str) -> bool:
        """The row, its files' rows and its versions; blobs are for `Blobs.remove_unused`."""
        ...

    async def change_container(self, id: str, change: Change) -> Changed | None:
        """Make its next version: no other change has the same number, in this process or another.

        None where it is not at the version that the change is to be made of: then nothing has happened.
        """
        ...

    async def get_version(self, id: str, number: int) -> Version | None:
        """Its state as it was; None for a number that it has not reached."""
        ...

    async def get_container_file(self, container_id: str, id: str) -> ContainerFileRecord | None: ...
    async def list_container_files(self, container_id: str, page: Page) -> list[ContainerFileRecord]: ...
    async def all_container_files(self, container_id: str) -> list[ContainerFileRecord]: ...

    async def put_file(self, record: FileRecord) -> None:
        """Its bytes are on the disk before the row is: it lives on, whatever happens to the machine."""
        ...

    async def get_file(self, id: str, owner: str) -> FileRecord | None: ...
    async def list_files(self, owner: str, page: Page, purpose: str | None = None) -> list[FileRecord]: ...
    async def delete_file(self, id: str, owner: str) -> bool: ...
    async def expire_files(self, now: int) -> int: ...
    async def bytes_of(self, owner: str) -> int:
        """Of files and container files together: for quotas."""
        ...

    async def put_key(self, record: KeyRecord) -> None:
        """What was revoked stays so, whatever the record says."""
        ...

    async def keys(self) -> list[KeyRecord]: ...

    async def secret(self, name: str) -> bytes:
        """32 random bytes under this name, made when first asked for: the key that seals compacted history."""
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
    def stream(self, name: str, *, chunk: int = 1 << 20) -> AsyncIterator[bytes]:
        """Raises `NotFound` before the first chunk."""
        ...

    def path(self, name: str) -> Path | None:
        """Where it lies on this machine, if it does; a part has no place of its own.

        Blocks where its bytes may be damaged: they are read first.
        """
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

    async def sweep(self, records: Records) -> int:
        """Remove what no record names for an hour and what half-finished writes left; how many."""
        ...
