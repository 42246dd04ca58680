"""A request's body by what it means: without what is only spelling, or how an answer is delivered and kept."""

from __future__ import annotations

import json
import re
from typing import Any

_DELIVERY = ("stream", "stream_options", "store", "model")
"""How the answer comes and who remembers it; which model it is, is in the row."""
_SEALED = "reasoning.encrypted_content"
"""Who does not have a conversation kept has its thoughts sealed."""
_KEPT = frozenset({"properties", "input_schema", "parameters", "schema", "parametersJsonSchema"})
"""Below these, names are the caller's own."""


def meaning(body: Any) -> Any:
    """The body in one spelling: a lone text as text, members that say what is so without them left out."""
    plain = _plain(body)
    for name in _DELIVERY:
        plain.pop(name, None)
    include = [one for one in plain.pop("include", ()) if one != _SEALED]
    if include:
        plain["include"] = include
    if plain.get("parallel_tool_calls") is True:
        del plain["parallel_tool_calls"]
    if plain.get("tool_choice") in ("auto", {"type": "auto"}):
        del plain["tool_choice"]
    text = {name: one for name, one in plain.pop("text", {}).items() if one not in ({"type": "text"}, "medium")}
    if text:
        plain["text"] = text
    if "systemInstruction" in plain:
        plain["systemInstruction"].pop("role", None)
    if "tools" in plain:
        plain["tools"] = sorted(plain["tools"], key=lambda tool: json.dumps(tool, sort_keys=True))  # a set to all
    return plain


def changes(before: Any, after: Any) -> dict[str, Any]:
    """Members that are new or other than before; None for those that are gone."""
    found: dict[str, Any] = {}
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old != new:
            found[name] = changes(old, new) if isinstance(old, dict) and isinstance(new, dict) else new
    return found


def _plain(value: Any, own: bool = False) -> Any:
    if isinstance(value, list):
        return [_plain(one, own) for one in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for name, one in value.items():
        key = name if own or name in _SNAKES else _camel(name)
        made[key] = _plain(one, own or key in _KEPT)
    if own:
        return made
    if made.get("type") == "message" and "role" in made:
        del made["type"]
    if made.get("strict") is False:
        del made["strict"]
    content = made.get("content")
    if isinstance(content, list) and len(content) == 1 and set(content[0]) == {"type", "text"}:
        made["content"] = content[0]["text"]
    return made


_SNAKES = frozenset(
    [
        "max_tokens", "max_output_tokens", "tool_choice", "parallel_tool_calls", "output_config", "input_schema",
        "previous_response_id", "stream_options", "disable_parallel_tool_use", "file_id", "file_ids",
        "reasoning_effort", "response_format", "safety_identifier", "prompt_cache_key", "user_id", "top_p",
        "top_logprobs", "service_tier",
        "file_data", "image_url", "call_id", "tool_call_id", "tool_calls", "cache_control", "eager_input_streaming",
        "json_schema", "max_completion_tokens", "include_usage", "media_type", "tool_use_id", "encrypted_content",
    ]
)  # fmt: skip
"""As their vendors write them. Google takes both spellings, and its SDK uses both."""


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)
