"""/v1/models: which models can be asked for."""

from __future__ import annotations

from collections.abc import Sequence

from belljar.gateway.server import objects
from belljar.gateway.server.interfaces import ModelInfo, Models
from belljar.gateway.server.request import Request
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.request import ProtocolRefusal
from belljar.http_server.routing import Operation, Route, json_of
from belljar.wire.answers import ListedModel, ModelList
from belljar.wire.codec import encode
from belljar.wire.faults import Fault


class ModelRoutes:
    def __init__(self, models: Models) -> None:
        self._models = models

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/v1/models", self.index, Operation("Models that can be asked for", json_of(ModelList))),
            Route("GET", "/v1/models/{id+}", self.get, Operation("One of them", json_of(ListedModel))),
        ]

    async def index(self, request: Request) -> Answer:
        data = tuple([objects.build_model(info) for info in await self._list_current(request)])
        return Reply(200, encode(ModelList(data=data)))

    async def get(self, request: Request) -> Answer:
        id = request.params["id"]
        for info in await self._list_current(request):
            if id in (info.id, f"{info.owned_by}/{info.id}"):
                return Reply(200, encode(objects.build_model(info)))
        raise ProtocolRefusal(
            Fault(
                status=404,
                type="invalid_request_error",
                param="model",
                code="model_not_found",
                message=f"The model '{id}' does not exist. GET /v1/models lists those there are.",
            )
        )

    async def _list_current(self, request: Request) -> Sequence[ModelInfo]:
        """Another gateway that looks for models gets those we know: two that look for each other would never end."""
        return await (self._models.list() if request.caller.hops else self._models.look())
