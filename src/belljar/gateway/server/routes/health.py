"""/healthz, /readyz and /metrics, for whoever keeps the gateway running."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from belljar.gateway.server.interfaces import Health
from belljar.gateway.server.metrics import Metrics
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
    def __init__(self, health: Health, metrics: Metrics) -> None:
        self._health = health
        self._metrics = metrics

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/healthz", self.alive, Operation("Whether it lives", json_of(Status)), open=True),
            Route(
                "GET",
                "/readyz",
                self.ready,
                Operation("Whether it can run code", json_of(Status), also=_NOT_READY),
                open=True,
            ),
            Route("GET", "/metrics", self.metrics, Operation("Counters, for Prometheus", _COUNTERS), open=True),
        ]

    async def alive(self, request: Request) -> Answer:
        return Reply(200, _OK)

    async def ready(self, request: Request) -> Answer:
        problems = list(await self._health.problems())
        status = Status(status="not ready", problems=problems) if problems else Status(status="ready")
        return Reply(503 if problems else 200, encode(status))

    async def metrics(self, request: Request) -> Answer:
        return Reply(200, self._metrics.text(), type=_TEXT)
