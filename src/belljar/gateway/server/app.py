"""The gateway as an ASGI application: who asks, for what, answered by whom; every fault in OpenAI's shape."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext

from belljar.gateway.engine.caller import Caller
from belljar.gateway.server import auth, clients
from belljar.gateway.server.access_log import GONE, Ledger
from belljar.gateway.server.interfaces import Services
from belljar.gateway.server.log import Journal
from belljar.gateway.server.metrics import Metrics
from belljar.gateway.server.options import Options
from belljar.gateway.server.origin import Origins, preflight
from belljar.gateway.server.quota import Quotas
from belljar.gateway.server.request import Request
from belljar.gateway.server.routes import page
from belljar.gateway.server.routes.chat import ChatRoutes
from belljar.gateway.server.routes.containers import ContainerRoutes
from belljar.gateway.server.routes.conversations import ConversationRoutes
from belljar.gateway.server.routes.description import DescriptionRoutes
from belljar.gateway.server.routes.files import Files
from belljar.gateway.server.routes.health import HealthRoutes
from belljar.gateway.server.routes.models import ModelRoutes
from belljar.gateway.server.routes.responses import ResponseRoutes
from belljar.gateway.server.routes.socket import ResponseSocket
from belljar.gateway.server.wording import Wording
from belljar.gateway.upstream import loop_guard
from belljar.http_server.asgi import Message, Receive, Scope, Send
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.request import Gone, Refusal
from belljar.http_server.routing import Found, Missed, Router
from belljar.http_server.sender import Sender
from belljar.wire.faults import Fault

Life = Callable[[], AbstractAsyncContextManager[object]]

_UNMATCHED = "unmatched"
_SHOWN = 200
_FROM = loop_guard.HEADER.encode()
_log = logging.getLogger("belljar.server")


class GatewayApp:
    """`life` is entered before the first request and left after the last."""

    def __init__(
        self,
        services: Services,
        options: Options | None = None,
        *,
        metrics: Metrics | None = None,
        journal: Journal = lambda answered: None,
        life: Life = nullcontext,
        clock: Callable[[], float] = time.monotonic,
        me: str = "",
    ) -> None:
        """`me` is the mark on what this gateway asks of its models."""
        self.wording = Wording()
        self._options = options = options or Options()
        self._keys = services.keys
        metrics = metrics or Metrics()
        self._ledger = Ledger(metrics, journal)
        self._in_flight = metrics.in_flight
        self._life = life
        self._me = me
        self._origins = Origins(options.origins)
        self._quotas = quotas = Quotas(options.quota, services.records, clock, services.engine.in_background)
        self.routes = DescriptionRoutes(
            [
                *ResponseRoutes(services.engine, quotas, options).routes(),
                *ChatRoutes(services.engine, quotas, options).routes(),
                *ConversationRoutes(services.conversations, options).routes(),
                *ContainerRoutes(services, quotas, options).routes(),
                *Files(services.records, services.blobs, quotas, options).routes(),
                *ModelRoutes(services.models).routes(),
                *HealthRoutes(services.health, metrics).routes(),
                *(page.routes(services, quotas, options) if options.page else ()),
            ]
        ).routes()
        self.router = Router(self.routes)
        self._socket = ResponseSocket(services.engine, quotas, self._ledger, options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(Request(scope, receive, patience=self._options.patience), send)
            case "websocket":
                await self._websocket(scope, receive, send)
            case "lifespan":
                await self._lifespan(receive, send)

    # -- HTTP ---------------------------------------------------------------------------------------------------------

    async def _http(self, request: Request, send: Send) -> None:
        found = self.router.find(request.method, request.path)
        sender = Sender(request, send, self.wording)
        self._in_flight.add()
        try:
            await sender.answer(self._handle(request, found))
        except Gone:
            sender.status = GONE
        finally:
            self._in_flight.add(by=-1)
            self._count(request, sender.status, found.route.template if isinstance(found, Found) else _UNMATCHED)

    async def _handle(self, request: Request, found: Found | Missed) -> Answer:
        request.always = self._origins.check(request.headers, keyless=self._keys is None)
        if isinstance(found, Missed):
            return _miss(request, found.allowed)
        came = request.headers.get(_FROM)
        hops = () if came is None else loop_guard.came_through(came)
        if hops and (self._me in hops or len(hops) >= loop_guard.MOST):
            raise Refusal(_loop(hops, self._me))
        request.params = found.params
        if not found.route.open:
            owner = await self._owner(request)
            request.caller = Caller(owner, request.id, clients.live(request.headers), hops)
            self._quotas.request(owner)
        return await found.route.handler(request)

    def _count(self, request: Request, status: int, route: str) -> None:
        told = request.headers.get(b"x-client-request-id")
        client_id = told[:_SHOWN].decode("ascii", "replace") if told else None
        self._ledger.note(request.caller, request.method, route, status, request.seconds, client_id)

    # -- WebSocket ----------------------------------------------------------------------------------------------------

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The handshake is a request like any other, and refused like one."""
        request = Request({**scope, "method": "GET"}, receive, patience=self._options.patience)
        try:
            self._origins.check(request.headers, keyless=self._keys is None)
            if not self._socket.at(request.path):
                message = f"Invalid URL (WebSocket {request.path[:_SHOWN]}). Connect to {self._socket.PATH}."
                raise Refusal(Fault(status=404, type="invalid_request_error", code="unknown_url", message=message))
            caller = Caller(await self._owner(request), request.id, clients.live(request.headers))
        except Exception as error:  # noqa: BLE001 - the sender is the last door
            await Sender(request, _before_accepting(send), self.wording).answer(_raise(error))
        else:
            await self._socket.serve(caller, receive, send, check=lambda: self._owner(request))

    async def _owner(self, request: Request) -> str:
        return await auth.owner(self._keys, request.headers)

    # -- life ---------------------------------------------------------------------------------------------------------

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        stage = "startup"
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._life())
                await send({"type": "lifespan.startup.complete"})
                await receive()
                stage = "shutdown"
        except Exception as error:  # noqa: BLE001 - whatever it is, the server must hear of it
            _log.exception("%s failed", stage)
            await send({"type": f"lifespan.{stage}.failed", "message": str(error)})
        else:
            await send({"type": "lifespan.shutdown.complete"})


