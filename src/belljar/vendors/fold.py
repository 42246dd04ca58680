"""Fold the deltas of an answer into one value, for whoever wants it whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from belljar.vendors.deltas import (
    Begun,
    CallBegun,
    CallEnd,
    Cited,
    ContainerUsed,
    Delta,
    Finish,
    HostedEnd,
    PassThrough,
    Refused,
    Text,
    ThoughtEnd,
    UsageDelta,
)
from belljar.wire.items import Annotation, OtherItem, Reasoning
from belljar.wire.responses import Usage


class FunctionCalled(Struct, frozen=True):
    """A function that the model wants called."""

    id: str
    name: str
    arguments: str


class Folded(Struct, frozen=True, kw_only=True):
    """One answer."""

    id: str | None = None
    """The vendor's, by which it may remember the conversation."""
    text: str = ""
    """All that was said; a refusal is something said, too."""
    last_text: str = ""
    """What was said after the last call or cell, which is where a typed answer is."""
    refusal: str | None = None
    calls: tuple[FunctionCalled, ...] = ()
    cells: tuple[HostedEnd, ...] = ()
    """What the vendor ran itself."""
    passed: tuple[OtherItem, ...] = ()
    """Items of the vendor's own tools."""
    citations: tuple[Annotation, ...] = ()
    thoughts: tuple[Reasoning, ...] = ()
    container: ContainerUsed | None = None
    finish: Literal["stop", "calls", "length", "filtered"] = "stop"
    unknown_finish: bool = False
    """The vendor gave another reason, which we do not know."""
    usage: Usage | None = None


def fold(deltas: Iterable[Delta]) -> Folded:
    """The whole of it. Each request that a pause made of one answer tells its own usage: they are added up."""
    id: str | None = None
    said: list[str] = []
    last: list[str] = []
    refused: list[str] = []
    names: dict[int, tuple[str, str]] = {}
    calls: list[FunctionCalled] = []
    cells: list[HostedEnd] = []
    passed: list[OtherItem] = []
    citations: list[Annotation] = []
    thoughts: list[Reasoning] = []
    container: ContainerUsed | None = None
    finish = Finish("stop")
    usage: Usage | None = None
    for delta in deltas:
        match delta:
            case Begun():
                id = delta.id
            case Text() | Refused():
                said.append(delta.text)
                last.append(delta.text)
                if isinstance(delta, Refused):
                    refused.append(delta.text)
            case Cited():
                citations.append(delta.annotation)
            case ThoughtEnd():
                thoughts.append(delta.item)
            case CallBegun():
                names[delta.index] = (delta.call_id, delta.name)
                last.clear()
            case CallEnd():
                calls.append(FunctionCalled(*names[delta.index], delta.arguments))
            case HostedEnd():
                cells.append(delta)
                last.clear()
            case PassThrough():
                passed.append(delta.item)
                last.clear()
            case ContainerUsed():
                container = delta
            case UsageDelta():
                usage = delta.usage if usage is None else usage + delta.usage
            case Finish():
                finish = delta
            case _:
                pass  # pieces of what is whole in one of the above
    return Folded(
        id=id,
        text="".join(said),
        last_text="".join(last),
        refusal="".join(refused) or None,
        calls=tuple(calls),
        cells=tuple(cells),
        passed=tuple(passed),
        citations=tuple(citations),
        thoughts=tuple(thoughts),
        container=container,
        finish=finish.reason,
        unknown_finish=finish.unknown,
        usage=usage,
    )
