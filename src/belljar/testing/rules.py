"""Refuse conversations that vendors refuse: bad call ids, wrong order of speakers, calls without results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeAlias

Body: TypeAlias = dict[str, Any]
Rule: TypeAlias = Callable[[Body], Iterator[str]]
"""A request's body in, everything out that the vendor finds wrong with it."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LONG_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_WORD = re.compile(r"[a-zA-Z0-9_-]+")


# -- chat completions -------------------------------------------------------------------------------------------------


def _openai_chat(body: Body) -> Iterator[str]:
    """OpenAI and Azure."""
    yield from _check_results(body["messages"])
    for path, id in _chat_ids(body["messages"]):
        if not 1 <= len(id) <= 40:
            yield (
                f"Invalid '{path}': string too long. Expected a string with maximum length 40, but got a string with"
                f" length {len(id)} instead."
            )
    yield from _names(body, _NAME)


def _mistral(body: Body) -> Iterator[str]:
    """Mistral's own servers."""
    yield from _mistral_model(body)
    for name in sorted(body.keys() - _MISTRALS):
        yield f"Extra inputs are not permitted: {name}"


def _mistral_model(body: Body) -> Iterator[str]:
    """Anybody's who serves a model of Mistral's: its chat template checks this much."""
    messages = body["messages"]
    for path, id in _chat_ids(messages):
        if not re.fullmatch(r"[a-zA-Z0-9]{9}", id):
            yield f"Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9. ({path})"
    for before, after in pairwise(messages):
        if after["role"] not in _MISTRALS_ORDER.get(before["role"], ()):
            yield f"Unexpected role '{after['role']}' after role '{before['role']}'"
    if messages[-1]["role"] not in ("user", "tool"):
        yield f"Expected last role User or Tool for serving but got {messages[-1]['role']}"
    for message in messages:
        if message["role"] == "assistant" and not (message["content"] or message.get("tool_calls")):
            yield "Assistant message must have either content or tool_calls, but not none."
    yield from _check_results(messages)
    yield from _names(body, _NAME)


_MISTRALS_ORDER: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "system": frozenset(["system", "user", "assistant"]),
        "user": frozenset(["system", "user", "assistant"]),
        "assistant": frozenset(["assistant", "user", "tool"]),
        "tool": frozenset(["assistant", "tool"]),
    }
)
_MISTRALS = frozenset(
    [
        "model", "messages", "temperature", "top_p", "max_tokens", "stream", "stop", "random_seed", "metadata", "tools",
        "response_format", "tool_choice", "presence_penalty", "frequency_penalty", "n", "prediction",
        "parallel_tool_calls", "prompt_mode", "safe_prompt",
    ]
)  # fmt: skip


def _chat_ids(messages: list[Body]) -> Iterator[tuple[str, str]]:
    for at, message in enumerate(messages):
        for n, call in enumerate(message.get("tool_calls", ())):
            yield f"messages[{at}].tool_calls[{n}].id", call["id"]
        if message["role"] == "tool":
            yield f"messages[{at}].tool_call_id", message["tool_call_id"]


def _check_results(messages: list[Body]) -> Iterator[str]:
    """Calls are followed by their results, each by one."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
                return
            waiting.remove(message["tool_call_id"])
        elif waiting:
            break
        waiting += [call["id"] for call in message.get("tool_calls", ())]
        if len(set(waiting)) < len(waiting):
            yield f"Duplicate tool call ids in {waiting}"
    if waiting:
        yield f"tool_call_ids did not have response messages: {', '.join(waiting)}"


def _names(body: Body, fits: re.Pattern[str]) -> Iterator[str]:
    calls = [call for message in body["messages"] for call in message.get("tool_calls", ())]
    for one in (*body.get("tools", ()), *calls):
        if not fits.fullmatch(one["function"]["name"]):
            yield f"Function name was {one['function']['name']} but must match {fits.pattern}"


# -- the Responses API ------------------------------------------------------------------------------------------------


def _responses(body: Body) -> Iterator[str]:
    """OpenAI's, which nobody is stricter than."""
    waiting: list[str] = []
    called: set[str] = set()
    for at, item in enumerate(body["input"]):
        kind = item["type"]
        if "id" in item:
            yield from _item_id(f"input[{at}].id", item["id"], kind)
        if not kind.startswith(("function_call", "custom_tool_call")):
            continue
        id = item["call_id"]
        if not 1 <= len(id) <= 64:
            yield (
                f"Invalid 'input[{at}].call_id': string too long. Expected a string with maximum length 64, but got a"
                f" string with length {len(id)} instead."
            )
        if not kind.endswith("_output"):
            if id in called:
                yield f"Duplicate call_id {id}."
            called.add(id)
            waiting.append(id)
            if not _LONG_NAME.fullmatch(item["name"]):
                yield f"Invalid 'input[{at}].name': {item['name']} does not match {_LONG_NAME.pattern}"
        elif id in waiting:
            waiting.remove(id)
        else:
            yield f"No tool call found for function call output with call_id {id}."
    for tool in body.get("tools", ()):
        if tool["type"] in ("function", "custom") and not _LONG_NAME.fullmatch(tool["name"]):
            yield f"Invalid 'tools.name': {tool['name']} does not match {_LONG_NAME.pattern}"
    for id in waiting:
        yield f"No tool output found for function call {id}."


