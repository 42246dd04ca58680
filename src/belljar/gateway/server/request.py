"""A request to the gateway: whose it is, and what the API's lists and bodies have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast, get_args

from belljar.errors import InvalidRequest
from belljar.gateway.engine.caller import Caller
from belljar.gateway.store.base import Order, Page
from belljar.http_server import query, request
from belljar.http_server.asgi import Receive, Scope
from belljar.http_server.reply import JSON
from belljar.wire import error_messages, reading
from belljar.wire.items import Json
from belljar.wire.requests import Include
from belljar.worker_threads import WorkerThreads

T = TypeVar("T")

SMALL = 128 << 10
"""Bytes of a body that are read at once: a thread would take longer, and nobody waits long meanwhile."""
_INCLUDES: tuple[Include, ...] = get_args(Include)


class Query(query.Query):
    """With what may be asked of lists, and of what is listed."""

    def read_include(self) -> tuple[Include, ...]:
        return tuple(_read_include(value, at) for at, value in enumerate(self.all("include")))

    def read_page(self, *, default: int = 20, most: int = 100) -> Page:
        """Which part of a list is asked for."""
        return Page(
            limit=self.whole("limit", default, least=1, most=most),
            order=self._read_order(),
            after=self.get("after") or None,
            before=self.get("before") or None,
        )

    def _read_order(self) -> Order:
        match self.get("order"):
            case "asc":
                return "asc"
            case "desc" | None:
                return "desc"
            case other:
                raise error_messages.not_one_of("order", other, ("asc", "desc"))


class Request(request.Request):
    """What was asked, and by whom."""

    __slots__ = ("_readers", "caller", "forwarded", "sent")

    def __init__(self, scope: Scope, receive: Receive, *, patience: float, readers: WorkerThreads) -> None:
        """`readers` read large bodies."""
        super().__init__(scope, receive, patience=patience)
        self._readers = readers
        self.caller = Caller("", self.id)
        self.forwarded = False
        """Another gateway of this store has passed it on."""
        self.sent = b""
        """The body, as far as it was read whole: it may have to be passed on."""

    @property
    def query(self) -> Query:
        if self._query is None:
            self._query = Query(self.scope["query_string"])
        return cast(Query, self._query)

    async def json(self, limit: int, read: Callable[[dict[str, Json]], T]) -> T:
        """What `read` makes of the body, a JSON object; that of a large one in a thread."""
        kind = self.content_type
        if kind and kind != JSON and not kind.endswith(b"+json"):
            raise InvalidRequest(
                f"Unsupported content type: '{kind.decode('latin-1')}'. Send the body as 'application/json'."
            )
        body = self.sent = await self.body(limit)
        if len(body) <= SMALL:
            return read(reading.read_json(body))
        return await self._readers.run(self.caller.owner, lambda: read(reading.read_json(body)))


def _read_include(value: str, at: int) -> Include:
    for known in _INCLUDES:
        if value == known:
            return known
    raise error_messages.not_one_of(f"include[{at}]", value, _INCLUDES)
