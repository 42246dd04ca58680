"""What the engine did, counted and written down: for every cell who ran it and how it ended, not what it said."""

from __future__ import annotations

import hashlib
import logging

from belljar.gateway.engine.services import CellRan, TurnDone
from belljar.gateway.server.metrics import Metrics

_log = logging.getLogger("belljar.audit")


class Audit:
    """The engine's observer."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def __call__(self, seen: TurnDone | CellRan) -> None:
        match seen:
            case TurnDone():
                self._turn(seen)
            case CellRan():
                self._cell(seen)

    def _turn(self, turn: TurnDone) -> None:
        self._metrics.turns.add(turn.upstream, turn.model)
        self._metrics.turn_seconds.observe(turn.seconds, turn.upstream)
        if turn.usage is not None:
            self._metrics.tokens.add(turn.upstream, turn.model, "input", by=turn.usage.input_tokens)
            self._metrics.tokens.add(turn.upstream, turn.model, "output", by=turn.usage.output_tokens)

    def _cell(self, cell: CellRan) -> None:
        self._metrics.cells.add(cell.reason or cell.exit)
        self._metrics.cell_seconds.observe(cell.seconds)
        code = cell.code.encode("utf-8", "surrogatepass")
        fields = {
            "request_id": cell.caller.request_id,
            "owner": cell.caller.owner,
            "response_id": cell.response_id,
            "container_id": cell.container_id,
            "status": cell.status,
            "exit": cell.exit,
            "reason": cell.reason,
            "ms": round(cell.seconds * 1000, 2),
            "code_sha256": hashlib.sha256(code).hexdigest(),
            "code_bytes": len(code),
            "files": len(cell.files),
        }
        _log.info("cell %s", cell.exit, extra={"fields": fields})