_PREFIXES: Mapping[str, str] = MappingProxyType(
    {
        "message": "msg",
        "reasoning": "rs",
        "function_call": "fc",
        "function_call_output": "fc",
        "custom_tool_call": "ctc",
        "custom_tool_call_output": "ctc",
        "code_interpreter_call": "ci",
        "web_search_call": "ws",
        "file_search_call": "fs",
        "image_generation_call": "ig",
        "mcp_call": "mcp",
    }
)


def _item_id(path: str, id: str, kind: str) -> Iterator[str]:
    prefix = _PREFIXES.get(kind, "")
    if not id.startswith(prefix):
        yield f"Invalid '{path}': '{id}'. Expected an ID that begins with '{prefix}'."
    if not _WORD.fullmatch(id):
        yield f"Invalid '{path}': '{id}'. Expected an ID that contains letters, numbers, underscores, or dashes."
    if len(id) > 64:
        yield f"Invalid '{path}': string too long. Expected a string with maximum length 64, but got {len(id)}."


# -- Anthropic's Messages API -----------------------------------------------------------------------------------------


def _anthropic(body: Body) -> Iterator[str]:
    for tool in body.get("tools", ()):
        if not _LONG_NAME.fullmatch(tool["name"]):
            yield f"tools.name: String should match pattern '{_LONG_NAME.pattern}'"
    seen: set[str] = set()
    waiting: set[str] = set()
    for at, message in enumerate(body["messages"]):
        blocks = [block for block in message["content"] if isinstance(block, dict)]
        results = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
        if results - waiting:
            yield f"messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {results - waiting}"
        if waiting - results:
            yield f"messages.{at - 1}: `tool_use` ids were found without `tool_result` blocks: {waiting - results}"
        waiting = set()
        for n, block in enumerate(blocks):
            if block["type"] != "tool_use":
                continue
            id = block["id"]
            if not _WORD.fullmatch(id):
                yield f"messages.{at}.content.{n}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
            if id in seen:
                yield f"messages.{at}.content.{n}: `tool_use` ids must be unique"
            if not _LONG_NAME.fullmatch(block["name"]):
                yield f"messages.{at}.content.{n}.tool_use.name: String should match pattern '{_LONG_NAME.pattern}'"
            seen.add(id)
            waiting.add(id)
    if waiting:
        yield f"messages: `tool_use` ids were found without `tool_result` blocks: {waiting}"


# -- Gemini -----------------------------------------------------------------------------------------------------------


def _gemini(body: Body) -> Iterator[str]:
    tools = [one for tool in body.get("tools", ()) for one in tool.get("functionDeclarations", ())]
    calls = [
        part["functionCall"] for content in body["contents"] for part in content["parts"] if "functionCall" in part
    ]
    for one in (*tools, *calls):
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}", one["name"]):
            yield f"Invalid function name {one['name']}. Must start with a letter or an underscore."
    waiting: list[str] = []
    for content in body["contents"]:
        results = [part["functionResponse"]["id"] for part in content["parts"] if "functionResponse" in part]
        if sorted(results) != sorted(waiting):
            yield "Please ensure that function response turn comes immediately after a function call turn."
        waiting = [part["functionCall"]["id"] for part in content["parts"] if "functionCall" in part]
        if len(set(waiting)) < len(waiting):
            yield f"Duplicate function call ids in {waiting}"


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "openai chat": _openai_chat,
        "azure": _openai_chat,
        "mistral": _mistral,
        "mistral model": _mistral_model,
        "responses": _responses,
        "anthropic": _anthropic,
        "gemini": _gemini,
    }
)
"""By the vendor, or by the wire where it is the vendor's own."""


def refusal(rule: Rule, body: bytes) -> bytes | None:
    """What the vendor answers with the status 400; None where it takes the request."""
    complaint = next(rule(json.loads(body)), None)
    if complaint is None:
        return None
    return json.dumps({"error": {"message": complaint, "type": "invalid_request_error"}}).encode()
