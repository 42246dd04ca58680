"""A turn as the body of POST /say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from belljar.errors import InvalidRequest
from belljar.vendors import code_call, function_names
from belljar.vendors.request import ModelRequest
from belljar.wire import codec
from belljar.wire.items import CodeInterpreterCall, FunctionCall, FunctionCallOutput, Message
from belljar.wire.tools import FunctionTool

NAMES = function_names.CHAT


def encode(request: ModelRequest) -> bytes:
    request = function_names.fit_names(request, NAMES)
    body = {
        "talk": [line for item in request.items for line in _lines(item, request)],
        "rules": request.instructions,
        "tools": [_tool(tool) for tool in request.tools],
        "longest": request.max_output_tokens,
    }
    return codec.encode({name: value for name, value in body.items() if value})


def _lines(item: object, request: ModelRequest) -> Iterator[dict[str, Any]]:
    match item:
        case Message(role=role, content=content):
            parts = content if not isinstance(content, str) else ()
            words = content if isinstance(content, str) else "".join(getattr(part, "text", "") for part in parts)
            yield {"who": "you" if role == "assistant" else "me", "words": words}
        case FunctionCall():
            yield {"who": "you", "do": item.name, "with": item.arguments, "as": item.call_id}
        case FunctionCallOutput():
            yield {"who": "tool", "words": item.output, "as": item.call_id}
        case CodeInterpreterCall():
            yield {"who": "you", "do": code_call.NAME, "with": code_call.write_arguments(item), "as": item.id}
            yield {"who": "tool", "words": code_call.write_output(item, request), "as": item.id}


def _tool(tool: object) -> dict[str, Any]:
    if not isinstance(tool, FunctionTool):
        raise InvalidRequest("tools: Tin Can calls functions and nothing else; leave the others out", param="tools")
    return {"name": tool.name, "about": tool.description, "takes": tool.parameters}
