"""Every answered request, counted and written down."""

from __future__ import annotations

from belljar.gateway.engine.caller import Caller
from belljar.gateway.server.log import AnsweredRequest, Journal
from belljar.gateway.server.metrics import Metrics

GONE = 499
"""The status of a request whose client did not wait."""


class AccessLog:
    """What the doors tell."""

    def __init__(self, metrics: Metrics, journal: Journal) -> None:
        self.metrics = metrics
        self._journal = journal

    def note(
        self, caller: Caller, method: str, route: str, status: int, seconds: float, client_id: str | None = None
    ) -> None:
        self.metrics.requests.add(method, route, str(status))
        self.metrics.seconds.observe(seconds, method, route)
        self._journal(
            AnsweredRequest(
                request_id=caller.request_id,
                owner=caller.owner,
                method=method,
                route=route,
                status=status,
                ms=round(seconds * 1000, 2),
                client_request_id=client_id,
            )
        )
