"""What the engine is handed: its collaborators, its options, and who is told of turns and cells that are over."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from belljar.gateway.containers import Containers
from belljar.gateway.engine.caller import Caller
from belljar.gateway.engine.sealing import Sealer
from belljar.gateway.interpreter import Interpreter
from belljar.gateway.membership import Membership
from belljar.gateway.store.base import Blobs, Records
from belljar.gateway.upstream.models import Models
from belljar.wire.responses import Usage


class EngineOptions(Struct, frozen=True, kw_only=True):
    deadline: float = 1800.0
    """Seconds that one response may take."""
    timeout: float | None = 60.0
    """Seconds that one cell may take by itself: only the deadline shortens it."""
    turns: int = 50
    """Times that the model is asked for one response; in the last one it gets no tools."""
    interpreter: bool = True
    """Whether code is run at all."""
    executor: Literal["belljar", "provider"] = "belljar"
    """Who runs code, where the provider could."""
    parallel: bool = False
    """Cells of one turn run at once: each has a sandbox of its own."""
    patience: float = 0.15
    """Seconds that a stream waits for the model before its first event: a fault until then has an HTTP status."""


class TurnDone(Struct, frozen=True, kw_only=True):
    """The model was asked once."""

    caller: Caller
    response_id: str
    upstream: str
    model: str
    seconds: float
    usage: Usage | None


class CellRan(Struct, frozen=True, kw_only=True):
    """A cell was run: what an audit needs, and nothing of what it printed."""

    caller: Caller
    response_id: str
    container_id: str
    status: str
    exit: str
    reason: str | None
    seconds: float
    code: str
    files: tuple[str, ...]


Observer = Callable[[TurnDone | CellRan], None]


class EngineServices(Struct, frozen=True, kw_only=True):
    """Everything that a run needs of the house."""

    records: Records
    blobs: Blobs
    containers: Containers
    interpreter: Interpreter
    models: Models
    sealer: Sealer
    membership: Membership
    options: EngineOptions
    observe: Observer = lambda seen: None
    clock: Callable[[], float] = time.time
