"""The streamed answer of POST /responses as deltas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from belljar.errors import Garbled
from belljar.vendors.deltas import (
    Begun,
    CallBegun,
    CallEnd,
    CallPiece,
    Cited,
    Delta,
    Finish,
    HostedCode,
    HostedEnd,
    PassThrough,
    Ran,
    Refused,
    Text,
    Thought,
    ThoughtEnd,
    UsageDelta,
)
from belljar.vendors.errors import read_stream_error
from belljar.vendors.openai.request import VENDOR
from belljar.vendors.request import HostedFile, Verbatim
from belljar.vendors.stream_decoder import StreamDecoder
from belljar.wire.items import (
    Annotation,
    CallStatus,
    CellEnd,
    CodeInterpreterCall,
    CodeOutput,
    Json,
    OtherItem,
    Reasoning,
)
from belljar.wire.responses import InputDetails, OutputDetails, Usage

# -- the wire: only what is read --------------------------------------------------------------------------------------


class _Kind(Struct, gc=False):
    type: str = ""


class _Event(Struct, gc=False):
    type: str = ""
    delta: str = ""
    output_index: int = 0
    summary_index: int = 0
    logprobs: tuple[Json, ...] | None = None
    annotation: Raw = Raw()
    item: Raw = Raw()
    response: Raw = Raw()


class _Part(Struct, gc=False):
    text: str = ""
    refusal: str = ""
    annotations: tuple[Raw, ...] = ()
    logprobs: tuple[Json, ...] | None = None


class _Message(Struct, gc=False):
    content: tuple[_Part, ...] = ()


class _Call(Struct, gc=False):
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    input: str = ""
    status: str | None = None
    namespace: str | None = None


class _File(Struct, gc=False):
    file_id: str = ""
    name: str = ""


class _Cell(Struct, gc=False):
    """xAI's has the code in the arguments of a call instead, and tells of files and of how it ended.

    Belljar's own gateway tells that too, in words that only it has.
    """

    id: str = ""
    status: str | None = None
    code: str | None = None
    arguments: str = "{}"
    container_id: str = ""
    outputs: tuple[CodeOutput, ...] | None = None
    files: tuple[_File, ...] = ()
    end: CellEnd | UnsetType = UNSET
    belljar: Raw = Raw()


class _Code(Struct, gc=False):
    code: str = ""


class _InputDetails(Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OutputDetails(Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(Struct, gc=False):
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Incomplete(Struct, gc=False):
    reason: str = ""


class _Response(Struct, gc=False):
    id: str | None = None
    status: str = ""
    error: Any = None
    incomplete_details: _Incomplete | None = None
    output: tuple[Raw, ...] = ()
    usage: _Usage | None = None


_kind = msgspec.json.Decoder(_Kind).decode
_event = msgspec.json.Decoder(_Event).decode
_message = msgspec.json.Decoder(_Message).decode
_call = msgspec.json.Decoder(_Call).decode
_cell = msgspec.json.Decoder(_Cell).decode
_code = msgspec.json.Decoder(_Code).decode
_end = msgspec.json.Decoder(CellEnd).decode
_reasoning = msgspec.json.Decoder(Reasoning).decode
_annotation: Callable[[Raw], Annotation] = msgspec.json.Decoder(Annotation).decode
_response = msgspec.json.Decoder(_Response).decode

_TEXT = "response.output_text.delta"
_CITATIONS = frozenset(["container_file_citation", "url_citation", "file_citation", "file_path"])
_ENDED: Mapping[str | None, CallStatus] = MappingProxyType({"failed": "failed", "incomplete": "incomplete"})


# -- the decoder ------------------------------------------------------------------------------------------------------


class _Place:
    """One item of the output, as far as it has come."""

    __slots__ = ("begun", "cited", "container_id", "id", "pieces", "said")

    def __init__(self) -> None:
        self.begun = False
        self.said = False
        """Some of it has been streamed."""
        self.cited = 0
        self.pieces: list[str] = []
        self.id = ""
        self.container_id = ""


class ResponsesDecoder(StreamDecoder):
    """One answer. What an item has when it is done, and its deltas had not, is made up for then.

    So a server that streams less, or that answers with a whole response in place of a stream, gives the same deltas.
    Told to `keep` it, for who goes on from it there, it tells the answer's id and has its items as they came.
    """

    vendor: ClassVar[str] = VENDOR

    def __init__(self, upstream: str = "the model's server", *, keep: bool = False) -> None:
        super().__init__(upstream)
        self._kept: dict[int, dict[str, Any]] | None = {} if keep else None
        self._id: str | None = None
        """Of the answer, until it is told with the first delta: an error that comes before is of no answer."""
        self._begun = False
        self._places: dict[int, _Place] = {}
        self._called = False
        self._done = False

    def _take(self, payload: bytes, out: list[Delta]) -> None:
        if self._done or payload == b"[DONE]":
            return
        try:
            event = _event(payload)
        except msgspec.ValidationError:
            kind = _kind(payload).type
            if kind == _TEXT or kind in _EVENTS:
                raise
            return  # an event that we do not read may look as it likes
        if event.type == _TEXT:  # nearly all of them
            self._at(event.output_index).said = True
            out.append(Text(event.delta, event.logprobs or ()))
        elif event.type in _EVENTS:
            _EVENTS[event.type](self, event, out)
        elif event.type == "error":
            raise read_stream_error(msgspec.json.decode(payload), self._upstream)
        elif not event.type:
            self._conclude(_response(payload), "", out)
        if self._id is not None and out:
            out.insert(0, Begun(self._id))
            self._begun, self._id = True, None

    def _end(self, out: list[Delta]) -> None:
        if not self._done:
            raise Garbled(f"{self._upstream} ended the stream in the middle of the answer")

    def verbatim(self) -> Verbatim | None:
        return None if self._kept is None else Verbatim(self.vendor, tuple(self._kept[n] for n in sorted(self._kept)))

    def _at(self, index: int) -> _Place:
        place = self._places.get(index)
        if place is None:
            place = self._places[index] = _Place()
        return place

    # -- pieces of items

    def _read_refusal(self, event: _Event, out: list[Delta]) -> None:
        self._at(event.output_index).said = True
        out.append(Refused(event.delta))

    def _read_thought(self, event: _Event, out: list[Delta]) -> None:
        self._at(event.output_index).said = True
        out.append(Thought(event.delta))

    def _read_summary(self, event: _Event, out: list[Delta]) -> None:
        self._at(event.output_index).said = True
        out.append(Thought(event.delta, "summary", event.summary_index))

    def _read_citation(self, event: _Event, out: list[Delta]) -> None:
        self._at(event.output_index).cited += 1
        _cite(event.annotation, out)

    def _read_arguments(self, event: _Event, out: list[Delta]) -> None:
        self._at(event.output_index).pieces.append(event.delta)
        out.append(CallPiece(event.output_index, event.delta))

    def _read_code(self, event: _Event, out: list[Delta]) -> None:
        place = self._at(event.output_index)
        place.said = True
        out.append(HostedCode(event.output_index, place.id, place.container_id, event.delta))

    # -- whole items

    def _read_id(self, event: _Event, out: list[Delta]) -> None:
        if self._kept is not None:
            self._id = _response(event.response).id

    def _begin_item(self, event: _Event, out: list[Delta]) -> None:
        self._begin(event.output_index, event.item, out)

    def _begin(self, index: int, item: Raw, out: list[Delta]) -> None:
        place = self._at(index)
        if place.begun:
            return
        place.begun = True
        kind = _kind(item).type
        if kind in ("function_call", "custom_tool_call"):
            self._called = True
            call = _call(item)
            out.append(CallBegun(index, call.call_id, call.name, kind == "custom_tool_call", call.namespace))
        elif kind == "code_interpreter_call":
            cell = _cell(item)
            place.id, place.container_id = cell.id, cell.container_id
            out.append(HostedCode(index, cell.id, cell.container_id, ""))

    def _complete_item(self, event: _Event, out: list[Delta]) -> None:
        self._keep(event.output_index, event.item)
        self._complete(event.output_index, event.item, out)

    def _keep(self, index: int, item: Raw) -> None:
        if self._kept is not None:
            self._kept[index] = msgspec.json.decode(item)

    def _complete(self, index: int, item: Raw, out: list[Delta]) -> None:
        self._begin(index, item, out)
        place = self._at(index)
        match _kind(item).type:
            case "message":
                _complete_message(_message(item), place, out)
            case "reasoning":
                _complete_reasoning(_reasoning(item), place, out)
            case "function_call":
                call = _call(item)
                _complete_call(index, call, call.arguments or "{}", place, out)
            case "custom_tool_call":
                call = _call(item)
                _complete_call(index, call, call.input, place, out)
            case "code_interpreter_call":
                _complete_cell(index, _cell(item), place, out)
            case _:
                out.append(PassThrough(OtherItem(msgspec.json.decode(item))))

    # -- the end

    def _conclude_response(self, event: _Event, out: list[Delta]) -> None:
        self._conclude(_response(event.response), event.type.removeprefix("response."), out)

    def _conclude(self, response: _Response, status: str, out: list[Delta]) -> None:
        status = response.status or status
        if response.error or status not in ("completed", "incomplete"):
            raise read_stream_error(response.error or f"the response is {status or 'none'}", self._upstream)
        if self._kept is not None and not self._begun:
            self._id = response.id
        streamed = bool(self._places)
        for index, item in enumerate(response.output):
            self._keep(index, item)
            if not streamed:
                self._complete(index, item, out)
        self._done = True
        if status == "incomplete":
            why = response.incomplete_details
            out.append(Finish("filtered" if why and why.reason == "content_filter" else "length"))
        else:
            out.append(Finish("calls" if self._called else "stop"))
        if response.usage is not None:
            out.append(UsageDelta(_convert_usage(response.usage)))


_Take: TypeAlias = Callable[[ResponsesDecoder, _Event, list[Delta]], None]
_EVENTS: Mapping[str, _Take] = MappingProxyType(
    {
        "response.created": ResponsesDecoder._read_id,
        "response.output_item.added": ResponsesDecoder._begin_item,
        "response.output_item.done": ResponsesDecoder._complete_item,
        "response.output_text.annotation.added": ResponsesDecoder._read_citation,
        "response.refusal.delta": ResponsesDecoder._read_refusal,
        "response.reasoning_text.delta": ResponsesDecoder._read_thought,
        "response.reasoning.delta": ResponsesDecoder._read_thought,  # as Open Responses calls it
        "response.reasoning_summary_text.delta": ResponsesDecoder._read_summary,
        "response.function_call_arguments.delta": ResponsesDecoder._read_arguments,
        "response.custom_tool_call_input.delta": ResponsesDecoder._read_arguments,
        "response.code_interpreter_call_code.delta": ResponsesDecoder._read_code,
        "response.completed": ResponsesDecoder._conclude_response,
        "response.incomplete": ResponsesDecoder._conclude_response,
        "response.failed": ResponsesDecoder._conclude_response,
    }
)


def _complete_message(message: _Message, place: _Place, out: list[Delta]) -> None:
    if not place.said:
        for part in message.content:
            if part.text:
                out.append(Text(part.text, part.logprobs or ()))
            if part.refusal:
                out.append(Refused(part.refusal))
    citations = [citation for part in message.content for citation in part.annotations]
    for citation in citations[place.cited :]:
        _cite(citation, out)


def _cite(citation: Raw, out: list[Delta]) -> None:
    if _kind(citation).type in _CITATIONS:
        out.append(Cited(_annotation(citation)))


def _complete_reasoning(item: Reasoning, place: _Place, out: list[Delta]) -> None:
    if not place.said:
        out.extend(Thought(part.text, "summary", n) for n, part in enumerate(item.summary))
        out.extend(Thought(part.text) for part in item.content or ())
    out.append(ThoughtEnd(item))


def _complete_call(index: int, call: _Call, whole: str, place: _Place, out: list[Delta]) -> None:
    if not place.pieces:
        place.pieces.append(whole)
        out.append(CallPiece(index, whole))
    if call.status != "incomplete":
        out.append(CallEnd(index, "".join(place.pieces)))


def _complete_cell(index: int, cell: _Cell, place: _Place, out: list[Delta]) -> None:
    code = cell.code if cell.code is not None else _code(cell.arguments).code
    if not place.said:
        out.append(HostedCode(index, cell.id, cell.container_id, code))
    end = _read_cell_end(cell)
    item = CodeInterpreterCall(
        id=cell.id,
        status=_ENDED.get(cell.status, "completed"),
        code=code,
        container_id=cell.container_id,
        outputs=cell.outputs,
        belljar=end,
    )
    out.append(HostedEnd(index, item, tuple(map(_read_file, cell.files)), _read_run(code, end)))


def _read_cell_end(cell: _Cell) -> CellEnd | UnsetType:
    if not cell.belljar:
        return cell.end
    try:
        return _end(cell.belljar)
    except msgspec.ValidationError:  # whoever wrote it, it is no gateway of ours
        return UNSET


def _read_run(code: str, end: CellEnd | UnsetType) -> Ran | None:
    if isinstance(end, UnsetType) or end.stdout is None:
        return None
    late = end.exit == "timed_out"
    return Ran(code=code, stdout=end.stdout, stderr=end.stderr or "", exit=end.exit_code, late=late)


def _read_file(file: _File) -> HostedFile:
    return HostedFile(name=file.name or None, type="", id=file.file_id)


def _convert_usage(usage: _Usage) -> Usage:
    asked = usage.input_tokens_details or _InputDetails()
    answered = usage.output_tokens_details or _OutputDetails()
    return Usage(
        input_tokens=usage.input_tokens,
        input_tokens_details=InputDetails(
            cached_tokens=asked.cached_tokens or 0, cache_write_tokens=asked.cache_write_tokens or 0
        ),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputDetails(reasoning_tokens=answered.reasoning_tokens or 0),
        total_tokens=usage.total_tokens or usage.input_tokens + usage.output_tokens,
    )
