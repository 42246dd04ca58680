"""Items that callers have seen begin and not end: one class for all, and tables of how each kind is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from belljar.gateway.engine.event_order import Line
from belljar.wire import events, ids
from belljar.wire.events import Event
from belljar.wire.items import (
    Annotation,
    CodeInterpreterCall,
    CustomToolCall,
    FunctionCall,
    ItemStatus,
    Message,
    OutputItem,
    OutputText,
    Reasoning,
    ReasoningText,
    Refusal,
    SummaryText,
)

Cite: TypeAlias = Callable[[str, bool], tuple[Annotation, ...]]
"""The citations of a message's text; the flag says that no other message follows."""
Place: TypeAlias = Literal["summary_index", "content_index", "whole"]
"""By what callers number the parts of an item; `whole` is the text of an item that has only one, without a number."""
_PLACES: tuple[Place, ...] = ("summary_index", "content_index", "whole")
"""In the order in which they are closed."""


class PartKind(Struct, frozen=True, kw_only=True):
    """How a text that grows is told: what announces it, what each piece is, what ends it."""

    place: Place
    added: type[Event] | None = None
    delta: type[Event]
    done: type[Event]
    ended: type[Event] | None = None
    text: str
    """The field that has all of it, of `done` and of the part."""
    also: tuple[str, ...] = ()
    """Facts of the item that `done` tells as well."""
    part: Callable[..., OutputText | Refusal | ReasoningText | SummaryText] | None = None


TEXT = PartKind(
    place="content_index",
    added=events.PartAdded,
    delta=events.TextDelta,
    done=events.TextDone,
    ended=events.PartDone,
    text="text",
    part=OutputText,
)
REFUSAL = PartKind(
    place="content_index",
    added=events.PartAdded,
    delta=events.RefusalDelta,
    done=events.RefusalDone,
    ended=events.PartDone,
    text="refusal",
    part=Refusal,
)
THOUGHT = PartKind(
    place="content_index",
    added=events.PartAdded,
    delta=events.ReasoningDelta,
    done=events.ReasoningDone,
    ended=events.PartDone,
    text="text",
    part=ReasoningText,
)
SUMMARY = PartKind(
    place="summary_index",
    added=events.SummaryPartAdded,
    delta=events.SummaryDelta,
    done=events.SummaryDone,
    ended=events.SummaryPartDone,
    text="text",
    part=SummaryText,
)
ARGUMENTS = PartKind(
    place="whole", delta=events.ArgumentsDelta, done=events.ArgumentsDone, text="arguments", also=("name",)
)
INPUT = PartKind(place="whole", delta=events.CustomInputDelta, done=events.CustomInputDone, text="input")
CODE = PartKind(place="whole", delta=events.CodeDelta, done=events.CodeDone, text="code")


class ItemKind(Struct, frozen=True, kw_only=True):
    """How an item is told: `build` gives it as it is by now, when it begins, ends or is cut short."""

    id: ids.Kind
    build: Callable[[OpenItem, ItemStatus], OutputItem]
    started: type[Event] | None = None
    text: PartKind | None = None
    """Of an item that is one text."""


def _build_message(item: OpenItem, status: ItemStatus) -> Message:
    return Message(id=item.id, role="assistant", status=status, content=tuple(item.content), **item.facts)


def _build_reasoning(item: OpenItem, status: ItemStatus) -> Reasoning:
    """What goes back to the vendor is its own seal of it, else ours."""
    facts = dict(item.facts)
    if item.content:
        facts["content"] = tuple(item.content)
        if item.seal is not None and (raw := item.content[0].text):
            facts.setdefault("encrypted_content", item.seal(raw))
    return Reasoning(id=item.id, summary=tuple(item.summary), **facts)


def _build_function_call(item: OpenItem, status: ItemStatus) -> FunctionCall:
    return FunctionCall(id=item.id, arguments=item.text, status=status, **item.facts)


def _build_custom_call(item: OpenItem, status: ItemStatus) -> CustomToolCall:
    return CustomToolCall(id=item.id, input=item.text, status=status, **item.facts)


def _build_cell(item: OpenItem, status: ItemStatus) -> CodeInterpreterCall:
    return CodeInterpreterCall(id=item.id, status=status, code=item.text, outputs=(), **item.facts)


MESSAGE = ItemKind(id="msg", build=_build_message)
REASONING = ItemKind(id="rs", build=_build_reasoning)
FUNCTION_CALL = ItemKind(id="fc", build=_build_function_call, text=ARGUMENTS)
CUSTOM_CALL = ItemKind(id="ctc", build=_build_custom_call, text=INPUT)
CELL = ItemKind(id="ci", build=_build_cell, started=events.CodeStarted, text=CODE)


