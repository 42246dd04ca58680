"""Small stand-ins for the rooms below the server, and the events of a plain answer."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, structs

from belljar.errors import InvalidRequest, NotFound
from belljar.gateway.engine.caller import Caller
from belljar.gateway.server.interfaces import Health, Keyring, Models, ServerServices
from belljar.gateway.store.base import (
    Blob,
    Blobs,
    BlobWriter,
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
from belljar.wire import events, ids
from belljar.wire.codec import encode, sse
from belljar.wire.events import Event
from belljar.wire.items import InputItem, Message, OutputText
from belljar.wire.requests import CompactRequest, CreateResponse
from belljar.wire.responses import Response, Usage
from belljar.wire.tools import NetworkPolicy

Play = Callable[[CreateResponse, Caller, dict[str, ResponseRecord] | None], AsyncGenerator[list[Event], None]]


def saying(request: CreateResponse, *words: str, id: str | None = None) -> list[list[Event]]:
    """The events of an answer in these words, in batches as a model would cause them."""
    name = id or ids.new("resp")
    item_id = "msg_1"
    first = Response(
        id=name, created_at=1, status="in_progress", model=request.model, store=request.store, tools=request.tools
    )
    text = "".join(words)
    part = OutputText(text=text)
    said = Message(id=item_id, role="assistant", status="completed", content=(part,))
    usage = Usage(input_tokens=3, output_tokens=len(words), total_tokens=3 + len(words))
    last = structs.replace(first, status="completed", completed_at=2, output=(said,), usage=usage)
    begun = Message(id=item_id, role="assistant", status="in_progress", content=())
    at: dict[str, Any] = {"sequence_number": 0, "output_index": 0, "item_id": item_id, "content_index": 0}
    deltas: list[list[Event]] = [[events.TextDelta(delta=word, **at)] for word in words]
    made: list[list[Event]] = [
        [
            events.Created(sequence_number=0, response=first),
            events.InProgress(sequence_number=0, response=first),
            events.ItemAdded(sequence_number=0, output_index=0, item=begun),
            events.PartAdded(part=OutputText(text=""), **at),
        ],
        *deltas,
        [
            events.TextDone(text=text, **at),
            events.PartDone(part=part, **at),
            events.ItemDone(sequence_number=0, output_index=0, item=said),
            events.Completed(sequence_number=0, response=last),
        ],
    ]
    number = iter(range(1_000_000))
    return [[structs.replace(event, sequence_number=next(number)) for event in batch] for batch in made]


class FakeEngine:
    """Answers every request with two words, or as `play` has it."""

    def __init__(self) -> None:
        self.play: Play = self._speak
        self.asked: list[CreateResponse] = []
        self.callers: list[Caller] = []
        self.stopped: list[str] = []
        """How each run ended: done, closed or cancelled."""
        self.background: dict[str, list[bytes]] = {}
        self.going_on = AsyncExitStack()
        """What the responses in the background have while they run."""
        self.deleted: list[str] = []
        self.pages: list[Page] = []
        self.includes: list[tuple[str, ...]] = []

    async def _speak(
        self, request: CreateResponse, caller: Caller, memory: dict[str, ResponseRecord] | None
    ) -> AsyncGenerator[list[Event], None]:
        if request.model == "absent":
            raise InvalidRequest("The requested model 'absent' does not exist.", param="model", fault="model_not_found")
        for batch in saying(request, "Hello ", "there"):
            yield batch

    async def run(
        self, request: CreateResponse, caller: Caller, *, memory: dict[str, ResponseRecord] | None = None
    ) -> AsyncGenerator[list[Event], None]:
        self.asked.append(request)
        self.callers.append(caller)
        try:
            async for batch in self.play(request, caller, memory):
                yield batch
        except GeneratorExit:
            self.stopped.append("closed")
            raise
        except asyncio.CancelledError:
            self.stopped.append("cancelled")
            raise
        self.stopped.append("done")

    async def begin(self, request: CreateResponse, caller: Caller, place: AsyncExitStack) -> Response:
        self.going_on.push_async_exit(place.pop_all())
        batches = saying(request, "Later")
        response = cast(events.Created, batches[0][0]).response
        self.background[response.id] = [sse(event) for batch in batches for event in batch]
        return structs.replace(response, status="queued", background=True)

    async def follow(self, id: str, caller: Caller, after: int) -> AsyncGenerator[list[bytes], None]:
        self._known(id)
        yield self.background[id][after + 1 :]

    async def retrieve(self, id: str, caller: Caller, include: Sequence[str]) -> bytes:
        self.includes.append(tuple(include))
        self._known(id)
        return encode({"id": id, "object": "response"})

    async def delete(self, id: str, caller: Caller) -> None:
        self._known(id)
        self.deleted.append(id)

    async def cancel(self, id: str, caller: Caller) -> bytes:
        self._known(id)
        return encode({"id": id, "object": "response", "status": "cancelled"})

    async def list_input_items(
        self, id: str, caller: Caller, page: Page, include: Sequence[str]
    ) -> tuple[list[bytes], bool]:
        self.pages.append(page)
        self.includes.append(tuple(include))
        if id == "resp_empty":
            return [], False
        self._known(id)
        return [encode({"id": f"msg_{n}", "type": "message"}) for n in (1, 2)], True

    async def count_tokens(self, request: CreateResponse, caller: Caller) -> int:
        self.asked.append(request)
        return 42

    async def compact(self, request: CompactRequest, caller: Caller) -> bytes:
        made = {"id": "resp_c", "object": "response.compaction", "created_at": 1, "output": []}
        return encode({**made, "usage": Usage()})

    def _known(self, id: str) -> None:
        if id not in self.background and id != "resp_1":
            raise NotFound(f"Response with id '{id}' not found.")


class FakeConversations:
    def __init__(self) -> None:
        self.kept: dict[str, ConversationRecord] = {}
        self.items: dict[str, list[ItemRecord]] = {}

    async def create(self, caller: Caller, metadata: dict[str, str], items: Sequence[InputItem]) -> ConversationRecord:
        made = ConversationRecord(id=ids.new("conv"), owner=caller.owner, created_at=1, metadata=metadata)
        self.kept[made.id] = made
        self.items[made.id] = []
        await self.add_items(made.id, caller, items)
        return made

    async def get(self, id: str, caller: Caller) -> ConversationRecord:
        if id not in self.kept or self.kept[id].owner != caller.owner:
            raise NotFound(f"Conversation with id '{id}' not found.")
        return self.kept[id]

    async def update(self, id: str, caller: Caller, metadata: dict[str, str]) -> ConversationRecord:
        self.kept[id] = structs.replace(await self.get(id, caller), metadata=metadata)
        return self.kept[id]

    async def delete(self, id: str, caller: Caller) -> None:
        await self.get(id, caller)
        del self.kept[id]

    async def add_items(self, id: str, caller: Caller, items: Sequence[InputItem]) -> list[ItemRecord]:
        await self.get(id, caller)
        fresh = [
            ItemRecord(id=f"msg_{n}", body=encode({"id": f"msg_{n}", "type": "message"})) for n, _ in enumerate(items)
        ]
        self.items[id] += fresh
        return fresh

    async def list_items(
        self, id: str, caller: Caller, page: Page, include: Sequence[str]
    ) -> tuple[list[ItemRecord], bool]:
        await self.get(id, caller)
        return self.items[id][: page.limit], len(self.items[id]) > page.limit

    async def get_item(self, id: str, item_id: str, caller: Caller, include: Sequence[str]) -> ItemRecord:
        await self.get(id, caller)
        for item in self.items[id]:
            if item.id == item_id:
                return item
        raise NotFound(f"Item with id '{item_id}' not found.")

    async def delete_item(self, id: str, item_id: str, caller: Caller) -> ConversationRecord:
        item = await self.get_item(id, item_id, caller, ())
        self.items[id].remove(item)
        return self.kept[id]


class FakeContainers:
    def __init__(self, blobs: FakeBlobs) -> None:
        self._blobs = blobs
        self.kept: dict[str, ContainerRecord] = {}
        self.files: dict[str, list[ContainerFileRecord]] = {}
        self.extracted: list[tuple[str, int]] = []

    async def create(
        self, owner: str, *, name: str, memory: str, minutes: int | None, network: NetworkPolicy | None
    ) -> ContainerRecord:
        made = ContainerRecord(
            id=ids.new("cntr"),
            owner=owner,
            name=name,
            created_at=1,
            last_active_at=1,
            memory=memory,
            minutes=minutes or 20,
        )
        self.kept[made.id] = made
        self.files[made.id] = []
        return made

    async def get(self, id: str, owner: str) -> ContainerRecord:
        if id not in self.kept or self.kept[id].owner != owner:
            raise NotFound(f"Container with id '{id}' not found.")
        return self.kept[id]

    def status(self, record: ContainerRecord) -> str:
        return "running"

    async def delete(self, id: str, owner: str) -> None:
        await self.get(id, owner)
        del self.kept[id]

    async def drop(self, id: str) -> None: ...

    async def put_file(self, container: ContainerRecord, name: str, blob: Blob, *, type: str) -> ContainerFileRecord:
        made = ContainerFileRecord(
            id=ids.new("cfile"),
            container_id=container.id,
            path=name,
            created_at=1,
            size=blob.size,
            modified=1.0,
            source="user",
            blob=blob.name,
            type=type,
        )
        self.files[container.id].append(made)
        return made

    async def place(self, container: ContainerRecord, files: Sequence[FileRecord]) -> list[ContainerFileRecord]:
        return [await self.put_file(container, f.filename, Blob(f.blob, f.size), type=f.type) for f in files]

    async def extract(self, container: ContainerRecord, blob: Blob, filename: str) -> list[ContainerFileRecord]:
        self.extracted.append((filename, blob.size))
        return [await self.put_file(container, f"{n}.txt", blob, type="text/plain") for n in (1, 2)]

    async def list_files(self, container: ContainerRecord, page: Page) -> list[ContainerFileRecord]:
        return self.files[container.id][: page.limit + 1]

    async def get_file(self, container: ContainerRecord, id: str) -> ContainerFileRecord:
        for file in self.files[container.id]:
            if file.id == id:
                return file
        raise NotFound(f"File {id} not found on container {container.id}.")

    async def delete_file(self, container: ContainerRecord, id: str) -> None:
        self.files[container.id].remove(await self.get_file(container, id))

    async def stream_file(
        self, container: ContainerRecord, file: ContainerFileRecord, *, start: int, stop: int
    ) -> AsyncIterator[bytes]:
        async for chunk in self._blobs.stream(file.blob, start=start, stop=stop):
            yield chunk

    async def list(self, owner: str, page: Page, name: str | None) -> Sequence[ContainerRecord]:
        rows = [row for row in self.kept.values() if row.owner == owner and name in (None, row.name)]
        return rows[: page.limit + 1]


class FakeBlobs:
    """In memory, and watched: nothing may stay open, and nothing may come in one piece."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.open = 0
        self.hops: list[int] = []

    def write(self) -> BlobWriter:
        return FakeWriter(self)

    async def stream(
        self, name: str, *, start: int = 0, stop: int | None = None, chunk: int = 1 << 20
    ) -> AsyncIterator[bytes]:
        if name not in self.kept:
            raise NotFound(f"There is no blob {name}.")
        self.open += 1
        try:
            data = self.kept[name][start:stop]
            for at in range(0, len(data), chunk):
                yield data[at : at + chunk]
                await asyncio.sleep(0)
        finally:
            self.open -= 1

    def local(self, names: Sequence[str]) -> AbstractAsyncContextManager[Mapping[str, Path | NotFound]]:
        raise AssertionError("the server reads no files of its own")

    async def settle(self, name: str) -> None: ...

    async def adopt(self, chunks: AsyncIterator[bytes]) -> Blob:
        async with self.write() as writer:
            async for chunk in chunks:
                await writer.write(chunk)
            return await writer.finish()

    async def keep(self, contents: Sequence[bytes]) -> list[Blob]:
        raise AssertionError("the server keeps no files by the batch")

    async def remove_unused(self, records: Records, names: Iterable[str]) -> int:
        for name in names:
            del self.kept[name]
        return 1

    async def sweep(self, records: Records) -> int:
        return 0


