"""Deltas in, events out: the only place that numbers, indexes, opens and closes. Knows no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from msgspec import UNSET, UnsetType, structs

from belljar.dialects import deltas
from belljar.dialects.deltas import Delta
from belljar.dialects.marks import keep
from belljar.dialects.partial import Arguments, CodeArgument
from belljar.wire import events, ids
from belljar.wire.events import Event
from belljar.wire.items import (
    Annotation,
    CellEnd,
    CodeInterpreterCall,
    CodeOutput,
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputItem,
    ItemStatus,
    Message,
    OutputItem,
    OutputText,
    Reasoning,
    ReasoningText,
    Refusal,
    SummaryText,
)
from belljar.wire.responses import IncompleteDetails, Response, ResponseError, Usage

_KINDS = {"rate_limit_error": "rate_limit_exceeded", "invalid_request_error": "invalid_prompt"}
"""A response's own error has a closed list of codes; the finer one is in the event before."""

Cite: TypeAlias = Callable[[str, bool], tuple[Annotation, ...]]
"""The citations of a message's text; the flag says that no other message follows."""


def present(item: OutputItem, include: frozenset[str]) -> OutputItem:
    """An item as the caller asked to see it."""
    if isinstance(item, CodeInterpreterCall):
        outputs = item.outputs if "code_interpreter_call.outputs" in include else None
        return structs.replace(item, outputs=outputs, told=UNSET)
    if isinstance(item, Message) and item.sealed:
        return structs.replace(item, sealed=UNSET)
    if isinstance(item, Reasoning) and item.encrypted_content:
        return item if "reasoning.encrypted_content" in include else structs.replace(item, encrypted_content=UNSET)
    return item


class Cell:
    """A call of ours: an item that is open, and the code to run for it."""

    __slots__ = ("_argument", "arguments", "container_id", "id", "index", "repaired", "shown")

    def __init__(self, index: int, id: str, container_id: str, repaired: str | None = None) -> None:
        self.index = index
        self.id = id
        self.container_id = container_id
        self.repaired = repaired
        self.shown = 0
        """Characters of code that a provider has streamed."""
        self.arguments = Arguments(code="")
        self._argument = CodeArgument()

    def feed(self, text: str) -> str:
        """The code that this piece of the arguments adds."""
        return self._argument.feed(text)

    def end(self) -> str:
        """The arguments are complete; the code that could not be shown before they were."""
        self.arguments = self._argument.result()
        self.repaired = self.repaired or self.arguments.repaired
        return self._argument.rest()


class _Message:
    __slots__ = ("annotations", "content", "id", "index", "kind", "logprobs", "pieces", "sealed")

    def __init__(self, index: int, id: str) -> None:
        self.index = index
        self.id = id
        self.content: list[OutputText | Refusal] = []
        self.kind: Literal["text", "refusal"] | None = None
        self.pieces: list[str] = []
        self.logprobs: list[object] = []
        self.annotations: list[Annotation] = []
        self.sealed: str | UnsetType = UNSET


class _Thought:
    __slots__ = ("id", "index", "raw", "summaries")

    def __init__(self, index: int, id: str) -> None:
        self.index = index
        self.id = id
        self.raw: list[str] = []
        self.summaries: list[list[str]] = []


class _Call:
    __slots__ = ("call_id", "custom", "id", "index", "name", "pieces")

    def __init__(self, index: int, id: str, begun: deltas.CallBegun) -> None:
        self.index = index
        self.id = id
        self.call_id = begun.call_id
        self.name = begun.name
        self.custom = begun.custom
        self.pieces: list[str] = []

    def item(self, status: ItemStatus, arguments: str) -> FunctionCall | CustomToolCall:
        if self.custom:
            return CustomToolCall(id=self.id, call_id=self.call_id, name=self.name, input=arguments, status=status)
        return FunctionCall(id=self.id, call_id=self.call_id, name=self.name, arguments=arguments, status=status)


