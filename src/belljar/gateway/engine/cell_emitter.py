"""The events of a cell that the model wrote: that it runs, what it prints, how it ended."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType, structs

from belljar.gateway.engine.open_items import OpenItem
from belljar.gateway.engine.output import Output
from belljar.vendors.code_argument import Arguments
from belljar.vendors.deltas import Repaired
from belljar.wire import events
from belljar.wire.events import Event
from belljar.wire.items import CellEnd, CodeInterpreterCall, CodeOutput


class CellEmitter:
    """A call of ours whose code is complete, and which waits to be run.

    `repaired` is what was put right of it, `followed` that the model made another call after it in the same turn.
    """

    def __init__(
        self, output: Output, item: OpenItem, arguments: Arguments, repaired: Repaired, *, followed: bool
    ) -> None:
        self.arguments = arguments
        self._output = output
        self._item = item
        self._repaired = repaired
        self._followed = followed

    def begin_run(self) -> list[Event]:
        return self._put(events.Interpreting)

    def show_output(self, stream: Literal["stdout", "stderr"], text: str) -> list[Event]:
        return self._put(events.CodeOutputDelta, stream=stream, delta=text)

    def finish_run(
        self,
        status: Literal["completed", "failed"],
        outputs: tuple[CodeOutput, ...],
        end: CellEnd,
        told: str | UnsetType = UNSET,
    ) -> tuple[list[Event], CodeInterpreterCall]:
        repaired = self._repaired
        item = CodeInterpreterCall(
            id=self._item.id,
            status=status,
            code=self.arguments.code,
            container_id=self._item.facts["container_id"],
            outputs=outputs,
            belljar=structs.replace(end, repaired=repaired.what or None, written=repaired.written, more=self._followed),
            told=told,
        )
        self._output.close_cell(self._item, item)
        return self._output.line.take(), item

    def _put(self, kind: type[Event], **fields: object) -> list[Event]:
        line, item = self._output.line, self._item
        line.put(kind, {"output_index": item.index, "item_id": item.id, **fields})
        return line.take()