class FakeWriter:
    def __init__(self, blobs: FakeBlobs) -> None:
        self._blobs = blobs
        self._data = bytearray()

    async def write(self, data: bytes) -> None:
        self._blobs.hops.append(len(data))
        self._data += data
        await asyncio.sleep(0)

    async def drain(self, read: Callable[[memoryview], int]) -> None:
        def all() -> None:
            buffer = memoryview(bytearray(1 << 20))
            while count := read(buffer):
                self._blobs.hops.append(count)
                self._data += buffer[:count]

        await asyncio.to_thread(all)

    async def finish(self) -> Blob:
        name = hashlib.sha256(self._data).hexdigest()
        self._blobs.kept[name] = bytes(self._data)
        return Blob(name, len(self._data))

    async def __aenter__(self) -> BlobWriter:
        self._blobs.open += 1
        return self

    async def __aexit__(self, *error: object) -> None:
        self._blobs.open -= 1


class FakeRecords:
    """Files only: what the server itself asks of the records."""

    def __init__(self, of_containers: dict[str, list[ContainerFileRecord]] | None = None) -> None:
        self.files: dict[str, FileRecord] = {}
        self._of_containers = {} if of_containers is None else of_containers

    async def all_container_files(self, container_id: str) -> list[ContainerFileRecord]:
        return self._of_containers[container_id]

    async def add_file(self, record: FileRecord, most: int | None = None) -> None:
        self.files[record.id] = record

    async def get_file(self, id: str, owner: str) -> FileRecord | None:
        found = self.files.get(id)
        return found if found and found.owner == owner else None

    async def list_files(self, owner: str, page: Page, purpose: str | None = None) -> list[FileRecord]:
        rows = [row for row in self.files.values() if row.owner == owner and purpose in (None, row.purpose)]
        return rows[: page.limit + 1]

    async def delete_file(self, id: str, owner: str) -> bool:
        return self.files.pop(id, None) is not None

    async def bytes_of(self, owner: str) -> int:
        return sum(row.size for row in self.files.values() if row.owner == owner)


