"""Events in one line, numbered, one item at a time: what belongs to a later item waits for those before it."""

from __future__ import annotations

from typing import Any, TypeAlias

from belljar.wire import events
from belljar.wire.events import Event

_Waiting: TypeAlias = tuple[type[Event], dict[str, Any]]


class Line:
    """A model may write its second call while the first has yet to be run: callers see the first one to its end."""

    __slots__ = ("_out", "_waiting", "at", "number")

    def __init__(self) -> None:
        self.number = 0
        """Of the next event."""
        self.at = 0
        """The output index whose events go out; it moves on when that item is done."""
        self._out: list[Event] = []
        self._waiting: dict[int, list[_Waiting]] = {}

    def put(self, kind: type[Event], fields: dict[str, Any]) -> None:
        index = fields.get("output_index")
        if index is not None and index > self.at:
            self._waiting.setdefault(index, []).append((kind, fields))
            return
        self._out.append(kind(sequence_number=self.number, **fields))
        self.number += 1
        done = kind is events.ItemDone
        while done:
            self.at += 1
            done = False
            for kind, fields in self._waiting.pop(self.at, ()):
                self.append(kind(sequence_number=self.number, **fields))
                done = kind is events.ItemDone

    def append(self, event: Event) -> None:
        """An event that bears the next number, and is of the item whose turn it is."""
        self._out.append(event)
        self.number += 1

    def take(self) -> list[Event]:
        out, self._out = self._out, []
        return out
