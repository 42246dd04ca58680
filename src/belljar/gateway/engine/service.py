"""What the server asks of the engine: run, retrieve, resume, cancel, count, compact."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing

import msgspec
from msgspec import structs

from belljar.errors import HeldElsewhere, InvalidRequest, NotFound
from belljar.gateway.engine import compaction, replay, snapshots, tokens, unsealing
from belljar.gateway.engine.background import Background
from belljar.gateway.engine.caller import Caller
from belljar.gateway.engine.history import HistoryRequest, read_history
from belljar.gateway.engine.run import Run
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

    def __init__(self, services: EngineServices) -> None:
        self._services = services
        self._records = services.records
        self._membership = services.membership
        self._background = Background(services.records)

    def run(
        self, request: CreateResponse, caller: Caller, *, memory: dict[str, ResponseRecord] | None = None
    ) -> AsyncGenerator[list[Event], None]:
        """A response, live. Closing the generator stops everything that runs for it."""
        return Run(self._services, request, caller, memory=memory).events()

    async def begin(self, request: CreateResponse, caller: Caller, place: AsyncExitStack) -> Response:
        """A response in the background: its first snapshot. The faults that can be known now are raised now.

        Once it is begun it takes what is in `place`, and gives that back when it is over.
        """
        self._membership.check()
        run = Run(self._services, request, caller)
        await run.check()
        begun = structs.replace(run.started, status="in_progress")  # by the time that anybody asks
        kept = snapshots.build_record(begun, caller.owner, own=(), output=(), container_id=None)
        with self._background.reserve(run.id):
            await self._records.add_response(structs.replace(kept, holder=run.holder))
            self._background.start(run, place.pop_all())
        return run.started

    async def follow(self, id: str, caller: Caller, after: int) -> AsyncGenerator[list[bytes], None]:
        """The frames of a background response after the event numbered `after`."""
        record = await self._get_settled(id, caller)
        if not record.background:
            raise InvalidRequest(
                f"Response '{id}' cannot be streamed again: it was not created with background=true.", param="stream"
            )
        last = b""
        async with aclosing(self._background.follow(id, after)) as batches:
            async for batch in batches:
                if batch:
                    after, last = batch[-1]
                yield [frame for _, frame in batch]
        if not snapshots.is_last(last):  # it did not run here, or not to its end: then the store knows what came of it
            settled = await self._get_settled(id, caller)
            _check_over(settled)
            yield await self._list_last_frames(settled, after)

    async def retrieve(self, id: str, caller: Caller, include: Sequence[str] = ()) -> bytes:
        return snapshots.encode_response(await self._get_settled(id, caller), frozenset(include))

    async def delete(self, id: str, caller: Caller) -> None:
        _check_over(await self._get_settled(id, caller), running=self._background.has(id))
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
            await self._give_up(await self._get(id, caller), "cancelled")
        record = await self._get(id, caller)
        _check_over(record)
        if record.status != "cancelled":
            raise InvalidRequest(f"Cannot cancel a response that is {record.status}.", param="response_id")
        return snapshots.encode_response(record, frozenset())

    async def list_input_items(
        self, id: str, caller: Caller, page: Page, include: Sequence[str] = ()
    ) -> tuple[list[bytes], bool]:
        """The items of the request itself, newest first unless asked otherwise; whether there are more."""
        record = await self._get(id, caller)
        items = snapshots.filter_items(msgspec.json.decode(record.input), frozenset(include))
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

    async def count_tokens(self, request: CreateResponse, caller: Caller) -> int:
        """Tokens of a request, estimated."""
        recalled = await read_history(self._records, HistoryRequest.of(request), caller.owner, ids.new("resp"))
        return tokens.estimate(recalled.items, request.instructions, request.tools)

    async def compact(self, request: CompactRequest, caller: Caller) -> bytes:
        """A conversation made short, as an object of its own; nothing is stored."""
        services, id = self._services, ids.new("resp")
        route = await services.models.resolve(request.model)
        recalled = await read_history(self._records, HistoryRequest.of(request), caller.owner, id)
        if not recalled.items:
            raise InvalidRequest(
                "Missing required parameter: 'input'. Give the conversation to compact, or a previous_response_id.",
                param="input",
                fault="missing_required_parameter",
            )
        shown = await unsealing.unseal_items(recalled.items, services.sealer, caller.owner, first=len(recalled.before))
        asked = ModelRequest(
            model=route.name, items=shown, call_outputs=replay.list_call_outputs(shown), hops=caller.hops
        )
        summary, usage = await compaction.summarise(route, asked)
        if request.instructions:
            summary = f"{request.instructions}\n\n{summary}"
        sealed = await services.sealer.seal(summary, caller.owner)
        users = compaction.list_user_messages(recalled.items)
        output = [*users, Compaction(id=ids.within("cmp", id, len(users)), encrypted_content=sealed)]
        made = {"id": id, "object": "response.compaction", "created_at": int(services.clock())}
        return encode({**made, "output": output, "usage": usage})

    async def recover(self) -> int:
        """Responses whose gateway lives no more have failed, and say so. To be called at the start and ever after."""
        count = 0
        while lost := await self._records.abandoned():
            # Of those that run here, others may take us for dead: they hear of it themselves, if it is so.
            ended = [
                await self._give_up(record, "failed", snapshots.STOPPED)
                for record in lost
                if not self._background.has(record.id)
            ]
            count += sum(ended)
            if not any(ended):
                break
        return count

    async def close(self, patience: float = 0.0) -> None:
        await self._background.close(patience)

    async def _get_settled(self, id: str, caller: Caller) -> ResponseRecord:
        """One that nobody works on any more has ended, though that could not be kept when it did."""
        record = await self._get(id, caller)
        if record.background and record.status in snapshots.UNFINISHED and not self._background.has(id):
            await self._give_up(record, "failed", snapshots.LOST)
            record = await self._get(id, caller)
        return record

    async def _list_last_frames(self, record: ResponseRecord, after: int) -> list[bytes]:
        """What was told of one that is over, and that it is, where nobody came to tell that."""
        told = list(await self._records.get_events(record.id, -1))
        if not told or not snapshots.is_last(told[-1][1]):
            first = told[-1][0] + 1 if told else 0
            told += enumerate(snapshots.build_last_frames(record, first), first)
        return [frame for number, frame in told if number > after]

    async def _give_up(self, record: ResponseRecord, status: str, why: str = "") -> bool:
        """End one that nobody works on, with its last event. False where somebody does, or it has ended by itself.

        One of our own that does not run here was broken off; one of another gateway's is left to that while it lives.
        """
        abandoned = record.holder != self._membership.id
        while record.status in snapshots.UNFINISHED:
            body = msgspec.json.decode(record.body)
            body["status"] = status
            if status == "failed":
                body["error"] = ResponseError(code="server_error", message=why)
            ended = structs.replace(record, status=status, body=encode(body))
            told = await self._records.get_events(record.id, -1)
            first = told[-1][0] + 1 if told else 0
            is_told = bool(told) and snapshots.is_last(told[-1][1])
            last = [] if is_told else list(enumerate(snapshots.build_last_frames(ended, first), first))
            if await self._records.end_response(ended, events=last, abandoned=abandoned):
                return True
            newer = await self._records.get_response(record.id, record.owner)
            if newer is None or (newer == record and await self._records.get_events(record.id, first - 1) == []):
                return False  # its holder lives: not because it told another event meanwhile
            record = newer
        return False

    async def _get(self, id: str, caller: Caller) -> ResponseRecord:
        record = await self._records.get_response(id, caller.owner)
        if record is None:
            raise NotFound(f"Response with id '{id}' not found.")
        return record


def _check_over(record: ResponseRecord, *, running: bool = False) -> None:
    """`HeldElsewhere` for one that another gateway works on; one that is `running` here is no such."""
    if record.background and record.status in snapshots.UNFINISHED and not running:
        raise HeldElsewhere(
            f"Response '{record.id}' is running at another gateway of this deployment; try again in a moment.",
            gateway_id=record.holder or "",
        )
