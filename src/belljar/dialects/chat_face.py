"""Our API for clients that only know chat completions: their requests as ours, our events and answers as theirs.

Cells that we ran are no tool calls of theirs to answer: they appear under a key of our own, `belljar`, as a list that
streams like `tool_calls` do. Files are cited as URLs to fetch them from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec import UNSET, structs

from belljar.dialects.chat_reading import read_chat, wants_usage
from belljar.errors import BelljarError
from belljar.wire import codec, events, faults
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
from belljar.wire.responses import Response, Usage

__all__ = ["ChatFace", "fault", "fold", "read_chat", "wants_usage"]

Body: TypeAlias = dict[str, Any]

_BETWEEN = "\n\n"
"""A chat answer is one message: ours are told apart by a paragraph."""


def fault(error: BelljarError) -> Fault:
    """As everywhere, but for an unknown model, which this endpoint answers with 404."""
    found = faults.of(error)
    return structs.replace(found, status=404) if found.code == "model_not_found" else found


def fold(response: Response, base_url: str = "") -> bytes:
    """The answer in one piece; `base_url` begins the URLs of files. Of a failed response, the body of its error."""
    if response.error is not None:
        return codec.encode({"error": _error(response.error.message, "server_error", response.error.code, None)})
    message, logprobs = _message(response, base_url)
    body = _head(response, "chat.completion")
    body["choices"] = [
        {
            "index": 0,
            "message": message,
            "logprobs": {"content": logprobs, "refusal": None} if logprobs else None,
            "finish_reason": _finish_reason(response),
        }
    ]
    body["usage"] = _usage(response.usage)
    return codec.encode(body)


class ChatFace:
    """One stream. `usage` says whether the client asked for the tokens spent."""

    def __init__(self, *, usage: bool = False, base_url: str = "") -> None:
        self._wants_usage = usage
        self._base_url = base_url
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

    def frames(self, told: Sequence[events.Event]) -> list[bytes]:
        """The frames that these events make, in order; the last of a stream among them."""
        out: list[bytes] = []
        for event in told:
            show = _SHOWN.get(type(event))
            if show is not None:
                show(self, event, out)
        return out

    # -- one event each

    def _start(self, event: events.Created, out: list[bytes]) -> None:
        self._head = _head(event.response, "chat.completion.chunk")
        self._before = b'data: %b,"choices":[{"index":0,"delta":' % codec.encode(self._head)[:-1]
        out.append(self._delta({"role": "assistant", "content": ""}))

    def _text(self, event: events.TextDelta, out: list[bytes]) -> None:
        part = (event.output_index, event.content_index)
        if part != self._part:
            if self._length and event.output_index != self._part[0]:
                self._length += len(_BETWEEN)
                out.append(self._delta({"content": _BETWEEN}))
            self._part = part
            self._offset = self._length
        self._length += len(event.delta)
        after = self._after
        if event.logprobs:
            after = b',"logprobs":%b%b' % (codec.encode({"content": event.logprobs, "refusal": None}), self._tail)
        out.append(b'%b{"content":%b}%b' % (self._before, codec.encode(event.delta), after))

    def _refusal(self, event: events.RefusalDelta, out: list[bytes]) -> None:
        out.append(self._delta({"refusal": event.delta}))

    def _reasoning(self, event: events.ReasoningDelta | events.SummaryDelta, out: list[bytes]) -> None:
        out.append(self._delta({"reasoning_content": event.delta}))

    def _paragraph(self, event: events.SummaryPartAdded, out: list[bytes]) -> None:
        if event.summary_index:
            out.append(self._delta({"reasoning_content": _BETWEEN}))

    def _citation(self, event: events.AnnotationAdded, out: list[bytes]) -> None:
        cited = {"index": self._citations, **_cited(event.annotation, self._offset, self._base_url)}
        self._citations += 1
        out.append(self._delta({"annotations": [cited]}))

    def _added(self, event: events.ItemAdded, out: list[bytes]) -> None:
        match event.item:
            case FunctionCall() | CustomToolCall() as item:
                index = self._calls[event.output_index] = len(self._calls)
                out.append(self._delta({"tool_calls": [{"index": index, **_call(item, empty=True)}]}))
            case CodeInterpreterCall() as item:
                index = self._cells[event.output_index] = len(self._cells)
                begun = {"index": index, "id": item.id, "container_id": item.container_id, "code": ""}
                out.append(self._delta({"belljar": [begun]}))

    def _arguments(self, event: events.ArgumentsDelta, out: list[bytes]) -> None:
        piece = {"index": self._calls[event.output_index], "function": {"arguments": event.delta}}
        out.append(self._delta({"tool_calls": [piece]}))

    def _input(self, event: events.CustomInputDelta, out: list[bytes]) -> None:
        piece = {"index": self._calls[event.output_index], "custom": {"input": event.delta}}
        out.append(self._delta({"tool_calls": [piece]}))

    def _code(self, event: events.CodeDelta, out: list[bytes]) -> None:
        out.append(self._delta({"belljar": [{"index": self._cells[event.output_index], "code": event.delta}]}))

    def _output(self, event: events.CodeOutputDelta, out: list[bytes]) -> None:
        out.append(self._delta({"belljar": [{"index": self._cells[event.output_index], "logs": event.delta}]}))

    def _done(self, event: events.ItemDone, out: list[bytes]) -> None:
        if isinstance(event.item, CodeInterpreterCall):
            out.append(self._delta({"belljar": [{"index": self._cells[event.output_index], **_came_of(event.item)}]}))

    def _error(self, event: events.ErrorEvent, out: list[bytes]) -> None:
        self._failed = True
        said = event.error
        out.append(_frame({"error": _error(said.message, said.type, said.code, said.param)}))

    def _failure(self, event: events.Failed, out: list[bytes]) -> None:
        error = event.response.error
        if not self._failed and error is not None:
            out.append(_frame({"error": _error(error.message, "server_error", error.code, None)}))
        out.append(codec.DONE)

    def _end(self, event: events.Completed | events.Incomplete, out: list[bytes]) -> None:
        last = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _finish_reason(event.response)}
        body = {**self._head, "choices": [last]}
        if self._wants_usage:
            out.append(_frame({**body, "usage": None}))
            body = {**self._head, "choices": [], "usage": _usage(event.response.usage)}
        out.append(_frame(body))
        out.append(codec.DONE)

    def _delta(self, delta: Body) -> bytes:
        return b"%b%b%b" % (self._before, codec.encode(delta), self._after)


_SHOWN: Mapping[type[events.Event], Callable[[ChatFace, Any, list[bytes]], None]] = MappingProxyType(
    {
        events.Created: ChatFace._start,
        events.TextDelta: ChatFace._text,
        events.RefusalDelta: ChatFace._refusal,
        events.ReasoningDelta: ChatFace._reasoning,
        events.SummaryDelta: ChatFace._reasoning,
        events.SummaryPartAdded: ChatFace._paragraph,
        events.AnnotationAdded: ChatFace._citation,
        events.ItemAdded: ChatFace._added,
        events.ArgumentsDelta: ChatFace._arguments,
        events.CustomInputDelta: ChatFace._input,
        events.CodeDelta: ChatFace._code,
        events.CodeOutputDelta: ChatFace._output,
        events.ItemDone: ChatFace._done,
        events.ErrorEvent: ChatFace._error,
        events.Failed: ChatFace._failure,
        events.Completed: ChatFace._end,
        events.Incomplete: ChatFace._end,
    }
)


def _frame(body: Body) -> bytes:
    return b"data: %b\n\n" % codec.encode(body)


def _head(response: Response, kind: str) -> Body:
    return {
        "id": f"chatcmpl-{response.id.removeprefix('resp_')}",
        "object": kind,
        "created": response.created_at,
        "model": response.model,
        "service_tier": response.service_tier,
        "system_fingerprint": None,
    }


def _message(response: Response, base_url: str) -> tuple[Body, list[Json]]:
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
                    citations.extend(_cited(one, len(text), base_url) for one in part.annotations)
                    logprobs.extend(part.logprobs)
                    text += part.text
                refusal += "".join(part.refusal for part in parts if isinstance(part, Refusal))
            case Reasoning():
                thoughts.extend(part.text for part in (item.content or item.summary))
            case FunctionCall() | CustomToolCall():
                calls.append(_call(item))
            case CodeInterpreterCall():
                cell = {"id": item.id, "container_id": item.container_id, "code": item.code or "", **_came_of(item)}
                cells.append({"index": len(cells), **cell})
    message: Body = {
        "role": "assistant",
        "content": text or None,
        "refusal": refusal or None,
        "annotations": citations,
    }
    optional = {"reasoning_content": _BETWEEN.join(thoughts), "tool_calls": calls, "belljar": cells}
    message.update({name: value for name, value in optional.items() if value})
    return message, logprobs


def _call(item: FunctionCall | CustomToolCall, *, empty: bool = False) -> Body:
    if isinstance(item, CustomToolCall):
        custom = {"name": item.name, "input": "" if empty else item.input}
        return {"id": item.call_id, "type": "custom", "custom": custom}
    function = {"name": item.name, "arguments": "" if empty else item.arguments}
    return {"id": item.call_id, "type": "function", "function": function}


def _came_of(item: CodeInterpreterCall) -> Body:
    files = item.belljar.files if item.belljar is not UNSET else ()
    return {"status": item.status, "outputs": item.outputs or (), "files": files}


def _cited(annotation: Annotation, offset: int, base_url: str) -> Body:
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


def _finish_reason(response: Response) -> str:
    if response.status == "incomplete":
        why = response.incomplete_details
        return "content_filter" if why is not None and why.reason == "content_filter" else "length"
    called = any(isinstance(item, FunctionCall | CustomToolCall) for item in response.output)
    return "tool_calls" if called else "stop"


def _usage(usage: Usage | None) -> Body | None:
    if usage is None:
        return None
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


def _error(message: str, kind: str, code: str | None, param: str | None) -> Body:
    return {"message": message, "type": kind, "param": param, "code": code}
