"""/v1/chat/completions: the same engine, in the words of older clients."""

from __future__ import annotations

from belljar.errors import BelljarError
from belljar.gateway.chat_completions.answers import Chunks, completion, error_frame, fault_of, fault_of_failed
from belljar.gateway.chat_completions.reading import read_chat
from belljar.gateway.server.http import Refusal, Request
from belljar.gateway.server.interfaces import Engine
from belljar.gateway.server.options import Options
from belljar.gateway.server.quota import Quotas
from belljar.gateway.server.responses import finished
from belljar.gateway.server.routing import Route
from belljar.gateway.server.streaming import pour
from belljar.wire.requests import CreateResponse


class ChatRoutes:
    def __init__(self, engine: Engine, quotas: Quotas, options: Options) -> None:
        self._engine = engine
        self._quotas = quotas
        self._options = options

    def routes(self) -> list[Route]:
        return [Route("POST", "/v1/chat/completions", self.create)]

    async def create(self, request: Request) -> None:
        chat = read_chat(await request.json(self._options.largest_body))
        asked = chat.request
        run = self._engine.run(asked, request.caller)
        base_url = _address(request)
        try:
            with self._quotas.response(request.caller.owner):
                if asked.stream:
                    chunks = Chunks(
                        usage=chat.usage, live=_live(asked, request), base_url=base_url, ignored=chat.ignored
                    )
                    await pour(request, run, chunks.frames, error_frame, ping=self._options.ping)
                    return
                response = await finished(request, run)
        except BelljarError as error:
            raise Refusal(fault_of(error)) from None
        if response.status == "failed":
            raise Refusal(fault_of_failed(response.error))
        await request.reply(200, completion(response, base_url, chat.ignored))


def _live(asked: CreateResponse, request: Request) -> bool:
    return request.caller.live if asked.belljar.live is None else asked.belljar.live


def _address(request: Request) -> str:
    """This gateway as its client calls it: files are cited by where they can be fetched."""
    host = request.headers.get(b"host", b"").decode("latin-1")
    return f"{request.scope['scheme']}://{host}" if host else ""
