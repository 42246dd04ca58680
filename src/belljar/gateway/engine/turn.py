"""One turn of the model: its deltas in, the events of its items out, and in the end what is left to do. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from belljar.gateway.engine.cell_emitter import CellEmitter
from belljar.gateway.engine.open_items import (
    MESSAGE,
    REASONING,
    REFUSAL,
    SUMMARY,
    TEXT,
    THOUGHT,
    ItemKind,
    OpenItem,
    OpenPart,
)
from belljar.gateway.engine.output import Output
from belljar.gateway.engine.turn_calls import Stray, TurnCalls
from belljar.gateway.engine.turn_rules import TurnRules
from belljar.vendors import deltas
from belljar.vendors.deltas import Delta
from belljar.vendors.vendor_tag import tag_reasoning
from belljar.wire import events
from belljar.wire.events import Event
from belljar.wire.items import Message, OutputItem, Reasoning
from belljar.wire.responses import Usage


class TurnResult(Struct, frozen=True, kw_only=True):
    """What a turn came to."""

    finish: Literal["stop", "calls", "length", "filtered"] | None
    cells: tuple[CellEmitter, ...]
    """To be run, in this order."""
    calls: bool
    """The model called functions of the caller's."""
    strays: tuple[Stray, ...]
    answered: bool
    """The model said something, or left it to functions of the caller's."""
    ignored: bool
    """The model called the interpreter though no calls were left to it."""
    usage: Usage | None
    calls_left: int | None


class Turn:
    """What the model says when it is asked once.

    Where `needs_container` holds after `feed`, the model has begun a call of ours and there is no container yet: call
    `house` with one. The events so far come with that.
    """

    def __init__(self, output: Output, rules: TurnRules) -> None:
        self.usage: Usage | None = None
        """As far as it is known yet."""
        self._output = output
        self._rules = rules
        self._container_id = rules.container_id
        self._first = output.size
        self._end: int | None = None
        self._finish: Literal["stop", "calls", "length", "filtered"] | None = None
        self._held: list[Delta] | None = None
        """From the call on that needs a container."""
        self._speech: OpenItem | None = None
        """The message or reasoning that grows: never both."""
        self._text: OpenPart | None = None
        """Of the message, while text comes in a row: a stream is mostly that, and it is looked up once."""
        self._calls = TurnCalls(output, rules)
        self._repaired = deltas.Repaired("")
        """What was put right of the call that comes next."""

    @property
    def needs_container(self) -> bool:
        return self._held is not None

    def feed(self, said: Iterable[Delta]) -> list[Event]:
        assert self._held is None, "house() comes first"
        line, part = self._output.line, self._text
        coming = iter(said)
        for delta in coming:
            if type(delta) is deltas.Text:
                if part is None:
                    part = self._text = self._speak(MESSAGE).find_part(TEXT)
                if delta.logprobs:
                    part.logprobs.extend(delta.logprobs)
                if part.output_index != line.at:
                    part.write(delta.text, logprobs=delta.logprobs)
                    continue
                part.pieces.append(delta.text)
                line.append(
                    events.TextDelta(
                        sequence_number=line.number,
                        output_index=part.output_index,
                        item_id=part.item_id,
                        content_index=part.number,
                        delta=delta.text,
                        logprobs=delta.logprobs,
                    )
                )
            else:
                part = self._text = None
                if type(delta) is deltas.CallBegun and not self._container_id and self._calls.opens_cell(delta):
                    self._held = [delta, *coming]
                    return []
                self._take(delta)
        return line.take()

    def house(self, container_id: str) -> list[Event]:
        """Go on with what was held back for want of a container."""
        held, self._held = self._held, None
        self._container_id = container_id
        return self.feed(held or ())

    def end(self) -> TurnResult:
        """No more comes."""
        self._end = self._output.size
        calls = self._calls
        return TurnResult(
            finish=self._finish,
            cells=calls.list_cells(),
            calls=calls.called,
            strays=tuple(calls.strays),
            answered=calls.called or any(isinstance(item, Message) for item in self.list_items()),
            ignored=calls.ignored,
            usage=self.usage,
            calls_left=calls.left,
        )

    def list_items(self) -> tuple[OutputItem, ...]:
        """Those of this turn that are finished: its cells are once they have run."""
        return self._output.list_items(self._first, self._end)

    def _take(self, delta: Delta) -> None:
        match delta:
            case deltas.CallPiece(index, text):
                self._calls.write(index, text)
            case deltas.Thought():
                self._write_thought(delta)
            case deltas.ThoughtEnd(item):
                self._end_thought(item)
            case deltas.VendorState(content):
                if self._speech is not None and self._speech.kind is MESSAGE:
                    self._speech.facts["sealed"] = content
            case deltas.Refused(text):
                self._speak(MESSAGE).find_part(REFUSAL).write(text)
            case deltas.Cited(annotation):
                self._speak(MESSAGE).find_part(TEXT).annotations.append(annotation)
            case deltas.CallBegun():
                self._close_speech()
                repaired, self._repaired = self._repaired, deltas.Repaired("")
                self._calls.begin(delta, repaired, self._container_id)
            case deltas.CallEnd(index, arguments):
                self._calls.end(index, arguments)
            case deltas.HostedCode(index):
                self._close_before(index)
                self._calls.write_hosted(delta)
            case deltas.HostedEnd(index, item):
                self._close_before(index)
                self._calls.end_hosted(index, item)
            case deltas.PassThrough(item):
                self._close_speech()
                self._output.add(item)
            case deltas.Finish(reason):
                self._finish = reason
                if reason in ("stop", "calls"):
                    self._close_speech(last=not self._calls.awaits_answers)
            case deltas.UsageDelta(usage):
                # Where a vendor paused, each of its requests tells its own.
                self.usage = usage if self.usage is None else self.usage + usage
            case deltas.Repaired():
                self._repaired = delta
            case deltas.Begun():
                pass  # the vendor's name for the answer: callers know it by ours
            case _:
                raise AssertionError(f"unknown delta {delta!r}")

    def _speak(self, kind: ItemKind) -> OpenItem:
        """The message or reasoning that grows; a new one ends the other."""
        if self._speech is None or self._speech.kind is not kind:
            self._close_speech()
            self._speech = self._output.open(kind)
            self._speech.seal = self._rules.seal
        return self._speech

    def _close_speech(self, *, last: bool = False) -> None:
        speech, self._speech = self._speech, None
        if speech is not None:
            self._output.close(speech, "completed", last=last)

    def _close_before(self, number: int) -> None:
        """A cell of the provider's that begins ends what is said; one that goes on does not."""
        if not self._calls.has_hosted(number):
            self._close_speech()

    def _write_thought(self, delta: deltas.Thought) -> None:
        thought = self._speak(REASONING)
        if delta.kind == "raw":
            thought.find_part(THOUGHT).write(delta.text)
            if not self._rules.summarise:
                return
        while thought.count_parts(SUMMARY) <= delta.index:
            thought.begin_part(SUMMARY)
        thought.find_part(SUMMARY).write(delta.text)

    def _end_thought(self, item: Reasoning) -> None:
        """`item` is the vendor's own account of it: its seal goes before ours."""
        thought = self._speak(REASONING)
        if item.encrypted_content:
            thought.facts["encrypted_content"] = tag_reasoning(item).encrypted_content
        self._close_speech()
