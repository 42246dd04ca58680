"""The streamed answer of :streamGenerateContent as deltas."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from belljar.errors import Filtered, Garbled, ProviderError
from belljar.vendors import custom_tool
from belljar.vendors.deltas import (
    CallBegun,
    CallEnd,
    CallPiece,
    Delta,
    Finish,
    HostedCode,
    HostedEnd,
    Ran,
    Text,
    Thought,
    ThoughtEnd,
    UsageDelta,
    VendorState,
)
from belljar.vendors.gemini.arguments import ArgumentWriter, Path, Scalar, read_path
from belljar.vendors.gemini.errors import read_stream_error
from belljar.vendors.gemini.signatures import Signed, pack_signature
from belljar.vendors.request import HostedFile, Verbatim
from belljar.vendors.stream_decoder import StreamDecoder
from belljar.wire import codec, ids
from belljar.wire.items import CellEnd, CodeInterpreterCall, CodeOutput, Image, Logs, Reasoning, SummaryText
from belljar.wire.responses import InputDetails, OutputDetails, Usage

_Reason: TypeAlias = Literal["stop", "length", "filtered"]

REASONS: Mapping[str, _Reason] = MappingProxyType(
    {
        "MAX_TOKENS": "length",
        "CONTINUATION": "length",
        "SAFETY": "filtered",
        "RECITATION": "filtered",
        "BLOCKLIST": "filtered",
        "PROHIBITED_CONTENT": "filtered",
        "SPII": "filtered",
        "MODEL_ARMOR": "filtered",
        "IMAGE_SAFETY": "filtered",
        "IMAGE_PROHIBITED_CONTENT": "filtered",
        "IMAGE_RECITATION": "filtered",
    }
)
"""What its `finishReason` means, where the answer did not come to its end."""
_BROKEN: Mapping[str, str] = MappingProxyType(
    {
        "MALFORMED_FUNCTION_CALL": "its model wrote a call that cannot be read; ask again",
        "UNEXPECTED_TOOL_CALL": "its model called a tool that it was not given; ask again",
        "MALFORMED_RESPONSE": "its model wrote an answer that cannot be read; ask again",
        "TOO_MANY_TOOL_CALLS": "its model called tools without end; ask for less at once",
        "LANGUAGE": "its model does not speak this language; ask in another",
        "OTHER": "it broke off its answer without saying why",
    }
)
_Ended: TypeAlias = tuple[Literal["completed", "failed"], CellEnd | UnsetType]

_UNTOLD: _Ended = ("completed", UNSET)
_ENDS: Mapping[str, _Ended] = MappingProxyType(
    {
        "OUTCOME_OK": ("completed", CellEnd(exit="ok", exit_code=0)),
        "OUTCOME_FAILED": ("completed", CellEnd(exit="raised")),
        "OUTCOME_DEADLINE_EXCEEDED": ("failed", CellEnd(exit="timed_out", exit_code=-1)),
    }
)


# -- the wire: only what is read --------------------------------------------------------------------------------------


class _PartialArg(Struct, gc=False, rename="camel"):
    json_path: str = ""
    string_value: str | UnsetType = UNSET
    number_value: int | float | UnsetType = UNSET
    bool_value: bool | UnsetType = UNSET
    null_value: Any = UNSET
    will_continue: bool = False


class _Call(Struct, gc=False, rename="camel"):
    id: str | None = None
    name: str | None = None
    args: Raw = Raw()
    partial_args: tuple[_PartialArg, ...] = ()
    will_continue: bool = False


class _Code(Struct, gc=False):
    code: str = ""
    id: str | None = None


class _Result(Struct, gc=False):
    outcome: str = ""
    output: str = ""


class _Blob(Struct, gc=False, rename="camel"):
    mime_type: str = "application/octet-stream"
    data: str = ""
    display_name: str | None = None


class _Part(Struct, gc=False, rename="camel"):
    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    function_call: _Call | None = None
    executable_code: _Code | None = None
    code_execution_result: _Result | None = None
    inline_data: _Blob | None = None


class _Content(Struct, gc=False):
    parts: tuple[_Part, ...] = ()


class _Candidate(Struct, gc=False, rename="camel"):
    index: int = 0
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _Feedback(Struct, gc=False, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _Usage(Struct, gc=False, rename="camel"):
    prompt_token_count: int = 0
    cached_content_token_count: int = 0
    candidates_token_count: int = 0
    thoughts_token_count: int = 0
    tool_use_prompt_token_count: int = 0
    total_token_count: int = 0


class _Chunk(Struct, gc=False, rename="camel"):
    candidates: tuple[_Candidate, ...] = ()
    usage_metadata: _Usage | None = None
    prompt_feedback: _Feedback | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


# -- the decoder ------------------------------------------------------------------------------------------------------


class _OpenCall:
    """A call whose arguments are streamed."""

    __slots__ = ("custom", "index", "path", "path_text", "pieces", "writer")

    def __init__(self, index: int, *, custom: bool) -> None:
        self.index = index
        self.custom = custom
        self.writer = ArgumentWriter()
        self.pieces: list[str] = []
        self.path_text: str | None = None
        self.path: Path = ()

    def write(self, path: str, value: Scalar, *, more: bool) -> str:
        if path != self.path_text:  # nearly every piece goes on where the last one was
            self.path_text, self.path = path, read_path(path)
        return self.writer.write(self.path, value, more=more)


class _Cell:
    """Code that Gemini runs, from its first line to the last image that came of it."""

    __slots__ = ("code", "files", "id", "index", "outputs", "result")

    def __init__(self, index: int, id: str, code: str) -> None:
        self.index = index
        self.id = id
        self.code = code
        self.result: _Result | None = None
        self.outputs: list[CodeOutput] = []
        self.files: list[HostedFile] = []


class GeminiDecoder(StreamDecoder):
    """One answer.

    `Finish` comes with the end of the stream, since every chunk counts the tokens anew. A signature of a call, of
    code or of a thought is sealed into the reasoning before it, that of text is `VendorState`. Calls of the functions
    in `custom` are turned back into free text. Told to `keep` it, it has the parts of the answer as they came.
    """

    def __init__(
        self,
        upstream: str = "the model's server",
        *,
        issuer: str = "gemini",
        custom: Collection[str] = (),
        new_id: Callable[[], str] = lambda: ids.new("call"),
        keep: bool = False,
    ) -> None:
        super().__init__(upstream)
        self._kept: list[dict[str, Any]] | None = [] if keep else None
        self._call_ids: list[str] = []
        self._issuer = issuer
        self._custom = custom
        self._new_id = new_id
        self._thoughts: list[str] = []
        self._call: _OpenCall | None = None
        self._calls = 0
        self._cell: _Cell | None = None
        self._cells = 0
        self._reason: str | None = None
        self._reason_told: str | None = None
        self._usage: _Usage | None = None

    def _take(self, payload: bytes, out: list[Delta]) -> None:
        chunk = _decode(payload)
        if chunk.error:
            raise read_stream_error(chunk.error, self._upstream)
        if chunk.usage_metadata is not None:
            self._usage = chunk.usage_metadata
        if self._kept is not None:
            self._keep(payload)
        for candidate in chunk.candidates:
            if candidate.index:
                continue
            if candidate.content is not None:
                for part in candidate.content.parts:
                    self._take_part(part, out)
            if candidate.finish_reason:
                self._reason, self._reason_told = candidate.finish_reason, candidate.finish_message
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            feedback = chunk.prompt_feedback
            more = f": {feedback.block_reason_message}" if feedback.block_reason_message else ""
            raise Filtered(f"{self._upstream} refused the conversation ({feedback.block_reason}){more}")

    def _keep(self, payload: bytes) -> None:
        """Pieces of text that came one by one are one; so are those of a call's arguments, once they are all there."""
        kept = self._kept
        assert kept is not None
        for candidate in msgspec.json.decode(payload).get("candidates", ()):
            if candidate.get("index"):
                continue
            for part in (candidate.get("content") or {}).get("parts", ()):
                if "functionCall" in part and not part["functionCall"].get("name"):
                    continue
                last = kept[-1] if kept else {}
                if _is_plain(last) and _is_plain(part) and last.get("thought") == part.get("thought"):
                    last["text"] += part["text"]
                else:
                    kept.append(part)

    def verbatim(self) -> Verbatim | None:
        """Without a call that was cut off: nobody could answer it."""
        if self._kept is None:
            return None
        whole = (part for part in self._kept if not part.get("functionCall", {}).get("willContinue"))
        return Verbatim(self._issuer, tuple(whole), tuple(self._call_ids))

    def _take_part(self, part: _Part, out: list[Delta]) -> None:
        if part.inline_data is not None:
            self._read_output_file(part.inline_data)
        elif part.function_call is not None:
            self._read_call(part.function_call, part.thought_signature, out)
        elif part.executable_code is not None:
            self._read_code(part.executable_code, part.thought_signature, out)
        elif part.code_execution_result is not None:
            self._ran(part.code_execution_result)
        elif part.thought:
            self._think(part, out)
        elif part.text or part.thought_signature:
            self._say(part, out)

    # -- text and reasoning

    def _say(self, part: _Part, out: list[Delta]) -> None:
        if part.text:
            if self._thoughts or self._cell is not None:
                self._end_cell(out)
                self._end_thought(out)
            out.append(Text(part.text))
        if part.thought_signature:
            out.append(VendorState(pack_signature(self._issuer, Signed("text", part.thought_signature))))

    def _think(self, part: _Part, out: list[Delta]) -> None:
        self._end_cell(out)
        if part.text:
            self._thoughts.append(part.text)
            out.append(Thought(part.text, "summary"))
        if part.thought_signature:
            self._end_thought(out, Signed("thought", part.thought_signature))

    def _end_thought(self, out: list[Delta], signed: Signed | None = None) -> None:
        if not self._thoughts and signed is None:
            return
        summary = (SummaryText(text="".join(self._thoughts)),) if self._thoughts else ()
        content = UNSET if signed is None else pack_signature(self._issuer, signed)
        self._thoughts = []
        out.append(ThoughtEnd(Reasoning(summary=summary, encrypted_content=content)))

    # -- calls

    def _read_call(self, call: _Call, signature: str | None, out: list[Delta]) -> None:
        if call.name:
            self._end_call(out)
            self._end_cell(out)
            self._end_thought(out, None if signature is None else Signed("call", signature))
            self._call = _OpenCall(self._calls, custom=call.name in self._custom)
            self._calls += 1
            self._call_ids.append(call.id or self._new_id())
            out.append(CallBegun(self._call.index, self._call_ids[-1], call.name, self._call.custom))
        if self._call is None:
            raise Garbled(f"{self._upstream} sent arguments of a call without a name")
        whole = bytes(call.args)
        if whole and whole != b"null":
            self._piece(self._call, whole.decode(), out)
        for argument in call.partial_args:
            self._argument(self._call, argument, out)
        if not call.will_continue:
            self._end_call(out)

    def _argument(self, call: _OpenCall, argument: _PartialArg, out: list[Delta]) -> None:
        given = (argument.string_value, argument.number_value, argument.bool_value)
        value: Scalar | UnsetType = next((one for one in given if one is not UNSET), UNSET)
        if value is UNSET:
            if argument.null_value is UNSET:
                return
            value = None
        try:
            text = call.write(argument.json_path, value, more=argument.will_continue)
        except ValueError as error:
            raise Garbled(f"{self._upstream} mixed up the arguments of a call: {error}") from None
        self._piece(call, text, out)

    def _piece(self, call: _OpenCall, text: str, out: list[Delta]) -> None:
        if text:
            call.pieces.append(text)
            if not call.custom:
                out.append(CallPiece(call.index, text))

    def _end_call(self, out: list[Delta]) -> None:
        call, self._call = self._call, None
        if call is None:
            return
        rest = call.writer.close()
        if rest != "{}" or not call.pieces:
            self._piece(call, rest, out)
        arguments = "".join(call.pieces)
        self._keep_arguments(call.index, arguments)
        if call.custom:
            arguments = custom_tool.read_input(arguments)
            out.append(CallPiece(call.index, arguments))
        out.append(CallEnd(call.index, arguments))

    def _keep_arguments(self, index: int, arguments: str) -> None:
        calls = [part["functionCall"] for part in self._kept or () if "functionCall" in part]
        if index < len(calls) and "args" not in calls[index]:
            for name in ("partialArgs", "willContinue"):
                calls[index].pop(name, None)
            calls[index]["args"] = codec.decode(arguments)

    # -- code that Gemini runs

    def _read_code(self, code: _Code, signature: str | None, out: list[Delta]) -> None:
        self._end_cell(out)
        self._end_thought(out, None if signature is None else Signed("code", signature))
        cell = self._cell = _Cell(self._cells, f"ci_{code.id}" if code.id else ids.new("ci"), code.code)
        self._cells += 1
        out.append(HostedCode(cell.index, cell.id, "", cell.code))

    def _ran(self, result: _Result) -> None:
        """What it made may still follow."""
        if self._cell is None:
            raise Garbled(f"{self._upstream} sent the result of code that it had not shown")
        self._cell.result = result

    def _read_output_file(self, blob: _Blob) -> None:
        if self._cell is None:
            return  # a picture that the model itself drew: there is no place for it in an answer of text
        try:
            data = base64.b64decode(blob.data, altchars=b"-_" if "-" in blob.data or "_" in blob.data else None)
        except binascii.Error:
            raise Garbled(f"{self._upstream} sent a file that is not base64") from None
        if blob.mime_type.startswith("image/"):
            encoded = base64.b64encode(data).decode()
            self._cell.outputs.append(Image(url=f"data:{blob.mime_type};base64,{encoded}"))
        self._cell.files.append(HostedFile(name=blob.display_name or None, type=blob.mime_type, data=data))

    def _end_cell(self, out: list[Delta]) -> None:
        cell = self._cell
        if cell is None or cell.result is None:
            return
        self._cell = None
        status, end = _ENDS.get(cell.result.outcome, _UNTOLD)
        logs = (Logs(logs=cell.result.output),) if cell.result.output else ()
        item = CodeInterpreterCall(
            id=cell.id,
            status=status,
            code=cell.code,
            container_id="",
            outputs=(*logs, *cell.outputs),
            belljar=end,
        )
        ok = cell.result.outcome == "OUTCOME_OK"
        told, wrong = (cell.result.output, "") if ok else ("", cell.result.output)
        ran = Ran(code=cell.code, stdout=told, stderr=wrong, late=status == "failed")
        out.append(HostedEnd(cell.index, item, tuple(cell.files), ran))

    # -- the end

    def _end(self, out: list[Delta]) -> None:
        if self._reason is None:
            raise Garbled(f"{self._upstream} ended the stream in the middle of the answer")
        if self._reason in _BROKEN:
            more = f" ({self._reason_told})" if self._reason_told else ""
            raise ProviderError(f"{self._upstream}: {_BROKEN[self._reason]}{more}")
        reason = REASONS.get(self._reason, "stop")
        self._end_cell(out)
        self._end_thought(out)
        if reason == "stop":
            self._end_call(out)
        out.append(Finish("calls" if reason == "stop" and self._calls else reason))
        if self._usage is not None:
            out.append(UsageDelta(_convert_usage(self._usage)))


def _is_plain(part: Mapping[str, Any]) -> bool:
    return "text" in part and "thoughtSignature" not in part


def _convert_usage(usage: _Usage) -> Usage:
    """What its own code execution read counts as input, what it thought as output."""
    asked = usage.prompt_token_count + usage.tool_use_prompt_token_count
    answered = usage.candidates_token_count + usage.thoughts_token_count
    return Usage(
        input_tokens=asked,
        input_tokens_details=InputDetails(cached_tokens=usage.cached_content_token_count),
        output_tokens=answered,
        output_tokens_details=OutputDetails(reasoning_tokens=usage.thoughts_token_count),
        total_tokens=usage.total_token_count or asked + answered,
    )
