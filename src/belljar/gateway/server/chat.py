"""/v1/chat/completions: the same engine, in the words of older clients."""

from __future__ import annotations

from msgspec import structs

from belljar.errors import InvalidRequest
from belljar.gateway.server.completions import Chunks, completion, error_frame, read
from belljar.gateway.server.http import Refusal, Request
from belljar.gateway.server.options import Options
from belljar.gateway.server.ports import Engine
from belljar.gateway.server.quota import Quotas
from belljar.gateway.server.responses import finished
from belljar.gateway.server.routing import Route
from belljar.gateway.server.streaming import pour
from belljar.wire import faults
from belljar.wire.faults import Fault
from belljar.wire.responses import ResponseError


class ChatRoutes:
    def __init__(self, engine: Engine, quotas: Quotas, options: Options) -> None:
        self._engine = engine
        self._quotas = quotas
        self._options = options

    def routes(self) -> list[Route]:
        return [Route("POST", "/v1/chat/completions", self.create)]

    async def create(self, request: Request) -> None:
        chat = read(await request.json(self._options.largest_body))
        run = self._engine.run(chat.request, request.caller)
        try:
            with self._quotas.response(request.caller.owner):
                if chat.request.stream:
                    chunks = Chunks(usage=chat.usage)
                    await pour(request, run, lambda batch: map(chunks.feed, batch), _trouble, ping=self._options.ping)
                    return
                response = await finished(request, run)
        except InvalidRequest as error:
            if error.fault == "model_not_found":
                raise Refusal(structs.replace(faults.of(error), status=404)) from None
            raise
        if response.status == "failed":
            raise Refusal(_failed(response.error))
        await request.reply(200, completion(response))


def _trouble(fault: Fault) -> bytes:
    return error_frame(fault.type, fault.code, fault.message, fault.param)


def _failed(error: ResponseError | None) -> Fault:
    """Chat completions have no failed answers, only errors."""
    return Fault(
        status=500,
        type="server_error",
        code=error.code if error else None,
        message=error.message if error else "The response failed.",
    )
