"""The calls of one turn: of the interpreter, the caller's functions, tools that there are not, the provider's code."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, structs

from belljar.gateway.engine.cell_emitter import CellEmitter
from belljar.gateway.engine.open_items import CELL, CUSTOM_CALL, FUNCTION_CALL, ItemKind, OpenItem
from belljar.gateway.engine.output import Output
from belljar.gateway.engine.turn_rules import TurnRules
from belljar.vendors import deltas
from belljar.vendors.code_argument import Arguments, CodeArgument
from belljar.vendors.code_call import NAME
from belljar.wire import events
from belljar.wire.items import (
    CodeInterpreterCall,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
)

_NO_REPAIR = deltas.Repaired("")


class Stray(Struct, frozen=True, kw_only=True):
    """A call of a tool that there is not: between the model and us, so that no caller is asked to execute it."""

    place: int
    """Before which item of its turn it stands."""
    call: FunctionCall | CustomToolCall
    answer: FunctionCallOutput | CustomToolCallOutput
    """What the model hears, after all the calls that it made together with this one."""


class _Call(Struct):
    """A call that the model is writing. Without an item nobody sees it: it strays, or is one too many."""

    item: OpenItem | None = None
    code: CodeArgument | None = None
    """Of a call of ours."""
    repaired: deltas.Repaired = _NO_REPAIR
    stray: deltas.CallBegun | None = None
    place: int = 0
    answer: str = ""


class _Cell(Struct):
    """A call of ours that is complete."""

    item: OpenItem
    arguments: Arguments
    repaired: deltas.Repaired


class TurnCalls:
    """What the model calls in one turn, as it writes it."""

    def __init__(self, output: Output, rules: TurnRules) -> None:
        self.strays: list[Stray] = []
        self.called = False
        """The model called functions of the caller's."""
        self.ignored = False
        """The model called the interpreter though no calls were left to it."""
        self.left = rules.calls_left
        """How often the interpreter may still be called."""
        self._output = output
        self._rules = rules
        self._first = output.size
        self._open: dict[int, _Call] = {}
        self._hosted: dict[int, OpenItem] = {}
        self._cells: list[_Cell] = []
        self._first_call: int | None = None
        """The output index of the first call that callers see."""
        self._last_call = -1
        """The output index of the last call that is complete."""
        self._led = False
        """A stray call stands before all others."""

    @property
    def awaits_answers(self) -> bool:
        """The model called what it has to hear of: this was not its last word."""
        return bool(self._cells or self.called or self.strays)

    def list_cells(self) -> tuple[CellEmitter, ...]:
        """Calls of ours that are complete."""
        return tuple(
            CellEmitter(self._output, one.item, one.arguments, one.repaired, followed=one.item.index < self._last_call)
            for one in self._cells
        )

    def _is_one_too_many(self) -> bool:
        """One at a time was asked for, and not every model heeds it. It may call again when it has the answer."""
        return not self._rules.parallel and bool(self._open or self.awaits_answers)

    def _is_ours(self, begun: deltas.CallBegun) -> bool:
        return not begun.custom and self._rules.is_ours(begun.name)

    def opens_cell(self, begun: deltas.CallBegun) -> bool:
        return self._is_ours(begun) and self.left != 0 and not self._is_one_too_many()

    def begin(self, begun: deltas.CallBegun, repaired: deltas.Repaired, container_id: str) -> None:
        if self._is_one_too_many():
            call = _Call()
        elif self._is_ours(begun):
            call = self._begin_cell(begun, repaired, container_id)
        elif (answer := self._rules.explain_missing(begun.name)) is not None:
            call = _Call(stray=begun, place=self._find_stray_place(), answer=answer)
        else:
            begun = self._rules.restore_name(begun)
            facts: dict[str, Any] = {
                "call_id": begun.call_id,
                "name": begun.name,
                "namespace": begun.namespace or UNSET,
            }
            call = _Call(item=self._open_call(CUSTOM_CALL if begun.custom else FUNCTION_CALL, **facts))
        self._open[begun.index] = call

    def _begin_cell(self, begun: deltas.CallBegun, repaired: deltas.Repaired, container_id: str) -> _Call:
        if self.left is not None:
            if self.left <= 0:
                self.ignored = True
                return _Call()
            self.left -= 1
        if not repaired.what and begun.name != NAME:
            repaired = structs.replace(repaired, what=f"called {begun.name}")
        return _Call(item=self._open_call(CELL, container_id=container_id), code=CodeArgument(), repaired=repaired)

    def _open_call(self, kind: ItemKind, *, id: str | None = None, **facts: object) -> OpenItem:
        item = self._output.open(kind, id=id, **facts)
        if self._first_call is None:
            self._first_call = item.index
        return item

    def _find_stray_place(self) -> int:
        """Where it was made; but one of a turn stands first, as what follows up to its answer is then of that turn."""
        first, self._led = None if self._led else self._first_call, True
        return (self._output.size if first is None else first) - self._first

    def write(self, number: int, text: str) -> None:
        call = self._open.get(number)
        if call is None or call.item is None:
            return
        if call.code is not None:
            _write_code(call.item, call.code.feed(text))
        else:
            call.item.write_text(text)

    def end(self, number: int, arguments: str) -> None:
        call = self._open.pop(number, None)
        if call is None:
            return
        if call.stray is not None:
            self.strays.append(_build_stray(call.stray, arguments, call))
        if call.item is None:
            return
        self._last_call = max(self._last_call, call.item.index)
        if call.code is not None:
            self._end_cell(call.item, call.code, call.repaired)
        else:
            self.called = True
            call.item.replace_text(arguments)
            self._output.close(call.item, "completed")

    def _end_cell(self, item: OpenItem, code: CodeArgument, repaired: deltas.Repaired) -> None:
        arguments = code.result()
        if not repaired.what and arguments.repaired:
            repaired = structs.replace(repaired, what=arguments.repaired)
        _write_code(item, code.rest())
        item.close_parts()
        self._cells.append(_Cell(item, arguments, repaired))

    # -- what the provider runs ---------------------------------------------------------------------------------------

    def has_hosted(self, number: int) -> bool:
        """Whether that cell of the provider's has begun."""
        return number in self._hosted

    def write_hosted(self, delta: deltas.HostedCode) -> OpenItem:
        cell = self._hosted.get(delta.index)
        if cell is None:
            cell = self._open_call(CELL, id=delta.id, container_id=delta.container_id)
            self._hosted[delta.index] = cell
        _write_code(cell, delta.text)
        return cell

    def end_hosted(self, number: int, item: CodeInterpreterCall) -> None:
        shown = self._hosted[number].count_written() if number in self._hosted else 0
        rest = (item.code or "")[shown:]
        cell = self.write_hosted(deltas.HostedCode(number, item.id, item.container_id, rest))
        del self._hosted[number]
        if not item.container_id:
            item = structs.replace(item, container_id=cell.facts["container_id"])
        cell.close_parts()
        self._output.line.put(events.Interpreting, {"output_index": cell.index, "item_id": cell.id})
        self._output.close_cell(cell, item)


def _write_code(item: OpenItem, code: str) -> None:
    if code:
        item.write_text(code)


def _build_stray(begun: deltas.CallBegun, arguments: str, call: _Call) -> Stray:
    id, name = begun.call_id, begun.name
    if begun.custom:
        return Stray(
            place=call.place,
            call=CustomToolCall(call_id=id, name=name, input=arguments),
            answer=CustomToolCallOutput(call_id=id, output=call.answer),
        )
    return Stray(
        place=call.place,
        call=FunctionCall(call_id=id, name=name, arguments=arguments),
        answer=FunctionCallOutput(call_id=id, output=call.answer),
    )
