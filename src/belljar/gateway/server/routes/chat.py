"""/v1/chat/completions: the same engine, in the words of older clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from belljar.errors import BelljarError
from belljar.gateway.chat_completions.answers import (
    Chunks,
    build_failed_fault,
    encode_completion,
    encode_error_frame,
    find_fault,
)
from belljar.gateway.chat_completions.reading import ChatBody, read_chat
from belljar.gateway.server.bodies import ChatCompletion
from belljar.gateway.server.interfaces import Engine
from belljar.gateway.server.options import ServerOptions
from belljar.gateway.server.quota import Quotas
from belljar.gateway.server.request import Request
from belljar.gateway.server.routes.responses import finish_run
from belljar.http_server.event_stream import event_stream, frame_batches
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.request import ProtocolRefusal
from belljar.http_server.routing import Content, Operation, Route, json_of
from belljar.wire.requests import CreateResponse

_ASK = Operation(
    "Ask a model, in the words of chat completions",
    (Content(ChatCompletion), Content(ChatCompletion, "text/event-stream")),
    json_of(ChatBody),
)


class ChatRoutes:
    def __init__(self, engine: Engine, quotas: Quotas, options: ServerOptions) -> None:
        self._engine = engine
        self._quotas = quotas
        self._options = options

    def routes(self) -> list[Route]:
        return [Route("POST", "/v1/chat/completions", self.create, _ASK)]

    async def create(self, request: Request) -> Answer:
        chat = await request.json(self._options.largest_body, read_chat)
        asked = chat.request
        run = self._engine.run(asked, request.caller)
        base_url = _format_address(request)
        place = _translate_faults(self._quotas.hold_response(request.caller.owner))
        if asked.stream:
            chunks = Chunks(usage=chat.usage, live=_wants_live(asked, request), base_url=base_url, ignored=chat.ignored)
            return event_stream(
                frame_batches(run, chunks.make_frames, place), encode_error_frame, ping=self._options.ping
            )
        async with place:
            response = await finish_run(request, run)
        if response.status == "failed":
            raise ProtocolRefusal(build_failed_fault(response.error))
        return Reply(200, encode_completion(response, base_url, chat.ignored))


@asynccontextmanager
async def _translate_faults(place: AbstractAsyncContextManager[None]) -> AsyncIterator[None]:
    try:
        async with place:
            yield
    except BelljarError as error:
        raise ProtocolRefusal(find_fault(error)) from None


def _wants_live(asked: CreateResponse, request: Request) -> bool:
    return request.caller.live if asked.belljar.live is None else asked.belljar.live


def _format_address(request: Request) -> str:
    """This gateway as its client calls it: files are cited by where they can be fetched."""
    host = request.headers.get(b"host", b"").decode("latin-1")
    return f"{request.scope['scheme']}://{host}" if host else ""
