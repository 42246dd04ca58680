"""The output of one response: its items in their order, each begun, done, and shown as the caller asked to see it."""

from __future__ import annotations

from msgspec import UNSET, structs

from belljar.gateway.engine.event_order import Line
from belljar.gateway.engine.open_items import Cite, ItemKind, OpenItem
from belljar.wire import events, ids
from belljar.wire.items import CellEnd, CodeInterpreterCall, ItemStatus, Message, OutputItem, Reasoning


class Output:
    """The only place that gives an item its index and its id. `live` is for callers who take events of ours."""

    def __init__(self, response_id: str, *, include: frozenset[str], cite: Cite, live: bool) -> None:
        self.line = Line()
        self._response_id = response_id
        self._include = include
        self._cite = cite
        self._live = live
        self._items: list[OutputItem | None] = []
        """By output index; None while open."""
        self._open: dict[int, OpenItem] = {}

    @property
    def size(self) -> int:
        """How many items there are, with those that are open."""
        return len(self._items)

    def list_items(self, first: int = 0, end: int | None = None) -> tuple[OutputItem, ...]:
        """The finished ones between two indexes, with everything in them, as they are kept."""
        return tuple([item for item in self._items[first:end] if item is not None])

    def show_items(self) -> tuple[OutputItem, ...]:
        """The finished ones as the caller asked to see them."""
        return tuple([show_item(item, self._include) for item in self._items if item is not None])

    def next_id(self, kind: ids.Kind) -> str:
        """The id that the next item will have."""
        return ids.within(kind, self._response_id, len(self._items))

    def open(self, kind: ItemKind, *, id: str | None = None, **facts: object) -> OpenItem:
        index, id = len(self._items), id or self.next_id(kind.id)
        item = self._open[index] = OpenItem(kind, index, id, facts, self.line, self._cite)
        self._items.append(None)
        return item

    def close(self, item: OpenItem, status: ItemStatus, *, last: bool = False) -> None:
        """Done as it is by now. The last message cites what nobody mentioned."""
        item.close_parts(last=last)
        self._finish(item.index, item.kind.build(item, status))

    def close_cell(self, item: OpenItem, done: CodeInterpreterCall) -> None:
        """A cell has run."""
        failed = done.status == "failed" and self._live
        kind = events.InterpretingFailed if failed else events.Interpreted
        self.line.put(kind, {"output_index": item.index, "item_id": item.id})
        self._finish(item.index, done)

    def close_all(self) -> None:
        """What is open is cut: marked, and no code of it is run."""
        for item in [*self._open.values()]:
            self.close(item, "incomplete", last=True)

    def add(self, item: OutputItem) -> None:
        """One that is complete from the start."""
        index = self.size
        self._items.append(None)
        self.line.put(events.ItemAdded, {"output_index": index, "item": item})
        self._finish(index, item)

    def _finish(self, index: int, item: OutputItem) -> None:
        self._items[index] = item
        self._open.pop(index, None)
        self.line.put(events.ItemDone, {"output_index": index, "item": show_item(item, self._include)})


def show_item(item: OutputItem, include: frozenset[str]) -> OutputItem:
    """An item as the caller asked to see it."""
    # By exact types: a struct needs 170 ns to say that it is no instance.
    if type(item) is Message:
        return structs.replace(item, sealed=UNSET) if item.sealed else item
    if type(item) is CodeInterpreterCall:
        if "code_interpreter_call.outputs" in include:
            return structs.replace(item, told=UNSET)
        end = item.belljar
        if isinstance(end, CellEnd):
            end = structs.replace(end, stdout=None, stderr=None)
        return structs.replace(item, outputs=None, belljar=end, told=UNSET)
    if type(item) is Reasoning and item.encrypted_content:
        return item if "reasoning.encrypted_content" in include else structs.replace(item, encrypted_content=UNSET)
    return item
