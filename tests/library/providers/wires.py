"""Answers of each vendor, as small as they come."""

from __future__ import annotations

import json
from typing import Any

from tests.library.providers.replay import Reply

# -- the Responses API ------------------------------------------------------------------------------------------------


def message(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}


def function_call(name: str, arguments: dict[str, Any], call_id: str = "call_1") -> dict[str, Any]:
    return {
        "id": f"fc_{call_id}",
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": json.dumps(arguments),
        "status": "completed",
    }


def response(id: str, *items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "id": id,
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "sim",
        "error": None,
        "incomplete_details": None,
        "output": list(items),
        "usage": None,
        **fields,
    }


def responded(id: str, *items: dict[str, Any], **fields: Any) -> Reply:
    return Reply(response(id, *items, **fields))


def streamed(id: str, *pieces: str) -> Reply:
    """A message, piece by piece."""
    item = message("".join(pieces))
    empty = response(id, status="in_progress")
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    kinds: list[dict[str, Any]] = [
        {"type": "response.created", "response": empty},
        {"type": "response.in_progress", "response": empty},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        *({"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []} for piece in pieces),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response(id, item)},
    ]
    return Reply(events=[{**event, "sequence_number": n} for n, event in enumerate(kinds)])


def refused(
    status: int, message: str = "no", *, code: str | None = None, type: str = "invalid_request_error", **fields: Any
) -> Reply:
    """An error of OpenAI's shape; what is left over are headers, with - for _."""
    param = fields.pop("param", None)
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    return Reply(
        {"error": {"message": message, "type": type, "param": param, "code": code}}, status=status, headers=headers
    )


TOO_LONG = refused(400, "Your input exceeds the context window of this model.", code="context_length_exceeded")

# -- chat completions -------------------------------------------------------------------------------------------------


def chunks(*pieces: str, calls: tuple[tuple[str, str, dict[str, Any]], ...] = (), reason: str | None = None) -> Reply:
    shared = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "sim"}
    deltas: list[dict[str, Any]] = [{"content": piece} for piece in pieces]
    deltas += [
        {
            "tool_calls": [
                {"index": n, "id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            ]
        }
        for n, (id, name, given) in enumerate(calls)
    ]
    events = [{**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    ended = reason or ("tool_calls" if calls else "stop")
    events.append({**shared, "choices": [{"index": 0, "delta": {}, "finish_reason": ended}]})
    return Reply(events=events)


# -- Anthropic --------------------------------------------------------------------------------------------------------


def claude(*blocks: dict[str, Any], stop_reason: str = "end_turn", **fields: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-6",
        "content": list(blocks),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
        **fields,
    }


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def claude_streamed(*pieces: str) -> Reply:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**claude(), "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": said("")},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
    ]
    return Reply(events=events)


def claude_refused(status: int, type: str, message: str = "no", **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply({"type": "error", "error": {"type": type, "message": message}}, status=status, headers=named)


# -- Gemini -----------------------------------------------------------------------------------------------------------


def gemini(*parts: dict[str, Any], reason: str | None = "STOP", **fields: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "modelVersion": "gemini-3-flash-preview", "responseId": "r", **fields}


def gemini_streamed(*pieces: str) -> Reply:
    *first, last = pieces
    return Reply(events=[*(gemini({"text": piece}, reason=None) for piece in first), gemini({"text": last})])


def gemini_refused(status: int, name: str, message: str = "no", details: list[Any] | None = None) -> Reply:
    return Reply(
        {"error": {"code": status, "message": message, "status": name, "details": details or []}}, status=status
    )
