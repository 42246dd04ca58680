"""The gateway as an ASGI application: who asks, for what, answered by whom; every fault in OpenAI's shape."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from urllib.parse import unquote

from belljar.errors import BelljarError, HeldElsewhere
from belljar.gateway.engine.caller import Caller
from belljar.gateway.peers import DROP, LOOK
from belljar.gateway.peers import HEADER as PEER
from belljar.gateway.server import auth, clients
from belljar.gateway.server.access_log import GONE, AccessLog
from belljar.gateway.server.interfaces import ServerServices
from belljar.gateway.server.log import Journal
from belljar.gateway.server.metrics import Metrics
from belljar.gateway.server.options import ServerOptions
from belljar.gateway.server.origin import Origins, answer_preflight
from belljar.gateway.server.quota import Quotas
from belljar.gateway.server.request import Request
from belljar.gateway.server.routes import page
from belljar.gateway.server.routes.chat import ChatRoutes
from belljar.gateway.server.routes.containers import ContainerRoutes
from belljar.gateway.server.routes.conversations import ConversationRoutes
from belljar.gateway.server.routes.description import ABOUT
from belljar.gateway.server.routes.files import FileRoutes
from belljar.gateway.server.routes.health import HealthRoutes
from belljar.gateway.server.routes.models import ModelRoutes
from belljar.gateway.server.routes.responses import ResponseRoutes
from belljar.gateway.server.routes.socket import PassOn, ResponseSocket
from belljar.gateway.server.wording import Wording
from belljar.gateway.store.keys import LOCAL
from belljar.gateway.upstream import loop_guard
from belljar.http_server.asgi import Message, Receive, Scope, Send
from belljar.http_server.description import with_description
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.request import Gone, ProtocolRefusal
from belljar.http_server.routing import Found, Missed, Router
from belljar.http_server.sender import Sender
from belljar.wire.faults import Fault
from belljar.worker_threads import WorkerThreads

Life = Callable[[], AbstractAsyncContextManager[object]]

_UNMATCHED = "unmatched"
_DROP = re.compile(re.escape(DROP).replace(r"\{id\}", "([^/]+)"))
_SHOWN = 200
_READERS = 2
"""Large bodies that are read at once: the interpreter runs one thread at a time, and so more would only use memory."""
_FROM = loop_guard.HEADER.encode()
_OF_HANDSHAKE = (b"sec-websocket-", b"accept-encoding")
"""Headers by which a WebSocket begins: they say nothing of what is asked over it."""
_log = logging.getLogger("belljar.server")


class GatewayApp:
    """`life` is entered before the first request and left after the last."""

    def __init__(
        self,
        services: ServerServices,
        options: ServerOptions | None = None,
        *,
        metrics: Metrics | None = None,
        journal: Journal = lambda answered: None,
        life: Life = nullcontext,
        clock: Callable[[], float] = time.monotonic,
        me: str = "",
    ) -> None:
        """`me` is the mark on what this gateway asks of its models."""
        self.wording = Wording()
        self._options = options = options or ServerOptions()
        self._keys = services.keys
        self._peers = services.peers
        self._containers = services.containers
        self._models = services.models
        metrics = metrics or Metrics()
        self._access_log = AccessLog(metrics, journal)
        self._in_flight = metrics.in_flight
        self._life = life
        self._me = me
        self._origins = Origins(options.origins)
        self._quotas = quotas = Quotas(
            options.quota,
            services.records,
            clock,
            shared=None if services.peers is None else services.peers.membership,
        )
        self.routes = with_description(
            ABOUT,
            [
                *ResponseRoutes(services.engine, quotas, options).routes(),
                *ChatRoutes(services.engine, quotas, options).routes(),
                *ConversationRoutes(services.conversations, options).routes(),
                *ContainerRoutes(services, quotas, options).routes(),
                *FileRoutes(services.records, services.blobs, quotas, options, services.clock).routes(),
                *ModelRoutes(services.models).routes(),
                *HealthRoutes(services.health, metrics, services.peers).routes(),
                *(page.routes(services, quotas, options) if options.page else ()),
            ],
            open=True,
        )
        self.router = Router(self.routes)
        self._readers = WorkerThreads("belljar-bodies", _READERS)
        self._socket = ResponseSocket(services.engine, quotas, self._access_log, options, self._readers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._serve_http(self._request(scope, receive), send)
            case "websocket":
                await self._serve_websocket(scope, receive, send)
            case "lifespan":
                await self._serve_lifespan(receive, send)

    def _request(self, scope: Scope, receive: Receive) -> Request:
        return Request(scope, receive, patience=self._options.patience, readers=self._readers)

    # -- HTTP ---------------------------------------------------------------------------------------------------------

    async def _serve_http(self, request: Request, send: Send) -> None:
        found = self.router.find(request.method, request.path)
        sender = Sender(request, send, self.wording)
        self._in_flight.add()
        try:
            instead = None if self._peers is None else lambda error: self._pass_on(request, error)
            await sender.answer(self._handle(request, found), instead)
        except Gone:
            sender.status = GONE
        finally:
            self._in_flight.add(by=-1)
            self._log_request(request, sender.status, found.route.template if isinstance(found, Found) else _UNMATCHED)

    async def _handle(self, request: Request, found: Found | Missed) -> Answer:
        keyless = await self._is_keyless()
        request.always = self._origins.check(request.headers, keyless=keyless)
        if self._peers is not None and PEER in request.headers:
            request.forwarded = await self._peers.is_signed(request.method, _target(request), request.headers)
            if request.forwarded and (dropped := _DROP.fullmatch(request.path)):
                await self._containers.drop(unquote(dropped[1]))
                return Reply(204)
            if request.forwarded and request.path == LOOK:
                self._models.renew()
                return Reply(204)
        if isinstance(found, Missed):
            return _answer_missed(request, found.allowed)
        came = request.headers.get(_FROM)
        hops = () if came is None else loop_guard.read_hops(came)
        if hops and (self._me in hops or len(hops) >= loop_guard.MOST):
            raise ProtocolRefusal(_build_loop_fault(hops, self._me))
        request.params = found.params
        if not found.route.open:
            owner = LOCAL if keyless else await self._find_owner(request)
            request.caller = Caller(owner, request.id, clients.wants_live_output(request.headers), hops)
            if not request.forwarded:  # then it was counted where it came in
                await self._quotas.count_request(owner)
        return await found.route.handler(request)

    async def _pass_on(self, request: Request, error: BelljarError) -> Answer:
        """What another gateway has to answer, it answers; once, so that two never send a request to and fro."""
        if self._peers is None or not isinstance(error, HeldElsewhere) or request.forwarded:
            raise error
        return await self._peers.pass_on(error, request.method, _target(request), request.headers, request.sent)

    def _log_request(self, request: Request, status: int, route: str) -> None:
        told = request.headers.get(b"x-client-request-id")
        client_id = told[:_SHOWN].decode("ascii", "replace") if told else None
        self._access_log.note(request.caller, request.method, route, status, request.seconds, client_id)

    # -- WebSocket ----------------------------------------------------------------------------------------------------

    async def _serve_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The handshake is a request like any other, and refused like one."""
        request = self._request({**scope, "method": "GET"}, receive)
        try:
            self._origins.check(request.headers, keyless=await self._is_keyless())
            if not self._socket.serves(request.path):
                message = f"Invalid URL (WebSocket {request.path[:_SHOWN]}). Connect to {self._socket.PATH}."
                raise ProtocolRefusal(
                    Fault(status=404, type="invalid_request_error", code="unknown_url", message=message)
                )
            caller = Caller(await self._find_owner(request), request.id, clients.wants_live_output(request.headers))
        except Exception as error:  # noqa: BLE001 - the sender is the last door
            await Sender(request, _rename_messages(send), self.wording).answer(_raise(error))
        else:
            await self._socket.serve(
                caller, receive, send, check=lambda: self._find_owner(request), pass_on=self._pass_turns_on(request)
            )

    def _pass_turns_on(self, request: Request) -> PassOn | None:
        """How a turn of this connection is asked of another gateway: with what the handshake told of its client."""
        peers = self._peers
        if peers is None:
            return None
        headers = {name: value for name, value in request.headers.items() if not name.startswith(_OF_HANDSHAKE)}
        headers[b"content-type"] = b"application/json"
        return lambda error, body: peers.pass_on(error, "POST", self._socket.PATH, headers, body)

    async def _is_keyless(self) -> bool:
        return self._keys is None or not await self._keys.is_needed()

    async def _find_owner(self, request: Request) -> str:
        return await auth.find_owner(self._keys, request.headers)

    # -- life ---------------------------------------------------------------------------------------------------------

    async def _serve_lifespan(self, receive: Receive, send: Send) -> None:
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


def _target(request: Request) -> str:
    """Path and query, as they were sent."""
    query: bytes = request.scope["query_string"]
    return request.path + (f"?{query.decode('latin-1')}" if query else "")


def _rename_messages(send: Send) -> Send:
    """Answers to a handshake have types of their own."""

    async def send_renamed(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return send_renamed


def _answer_missed(request: Request, allowed: tuple[str, ...]) -> Answer:
    """No such path, no such method, or the question which methods there are."""
    path = request.path[:_SHOWN]
    if not allowed:
        message = f"Invalid URL ({request.method} {path}). The API is under /v1."
        raise ProtocolRefusal(Fault(status=404, type="invalid_request_error", code="unknown_url", message=message))
    allow = (b"allow", ", ".join(allowed).encode())
    if request.method == "OPTIONS":
        return Reply(204, headers=(allow, *answer_preflight(request.headers)))
    message = f"Not allowed to {request.method} on {path}. Allowed are: {', '.join(allowed)}."
    fault = Fault(status=405, type="invalid_request_error", code="method_not_allowed", message=message)
    raise ProtocolRefusal(fault, (allow,))


async def _raise(error: Exception) -> Answer:
    raise error


def _build_loop_fault(hops: Sequence[str], me: str) -> Fault:
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
