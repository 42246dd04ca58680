"""The gateway as an ASGI application: who asks, for what, answered by whom; every fault in OpenAI's shape."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext

from belljar.errors import BelljarError, Unauthenticated
from belljar.gateway.engine.caller import Caller
from belljar.gateway.server import auth, clients, page
from belljar.gateway.server.access_log import GONE, Ledger
from belljar.gateway.server.chat import ChatRoutes
from belljar.gateway.server.containers import ContainerRoutes
from belljar.gateway.server.conversations import ConversationRoutes
from belljar.gateway.server.files import Files
from belljar.gateway.server.health import HealthRoutes
from belljar.gateway.server.http import Gone, Headers, Message, Receive, Refusal, Request, Scope, Send, stopping
from belljar.gateway.server.interfaces import Services
from belljar.gateway.server.log import Journal
from belljar.gateway.server.metrics import Metrics
from belljar.gateway.server.models import ModelRoutes
from belljar.gateway.server.options import Options
from belljar.gateway.server.origin import Origins, preflight
from belljar.gateway.server.quota import Quotas
from belljar.gateway.server.responses import ResponseRoutes
from belljar.gateway.server.routing import Found, Missed, Router
from belljar.gateway.server.socket import ResponseSocket
from belljar.gateway.upstream import loop_guard
from belljar.wire import faults
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
        self._options = options = options or Options()
        self._keys = services.keys
        metrics = metrics or Metrics()
        self._ledger = Ledger(metrics, journal)
        self._in_flight = metrics.in_flight
        self._life = life
        self._me = me
        self._origins = Origins(options.origins)
        self._quotas = quotas = Quotas(options.quota, services.records, clock, services.engine.in_background)
        self._router = Router(
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
        )
        self._socket = ResponseSocket(services.engine, quotas, self._ledger, options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                await self._http(Request(scope, receive, send, patience=self._options.patience))
            case "websocket":
                await self._websocket(scope, receive, send)
            case "lifespan":
                await self._lifespan(receive, send)

    # -- HTTP ---------------------------------------------------------------------------------------------------------

    async def _http(self, request: Request) -> None:
        found = self._router.find(request.method, request.path)
        self._in_flight.add()
        try:
            await self._answer(request, found)
        except Gone:
            request.status = GONE
        finally:
            self._in_flight.add(by=-1)
            self._count(request, found.route.template if isinstance(found, Found) else _UNMATCHED)

    async def _answer(self, request: Request, found: Found | Missed) -> None:
        try:
            await self._handle(request, found)
        except BelljarError as error:
            await self._refuse(request, faults.of(error), _challenge(error))
        except Refusal as refusal:
            await self._refuse(request, refusal.fault, refusal.headers)
        except asyncio.CancelledError:
            # Only the server's own end cancels a request; the task ends here either way.
            await self._refuse(request, stopping())
        except Gone:
            raise
        except Exception:  # noqa: BLE001 - the last door: logged, and the caller learns nothing of our insides
            _log.exception("request %s broke", request.id)
            await self._refuse(request, faults.unexpected(request.id))

    async def _handle(self, request: Request, found: Found | Missed) -> None:
        request.always = self._origins.check(request.headers, keyless=self._keys is None)
        if isinstance(found, Missed):
            await self._miss(request, found.allowed)
            return
        came = request.headers.get(_FROM)
        hops = () if came is None else loop_guard.came_through(came)
        if hops and (self._me in hops or len(hops) >= loop_guard.MOST):
            raise Refusal(_loop(hops, self._me))
        request.params = found.params
        if not found.route.open:
            owner = await self._owner(request)
            request.caller = Caller(owner, request.id, clients.live(request.headers), hops)
            self._quotas.request(owner)
        await found.route.handler(request)

    async def _miss(self, request: Request, allowed: tuple[str, ...]) -> None:
        """No such path, no such method, or the question which methods there are."""
        path = request.path[:_SHOWN]
        if not allowed:
            message = f"Invalid URL ({request.method} {path}). The API is under /v1."
            raise Refusal(Fault(status=404, type="invalid_request_error", code="unknown_url", message=message))
        allow = (b"allow", ", ".join(allowed).encode())
        if request.method == "OPTIONS":
            await request.open(204, (allow, *preflight(request.headers)))
            await request.close()
            return
        message = f"Not allowed to {request.method} on {path}. Allowed are: {', '.join(allowed)}."
        fault = Fault(status=405, type="invalid_request_error", code="method_not_allowed", message=message)
        raise Refusal(fault, (allow,))

    async def _refuse(self, request: Request, fault: Fault, headers: Headers = ()) -> None:
        if request.status:
            _log.error("request %s broke in the middle of its answer: %s", request.id, fault.message)
        else:
            await request.refuse(fault, headers)

    def _count(self, request: Request, route: str) -> None:
        told = request.headers.get(b"x-client-request-id")
        client_id = told[:_SHOWN].decode("ascii", "replace") if told else None
        self._ledger.note(request.caller, request.method, route, request.status, request.seconds, client_id)

    # -- WebSocket ----------------------------------------------------------------------------------------------------

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The handshake is a request like any other, and refused like one."""
        request = Request({**scope, "method": "GET"}, receive, _before_accepting(send), patience=self._options.patience)
        try:
            self._origins.check(request.headers, keyless=self._keys is None)
            if not self._socket.at(request.path):
                message = f"Invalid URL (WebSocket {request.path[:_SHOWN]}). Connect to {self._socket.PATH}."
                raise Refusal(Fault(status=404, type="invalid_request_error", code="unknown_url", message=message))
            caller = Caller(await self._owner(request), request.id, clients.live(request.headers))
        except BelljarError as error:
            await request.refuse(faults.of(error), _challenge(error))
        except Refusal as refusal:
            await request.refuse(refusal.fault, refusal.headers)
        except Exception:  # noqa: BLE001 - the last door: logged, and the caller learns nothing of our insides
            _log.exception("request %s broke", request.id)
            await request.refuse(faults.unexpected(request.id))
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


def _challenge(error: BelljarError) -> Headers:
    return ((b"www-authenticate", b"Bearer"),) if isinstance(error, Unauthenticated) else ()
