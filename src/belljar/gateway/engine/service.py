"""What the server asks of the engine: run, retrieve, resume, cancel, count, compact."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec
from msgspec import structs

from belljar.errors import InvalidRequest, NotFound
from belljar.gateway.engine import compaction, replay, snapshots, tokens, unsealing
from belljar.gateway.engine.background import Background
from belljar.gateway.engine.caller import Caller
from belljar.gateway.engine.history import HistoryRequest, recall
from belljar.gateway.engine.loop import Run
from belljar.gateway.engine.services import EngineServices
from belljar.gateway.store.base import Page, ResponseRecord
from belljar.vendors.request import ModelRequest
from belljar.wire import ids
from belljar.wire.codec import encode
from belljar.wire.events import Event
from belljar.wire.items import Compaction
from belljar.wire.requests import CompactRequest, CreateResponse
from belljar.wire.responses import Response, ResponseError


class Engine:
    """Responses, from request to record."""

    def __init__(self, rooms: EngineServices) -> None:
        self._rooms = rooms
        self._records = rooms.records
        self._background = Background(rooms.records)

    def run(
        self, request: CreateResponse, caller: Caller, *, memory: dict[str, ResponseRecord] | None = None
    ) -> AsyncGenerator[list[Event], None]:
        """A response, live. Closing the generator stops everything that runs for it."""
        return Run(self._rooms, request, caller, memory=memory).events()

    async def begin(self, request: CreateResponse, caller: Caller) -> Response:
        """A response in the background: its first snapshot. The faults that can be known now are raised now."""
        run = Run(self._rooms, request, caller)
        await run.check()
        begun = structs.replace(run.started, status="in_progress")  # by the time that anybody asks
        kept = snapshots.record(begun, caller.owner, own=(), output=(), container_id=None)
        with self._background.beginning(run.id):
            await self._records.put_response(kept)
            self._background.start(run, caller.owner)
        return run.started

    def in_background(self, owner: str) -> int:
        """How many of an owner's responses go on without their caller."""
        return self._background.count(owner)

    async def follow(self, id: str, caller: Caller, after: int) -> AsyncGenerator[list[bytes], None]:
        """The frames of a background response after the event numbered `after`."""
        record = await self._settled(id, caller)
        if not record.background:
            raise InvalidRequest(
                f"Response '{id}' cannot be streamed again: it was not created with background=true.", param="stream"
            )
        if record.status in ("failed", "cancelled") and not self._background.has(id):
            yield await self._last_frames(record, after)
            return
        async with aclosing(self._background.follow(id, after)) as frames:
            async for batch in frames:
                yield batch

    async def retrieve(self, id: str, caller: Caller, include: Sequence[str] = ()) -> bytes:
        return snapshots.told(await self._settled(id, caller), frozenset(include))

    async def delete(self, id: str, caller: Caller) -> None:
        await self._get(id, caller)
        await self._background.cancel(id)
        await self._records.delete_response(id, caller.owner)

    async def cancel(self, id: str, caller: Caller) -> bytes:
        record = await self._get(id, caller)
        if not record.background:
            raise InvalidRequest(
                f"Response '{id}' was not created with background=true and cannot be cancelled: close its connection.",
                param="response_id",
            )
        if not await self._background.cancel(id):
            record = await self._get(id, caller)
            if record.status in snapshots.UNFINISHED:
                record = await self._give_up(record, "cancelled")
        record = await self._get(id, caller)
        if record.status != "cancelled":
            raise InvalidRequest(f"Cannot cancel a response that is {record.status}.", param="response_id")
        return snapshots.told(record, frozenset())

    async def input_items(
        self, id: str, caller: Caller, page: Page, include: Sequence[str] = ()
    ) -> tuple[list[bytes], bool]:
        """The items of the request itself, newest first unless asked otherwise; whether there are more."""
        record = await self._get(id, caller)
        items = snapshots.filtered(msgspec.json.decode(record.input), frozenset(include))
        if page.order == "desc":
            items.reverse()
        names = [item.get("id") for item in items]
        for cursor, name in ((page.after, "after"), (page.before, "before")):
            if cursor is not None and cursor not in names:
                raise InvalidRequest(f"Item with id '{cursor}' not found.", param=name)
        start = names.index(page.after) + 1 if page.after is not None else 0
        stop = names.index(page.before) if page.before is not None else len(items)
        wanted = items[start:stop]
        return [encode(item) for item in wanted[: page.limit]], len(wanted) > page.limit

    async def count(self, request: CreateResponse, caller: Caller) -> int:
        """Tokens of a request, estimated."""
        recalled = await recall(self._records, HistoryRequest.of(request), caller.owner, ids.new("resp"))
        return tokens.estimate(recalled.items, request.instructions, request.tools)

    async def compact(self, request: CompactRequest, caller: Caller) -> bytes:
        """A conversation made short, as an object of its own; nothing is stored."""
        rooms, id = self._rooms, ids.new("resp")
        route = await rooms.models.resolve(request.model)
        recalled = await recall(self._records, HistoryRequest.of(request), caller.owner, id)
        if not recalled.items:
            raise InvalidRequest(
                "Missing required parameter: 'input'. Give the conversation to compact, or a previous_response_id.",
                param="input",
                fault="missing_required_parameter",
            )
        shown = await unsealing.opened(recalled.items, rooms.sealer, caller.owner, first=len(recalled.before))
        asked = ModelRequest(model=route.name, items=shown, call_outputs=replay.told(shown), hops=caller.hops)
        summary, usage = await compaction.summarise(route, asked)
        if request.instructions:
            summary = f"{request.instructions}\n\n{summary}"
        sealed = await rooms.sealer.seal(summary, caller.owner)
        users = compaction.kept(recalled.items)
        output = [*users, Compaction(id=ids.within("cmp", id, len(users)), encrypted_content=sealed)]
        made = {"id": id, "object": "response.compaction", "created_at": int(rooms.clock())}
        return encode({**made, "output": output, "usage": usage})

    async def recover(self) -> int:
        """After a crash: responses that nobody works on any more have failed, and say so."""
        lost = await self._records.unfinished()
        for record in lost:
            await self._give_up(record, "failed", snapshots.STOPPED)
        return len(lost)

    async def close(self, patience: float = 0.0) -> None:
        await self._background.close(patience)

    async def _settled(self, id: str, caller: Caller) -> ResponseRecord:
        """One that nobody works on any more has ended, though that could not be kept when it did."""
        record = await self._get(id, caller)
        if record.background and record.status in snapshots.UNFINISHED and not self._background.has(id):
            record = await self._get(id, caller)  # it may have ended just now
            if record.status in snapshots.UNFINISHED:
                record = await self._give_up(record, "failed", snapshots.LOST)
        return record

    async def _last_frames(self, record: ResponseRecord, after: int) -> list[bytes]:
        """What was told of one that failed or was called off, and that it was, where nobody came to tell that."""
        told = list(await self._records.get_events(record.id, -1))
        if not told or not snapshots.is_last(told[-1][1]):
            first = told[-1][0] + 1 if told else 0
            told += enumerate(snapshots.cut_off(record, first), first)
        return [frame for number, frame in told if number > after]

    async def _give_up(self, record: ResponseRecord, status: str, why: str = "") -> ResponseRecord:
        body = msgspec.json.decode(record.body)
        body["status"] = status
        if status == "failed":
            body["error"] = ResponseError(code="server_error", message=why)
        given_up = structs.replace(record, status=status, body=encode(body))
        await self._records.put_response(given_up)
        return given_up

    async def _get(self, id: str, caller: Caller) -> ResponseRecord:
        record = await self._records.get_response(id, caller.owner)
        if record is None:
            raise NotFound(f"Response with id '{id}' not found.")
        return record
