"""Gemini's contents as an answer: text, function calls, code that ran and the files among its outputs. Pure."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from belljar.providers.code_execution import CodeExecution, Outcome, OutputFile
from belljar.providers.tool_converters import Tool, tool_call
from belljar.providers.types import FINISHES, Answer, FinishReason
from belljar.vendors.gemini.stream import REASONS, read_usage
from belljar.wire import ids
from belljar.wire.responses import Usage

if TYPE_CHECKING:
    from google.genai.types import GenerateContentResponse, Part

_OUTCOMES: dict[str, Outcome] = {
    "OUTCOME_OK": "OUTCOME_OK",
    "OUTCOME_DEADLINE_EXCEEDED": "OUTCOME_DEADLINE_EXCEEDED",
}


@dataclass
class _Ran:
    code: str
    output: str = ""
    outcome: Outcome = "OUTCOME_FAILED"
    files: list[OutputFile] = field(default_factory=list)


def usage(last: GenerateContentResponse | None) -> Usage | None:
    """Every piece of a stream counts anew, so that the last tells all."""
    if last is None or last.usage_metadata is None:
        return None
    return read_usage(last.usage_metadata.model_dump_json(by_alias=True, exclude_none=True).encode())


def read(
    parts: Sequence[Part], tools: Sequence[Tool], *, finish: FinishReason, usage: Usage | None = None, native: Any
) -> Answer:
    text, calls = [], []
    ran: list[_Ran] = []
    files: list[OutputFile] = []
    for part in parts:
        if part.text and not part.thought:
            text.append(part.text)
        if part.function_call is not None:
            call = part.function_call
            calls.append(tool_call(call.id or ids.new("call"), call.name or "", call.args or {}, tools))
        if part.executable_code is not None:
            ran.append(_Ran(part.executable_code.code or ""))
        if part.code_execution_result is not None and ran:  # it follows its code
            result = part.code_execution_result
            ran[-1].output = result.output or ""
            ran[-1].outcome = _OUTCOMES.get(str(getattr(result.outcome, "value", "")), "OUTCOME_FAILED")
        if part.inline_data is not None:
            files.append(_file(len(files) + 1, part.inline_data.mime_type or "", part.inline_data.data or b""))
            if ran:
                ran[-1].files.append(files[-1])
    return Answer(
        text="".join(text),
        tool_calls=calls,
        executions=[_execution(one) for one in ran],
        files=files,
        finish=finish,
        usage=usage,
        native=native,
    )


def finish(reason: str, *, called: bool) -> FinishReason:
    if reason == "STOP":
        return "tool_calls" if called else "stop"
    return FINISHES[REASONS[reason]] if reason in REASONS else "other"


def merged(parts: Sequence[Part]) -> list[Part]:
    """Pieces of text that came one by one as one. A signature stays on the part that it came on."""
    whole: list[Part] = []
    for part in parts:
        last = whole[-1] if whole else None
        if last is not None and _is_plain(last) and _is_plain(part) and last.thought == part.thought:
            whole[-1] = last.model_copy(update={"text": (last.text or "") + (part.text or "")})
        else:
            whole.append(part)
    return whole


def _is_plain(part: Part) -> bool:
    return part.text is not None and part.thought_signature is None


def _execution(ran: _Ran) -> CodeExecution:
    """Gemini gives stdout where the code ran through, stderr before it where not."""
    ok = ran.outcome == "OUTCOME_OK"
    return CodeExecution(
        code=ran.code,
        stdout=ran.output if ok else "",
        stderr="" if ok else ran.output,
        outcome=ran.outcome,
        output_files=tuple(ran.files),
    )


def _file(number: int, kind: str, data: bytes) -> OutputFile:
    return OutputFile.of_bytes(f"output-{number}{mimetypes.guess_extension(kind) or ''}", data, kind)
