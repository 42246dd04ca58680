"""/healthz, /readyz and /metrics, for whoever keeps the gateway running."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from belljar.gateway.peers import Peers
from belljar.gateway.server.interfaces import Health
from belljar.gateway.server.metrics import Metrics, merge
from belljar.gateway.server.request import Request
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.routing import Content, Operation, Route, json_of
from belljar.wire.codec import encode

_TEXT = b"text/plain; version=0.0.4; charset=utf-8"


class Status(Struct, frozen=True, kw_only=True, omit_defaults=True):
    status: Literal["ok", "ready", "not ready"]
    problems: list[str] = field(default_factory=list)


_OK = encode(Status(status="ok"))
_NOT_READY = ((503, "Not now, and why"),)
_COUNTERS = (Content(None, "text/plain"),)


class HealthRoutes:
    def __init__(self, health: Health, metrics: Metrics, peers: Peers | None = None) -> None:
        self._health = health
        self._peers = peers
        self._metrics = metrics

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/healthz", self.report_alive, Operation("Whether it lives", json_of(Status)), open=True),
            Route(
                "GET",
                "/readyz",
                self.report_ready,
                Operation("Whether it can run code", json_of(Status), also=_NOT_READY),
                open=True,
            ),
            Route("GET", "/metrics", self.show_metrics, Operation("Counters, for Prometheus", _COUNTERS), open=True),
        ]

    async def report_alive(self, request: Request) -> Answer:
        return Reply(200, _OK)

    async def report_ready(self, request: Request) -> Answer:
        problems = list(await self._health.problems())
        status = Status(status="not ready", problems=problems) if problems else Status(status="ready")
        return Reply(503 if problems else 200, encode(status))

    async def show_metrics(self, request: Request) -> Answer:
        """Of all workers behind one port: whoever scrapes gets any of them."""
        text = self._metrics.format_text()
        if self._peers is not None and not request.forwarded:
            text = merge([text, *await self._peers.fetch_beside("/metrics")])
        return Reply(200, text, type=_TEXT)
