"""The sandbox server as an ASGI application: who asks, for what, and every failure as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from belljar.errors import InvalidRequest, NotFound
from belljar.http_server.asgi import Receive, Scope, Send
from belljar.http_server.reply import Answer
from belljar.http_server.request import Gone, ProtocolRefusal, Request
from belljar.http_server.routing import Missed, Router
from belljar.http_server.sender import Sender
from belljar.sandbox.server.activity import Running
from belljar.sandbox.server.auth import Guard
from belljar.sandbox.server.health import Health
from belljar.sandbox.server.leases import Leases
from belljar.sandbox.server.routes import SandboxRoutes
from belljar.sandbox.server.wording import Wording

if TYPE_CHECKING:
    from belljar.sandbox.local.source import LocalSource

_STALLED = 60.0
"""Seconds without a byte after which a body is given up."""
_CONTINUE = b"100-continue"


class App:
    """Answers requests. Holds the sandboxes of its clients, not the jail that they are from."""

    def __init__(self, source: LocalSource, guard: Guard, health: Health, *, ping: float) -> None:
        self.wording = Wording()
        self.health = health
        self.running = Running()
        self.leases = Leases(source, self.running, ping=ping)
        self.routes = SandboxRoutes(source, health, self.running, self.leases, ping=ping).routes()
        self._router = Router(self.routes, exact=True)
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, patience=_STALLED)
        try:
            await Sender(request, send, self.wording).answer(self._handle(request))
        except Gone:
            pass  # there is nobody left to tell

    async def _handle(self, request: Request) -> Answer:
        self._guard.check_browser(request.headers)
        found = self._router.find(request.method, request.path)
        if isinstance(found, Missed) or not found.route.open:
            self._guard.check_token(request.headers)
        if isinstance(found, Missed):
            raise self._miss(request, found.allowed)
        expected = request.headers.get(b"expect", _CONTINUE)
        if expected.lower() != _CONTINUE:
            raise InvalidRequest(f"Expect: {expected[:80].decode('latin-1')!r} is not 100-continue; leave it out")
        request.params = found.params
        return await found.route.handler(request)

    def _miss(self, request: Request, allowed: tuple[str, ...]) -> Exception:
        path = request.path[:80]
        if not allowed:
            return NotFound(f"path: there is no {path!r}; the interface is under /v1, and /execute and /health")
        listed = ", ".join(allowed)
        wrong = InvalidRequest(f"method: {request.method[:80]!r} is not for {path!r}; use {listed}")
        fault = self.wording.refusal(wrong, 405).fault
        return ProtocolRefusal(fault, ((b"allow", listed.encode()),))
