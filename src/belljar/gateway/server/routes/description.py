"""/openapi.json: what can be asked of this gateway, made from its routes and their types."""

from __future__ import annotations

from collections.abc import Sequence

from belljar import __version__
from belljar.gateway.server.request import Request
from belljar.http_server.openapi import About, describe
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.routing import Operation, Route, json_of
from belljar.wire.codec import encode
from belljar.wire.faults import ErrorBody

_ABOUT = About(
    title="Belljar gateway",
    version=__version__,
    description="OpenAI's Responses, Chat Completions, Conversations, Containers and Files API, with the code "
    "interpreter on this host. A WebSocket at /v1/responses takes `response.create` and tells the same events.",
    error=ErrorBody,
    key="Where the gateway has keys: `belljar keys`.",
)


class DescriptionRoutes:
    """Described are the routes that it is given, and its own."""

    def __init__(self, routes: Sequence[Route]) -> None:
        own = Route("GET", "/openapi.json", self.show, Operation("This description", json_of(dict)), open=True)
        self._routes = [*routes, own]
        self._made: bytes | None = None

    def routes(self) -> list[Route]:
        """All of them."""
        return self._routes

    async def show(self, request: Request) -> Answer:
        if self._made is None:  # when first asked for: few ask
            self._made = encode(describe(_ABOUT, self._routes))
        return Reply(200, self._made)
