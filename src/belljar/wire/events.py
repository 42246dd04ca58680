"""Events of a stream, one struct each; the tag `type` is also the event's name."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from belljar.wire.items import Annotation, Json, OutputItem, OutputText, ReasoningText, Refusal, SummaryText, Value
from belljar.wire.responses import Response


class Event(Value, frozen=True, kw_only=True, gc=False):
    """Numbered from 0, without gaps."""

    sequence_number: int


class ResponseSnapshot(Event, frozen=True, kw_only=True):
    response: Response


class Created(ResponseSnapshot, frozen=True, kw_only=True, tag="response.created"): ...


class Queued(ResponseSnapshot, frozen=True, kw_only=True, tag="response.queued"): ...


class InProgress(ResponseSnapshot, frozen=True, kw_only=True, tag="response.in_progress"): ...


class Completed(ResponseSnapshot, frozen=True, kw_only=True, tag="response.completed"): ...


class Failed(ResponseSnapshot, frozen=True, kw_only=True, tag="response.failed"): ...


class Incomplete(ResponseSnapshot, frozen=True, kw_only=True, tag="response.incomplete"): ...


class OfItem(Event, frozen=True, kw_only=True):
    output_index: int


class ItemAdded(OfItem, frozen=True, kw_only=True, tag="response.output_item.added"):
    item: OutputItem


class ItemDone(OfItem, frozen=True, kw_only=True, tag="response.output_item.done"):
    item: OutputItem


class OfItemId(OfItem, frozen=True, kw_only=True):
    item_id: str


class OfContent(OfItemId, frozen=True, kw_only=True):
    content_index: int


class PartAdded(OfContent, frozen=True, kw_only=True, tag="response.content_part.added"):
    part: OutputText | Refusal | ReasoningText


class PartDone(OfContent, frozen=True, kw_only=True, tag="response.content_part.done"):
    part: OutputText | Refusal | ReasoningText


class TextDelta(OfContent, frozen=True, kw_only=True, tag="response.output_text.delta"):
    delta: str
    logprobs: tuple[Json, ...] = ()


class AnnotationAdded(OfContent, frozen=True, kw_only=True, tag="response.output_text.annotation.added"):
    annotation_index: int
    annotation: Annotation


class TextDone(OfContent, frozen=True, kw_only=True, tag="response.output_text.done"):
    text: str
    logprobs: tuple[Json, ...] = ()


class RefusalDelta(OfContent, frozen=True, kw_only=True, tag="response.refusal.delta"):
    delta: str


class RefusalDone(OfContent, frozen=True, kw_only=True, tag="response.refusal.done"):
    refusal: str


class ReasoningDelta(OfContent, frozen=True, kw_only=True, tag="response.reasoning_text.delta"):
    delta: str


class ReasoningDone(OfContent, frozen=True, kw_only=True, tag="response.reasoning_text.done"):
    text: str


class OfSummary(OfItemId, frozen=True, kw_only=True):
    summary_index: int


class SummaryPartAdded(OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_part.added"):
    part: SummaryText


class SummaryPartDone(OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_part.done"):
    part: SummaryText


class SummaryDelta(OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_text.delta"):
    delta: str


class SummaryDone(OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_text.done"):
    text: str


class ArgumentsDelta(OfItemId, frozen=True, kw_only=True, tag="response.function_call_arguments.delta"):
    delta: str


class ArgumentsDone(OfItemId, frozen=True, kw_only=True, tag="response.function_call_arguments.done"):
    name: str
    arguments: str


class CustomInputDelta(OfItemId, frozen=True, kw_only=True, tag="response.custom_tool_call_input.delta"):
    delta: str


class CustomInputDone(OfItemId, frozen=True, kw_only=True, tag="response.custom_tool_call_input.done"):
    input: str


class CodeStarted(OfItemId, frozen=True, kw_only=True, tag="response.code_interpreter_call.in_progress"): ...


class CodeDelta(OfItemId, frozen=True, kw_only=True, tag="response.code_interpreter_call_code.delta"):
    delta: str


class CodeDone(OfItemId, frozen=True, kw_only=True, tag="response.code_interpreter_call_code.done"):
    code: str


class Interpreting(OfItemId, frozen=True, kw_only=True, tag="response.code_interpreter_call.interpreting"): ...


class CodeOutputDelta(OfItemId, frozen=True, kw_only=True, tag="belljar:code_interpreter_call.output.delta"):
    """Our own: what the running cell prints, as it prints it."""

    stream: Literal["stdout", "stderr"]
    delta: str


class Interpreted(OfItemId, frozen=True, kw_only=True, tag="response.code_interpreter_call.completed"): ...


class InterpretingFailed(OfItemId, frozen=True, kw_only=True, tag="response.code_interpreter_call.failed"):
    """Our own, in place of `completed`: the cell was stopped, or could not be run."""


class ErrorDetail(Struct, frozen=True, kw_only=True):
    type: str
    code: str | None
    message: str
    param: str | None = None


class ErrorEvent(Event, frozen=True, kw_only=True, tag="error"):
    """Nested, as on the real wire; `response.failed` follows."""

    error: ErrorDetail


Terminal: TypeAlias = Completed | Failed | Incomplete
TERMINAL = (Completed, Failed, Incomplete)
