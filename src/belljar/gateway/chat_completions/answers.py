"""Translate our events to chunks of a chat encode_completion, and our responses to whole chat completions.

Cells that we ran are no tool calls of the client's to answer: they are under a key of our own, `belljar`, as the items
that they are in the Responses API. Files are cited as URLs to fetch them from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
from msgspec import structs

from belljar.errors import BelljarError
from belljar.wire import codec, events, faults
from belljar.wire.extras import Ignored, ResponseExtras
from belljar.wire.faults import Fault
from belljar.wire.items import (
    Annotation,
    CodeInterpreterCall,
    ContainerFileCitation,
    CustomToolCall,
    FileCitation,
    FunctionCall,
    Json,
    Message,
    OutputText,
    Reasoning,
    Refusal,
    UrlCitation,
)
from belljar.wire.responses import Response, ResponseError, Usage

Body: TypeAlias = dict[str, Any]

_PARAMS = {"top_logprobs": "logprobs", "include": "logprobs"}
"""What the Responses API calls otherwise."""
_BETWEEN = "\n\n"
"""A chat answer is one message: ours are told apart by a paragraph."""


def find_fault(error: BelljarError) -> Fault:
    """As everywhere, but for an unknown model, which this endpoint answers with 404."""
    found = faults.of(error)
    return structs.replace(found, status=404) if found.code == "model_not_found" else found


def build_failed_fault(error: ResponseError | None) -> Fault:
    """Chat completions have no failed answers, only errors."""
    return Fault(
        status=500,
        type="server_error",
        code=error.code if error else None,
        message=error.message if error else "The response failed.",
    )


def encode_error_frame(fault: Fault) -> bytes:
    """How a chat stream says that it broke."""
    return b"data: %b\n\n" % faults.body(fault)


def encode_completion(response: Response, base_url: str = "", ignored: tuple[Ignored, ...] = ()) -> bytes:
    """The answer in one piece; `base_url` begins the URLs of files, `ignored` is what the engine never saw."""
    message, logprobs = _build_message(response, base_url)
    body = _build_head(response, "chat.completion")
    body["choices"] = [
        {
            "index": 0,
            "message": message,
            "logprobs": {"content": logprobs, "refusal": None} if logprobs else None,
            "finish_reason": _find_finish_reason(response),
        }
    ]
    body["usage"] = _build_usage(response.usage)
    body.update(_describe_extras(response, ignored))
    return codec.encode(body)


class Chunks:
    """One stream. `usage` says whether the client asked for the tokens spent, `live` whether for cells as they run."""

    def __init__(
        self, *, usage: bool = False, live: bool = False, base_url: str = "", ignored: tuple[Ignored, ...] = ()
    ) -> None:
        self._wants_usage = usage
        self._live = live
        self._base_url = base_url
        self._ignored = ignored
        self._before = b""
        self._tail = b',"finish_reason":null}]%b}\n\n' % (b',"usage":null' if usage else b"")
        self._after = b',"logprobs":null%b' % self._tail
        self._head: Body = {}
        self._calls: dict[int, int] = {}
        self._cells: dict[int, int] = {}
        self._part = (-1, -1)
        self._length = 0
        self._offset = 0
        self._citations = 0
        self._failed = False

    def make_frames(self, told: Iterable[events.Event]) -> Iterator[bytes]:
        """The frames that these events make, in order, each made when it is asked for."""
        for event in told:
            show = _SHOWN.get(type(event))
            if show is not None:
                out: list[bytes] = []
                show(self, event, out)
                yield from out

    # -- one event each

    def _start(self, event: events.Created, out: list[bytes]) -> None:
        self._head = _build_head(event.response, "chat.completion.chunk")
        self._before = b'data: %b,"choices":[{"index":0,"delta":' % codec.encode(self._head)[:-1]
        out.append(self._encode_delta({"role": "assistant", "content": "", "refusal": None}))

    def _add_text(self, event: events.TextDelta, out: list[bytes]) -> None:
        part = (event.output_index, event.content_index)
        if part != self._part:
            if self._length and event.output_index != self._part[0]:
                self._length += len(_BETWEEN)
                out.append(self._encode_delta({"content": _BETWEEN}))
            self._part = part
            self._offset = self._length
        self._length += len(event.delta)
        after = self._after
        if event.logprobs:
            after = b',"logprobs":%b%b' % (codec.encode({"content": event.logprobs, "refusal": None}), self._tail)
        out.append(b'%b{"content":%b}%b' % (self._before, codec.encode(event.delta), after))

    def _add_refusal(self, event: events.RefusalDelta, out: list[bytes]) -> None:
        out.append(self._encode_delta({"refusal": event.delta}))

    def _add_reasoning(self, event: events.ReasoningDelta | events.SummaryDelta, out: list[bytes]) -> None:
        out.append(self._encode_delta({"reasoning_content": event.delta}))

    def _add_paragraph(self, event: events.SummaryPartAdded, out: list[bytes]) -> None:
        if event.summary_index:
            out.append(self._encode_delta({"reasoning_content": _BETWEEN}))

    def _add_citation(self, event: events.AnnotationAdded, out: list[bytes]) -> None:
        cited = {"index": self._citations, **_encode_citation(event.annotation, self._offset, self._base_url)}
        self._citations += 1
        out.append(self._encode_delta({"annotations": [cited]}))

    def _begin_item(self, event: events.ItemAdded, out: list[bytes]) -> None:
        match event.item:
            case FunctionCall() | CustomToolCall() as item:
                index = self._calls[event.output_index] = len(self._calls)
                out.append(self._encode_delta({"tool_calls": [{"index": index, **_encode_call(item, empty=True)}]}))
            case CodeInterpreterCall():
                self._cells[event.output_index] = len(self._cells)

    def _add_arguments(self, event: events.ArgumentsDelta, out: list[bytes]) -> None:
        piece = {"index": self._calls[event.output_index], "function": {"arguments": event.delta}}
        out.append(self._encode_delta({"tool_calls": [piece]}))

    def _add_input(self, event: events.CustomInputDelta, out: list[bytes]) -> None:
        piece = {"index": self._calls[event.output_index], "custom": {"input": event.delta}}
        out.append(self._encode_delta({"tool_calls": [piece]}))

    def _add_code(self, event: events.CodeDelta, out: list[bytes]) -> None:
        self._add_live(event, {"code": event.delta}, out)

    def _add_output(self, event: events.CodeOutputDelta, out: list[bytes]) -> None:
        self._add_live(event, {event.stream: event.delta}, out)

    def _add_live(self, event: events.OfItem, piece: Body, out: list[bytes]) -> None:
        """Beside the cells, which come whole: some clients put pieces of lists together, others keep the last."""
        if self._live:
            out.append(self._encode_delta({"belljar": {"live": [{"index": self._cells[event.output_index], **piece}]}}))

    def _finish_item(self, event: events.ItemDone, out: list[bytes]) -> None:
        if isinstance(event.item, CodeInterpreterCall):
            cell = _encode_cell(event.item, self._cells[event.output_index])
            out.append(self._encode_delta({"belljar": {"cells": [cell]}}))

    def _add_error(self, event: events.ErrorEvent, out: list[bytes]) -> None:
        self._failed = True
        out.append(_encode_frame({"error": event.error}))

    def _add_failure(self, event: events.Failed, out: list[bytes]) -> None:
        if not self._failed:
            out.append(encode_error_frame(build_failed_fault(event.response.error)))

    def _end(self, event: events.Completed | events.Incomplete, out: list[bytes]) -> None:
        last = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _find_finish_reason(event.response)}
        body = {**self._head, "choices": [last]}
        if self._wants_usage:
            out.append(_encode_frame({**body, "usage": None}))
            body = {**self._head, "choices": [], "usage": _build_usage(event.response.usage)}
        out.append(_encode_frame({**body, **_describe_extras(event.response, self._ignored)}))

    def _encode_delta(self, delta: Body) -> bytes:
        return b"%b%b%b" % (self._before, codec.encode(delta), self._after)


_SHOWN: Mapping[type[events.Event], Callable[[Chunks, Any, list[bytes]], None]] = MappingProxyType(
    {
        events.Created: Chunks._start,
        events.TextDelta: Chunks._add_text,
        events.RefusalDelta: Chunks._add_refusal,
        events.ReasoningDelta: Chunks._add_reasoning,
        events.SummaryDelta: Chunks._add_reasoning,
        events.SummaryPartAdded: Chunks._add_paragraph,
        events.AnnotationAdded: Chunks._add_citation,
        events.ItemAdded: Chunks._begin_item,
        events.ArgumentsDelta: Chunks._add_arguments,
        events.CustomInputDelta: Chunks._add_input,
        events.CodeDelta: Chunks._add_code,
        events.CodeOutputDelta: Chunks._add_output,
        events.ItemDone: Chunks._finish_item,
        events.ErrorEvent: Chunks._add_error,
        events.Failed: Chunks._add_failure,
        events.Completed: Chunks._end,
        events.Incomplete: Chunks._end,
    }
)


def _encode_frame(body: Body) -> bytes:
    return b"data: %b\n\n" % codec.encode(body)


def _build_head(response: Response, kind: str) -> Body:
    return {
        "id": f"chatcmpl-{response.id.removeprefix('resp_')}",
        "object": kind,
        "created": response.created_at,
        "model": response.model,
        "service_tier": response.service_tier,
        "system_fingerprint": None,
    }


def _describe_extras(response: Response, ignored: tuple[Ignored, ...]) -> Body:
    """`belljar`, as a response has it, where there is something to tell: in the words of this endpoint."""
    found = response.belljar.ignored if response.belljar else ()
    told = (*ignored, *(structs.replace(one, param=_PARAMS.get(one.param, one.param)) for one in found))
    return {"belljar": ResponseExtras(ignored=told)} if told else {}


def _build_message(response: Response, base_url: str) -> tuple[Body, list[Json]]:
    """All that was said as one message, and its logprobs."""
    text = refusal = ""
    thoughts: list[str] = []
    citations: list[Body] = []
    logprobs: list[Json] = []
    calls: list[Body] = []
    cells: list[Body] = []
    for item in response.output:
        match item:
            case Message(content=tuple(parts)):
                texts = [part for part in parts if isinstance(part, OutputText)]
                if text and any(part.text for part in texts):
                    text += _BETWEEN
                for part in texts:
                    citations.extend(_encode_citation(one, len(text), base_url) for one in part.annotations)
                    logprobs.extend(part.logprobs)
                    text += part.text
                refusal += "".join(part.refusal for part in parts if isinstance(part, Refusal))
            case Reasoning():
                thoughts.extend(part.text for part in (item.content or item.summary))
            case FunctionCall() | CustomToolCall():
                calls.append(_encode_call(item))
            case CodeInterpreterCall():
                cells.append(_encode_cell(item, len(cells)))
    message: Body = {
        "role": "assistant",
        "content": text or (None if calls or refusal else ""),
        "refusal": refusal or None,
        "annotations": citations,
    }
    optional = {"reasoning_content": _BETWEEN.join(thoughts), "tool_calls": calls}
    message.update({name: value for name, value in optional.items() if value})
    if cells:
        message["belljar"] = {"cells": cells}
    return message, logprobs


def _encode_call(item: FunctionCall | CustomToolCall, *, empty: bool = False) -> Body:
    if isinstance(item, CustomToolCall):
        custom = {"name": item.name, "input": "" if empty else item.input}
        return {"id": item.call_id, "type": "custom", "custom": custom}
    function = {"name": item.name, "arguments": "" if empty else item.arguments}
    return {"id": item.call_id, "type": "function", "function": function}


def _encode_cell(item: CodeInterpreterCall, index: int) -> Body:
    """As in the Responses API, with the number by which clients put lists together."""
    return {"index": index, **msgspec.to_builtins(item)}


def _encode_citation(annotation: Annotation, offset: int, base_url: str) -> Body:
    """The one kind that this wire has. A file is cited by where it can be fetched, and named beside that."""
    start = end = 0
    more: Body = {}
    match annotation:
        case UrlCitation():
            start, end, title, url = annotation.start_index, annotation.end_index, annotation.title, annotation.url
        case ContainerFileCitation(container_id=container, file_id=file):
            start, end, title = annotation.start_index, annotation.end_index, annotation.filename
            url = f"{base_url}/v1/containers/{container}/files/{file}/content"
            more = {"container_id": container, "file_id": file}
        case _:
            title = annotation.filename if isinstance(annotation, FileCitation) else ""
            url = f"{base_url}/v1/files/{annotation.file_id}/content"
            more = {"file_id": annotation.file_id}
    if end:
        start, end = start + offset, end + offset
    where = {"start_index": start, "end_index": end, "title": title, "url": url}
    return {"type": "url_citation", "url_citation": where, **more}


def _find_finish_reason(response: Response) -> str:
    if response.status == "incomplete":
        why = response.incomplete_details
        return "content_filter" if why is not None and why.reason == "content_filter" else "length"
    called = any(isinstance(item, FunctionCall | CustomToolCall) for item in response.output)
    return "tool_calls" if called else "stop"


def _build_usage(usage: Usage | None) -> Body:
    """Never null: many clients read its members without looking."""
    usage = usage or Usage()
    asked, answered = usage.input_tokens_details, usage.output_tokens_details
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {
            "cached_tokens": asked.cached_tokens,
            "cache_write_tokens": asked.cache_write_tokens,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": answered.reasoning_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
