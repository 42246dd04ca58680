"""/v1/responses: create, stream, fetch, resume, cancel, delete, count, compact."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from typing import Annotated

from msgspec import Meta

from belljar.gateway.server import objects
from belljar.gateway.server.bodies import (
    INCLUDE,
    PAGE,
    AnyEvent,
    CompactBody,
    CompactedBody,
    CountBody,
    ResponseBody,
)
from belljar.gateway.server.interfaces import Engine
from belljar.gateway.server.options import ServerOptions
from belljar.gateway.server.quota import Quotas
from belljar.gateway.server.request import Request
from belljar.http_server.cancel_on_disconnect import CancelOnDisconnect
from belljar.http_server.event_stream import event_stream, frame_batches
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.routing import Content, Operation, Parameter, Route, json_of
from belljar.wire import reading
from belljar.wire.answers import Deleted, InputTokens, ListPage
from belljar.wire.codec import encode, frames, sse
from belljar.wire.events import TERMINAL, ErrorDetail, ErrorEvent, Event
from belljar.wire.faults import Fault
from belljar.wire.items import InputItem
from belljar.wire.requests import CreateResponse
from belljar.wire.responses import Response

_LATEST = (1 << 53) - 1


_SAID = (Content(Response), Content(AnyEvent, "text/event-stream"))
_FOLLOWED = (
    INCLUDE,
    Parameter("stream", bool, "Its events, of one in the background."),
    Parameter("starting_after", Annotated[int, Meta(ge=0)], "Only events with higher numbers."),
)


class ResponseRoutes:
    def __init__(self, engine: Engine, quotas: Quotas, options: ServerOptions) -> None:
        self._engine = engine
        self._quotas = quotas
        self._options = options

    def routes(self) -> list[Route]:
        one = "/v1/responses/{id}"
        return [
            Route("POST", "/v1/responses", self.create, Operation("Ask a model", _SAID, json_of(ResponseBody))),
            Route(
                "POST",
                "/v1/responses/input_tokens",
                self.count_tokens,
                Operation("Count tokens", json_of(InputTokens), json_of(CountBody)),
            ),
            Route(
                "POST",
                "/v1/responses/compact",
                self.compact,
                Operation("Make a conversation short", json_of(CompactedBody), json_of(CompactBody)),
            ),
            Route("GET", one, self.get, Operation("One of them", _SAID, query=_FOLLOWED)),
            Route("DELETE", one, self.delete, Operation("Delete it", json_of(Deleted))),
            Route("POST", f"{one}/cancel", self.cancel, Operation("Stop one in the background", json_of(Response))),
            Route(
                "GET",
                f"{one}/input_items",
                self.list_input_items,
                Operation("What it was asked", json_of(ListPage[InputItem]), query=(*PAGE, INCLUDE)),
            ),
        ]

    async def create(self, request: Request) -> Answer:
        asked = await request.json(self._options.largest_body, reading.read_response)
        if asked.background:
            return await self._begin(request, asked)
        place, run = self._quotas.hold_response(request.caller.owner), self._engine.run(asked, request.caller)
        if asked.stream:
            return self._stream(run, place)
        async with place:
            response = await finish_run(request, run)
        return Reply(200, encode(response))

    async def get(self, request: Request) -> Answer:
        id, query = request.params["id"], request.query
        include = query.read_include()
        after = query.whole("starting_after", -1, least=0, most=_LATEST)
        if query.flag("stream") and request.method == "GET":
            return self._follow(request, id, after)
        return Reply(200, await self._engine.retrieve(id, request.caller, include))

    async def delete(self, request: Request) -> Answer:
        id = request.params["id"]
        await self._engine.delete(id, request.caller)
        return Reply(200, objects.encode_deleted(id, "response"))

    async def cancel(self, request: Request) -> Answer:
        return Reply(200, await self._engine.cancel(request.params["id"], request.caller))

    async def list_input_items(self, request: Request) -> Answer:
        query = request.query
        items, more = await self._engine.list_input_items(
            request.params["id"], request.caller, query.read_page(), query.read_include()
        )
        return Reply(200, objects.encode_item_page([objects.read_item(item) for item in items], more))

    async def count_tokens(self, request: Request) -> Answer:
        asked = await request.json(self._options.largest_body, reading.read_input_tokens)
        tokens = await self._engine.count_tokens(asked, request.caller)
        return Reply(200, encode(InputTokens(input_tokens=tokens)))

    async def compact(self, request: Request) -> Answer:
        asked = await request.json(self._options.largest_body, reading.read_compact)
        async with self._quotas.hold_response(request.caller.owner):
            with CancelOnDisconnect(request.gone):
                compacted = await self._engine.compact(asked, request.caller)
        return Reply(200, compacted)

    # -- streams ------------------------------------------------------------------------------------------------------

    def _stream(self, run: AsyncGenerator[list[Event], None], place: AbstractAsyncContextManager[None]) -> Answer:
        number = -1

        def frame(batch: list[Event]) -> Iterator[bytes]:
            nonlocal number
            for number, piece in frames(batch):  # noqa: B007 - `trouble` goes on from it
                yield piece

        def trouble(fault: Fault) -> bytes:
            return sse(_build_error(fault, number + 1))

        return event_stream(frame_batches(run, frame, place), trouble, ping=self._options.ping)

    async def _begin(self, request: Request, asked: CreateResponse) -> Answer:
        async with AsyncExitStack() as place:
            await place.enter_async_context(self._quotas.hold_response(request.caller.owner))
            response = await self._engine.begin(asked, request.caller, place)
        if asked.stream:
            return self._follow(request, response.id, -1)
        return Reply(200, encode(response))

    def _follow(self, request: Request, id: str, after: int) -> Answer:
        number = after

        def frame(batch: list[bytes]) -> Iterator[bytes]:
            nonlocal number
            for data in batch:
                number += 1
                yield data

        def trouble(fault: Fault) -> bytes:
            return sse(_build_error(fault, number + 1))

        batches = self._engine.follow(id, request.caller, after)
        return event_stream(frame_batches(batches, frame), trouble, ping=self._options.ping)


async def finish_run(request: Request, run: AsyncGenerator[list[Event], None]) -> Response:
    """The response that a run ends with, as long as its client waits for it."""
    last: Event | None = None
    async with aclosing(run):
        with CancelOnDisconnect(request.gone):
            async for batch in run:
                if batch:
                    last = batch[-1]
    if not isinstance(last, TERMINAL):
        raise RuntimeError(f"the run of request {request.id} ended with {type(last).__name__}")
    return last.response


def _build_error(fault: Fault, number: int) -> ErrorEvent:
    """Nested, as on the real wire."""
    detail = ErrorDetail(type=fault.type, code=fault.code, message=fault.message, param=fault.param)
    return ErrorEvent(sequence_number=number, error=detail)
