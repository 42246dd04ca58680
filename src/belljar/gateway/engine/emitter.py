"""Deltas in, events out: the only place that numbers, indexes, opens and closes. Knows no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from msgspec import UNSET, UnsetType, structs

from belljar.gateway.engine.event_order import Line
from belljar.vendors import deltas
from belljar.vendors.code_argument import Arguments, CodeArgument
from belljar.vendors.deltas import Delta
from belljar.vendors.vendor_tag import keep
from belljar.wire import events, ids
from belljar.wire.events import Event
from belljar.wire.extras import Ignored, ResponseExtras
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
_CODES = frozenset(["context_length_exceeded", "insufficient_quota"])
"""But these are told on the real wire, and Codex looks for them there: it would ask again for anything else."""

Cite: TypeAlias = Callable[[str, bool], tuple[Annotation, ...]]
"""The citations of a message's text; the flag says that no other message follows."""


def present(item: OutputItem, include: frozenset[str]) -> OutputItem:
    """An item as the caller asked to see it."""
    if isinstance(item, CodeInterpreterCall):
        if "code_interpreter_call.outputs" in include:
            return structs.replace(item, told=UNSET)
        end = item.belljar
        if isinstance(end, CellEnd):
            end = structs.replace(end, stdout=None, stderr=None)
        return structs.replace(item, outputs=None, belljar=end, told=UNSET)
    if isinstance(item, Message) and item.sealed:
        return structs.replace(item, sealed=UNSET)
    if isinstance(item, Reasoning) and item.encrypted_content:
        return item if "reasoning.encrypted_content" in include else structs.replace(item, encrypted_content=UNSET)
    return item


