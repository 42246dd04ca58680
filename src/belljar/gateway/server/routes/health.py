"""/healthz, /readyz and /metrics, for whoever keeps the gateway running."""

from __future__ import annotations

from belljar.gateway.server.interfaces import Health
from belljar.gateway.server.metrics import Metrics
from belljar.gateway.server.request import Request
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.routing import Route
from belljar.wire.codec import encode

_TEXT = b"text/plain; version=0.0.4; charset=utf-8"


class HealthRoutes:
    def __init__(self, health: Health, metrics: Metrics) -> None:
        self._health = health
        self._metrics = metrics

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/healthz", self.alive, open=True),
            Route("GET", "/readyz", self.ready, open=True),
            Route("GET", "/metrics", self.metrics, open=True),
        ]

    async def alive(self, request: Request) -> Answer:
        return Reply(200, b'{"status":"ok"}')

    async def ready(self, request: Request) -> Answer:
        problems = list(await self._health.problems())
        status = {"status": "not ready", "problems": problems} if problems else {"status": "ready"}
        return Reply(503 if problems else 200, encode(status))

    async def metrics(self, request: Request) -> Answer:
        return Reply(200, self._metrics.text(), type=_TEXT)