class Info(Struct, frozen=True):
    id: str
    owned_by: str = "here"
    created: int = 7


class FakeModels:
    def __init__(self) -> None:
        self.infos = [Info("belljar"), Info("lab/qwen 3")]

    async def list(self) -> list[Info]:
        return self.infos

    def renew(self) -> None: ...

    async def look(self) -> Sequence[Info]:
        return self.infos


class FakeHealth:
    isolation = "full"
    packages = ("pandas",)

    def __init__(self) -> None:
        self.found: list[str] = []

    async def problems(self) -> list[str]:
        return self.found


class FakeKeys:
    """One good key, `bj-good`; its owner is `key_1`. And `bj-other` of `key_2`."""

    def __init__(self) -> None:
        self.owners = {"bj-good": "key_1", "bj-other": "key_2"}

    async def is_needed(self) -> bool:
        return True

    async def check(self, plain: str) -> KeyRecord | None:
        owner = self.owners.get(plain)
        return KeyRecord(id=owner, name="", digest="", shown="", created_at=1) if owner else None


class EngineServices:
    """All of them, for one app."""

    def __init__(self, *, keys: bool = False) -> None:
        self.engine = FakeEngine()
        self.conversations = FakeConversations()
        self.blobs = FakeBlobs()
        self.containers = FakeContainers(self.blobs)
        self.records = FakeRecords(self.containers.files)
        self.health = FakeHealth()
        self.keys = FakeKeys()
        self.models = FakeModels()
        self.services = ServerServices(
            engine=self.engine,
            conversations=self.conversations,
            containers=self.containers,
            models=cast(Models, self.models),
            records=cast(Records, self.records),
            blobs=cast(Blobs, self.blobs),
            health=cast(Health, self.health),
            keys=cast(Keyring, self.keys) if keys else None,
        )
