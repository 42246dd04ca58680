"""A message of Anthropic's as an answer: text, tool calls, and the code that ran on the vendor's side. Pure."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import msgspec

from belljar.providers.code_execution import CodeExecution, OutputFile
from belljar.providers.tool_converters import Tool, tool_call
from belljar.providers.types import FINISHES, Answer, FinishReason
from belljar.vendors.anthropic.stream import REASONS, read_usage
from belljar.wire.responses import Usage

_RESULTS = ("code_execution_tool_result", "bash_code_execution_tool_result", "text_editor_code_execution_tool_result")
_FINISHED: Mapping[str, FinishReason] = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls"}

FileOf = Callable[[str], OutputFile]


def read(messages: Sequence[Mapping[str, Any]], tools: Sequence[Tool], file_of: FileOf) -> Answer:
    """Of one message, and of those before it that paused."""
    blocks = [block for message in messages for block in message["content"]]
    files: dict[str, OutputFile] = {}

    def file(id: str) -> OutputFile:
        return files[id] if id in files else files.setdefault(id, file_of(id))

    results = {block["tool_use_id"]: block["content"] for block in blocks if block["type"] in _RESULTS}
    executions = [
        _execution(block["input"], results.get(block["id"], {}), file)
        for block in blocks
        if block["type"] == "server_tool_use" and block["name"].endswith("code_execution")
    ]
    return Answer(
        text="".join(block["text"] for block in blocks if block["type"] == "text"),
        tool_calls=[
            tool_call(block["id"], block["name"], block["input"], tools)
            for block in blocks
            if block["type"] == "tool_use"
        ],
        executions=executions,
        files=list(files.values()),
        finish=_finish(messages[-1].get("stop_reason") or ""),
        usage=_usage(messages),
        native=blocks,
    )


def _finish(reason: str) -> FinishReason:
    return FINISHES[REASONS[reason]] if reason in REASONS else _FINISHED.get(reason, "other")


def _usage(messages: Sequence[Mapping[str, Any]]) -> Usage | None:
    """Of all requests that it took."""
    told = [read_usage(msgspec.json.encode(one["usage"])) for one in messages if one.get("usage")]
    return reduce(operator.add, told) if told else None


def _execution(asked: Mapping[str, Any], result: Mapping[str, Any], file_of: FileOf) -> CodeExecution:
    code = asked.get("code") or asked.get("command", "")
    if "path" in asked:  # the editor, whose command is one word
        code = f"{code} {asked['path']}\n{asked.get('file_text', '')}".rstrip()
    fault = result.get("error_code")
    exit = result.get("return_code", 0 if result and not fault else None)
    late = fault == "execution_time_exceeded"
    outputs = result.get("content")
    made = [one["file_id"] for one in outputs if "file_id" in one] if isinstance(outputs, list) else []
    return CodeExecution(
        code=code,
        stdout=result.get("stdout", outputs if isinstance(outputs, str) else ""),
        stderr=result.get("stderr", fault or ""),
        exit=exit,
        outcome="OUTCOME_DEADLINE_EXCEEDED" if late else "OUTCOME_OK" if exit == 0 else "OUTCOME_FAILED",
        output_files=tuple(file_of(one) for one in made),
    )