class Cell:
    """A call of ours: an item that is open, and the code to run for it."""

    __slots__ = ("_argument", "arguments", "container_id", "id", "index", "instead", "repaired", "written")

    def __init__(self, index: int, id: str, container_id: str, repaired: str | None = None) -> None:
        self.index = index
        self.id = id
        self.container_id = container_id
        self.repaired = repaired
        self.written: list[str] = []
        """The code as callers have seen it so far."""
        self.instead: str | None = None
        """What the model wrote in place of the call, where it only wrote it down."""
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
    __slots__ = ("begun", "custom", "id", "index", "pieces")

    def __init__(self, index: int, id: str, begun: deltas.CallBegun) -> None:
        self.index = index
        self.id = id
        self.begun = begun
        self.custom = begun.custom
        self.pieces: list[str] = []

    def item(self, status: ItemStatus, arguments: str) -> FunctionCall | CustomToolCall:
        begun = self.begun
        call_id, name, namespace = begun.call_id, begun.name, begun.namespace or UNSET
        if self.custom:
            return CustomToolCall(
                id=self.id, call_id=call_id, name=name, input=arguments, status=status, namespace=namespace
            )
        return FunctionCall(
            id=self.id, call_id=call_id, name=name, arguments=arguments, status=status, namespace=namespace
        )


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
    declared, `placed` gives a call as its caller declared the tool. `container_id` must be set before a call of ours
    begins, and `calls_left` counts down what `max_tool_calls` leaves: calls beyond it are not seen by anybody. `live`
    is for callers who take events of ours; `summarise` tells reasoning that comes without a summary as one, whole.
    """

    def __init__(
        self,
        start: Response,
        *,
        include: frozenset[str] = frozenset(),
        cite: Cite = lambda text, last: (),
        ours: Callable[[str], bool] = lambda name: False,
        stray: Callable[[str], str | None] = lambda name: None,
        placed: Callable[[deltas.CallBegun], deltas.CallBegun] = lambda begun: begun,
        calls_left: int | None = None,
        live: bool = True,
        summarise: bool = False,
    ) -> None:
        self._start = start
        self._include = include
        self._cite = cite
        self._ours = ours
        self._stray = stray
        self._placed = placed
        self.calls_left = calls_left
        self._live = live
        self._summarise = summarise
        self.seal: Callable[[str], str] | None = None
        """For callers who keep the conversation: how a model's reasoning is handed to them."""
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
        self._turns = [0]
        """The output index at which each turn began, this one's last."""
        self._line = Line()
        self._message: _Message | None = None
        self._thought: _Thought | None = None
        self._calls: dict[int, _Call | Cell | _Stray | None] = {}
        self._strays: list[_Stray] = []
        self._first_call: int | None = None
        """The output index of this turn's first call that callers see."""
        self._led = False
        """A stray call stands before all others of this turn."""
        self._hosted: dict[int, Cell] = {}
        self._mended = deltas.Repaired("")
        """What was put right of the call that comes next."""

    # -- life -------------------------------------------------------------------------------------------------------

    def ignore(self, *ignored: Ignored) -> None:
        """Tell the caller, from the next snapshot on, what of the request has no effect."""
        if not ignored:
            return
        extras = self._start.belljar or ResponseExtras()
        extras = structs.replace(extras, ignored=(*extras.ignored, *ignored))
        self._start = structs.replace(self._start, belljar=extras)

    def begin(self, *, queued: bool = False) -> list[Event]:
        self._put(events.Created, response=self._start)
        if queued:
            self._put(events.Queued, response=structs.replace(self._start, status="queued"))
        self._put(events.InProgress, response=structs.replace(self._start, status="in_progress"))
        return self._take()

    def next_turn(self) -> None:
        """The model is asked again."""
        self.cells, self.called, self.finish, self.turn_usage = [], False, None, None
        self.strayed = self.ignored = False
        self._turns.append(len(self.items))
        self._first_call, self._led = None, False

    @property
    def answered(self) -> bool:
        """In this turn the model said something, or left it to functions of the caller's."""
        return self.called or any(isinstance(item, Message) for item in self.items[self._turns[-1] :])

    def complete(self, now: int) -> list[Event]:
        """The model is done: the last message cites what nobody mentioned."""
        self._close_all("incomplete")  # nothing is open but what its vendor forgot to end
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
        """It broke off: what is open is closed first, so that nobody waits for the rest of it."""
        self._close_all("incomplete")
        detail = events.ErrorDetail(type=type, code=code, message=message, param=param)
        self._put(events.ErrorEvent, error=detail)
        failed = structs.replace(
            self._start,
            status="failed",
            error=ResponseError(code=code if code in _CODES else _KINDS.get(type, "server_error"), message=message),
            output=self._output(),
            usage=self.usage,
        )
        self._put(events.Failed, response=failed)
        return self._take()

    def cancel(self) -> list[Event]:
        """Called off. OpenAI's streams have no event of that name: the last one says that the answer is incomplete."""
        self._close_all("incomplete")
        usage = self.usage or Usage()
        cancelled = structs.replace(self._start, status="cancelled", output=self._output(), usage=usage)
        self._put(events.Incomplete, response=cancelled)
        return self._take()

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
        line = self._line
        message: _Message | None = None  # looked up once for text in a row: a stream is mostly that
        for delta in said:
            if type(delta) is deltas.Text:
                if message is None:
                    message = self._part("text")
                message.pieces.append(delta.text)
                if delta.logprobs:
                    message.logprobs.extend(delta.logprobs)
                if message.index != line.at:
                    self._put(
                        events.TextDelta,
                        output_index=message.index,
                        item_id=message.id,
                        content_index=len(message.content),
                        delta=delta.text,
                        logprobs=delta.logprobs,
                    )
                    continue
                line.append(
                    events.TextDelta(
                        sequence_number=line.number,
                        output_index=message.index,
                        item_id=message.id,
                        content_index=len(message.content),
                        delta=delta.text,
                        logprobs=delta.logprobs,
                    )
                )
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
            case deltas.VendorState(content):
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
            case deltas.PassThrough(item):
                self._close_speech(last=False)
                self._whole(item)
            case deltas.Finish(reason):
                self.finish = reason
                if reason in ("stop", "calls"):
                    self._close_speech(last=not (self.cells or self.called or self.strayed))
            case deltas.UsageDelta(usage):
                self.turn_usage = usage
                self.usage = usage if self.usage is None else self.usage + usage
            case deltas.Repaired():
                self._mended = delta
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
            if not self._summarise:
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
            encrypted_content=self._sealed(item, raw),
        )
        self._done(thought.index, done)

    def _sealed(self, item: Reasoning | None, raw: str) -> str | UnsetType | None:
        """What the caller brings back of it: the vendor's own seal, else ours."""
        if item is not None and item.encrypted_content:
            return keep(item).encrypted_content
        return self.seal(raw) if self.seal is not None and raw else UNSET

    # -- calls --------------------------------------------------------------------------------------------------------

    def _begin_call(self, begun: deltas.CallBegun) -> None:
        self._close_speech(last=False)
        mended, self._mended = self._mended, deltas.Repaired("")
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
            cell = self._calls[begun.index] = self._open_cell(mended.what or renamed)
            cell.instead = mended.written
            return
        if (told := self._stray(begun.name)) is not None:
            self._calls[begun.index] = _Stray(begun, len(self._turns) - 1, self._stray_place(), told)
            return
        index = self._reserve_call()
        id = ids.within("ctc" if begun.custom else "fc", self._start.id, index)
        call = _Call(index, id, self._placed(begun))
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

    def _write(self, cell: Cell, code: str) -> None:
        if code:
            cell.written.append(code)
            self._put(events.CodeDelta, output_index=cell.index, item_id=cell.id, delta=code)

    def _written(self, cell: Cell) -> None:
        self._put(events.CodeDone, output_index=cell.index, item_id=cell.id, code="".join(cell.written))

    def _piece(self, call: _Call | Cell | _Stray | None, text: str) -> None:
        if isinstance(call, Cell):
            self._write(call, call.feed(text))
        elif isinstance(call, _Call):
            call.pieces.append(text)
            kind = events.CustomInputDelta if call.custom else events.ArgumentsDelta
            self._put(kind, output_index=call.index, item_id=call.id, delta=text)

    def _end_call(self, number: int, arguments: str) -> None:
        call = self._calls.pop(number, None)
        if isinstance(call, Cell):
            self._write(call, call.end())
            self._written(call)
            self.cells.append(call)
        elif isinstance(call, _Stray):
            self.strayed = True
            call.arguments = arguments
            self._strays.append(call)
        elif call is not None:
            if not call.pieces and arguments:
                self._piece(call, arguments)
            self.called = True
            self._close_call(call, "completed", arguments)

    def _close_call(self, call: _Call, status: ItemStatus, arguments: str) -> None:
        where = {"output_index": call.index, "item_id": call.id}
        if call.custom:
            self._put(events.CustomInputDone, **where, input=arguments)
        else:
            self._put(events.ArgumentsDone, **where, name=call.begun.name, arguments=arguments)
        self._done(call.index, call.item(status, arguments))

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
            belljar=structs.replace(end, repaired=cell.repaired, written=cell.instead, more=self._followed(cell)),
            told=told,
        )
        self._interpreted(cell, item)
        return self._take(), item

    def _interpreted(self, cell: Cell, item: CodeInterpreterCall) -> None:
        failed = item.status == "failed" and self._live
        kind = events.InterpretingFailed if failed else events.Interpreted
        self._put(kind, output_index=cell.index, item_id=cell.id)
        self._done(cell.index, item)

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
        self._write(cell, delta.text)

    def _hosted_end(self, number: int, item: CodeInterpreterCall) -> None:
        shown = len("".join(self._hosted[number].written)) if number in self._hosted else 0
        code = item.code or ""
        self._hosted_code(deltas.HostedCode(number, item.id, item.container_id, code[shown:]))
        cell = self._hosted.pop(number)
        if not item.container_id:
            item = structs.replace(item, container_id=cell.container_id)
        self._written(cell)
        self._put(events.Interpreting, output_index=cell.index, item_id=cell.id)
        self._interpreted(cell, item)

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
        """What is open is closed as it is: a message or call that was cut. Nothing of it is run."""
        self._close_thought(None)
        self._close_message(status, last=True)
        for call in (*self._calls.values(), *self._hosted.values()):
            if isinstance(call, _Call):
                self._close_call(call, status, "".join(call.pieces))
            elif isinstance(call, Cell):
                self._written(call)
                self._cut_cell(call)
        for cell in self.cells:
            self._cut_cell(cell)
        self._calls, self._hosted, self.cells = {}, {}, []

    def _cut_cell(self, cell: Cell) -> None:
        if self.items[cell.index] is None:
            code = "".join(cell.written)
            item = CodeInterpreterCall(
                id=cell.id, status="incomplete", code=code, container_id=cell.container_id, outputs=()
            )
            self._done(cell.index, item)

    def _put(self, kind: type[Event], **fields: object) -> None:
        self._line.put(kind, fields)

    def _take(self) -> list[Event]:
        return self._line.take()
