"""The streamed answer of POST /messages as deltas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from belljar.errors import Garbled
from belljar.vendors import vendor_tag
from belljar.vendors.anthropic import sandbox as anthropic_sandbox
from belljar.vendors.anthropic.errors import read_stream_error
from belljar.vendors.anthropic.messages import VENDOR
from belljar.vendors.anthropic.request import Paused, answer_tool, encode, is_hosted
from belljar.vendors.anthropic.sandbox import CodeTool
from belljar.vendors.anthropic.wire_version import OTHERS, WireVersion
from belljar.vendors.deltas import (
    Begun,
    CallBegun,
    CallEnd,
    CallPiece,
    Cited,
    ContainerUsed,
    Delta,
    Finish,
    HostedCode,
    HostedEnd,
    Refused,
    Text,
    Thought,
    ThoughtEnd,
    UsageDelta,
)
from belljar.vendors.partial_json import Members
from belljar.vendors.request import ModelRequest, Verbatim
from belljar.vendors.sse import Lines
from belljar.vendors.stream_decoder import StreamDecoder
from belljar.wire import codec
from belljar.wire.items import Annotation, FileCitation, Json, Reasoning, SummaryText, UrlCitation
from belljar.wire.responses import InputDetails, OutputDetails, Usage
from belljar.wire.tools import CustomTool

_Reason: TypeAlias = Literal["stop", "length", "filtered"]

_PAUSE = "pause_turn"
PAUSES = 20
"""Times that one answer may be interrupted and is asked to go on; after the next it counts as cut off."""
_REASONS: Mapping[str, _Reason] = MappingProxyType(
    {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "filtered", _PAUSE: "length"}
)
"""What its `stop_reason` means, where the answer did not come to its end."""
_KNOWN = frozenset(["end_turn", "stop_sequence", "tool_use", *_REASONS])


# -- the wire: only what is read --------------------------------------------------------------------------------------


class _Kind(Struct, gc=False):
    type: str = ""


class _Details(Struct, gc=False):
    explanation: str | None = None


class _Container(Struct, gc=False):
    id: str = ""
    expires_at: str | None = None


class _Delta(Struct, gc=False):
    """Of a block, or of the message."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    citation: Raw = Raw()
    stop_reason: str | None = None
    stop_details: _Details | None = None
    container: _Container | None = None


class _OutputDetails(Struct, gc=False):
    thinking_tokens: int | None = None


class _Usage(Struct, gc=False):
    """Counts that grow; a later one need not repeat what did not."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None


class _Event(Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: Raw = Raw()
    message: Raw = Raw()
    usage: _Usage | None = None


class _Block(Struct, gc=False):
    type: str = ""
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    input: Raw = Raw(b"{}")
    tool_use_id: str = ""
    content: Raw = Raw()
    citations: tuple[Raw, ...] | None = None


class _Message(Struct, gc=False):
    id: str = ""
    content: tuple[Raw, ...] = ()
    stop_reason: str | None = None
    stop_details: _Details | None = None
    container: _Container | None = None
    usage: _Usage | None = None


class _Citation(Struct, gc=False):
    type: str = ""
    url: str = ""
    source: str = ""
    title: str | None = None
    file_id: str | None = None
    document_title: str | None = None


_kind = msgspec.json.Decoder(_Kind).decode
_event = msgspec.json.Decoder(_Event).decode
_block = msgspec.json.Decoder(_Block).decode
_message = msgspec.json.Decoder(_Message).decode
_citation = msgspec.json.Decoder(_Citation).decode


# -- the decoder ------------------------------------------------------------------------------------------------------


class _Member:
    """One text in the input of a tool, as it is written."""

    __slots__ = ("_members", "_name", "given")

    def __init__(self, name: str) -> None:
        self._name = name
        self._members = Members(name)
        self.given = 0
        """Characters of it that have been told."""

    def feed(self, piece: str) -> str:
        new = self._members.feed(piece)
        self.given += len(new)
        return new

    def whole(self) -> str | None:
        """When no more comes; None if there was no such text."""
        self._members.finish()
        return next((text for name, text in self._members.strings if name == self._name), None)


class _Open:
    """A block that is being written."""

    __slots__ = ("begun_at", "block", "citations", "custom", "member", "number", "pieces", "raw", "signature")

    def __init__(self, block: _Block, raw: Raw, begun_at: int) -> None:
        self.block = block
        self.raw = raw
        self.begun_at = begun_at
        """Where in the text of the message."""
        self.pieces: list[str] = []
        self.signature: list[str] = []
        self.citations: list[Raw] = []
        self.number = -1
        """Of the call or cell, in the whole answer."""
        self.custom = False
        self.member: _Member | None = None
        """Where one text in the input is all that counts."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class _Cell:
    """A cell whose result is still to come."""

    __slots__ = ("code", "number", "tool")

    def __init__(self, number: int, tool: CodeTool, code: str) -> None:
        self.number = number
        self.tool = tool
        self.code = code