def _before_accepting(send: Send) -> Send:
    """Answers to a handshake have types of their own."""

    async def renamed(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return renamed


def _miss(request: Request, allowed: tuple[str, ...]) -> Answer:
    """No such path, no such method, or the question which methods there are."""
    path = request.path[:_SHOWN]
    if not allowed:
        message = f"Invalid URL ({request.method} {path}). The API is under /v1."
        raise Refusal(Fault(status=404, type="invalid_request_error", code="unknown_url", message=message))
    allow = (b"allow", ", ".join(allowed).encode())
    if request.method == "OPTIONS":
        return Reply(204, headers=(allow, *preflight(request.headers)))
    message = f"Not allowed to {request.method} on {path}. Allowed are: {', '.join(allowed)}."
    fault = Fault(status=405, type="invalid_request_error", code="method_not_allowed", message=message)
    raise Refusal(fault, (allow,))


async def _raise(error: Exception) -> Answer:
    raise error


def _loop(hops: Sequence[str], me: str) -> Fault:
    if me not in hops:
        what = f"This request has come through {len(hops)} gateways: most likely an upstream of one leads back to it."
    elif hops[-1] == me:
        what = "This gateway was asked by itself: the address of this upstream leads back to it."
    else:
        what = "This gateway was asked by itself through another one: an upstream of the other leads back to it."
    return Fault(
        status=508,
        type="server_error",
        code="upstream_loop",
        message=f"{what} Change the upstream's base_url, or the OPENAI_BASE_URL with which the gateway was started."
        f" (The header {loop_guard.HEADER} tells the way.)",
        retryable=False,
    )
