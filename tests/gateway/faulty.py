"""`belljar serve` in which the parts that are named in a file break, each time they are used: for `test_broken`."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

from belljar.cli import main
from belljar.gateway.chat_completions.answers import Chunks
from belljar.gateway.engine import background
from belljar.gateway.engine.cell_emitter import CellEmitter
from belljar.gateway.engine.emitter import Emitter
from belljar.gateway.interpreter import Interpreter
from belljar.gateway.server.routes import responses, socket
from belljar.gateway.store.sqlite import SqliteRecords
from belljar.wire.events import TextDelta

BROKEN = Path(os.environ["BROKEN"])


def check(name: str) -> None:
    if name in BROKEN.read_text().split():
        raise RuntimeError(f"{name} broke")


def breaking(owner: Any, member: str, name: str, *, when: Callable[[Any], bool] = lambda given: True) -> None:
    whole = getattr(owner, member)

    def broken(*given: Any, **more: Any) -> Any:
        if when(given[-1] if given else None):
            check(name)
        return whole(*given, **more)

    setattr(owner, member, broken)


async def no_cell(*given: Any, **more: Any) -> AsyncGenerator[Any, None]:
    check("interpreter")
    async for output in RUN(*given, **more):
        yield output


def says(given: Any) -> bool:
    return any(type(event) is TextDelta for event in (given if isinstance(given, list) else [given]))


RUN = Interpreter.run
Interpreter.run = no_cell  # type: ignore[method-assign]
breaking(SqliteRecords, "add_response", "records")
breaking(SqliteRecords, "end_response", "records")
breaking(SqliteRecords, "add_events", "events")
breaking(CellEmitter, "finish_run", "emitter")
breaking(Emitter, "complete", "end")
breaking(responses, "frames", "encoder", when=says)
breaking(background, "sse", "encoder", when=says)
breaking(socket, "encode", "encoder", when=says)
breaking(Chunks, "make_frames", "encoder", when=says)

if __name__ == "__main__":
    raise SystemExit(main())