class MessagesDecoder(StreamDecoder):
    """One answer, with all the pauses that the vendor made in it; or a whole message in place of a stream."""

    def __init__(
        self,
        request: ModelRequest,
        version: WireVersion = OTHERS,
        upstream: str = "the model's server",
        *,
        keep: bool = False,
    ) -> None:
        super().__init__(upstream)
        self._request = request
        self._version = version
        self._custom = frozenset(tool.name for tool in request.tools if isinstance(tool, CustomTool))
        self._answer_tool = answer_tool(request, version)
        self._hosted = is_hosted(request)
        """The vendor runs code: only that is ever paused, and only that has a container."""
        self._verbatim = keep
        self._content: list[dict[str, Any]] = []
        self._container: _Container | None = None
        self._pauses = 0
        self._open: dict[int, _Open] = {}
        self._torn: _Open | None = None
        """A call that ended in the middle of its input, or without any: what comes next tells why."""
        self._cells: dict[str, _Cell] = {}
        self._count = 0
        self._called = False
        self._length = 0
        """Of the text since something else came."""
        self._usage = _Usage()
        self._reason: str | None = None
        self._explanation = ""
        self._done = False

    def _take(self, payload: bytes, out: list[Delta]) -> None:
        if self._done:
            return
        try:
            event = _event(payload)
        except msgspec.ValidationError:
            if _kind(payload).type in _EVENTS:
                raise
            return  # an event that we do not read may look as it likes
        take = _EVENTS.get(event.type)
        if take is not None:
            take(self, event, out)
        elif event.type == "message":
            self._whole(_message(payload), out)
        elif event.type == "error" or not event.type:
            raise read_stream_error(payload, self._upstream)

    def _end(self, out: list[Delta]) -> None:
        if not self._done:
            if self._reason is None:
                raise Garbled(f"{self._upstream} ended the stream in the middle of the answer")
            self._conclude(out)

    def resume(self) -> bytes | None:
        if not self._is_paused():
            return None
        self._pauses += 1
        self._lines, self._usage, self._reason, self._done = Lines(), _Usage(), None, False
        container = self._container.id if self._container is not None else None
        return encode(self._request, self._version, Paused(tuple(self._content), container))

    def verbatim(self) -> Verbatim | None:
        return Verbatim(VENDOR, tuple(self._content)) if self._verbatim else None

    def _is_paused(self) -> bool:
        return self._reason == _PAUSE and self._pauses < PAUSES

    # -- the message

    def _start_message(self, event: _Event, out: list[Delta]) -> None:
        message = _message(event.message)
        self._tell_id(message, out)
        self._note(message.usage, message.container)

    def _change_message(self, event: _Event, out: list[Delta]) -> None:
        delta = event.delta or _Delta()
        self._note(event.usage, delta.container)
        self._note_stop(delta.stop_reason, delta.stop_details)

    def _over(self, event: _Event, out: list[Delta]) -> None:
        self._conclude(out)

    def _tell_id(self, message: _Message, out: list[Delta]) -> None:
        if message.id and not self._pauses:
            out.append(Begun(message.id))

    def _whole(self, message: _Message, out: list[Delta]) -> None:
        self._tell_id(message, out)
        for index, block in enumerate(message.content):
            self._begin(index, block, out)
            self._finish(index, out)
        self._note(message.usage, message.container)
        self._note_stop(message.stop_reason or "end_turn", message.stop_details)
        self._conclude(out)

    def _note(self, usage: _Usage | None, container: _Container | None) -> None:
        if container is not None and container.id:
            self._container = container
        if usage is not None:
            for name in _Usage.__struct_fields__:
                if (value := getattr(usage, name)) is not None:
                    setattr(self._usage, name, value)

    def _note_stop(self, reason: str | None, details: _Details | None) -> None:
        self._reason = reason or self._reason
        if details is not None and details.explanation:
            self._explanation = details.explanation

    def _conclude(self, out: list[Delta]) -> None:
        self._done = True
        for index in list(self._open):
            self._finish(index, out)
        reason = _REASONS.get(self._reason or "", "stop")
        if reason == "stop" or self._is_paused():
            self._end_torn(out)
        elif self._torn is not None and self._content:  # half a call, which nobody is told of, is not sent back
            self._content.pop()
        if not self._is_paused():
            for use_id, cell in self._cells.items():
                item, ran = anthropic_sandbox.write_unfinished_cell(cell.tool, use_id, cell.code)
                out.append(HostedEnd(cell.number, item, ran=ran))
            if self._hosted and self._container is not None:
                out.append(ContainerUsed(self._container.id, self._container.expires_at))
            if reason == "filtered" and self._explanation:
                out.append(Refused(self._explanation))
            if reason == "stop" and self._called:
                out.append(Finish("calls"))
            else:
                out.append(Finish(reason, unknown=self._reason not in _KNOWN))
        out.append(UsageDelta(_convert_usage(self._usage)))

    # -- blocks

    def _start_block(self, event: _Event, out: list[Delta]) -> None:
        self._begin(event.index, event.content_block, out)

    def _change_block(self, event: _Event, out: list[Delta]) -> None:
        delta, block = event.delta, self._open.get(event.index)
        if delta is None or block is None:
            return
        if delta.text:
            self._say(block, delta.text, out)
        elif delta.partial_json:
            self._write(block, delta.partial_json, out)
        elif delta.thinking:
            block.pieces.append(delta.thinking)
            out.append(Thought(delta.thinking, "summary"))
        elif delta.signature:
            block.signature.append(delta.signature)
        elif delta.citation:
            block.citations.append(delta.citation)

    def _stop_block(self, event: _Event, out: list[Delta]) -> None:
        self._finish(event.index, out)

    def _begin(self, index: int, raw: Raw, out: list[Delta]) -> None:
        self._end_torn(out)
        block = _block(raw)
        opened = self._open[index] = _Open(block, raw, self._length)
        match block.type:
            case "text":
                opened.citations += block.citations or ()
                if block.text:
                    self._say(opened, block.text, out)
                return
            case "thinking":
                opened.signature.append(block.signature)
                if block.thinking:
                    opened.pieces.append(block.thinking)
                    out.append(Thought(block.thinking, "summary"))
            case "tool_use" if block.name != self._answer_tool:
                self._called = True
                opened.number = self._next()
                opened.custom = block.name in self._custom
                opened.member = _Member("input") if opened.custom else None
                out.append(CallBegun(opened.number, block.id, block.name, opened.custom))
            case "server_tool_use" if (tool := anthropic_sandbox.tool_of(block.name)) is not None:
                opened.number = self._next()
                opened.member = _Member(tool.member) if tool.member else None
                out.append(HostedCode(opened.number, anthropic_sandbox.id_of(tool, block.id), "", ""))
        self._length = 0
        if (given := bytes(msgspec.json.format(block.input, indent=-1))) != b"{}":
            self._write(opened, given.decode(), out)

    def _finish(self, index: int, out: list[Delta]) -> None:
        opened = self._open.pop(index, None)
        if opened is None:
            return
        block = opened.block
        match block.type:
            case "text":
                for citation in opened.citations:
                    if (found := _annotation(citation, opened.begun_at, self._length)) is not None:
                        out.append(Cited(found))
            case "thinking":
                out.append(ThoughtEnd(_make_reasoning(opened.text, "".join(opened.signature))))
            case "redacted_thinking":
                out.append(ThoughtEnd(_keep_block({"type": block.type, "data": block.data})))
            case "tool_use" if block.name != self._answer_tool:
                self._torn = opened
                if _is_whole(opened.text):
                    self._end_torn(out)
            case "server_tool_use" if (tool := anthropic_sandbox.tool_of(block.name)) is not None:
                code = self._tell_rest(opened, out)
                self._cells[block.id] = _Cell(opened.number, tool, code)
            case _ if (cell := self._cells.pop(block.tool_use_id, None)) is not None:
                item, files, ran = anthropic_sandbox.read_result(cell.tool, block.tool_use_id, cell.code, block.content)
                out.append(HostedEnd(cell.number, item, files, ran))
        if self._hosted or self._verbatim:
            self._keep(opened)

    def _next(self) -> int:
        self._count += 1
        return self._count - 1

    # -- what is in them

    def _say(self, block: _Open, text: str, out: list[Delta]) -> None:
        block.pieces.append(text)
        self._length += len(text)
        out.append(Text(text))

    def _write(self, block: _Open, piece: str, out: list[Delta]) -> None:
        """A piece of the input of a tool."""
        block.pieces.append(piece)
        if block.number < 0:
            if block.block.type == "tool_use":
                out.append(Text(piece))
            return
        if block.member is not None:
            piece = block.member.feed(piece)
        if piece:
            self._tell(block, piece, out)

    def _tell(self, block: _Open, piece: str, out: list[Delta]) -> None:
        tool = anthropic_sandbox.tool_of(block.block.name) if block.block.type == "server_tool_use" else None
        if tool is None:
            out.append(CallPiece(block.number, piece))
        else:
            out.append(HostedCode(block.number, anthropic_sandbox.id_of(tool, block.block.id), "", piece))

    def _tell_rest(self, block: _Open, out: list[Delta]) -> str:
        """The whole of the text that counts, or of the input; what of it had not been told is."""
        if block.member is None:
            return block.text
        text = block.member.whole()
        if text is None:
            text = block.text
        if rest := text[block.member.given :]:
            self._tell(block, rest, out)
        return text

    def _end_torn(self, out: list[Delta]) -> None:
        block, self._torn = self._torn, None
        if block is None:
            return
        if not block.pieces and not block.custom:
            self._write(block, "{}", out)
        out.append(CallEnd(block.number, self._tell_rest(block, out)))

    def _keep(self, block: _Open) -> None:
        """The block as it must go back for the answer to go on."""
        kept: dict[str, Any] = msgspec.json.decode(block.raw)
        match kept["type"]:
            case "text":
                if not block.text.strip():
                    return
                kept = {"type": "text", "text": block.text}
                if block.citations:
                    kept["citations"] = [msgspec.json.decode(one) for one in block.citations]
            case "thinking":
                kept |= {"thinking": block.text, "signature": "".join(block.signature)}
            case _ if block.pieces and "input" in kept:
                kept["input"] = _decode_input(block.text)
        self._content.append(kept)