class _Stray:
    """A call of a tool that there is not: between the model and us, so that no caller is asked to execute it."""

    __slots__ = ("arguments", "begun", "place", "told", "turn")

    def __init__(self, begun: deltas.CallBegun, turn: int, place: int, told: str) -> None:
        self.begun = begun
        self.turn = turn
        self.place = place
        """The output index before which it stands."""
        self.told = told
        self.arguments = ""

    @property
    def call(self) -> InputItem:
        id, name = self.begun.call_id, self.begun.name
        if self.begun.custom:
            return CustomToolCall(call_id=id, name=name, input=self.arguments)
        return FunctionCall(call_id=id, name=name, arguments=self.arguments)

    @property
    def answer(self) -> InputItem:
        """What the model hears, after all the calls that it made together with this one."""
        kind = CustomToolCallOutput if self.begun.custom else FunctionCallOutput
        return kind(call_id=self.begun.call_id, output=self.told)


class Emitter:
    """One response, from its first event to its last.

    `ours` tells which function names are the interpreter's, `stray` what the model is to hear of a name that nobody
    declared, `container_id` must be set before a call of ours begins, and `calls_left` counts down what
    `max_tool_calls` leaves: calls beyond it are not seen by anybody.
    """

    def __init__(
        self,
        start: Response,
        *,
        include: frozenset[str] = frozenset(),
        cite: Cite = lambda text, last: (),
        ours: Callable[[str], bool] = lambda name: False,
        stray: Callable[[str], str | None] = lambda name: None,
        calls_left: int | None = None,
    ) -> None:
        self._start = start
        self._include = include
        self._cite = cite
        self._ours = ours
        self._stray = stray
        self.calls_left = calls_left
        self.container_id = ""
        self.items: list[OutputItem | None] = []
        """By output index; None while open."""
        self.cells: list[Cell] = []
        """Of this turn: complete, waiting to be run."""
        self.called = False
        """In this turn the model called functions of the caller's."""
        self.strayed = False
        """In this turn the model called tools that there are not, and has yet to hear so."""
        self.ignored = False
        """In this turn the model called the interpreter though no calls were left to it."""
        self.finish: Literal["stop", "calls", "length", "filtered"] | None = None
        self.usage: Usage | None = None
        """Of all turns."""
        self.turn_usage: Usage | None = None
        """Of this turn: how long the conversation is by now."""
        self.text = ""
        """What the model said in this turn."""
        self._turns = [0]
        """The output index at which each turn began, this one's last."""
        self._number = 0
        self._message: _Message | None = None
        self._thought: _Thought | None = None
        self._calls: dict[int, _Call | Cell | _Stray | None] = {}
        self._strays: list[_Stray] = []
        self._first_call: int | None = None
        """The output index of this turn's first call that callers see."""
        self._led = False
        """A stray call stands before all others of this turn."""
        self._hosted: dict[int, Cell] = {}
        self._repaired: str | None = None
        self._out: list[Event] = []

    # -- life -------------------------------------------------------------------------------------------------------

    def begin(self, *, queued: bool = False) -> list[Event]:
        self._put(events.Created, response=self._start)
        if queued:
            self._put(events.Queued, response=structs.replace(self._start, status="queued"))
        self._put(events.InProgress, response=structs.replace(self._start, status="in_progress"))
        return self._take()

    def next_turn(self) -> None:
        """The model is asked again."""
        self.cells, self.called, self.finish, self.text, self.turn_usage = [], False, None, "", None
        self.strayed = self.ignored = False
        self._turns.append(len(self.items))
        self._first_call, self._led = None, False

    @property
    def answered(self) -> bool:
        """In this turn the model said something, or left it to functions of the caller's."""
        return self.called or any(isinstance(item, Message) for item in self.items[self._turns[-1] :])

    def complete(self, now: int) -> list[Event]:
        """The model is done: the last message cites what nobody mentioned."""
        final = structs.replace(
            self._start, status="completed", completed_at=now, output=self._output(), usage=self.usage or Usage()
        )
        self._put(events.Completed, response=final)
        return self._take()

    def cut(self, reason: Literal["max_output_tokens", "content_filter", "max_messages"]) -> list[Event]:
        """The answer stops short; what is open stays so, marked."""
        self._close_all("incomplete")
        final = structs.replace(
            self._start,
            status="incomplete",
            incomplete_details=IncompleteDetails(reason=reason),
            output=self._output(),
            usage=self.usage or Usage(),
        )
        self._put(events.Incomplete, response=final)
        return self._take()

    def fail(self, *, type: str, code: str, message: str, param: str | None = None) -> list[Event]:
        self._abandon()
        detail = events.ErrorDetail(type=type, code=code, message=message, param=param)
        self._put(events.ErrorEvent, error=detail)
        failed = structs.replace(
            self._start,
            status="failed",
            error=ResponseError(code=_KINDS.get(type, "server_error"), message=message),
            output=self._output(),
            usage=self.usage,
        )
        self._put(events.Failed, response=failed)
        return self._take()

    def cancelled(self) -> Response:
        """The snapshot of a run that was called off; there is no event for it."""
        self._abandon()
        self._take()
        return structs.replace(self._start, status="cancelled", output=self._output(), usage=self.usage)

    def full(self) -> tuple[OutputItem, ...]:
        """The finished items with everything in them, as they are kept."""
        return tuple(item for item in self.items if item is not None)

    def heard(self, start: int) -> tuple[InputItem, ...]:
        """The finished items from that one on as the model knows them: with its stray calls, and our answers."""
        kept = self.full()[start:]
        strays = [one for one in self._strays if one.place >= start]
        if not strays:
            return kept
        heard: list[InputItem] = []
        ends = [*self._turns[1:], start + len(kept)]
        for at in range(start, start + len(kept) + 1):
            for turn in sorted({one.turn for one in strays}):
                heard += [one.call for one in strays if (one.turn, one.place) == (turn, at)]
                heard += [one.answer for one in strays if (one.turn, ends[turn]) == (turn, at)]
            heard += kept[at - start : at - start + 1]
        return tuple(heard)

    def _output(self) -> tuple[OutputItem, ...]:
        return tuple(present(item, self._include) for item in self.items if item is not None)

    # -- what the model says ------------------------------------------------------------------------------------------

    def say(self, said: Iterable[Delta]) -> list[Event]:
        out = self._out
        message: _Message | None = None  # looked up once for text in a row: a stream is mostly that
        for delta in said:
            if type(delta) is deltas.Text:
                if message is None:
                    message = self._part("text")
                message.pieces.append(delta.text)
                if delta.logprobs:
                    message.logprobs.extend(delta.logprobs)
                out.append(
                    events.TextDelta(
                        sequence_number=self._number,
                        output_index=message.index,
                        item_id=message.id,
                        content_index=len(message.content),
                        delta=delta.text,
                        logprobs=delta.logprobs,
                    )
                )
                self._number += 1
            else:
                message = None
                self._say(delta)
        return self._take()

    def _say(self, delta: Delta) -> None:
        match delta:
            case deltas.CallPiece(index, text):
                self._piece(self._calls.get(index), text)
            case deltas.Thought():
                self._think(delta)
            case deltas.ThoughtEnd(item):
                self._close_thought(item)
            case deltas.Sealed(content):
                if self._message is not None:
                    self._message.sealed = content
            case deltas.Refused(text):
                message = self._part("refusal")
                message.pieces.append(text)
                self._put(
                    events.RefusalDelta,
                    output_index=message.index,
                    item_id=message.id,
                    content_index=len(message.content),
                    delta=text,
                )
            case deltas.Cited(annotation):
                self._part("text").annotations.append(annotation)
            case deltas.CallBegun():
                self._begin_call(delta)
            case deltas.CallEnd(index, arguments):
                self._end_call(index, arguments)
            case deltas.HostedCode():
                self._hosted_code(delta)
            case deltas.HostedEnd(index, item):
                self._hosted_end(index, item)
            case deltas.Passed(item):
                self._close_speech(last=False)
                self._whole(item)
            case deltas.Finish(reason):
                self.finish = reason
                if reason in ("stop", "calls"):
                    self._close_speech(last=not (self.cells or self.called or self.strayed))
            case deltas.Spent(usage):
                self.turn_usage = usage
                self.usage = usage if self.usage is None else self.usage + usage
            case deltas.Mended(what):
                self._repaired = what
            case _:
                raise AssertionError(f"unknown delta {delta!r}")

    # -- messages -----------------------------------------------------------------------------------------------------

    def _part(self, kind: Literal["text", "refusal"]) -> _Message:
        message = self._message
        if message is not None and message.kind == kind:
            return message
        if message is None:
            self._close_thought(None)
            index = self._reserve()
            message = self._message = _Message(index, ids.within("msg", self._start.id, index))
            empty = Message(id=message.id, role="assistant", status="in_progress", content=())
            self._put(events.ItemAdded, output_index=index, item=empty)
        elif message.kind is not None:
            self._close_part(message, last=False)
        message.kind = kind
        part: OutputText | Refusal = OutputText(text="") if kind == "text" else Refusal(refusal="")
        self._put(
            events.PartAdded,
            output_index=message.index,
            item_id=message.id,
            content_index=len(message.content),
            part=part,
        )
        return message

    def _close_part(self, message: _Message, *, last: bool) -> None:
        text = "".join(message.pieces)
        where = {"output_index": message.index, "item_id": message.id, "content_index": len(message.content)}
        part: OutputText | Refusal
        if message.kind == "text":
            self.text += text
            annotations = (*message.annotations, *self._cite(text, last))
            for number, annotation in enumerate(annotations):
                self._put(events.AnnotationAdded, **where, annotation_index=number, annotation=annotation)
            logprobs = tuple(message.logprobs)
            self._put(events.TextDone, **where, text=text, logprobs=logprobs)
            part = OutputText(text=text, annotations=annotations, logprobs=logprobs)
        else:
            self._put(events.RefusalDone, **where, refusal=text)
            part = Refusal(refusal=text)
        self._put(events.PartDone, **where, part=part)
        message.content.append(part)
        message.kind, message.pieces, message.annotations, message.logprobs = None, [], [], []

    def _close_message(self, status: ItemStatus, *, last: bool) -> None:
        message, self._message = self._message, None
        if message is None:
            return
        if message.kind is not None:
            self._close_part(message, last=last)
        item = Message(
            id=message.id, role="assistant", status=status, content=tuple(message.content), sealed=message.sealed
        )
        self._done(message.index, item)

    def say_whole(self, text: str) -> list[Event]:
        """A message of our own making, complete: it carries the citations when the model said nothing."""
        self._part("text").pieces.append(text)
        self._close_message("completed", last=True)
        return self._take()

    def _close_speech(self, *, last: bool) -> None:
        self._close_thought(None)
        self._close_message("completed", last=last)

    # -- reasoning ----------------------------------------------------------------------------------------------------

    def _open_thought(self) -> _Thought:
        if self._thought is None:
            self._close_message("completed", last=False)
            index = self._reserve()
            self._thought = _Thought(index, ids.within("rs", self._start.id, index))
            self._put(events.ItemAdded, output_index=index, item=Reasoning(id=self._thought.id))
        return self._thought

    def _think(self, delta: deltas.Thought) -> None:
        thought = self._open_thought()
        where = {"output_index": thought.index, "item_id": thought.id}
        if delta.kind == "raw":
            if not thought.raw:
                self._put(events.PartAdded, **where, content_index=0, part=ReasoningText(text=""))
            thought.raw.append(delta.text)
            self._put(events.ReasoningDelta, **where, content_index=0, delta=delta.text)
            return
        while len(thought.summaries) <= delta.index:
            self._close_summary(thought)
            number = len(thought.summaries)
            thought.summaries.append([])
            self._put(events.SummaryPartAdded, **where, summary_index=number, part=SummaryText(text=""))
        number = len(thought.summaries) - 1
        thought.summaries[number].append(delta.text)
        self._put(events.SummaryDelta, **where, summary_index=number, delta=delta.text)

    def _close_summary(self, thought: _Thought) -> None:
        if not thought.summaries:
            return
        number = len(thought.summaries) - 1
        text = "".join(thought.summaries[number])
        where = {"output_index": thought.index, "item_id": thought.id, "summary_index": number}
        self._put(events.SummaryDone, **where, text=text)
        self._put(events.SummaryPartDone, **where, part=SummaryText(text=text))

    def _close_thought(self, item: Reasoning | None) -> None:
        """`item` is the vendor's own account of it, if there is one."""
        if self._thought is None and item is None:
            return
        thought, self._thought = self._open_thought(), None
        self._close_summary(thought)
        raw = "".join(thought.raw)
        if thought.raw:
            where = {"output_index": thought.index, "item_id": thought.id, "content_index": 0}
            self._put(events.ReasoningDone, **where, text=raw)
            self._put(events.PartDone, **where, part=ReasoningText(text=raw))
        done = Reasoning(
            id=thought.id,
            summary=tuple(SummaryText(text="".join(pieces)) for pieces in thought.summaries),
            content=(ReasoningText(text=raw),) if thought.raw else UNSET,
            encrypted_content=keep(item).encrypted_content if item is not None else UNSET,
        )
        self._done(thought.index, done)

    # -- calls --------------------------------------------------------------------------------------------------------

    def _begin_call(self, begun: deltas.CallBegun) -> None:
        self._close_speech(last=False)
        if not self._start.parallel_tool_calls and (self._calls or self.cells or self.called or self.strayed):
            # One at a time was asked for, and not every model heeds it. It may call again when it has the answer.
            self._calls[begun.index] = None
            return
        if self._ours(begun.name) and not begun.custom:
            if self.calls_left is not None:
                if self.calls_left <= 0:
                    self.ignored = True
                    self._calls[begun.index] = None
                    return
                self.calls_left -= 1
            renamed = None if begun.name == "code_interpreter" else f"called {begun.name}"
            self._calls[begun.index] = self._open_cell(self._repaired or renamed)
            self._repaired = None
            return
        if (told := self._stray(begun.name)) is not None:
            self._calls[begun.index] = _Stray(begun, len(self._turns) - 1, self._stray_place(), told)
            return
        index = self._reserve_call()
        call = _Call(index, ids.within("ctc" if begun.custom else "fc", self._start.id, index), begun)
        self._calls[begun.index] = call
        self._put(events.ItemAdded, output_index=index, item=call.item("in_progress", ""))

    def _open_cell(self, repaired: str | None, *, id: str | None = None, container_id: str | None = None) -> Cell:
        index = self._reserve_call()
        cell = Cell(index, id or ids.within("ci", self._start.id, index), container_id or self.container_id, repaired)
        opened = CodeInterpreterCall(
            id=cell.id, status="in_progress", code="", container_id=cell.container_id, outputs=()
        )
        self._put(events.ItemAdded, output_index=index, item=opened)
        self._put(events.CodeStarted, output_index=index, item_id=cell.id)
        return cell

    def _piece(self, call: _Call | Cell | _Stray | None, text: str) -> None:
        if isinstance(call, Cell):
            code = call.feed(text)
            if code:
                self._put(events.CodeDelta, output_index=call.index, item_id=call.id, delta=code)
        elif isinstance(call, _Call):
            call.pieces.append(text)
            kind = events.CustomInputDelta if call.custom else events.ArgumentsDelta
            self._put(kind, output_index=call.index, item_id=call.id, delta=text)

    def _end_call(self, number: int, arguments: str) -> None:
        call = self._calls.pop(number, None)
        if isinstance(call, Cell):
            if rest := call.end():
                self._put(events.CodeDelta, output_index=call.index, item_id=call.id, delta=rest)
            self._put(events.CodeDone, output_index=call.index, item_id=call.id, code=call.arguments.code)
            self.cells.append(call)
        elif isinstance(call, _Stray):
            self.strayed = True
            call.arguments = arguments
            self._strays.append(call)
        elif call is not None:
            if not call.pieces and arguments:
                self._piece(call, arguments)
            where = {"output_index": call.index, "item_id": call.id}
            if call.custom:
                self._put(events.CustomInputDone, **where, input=arguments)
            else:
                self._put(events.ArgumentsDone, **where, name=call.name, arguments=arguments)
            self.called = True
            self._done(call.index, call.item("completed", arguments))

    def call_ourselves(self, code: str, repaired: str) -> list[Event]:
        """The model wrote code without calling the tool: the call it meant."""
        cell = self._open_cell(repaired)
        cell.arguments = Arguments(code=code)
        self._put(events.CodeDelta, output_index=cell.index, item_id=cell.id, delta=code)
        self._put(events.CodeDone, output_index=cell.index, item_id=cell.id, code=code)
        self.cells.append(cell)
        return self._take()

    # -- running ------------------------------------------------------------------------------------------------------

    def interpreting(self, cell: Cell) -> list[Event]:
        self._put(events.Interpreting, output_index=cell.index, item_id=cell.id)
        return self._take()

    def printed(self, cell: Cell, stream: Literal["stdout", "stderr"], text: str) -> list[Event]:
        self._put(events.CodeOutputDelta, output_index=cell.index, item_id=cell.id, stream=stream, delta=text)
        return self._take()

    def ran(
        self,
        cell: Cell,
        status: Literal["completed", "failed"],
        outputs: tuple[CodeOutput, ...],
        end: CellEnd,
        told: str | UnsetType = UNSET,
    ) -> tuple[list[Event], CodeInterpreterCall]:
        item = CodeInterpreterCall(
            id=cell.id,
            status=status,
            code=cell.arguments.code,
            container_id=cell.container_id,
            outputs=outputs,
            belljar=structs.replace(end, repaired=cell.repaired, more=self._followed(cell)),
            told=told,
        )
        self._put(events.Interpreted, output_index=cell.index, item_id=cell.id)
        self._done(cell.index, item)
        return self._take(), item

    def _followed(self, cell: Cell) -> bool:
        """The model made another call after it in the same turn."""
        later = self.items[cell.index + 1 :]
        called = any(isinstance(item, FunctionCall | CustomToolCall) for item in later)
        return called or any(other.index > cell.index for other in self.cells)

    # -- what the provider runs ---------------------------------------------------------------------------------------

    def _hosted_code(self, delta: deltas.HostedCode) -> None:
        cell = self._hosted.get(delta.index)
        if cell is None:
            self._close_speech(last=False)
            cell = self._hosted[delta.index] = self._open_cell(None, id=delta.id, container_id=delta.container_id)
        if delta.text:
            cell.shown += len(delta.text)
            self._put(events.CodeDelta, output_index=cell.index, item_id=cell.id, delta=delta.text)

    def _hosted_end(self, number: int, item: CodeInterpreterCall) -> None:
        shown = self._hosted[number].shown if number in self._hosted else 0
        code = item.code or ""
        self._hosted_code(deltas.HostedCode(number, item.id, item.container_id, code[shown:]))
        cell = self._hosted.pop(number)
        if not item.container_id:
            item = structs.replace(item, container_id=cell.container_id)
        where = {"output_index": cell.index, "item_id": cell.id}
        self._put(events.CodeDone, **where, code=code)
        self._put(events.Interpreting, **where)
        self._put(events.Interpreted, **where)
        self._done(cell.index, item)

    def compacted(self, item: Compaction) -> list[Event]:
        self._whole(item)
        return self._take()

    # -- the small print ----------------------------------------------------------------------------------------------

    def next_id(self, kind: ids.Kind) -> str:
        """The id that the next item will have."""
        return ids.within(kind, self._start.id, len(self.items))

    def _whole(self, item: OutputItem) -> None:
        index = self._reserve()
        self._put(events.ItemAdded, output_index=index, item=item)
        self._done(index, item)

    def _reserve(self) -> int:
        self.items.append(None)
        return len(self.items) - 1

    def _stray_place(self) -> int:
        """Where it was made; but one of a turn stands first, as what follows up to its answer is then of that turn."""
        first, self._led = None if self._led else self._first_call, True
        return len(self.items) if first is None else first

    def _reserve_call(self) -> int:
        index = self._reserve()
        if self._first_call is None:
            self._first_call = index
        return index

    def _done(self, index: int, item: OutputItem) -> None:
        self.items[index] = item
        self._put(events.ItemDone, output_index=index, item=present(item, self._include))

    def _close_all(self, status: ItemStatus) -> None:
        """What is open is said to be so: a message or call that was cut."""
        self._close_thought(None)
        self._close_message(status, last=True)
        for call in self._calls.values():
            if isinstance(call, _Call):
                self._done(call.index, call.item(status, "".join(call.pieces)))
            elif isinstance(call, Cell):
                call.end()
                self._cut_cell(call)
        for cell in (*self.cells, *self._hosted.values()):
            self._cut_cell(cell)
        self._calls, self._hosted, self.cells = {}, {}, []

    def _cut_cell(self, cell: Cell) -> None:
        if self.items[cell.index] is None:
            item = CodeInterpreterCall(
                id=cell.id, status="incomplete", code=cell.arguments.code, container_id=cell.container_id, outputs=()
            )
            self._done(cell.index, item)

    def _abandon(self) -> None:
        """A failure: open items are closed in the snapshot, without the events of an orderly end."""
        kept, number = self._out, self._number
        self._out = []
        self._close_all("incomplete")
        self._out, self._number = kept, number

    def _put(self, kind: type[Event], **fields: object) -> None:
        self._out.append(kind(sequence_number=self._number, **fields))
        self._number += 1

    def _take(self) -> list[Event]:
        out, self._out = self._out, []
        return out