class OpenPart:
    """A text that still grows."""

    __slots__ = ("_line", "_where", "annotations", "item_id", "kind", "logprobs", "number", "output_index", "pieces")

    def __init__(self, kind: PartKind, output_index: int, item_id: str, number: int, line: Line) -> None:
        self.kind = kind
        self.output_index = output_index
        self.item_id = item_id
        self.number = number
        self.pieces: list[str] = []
        self.logprobs: list[object] = []
        self.annotations: list[Annotation] = []
        self._line = line
        self._where: dict[str, object] = {"output_index": output_index, "item_id": item_id}
        if kind.place != "whole":
            self._where[kind.place] = number

    def put(self, kind: type[Event], **fields: object) -> None:
        """An event of this part."""
        self._line.put(kind, {**self._where, **fields})

    def write(self, text: str, **more: object) -> None:
        self.pieces.append(text)
        self._line.put(self.kind.delta, {**self._where, "delta": text, **more})


class OpenItem:
    """One item from its first event to its last but one, `output_item.done`."""

    __slots__ = ("_cite", "_line", "_open", "content", "facts", "id", "index", "kind", "seal", "summary", "text")

    def __init__(self, kind: ItemKind, index: int, id: str, facts: dict[str, Any], line: Line, cite: Cite) -> None:
        self.kind = kind
        self.index = index
        self.id = id
        self.facts = facts
        """What there is of it beside its text, by the fields of the item."""
        self.content: list[Any] = []
        self.summary: list[Any] = []
        self.text = ""
        """Of an item that is one text, once that is complete."""
        self.seal: Callable[[str], str] | None = None
        """Of reasoning: how callers who keep the conversation are handed what came raw."""
        self._line = line
        self._cite = cite
        self._open: dict[Place, OpenPart] = {}
        line.put(events.ItemAdded, {"output_index": index, "item": kind.build(self, "in_progress")})
        if kind.started is not None:
            line.put(kind.started, {"output_index": index, "item_id": id})
        if kind.text is not None:
            self.begin_part(kind.text)

    def find_part(self, kind: PartKind) -> OpenPart:
        """The part of that kind which grows: a new one where it is of another, or none does."""
        part = self._open.get(kind.place)
        return part if part is not None and part.kind is kind else self.begin_part(kind)

    def count_parts(self, kind: PartKind) -> int:
        """How many there are in its place, with the one that grows."""
        return len(self._list_parts(kind)) + (kind.place in self._open)

    def begin_part(self, kind: PartKind) -> OpenPart:
        """A new one; the one that grew in its place is complete."""
        if (before := self._open.get(kind.place)) is not None:
            self._close_part(before, last=False)
        part = OpenPart(kind, self.index, self.id, len(self._list_parts(kind)), self._line)
        self._open[kind.place] = part
        if kind.added is not None and kind.part is not None:
            part.put(kind.added, part=kind.part(**{kind.text: ""}))
        return part

    def write_text(self, text: str) -> None:
        """Of an item that is one text."""
        self._open["whole"].write(text)

    def replace_text(self, text: str) -> None:
        """The text is this in whole, however it was written."""
        part = self._open["whole"]
        if text and not part.pieces:
            part.write(text)
        part.pieces = [text]

    def count_written(self) -> int:
        """Characters so far of an item that is one text."""
        return sum(map(len, self._open["whole"].pieces))

    def close_parts(self, *, last: bool = False) -> None:
        """Nothing more is written; `last` says that no other message follows."""
        for place in _PLACES:
            if (part := self._open.get(place)) is not None:
                self._close_part(part, last=last)

    def _close_part(self, part: OpenPart, *, last: bool) -> None:
        kind, text = part.kind, "".join(part.pieces)
        del self._open[kind.place]
        tells: dict[str, Any] = {kind.text: text}
        has: dict[str, Any] = {kind.text: text}
        if kind is TEXT:
            annotations = (*part.annotations, *self._cite(text, last))
            for number, annotation in enumerate(annotations):
                part.put(events.AnnotationAdded, annotation_index=number, annotation=annotation)
            tells["logprobs"] = has["logprobs"] = tuple(part.logprobs)
            has["annotations"] = annotations
        part.put(kind.done, **tells, **{name: self.facts[name] for name in kind.also})
        if kind.ended is None or kind.part is None:
            self.text = text
            return
        whole = kind.part(**has)
        part.put(kind.ended, part=whole)
        self._list_parts(kind).append(whole)

    def _list_parts(self, kind: PartKind) -> list[Any]:
        return self.summary if kind.place == "summary_index" else self.content