_Take: TypeAlias = Callable[[MessagesDecoder, _Event, list[Delta]], None]
_EVENTS: Mapping[str, _Take] = MappingProxyType(
    {
        "content_block_delta": MessagesDecoder._change_block,
        "content_block_start": MessagesDecoder._start_block,
        "content_block_stop": MessagesDecoder._stop_block,
        "message_start": MessagesDecoder._start_message,
        "message_delta": MessagesDecoder._change_message,
        "message_stop": MessagesDecoder._over,
    }
)


def _make_reasoning(text: str, signature: str) -> Reasoning:
    """What a server without signatures thought cannot go back."""
    summary = (SummaryText(text=text),) if text else ()
    if not signature:
        return Reasoning(summary=summary)
    return _keep_block({"type": "thinking", "thinking": text, "signature": signature}, summary)


def _keep_block(block: Json, summary: tuple[SummaryText, ...] = ()) -> Reasoning:
    sealed = vendor_tag.tag(VENDOR, msgspec.json.encode(block).decode())
    return Reasoning(summary=summary, encrypted_content=sealed)


def _annotation(raw: Raw, start: int, end: int) -> Annotation | None:
    """A citation of what the caller can find: an address, or a file by its id."""
    citation = _citation(raw)
    address = citation.url or citation.source
    if address:
        return UrlCitation(start_index=start, end_index=end, title=citation.title or "", url=address)
    if citation.file_id:
        return FileCitation(file_id=citation.file_id, filename=citation.document_title or "", index=end)
    return None


def _decode_input(text: str) -> Json:
    try:
        return codec.decode(text)
    except msgspec.DecodeError:
        return {}


def _is_whole(text: str) -> bool:
    try:
        return isinstance(codec.decode(text), dict)
    except msgspec.DecodeError:
        return False


def _convert_usage(usage: _Usage) -> Usage:
    """Here, what was cached does not count as input; on our wire it is part of it."""
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    asked, answered = (usage.input_tokens or 0) + read + written, usage.output_tokens or 0
    details = usage.output_tokens_details or _OutputDetails()
    return Usage(
        input_tokens=asked,
        input_tokens_details=InputDetails(cached_tokens=read, cache_write_tokens=written),
        output_tokens=answered,
        output_tokens_details=OutputDetails(reasoning_tokens=details.thinking_tokens or 0),
        total_tokens=asked + answered,
    )
