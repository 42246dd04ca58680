"""A message of Anthropic's as an answer: what was said, called, run and cited. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from belljar.adapters.turns import Answer, Call, HostedCall
from belljar.providers import CodeExecution, OutputFile, anthropic_reading
from belljar.runtime import TokenUsage

_FINISHES: Mapping[str, Literal["length", "filtered", "paused"]] = MappingProxyType(
    {
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "refusal": "filtered",
        "pause_turn": "paused",
    }
)
_HOSTED = "code_execution"


def read(payload: Mapping[str, Any]) -> Answer:
    blocks: Sequence[Mapping[str, Any]] = payload["content"]
    container = (payload.get("container") or {}).get("id")
    said = [block for block in blocks if block["type"] == "text"]
    ran = anthropic_reading.read([payload], (), _file).executions
    ids = [block["id"] for block in blocks if _runs_code(block)]
    return Answer(
        text="".join(block["text"] for block in said),
        last="".join(block["text"] for block in _after_last_call(blocks) if block["type"] == "text"),
        calls=[Call(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"],
        hosted=[HostedCall(id, _HOSTED, _payload(one, container)) for id, one in zip(ids, ran, strict=True)],
        annotations=[one for block in said for one in block.get("citations") or ()],
        usage=_usage(payload["usage"]),
        finish=_FINISHES.get(payload.get("stop_reason") or "", "stop"),
        id=payload.get("id"),
    )


def _runs_code(block: Mapping[str, Any]) -> bool:
    return block["type"] == "server_tool_use" and str(block["name"]).endswith(_HOSTED)


def _after_last_call(blocks: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    last = max((n for n, block in enumerate(blocks, 1) if block["type"] not in ("text", "thinking")), default=0)
    return blocks[last:]


def _payload(ran: CodeExecution, container: str | None) -> dict[str, Any]:
    """The members of a CodeInterpreterOutput. A file goes by its id: its name would have to be asked for."""
    return {
        "output_text": ran.output,
        "code": ran.code,
        "container_id": container,
        "status": "completed" if ran.exit is not None else "failed",
        "stdout": ran.stdout,
        "stderr": ran.stderr,
        "exit_code": ran.exit,
        "citations": [
            {"container_id": container or "", "file_id": file.file_id, "filename": file.file_id}
            for file in ran.output_files
        ],
        "success": ran.outcome == "OUTCOME_OK",
    }


def _file(file_id: str) -> OutputFile:
    """Only its id is read here."""

    def refuse() -> Any:
        raise NotImplementedError

    return OutputFile(file_id, read=refuse, describe=refuse)


def _usage(usage: Mapping[str, Any]) -> TokenUsage:
    """What was read from a cache, or written to one, is part of the input."""
    cached = usage.get("cache_read_input_tokens")
    written = usage.get("cache_creation_input_tokens")
    return TokenUsage(usage["input_tokens"] + (cached or 0) + (written or 0), usage["output_tokens"], cached)
