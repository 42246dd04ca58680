"""Tools in Anthropic's format, as every vendor wants them; calls and results on their way back."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, NotRequired, Protocol, TypeAlias, TypedDict

from belljar.errors import InvalidRequest
from belljar.providers.null_defaults import with_defaults
from belljar.providers.strict import Loose, Schema
from belljar.providers.strict import strict as strict_schema
from belljar.wire.tools import FunctionTool

Tool: TypeAlias = Mapping[str, Any]
"""`name`, `description` and `input_schema`."""


class ToolObject(Protocol):
    """A tool as an object, such as `belljar.Tool[Params, Result](…)`; whoever has the client runs its handler."""

    @property
    def definition(self) -> dict[str, Any]:
        """What a model is told of it, in the form above."""


ToolResult: TypeAlias = Mapping[str, Any]
"""`tool_use_id` and `content`, which may be any JSON; `is_error` where the tool failed."""
Body: TypeAlias = dict[str, Any]

_NOTHING: Schema = {"type": "object", "properties": {}}
_log = logging.getLogger(__name__)


class ToolCall(TypedDict):
    """What the model wants run."""

    id: str
    name: str
    input: dict[str, Any]
    invalid: NotRequired[str]
    """The arguments as they came, where they are no JSON object."""


# -- tools ------------------------------------------------------------------------------------------------------------


def described_tools(tools: Iterable[Tool | ToolObject]) -> list[Tool]:
    """Tools as their data; InvalidRequest names one that is none."""
    if isinstance(tools, Mapping | str) or not isinstance(tools, Iterable):
        raise InvalidRequest(f"tools: a {type(tools).__name__} is not a list of tools; use [tool]", param="tools")
    return [_read_tool(tool, f"tools[{n}]") for n, tool in enumerate(tools)]


def _read_tool(tool: object, where: str) -> Tool:
    if isinstance(tool, Mapping):
        if not isinstance(tool.get("name"), str) or not tool["name"]:
            raise InvalidRequest(f"{where}: has no name; a tool has name, description and input_schema", param="tools")
        if not isinstance(tool.get("input_schema"), Mapping | None):
            raise InvalidRequest(f"{where}.input_schema: is no JSON schema; use an object", param="tools")
        return tool
    if hasattr(tool, "provider"):
        raise InvalidRequest(
            f"{where}: {getattr(tool, 'name', tool)!r} is run by its provider, and goes with adapters; for code use "
            "send_message(…, code_execution=True)",
            param="tools",
        )
    definition = getattr(tool, "definition", None)
    if not isinstance(definition, Mapping):
        raise InvalidRequest(
            f"{where}: a {type(tool).__name__} is no tool; use Tool[Params, Result](…), or a dict with name, "
            "description and input_schema",
            param="tools",
        )
    return definition


def convert_tools_for_openai(tools: Iterable[Tool], strict: bool = True) -> list[Body]:
    """For the Responses API, which takes tools for strict unless told otherwise.

    A tool that cannot be strict goes out as it is, with `strict` false and a warning.
    """
    return [{"type": "function", "strict": False, **_function(tool, strict)} for tool in tools]


def function_tools(tools: Iterable[Tool], *, strict: bool) -> tuple[FunctionTool, ...]:
    """The same as any dialect takes them."""
    return tuple(
        FunctionTool(
            name=one["name"], description=one.get("description"), parameters=one["parameters"], strict=one["strict"]
        )
        for one in convert_tools_for_openai(tools, strict)
    )


def convert_tools_for_chat_completions(tools: Iterable[Tool], strict: bool = False) -> list[Body]:
    return [{"type": "function", "function": _function(tool, strict)} for tool in tools]


def convert_tools_for_anthropic(tools: Iterable[Tool]) -> list[Body]:
    return [{**_name_tool(tool), "input_schema": _schema(tool)} for tool in tools]


def convert_tools_for_gemini(tools: Iterable[Tool]) -> list[Body]:
    """Function declarations."""
    return [{**_name_tool(tool), "parametersJsonSchema": _schema(tool)} for tool in tools]


def _function(tool: Tool, strict: bool) -> Body:
    written = {**_name_tool(tool), "parameters": _schema(tool)}
    if not strict:
        return written
    try:
        return {**written, "parameters": strict_schema(_schema(tool)), "strict": True}
    except Loose as loose:
        _log.warning("the tool %s is sent without strict mode: %s", tool["name"], loose)
        return {**written, "strict": False}


def _name_tool(tool: Tool) -> Body:
    return {name: tool[name] for name in ("name", "description") if name in tool}


def _schema(tool: Tool) -> Schema:
    return deepcopy(dict(tool.get("input_schema") or _NOTHING))


# -- calls ------------------------------------------------------------------------------------------------------------


def convert_openai_tool_calls(items: Iterable[Mapping[str, Any]], tools: Sequence[Tool] = ()) -> list[ToolCall]:
    """Of the output items of a response; with `tools`, nulls become defaults."""
    return [
        tool_call(item["call_id"], item["name"], item.get("arguments", ""), tools)
        for item in items
        if item.get("type") == "function_call"
    ]


def convert_chat_completions_tool_calls(
    calls: Iterable[Mapping[str, Any]], tools: Sequence[Tool] = ()
) -> list[ToolCall]:
    """Of the `tool_calls` of a message."""
    return [
        tool_call(call["id"], call["function"]["name"], call["function"].get("arguments", ""), tools) for call in calls
    ]


def tool_call(call_id: str, name: str, arguments: str | Mapping[str, Any], tools: Sequence[Tool] = ()) -> ToolCall:
    """One call, its arguments read and its nulls replaced."""
    given: object = arguments
    if isinstance(arguments, str):
        try:
            given = json.loads(arguments or "{}")
        except ValueError:
            given = None
    if not isinstance(given, Mapping):
        return {"id": call_id, "name": name, "input": {}, "invalid": str(arguments)}
    schema = next((tool.get("input_schema") for tool in tools if tool["name"] == name), None)
    return {"id": call_id, "name": name, "input": with_defaults(dict(given), schema or {})}


# -- results ----------------------------------------------------------------------------------------------------------


def build_openai_tool_results(results: Iterable[ToolResult]) -> list[Body]:
    return [
        {"type": "function_call_output", "call_id": one["tool_use_id"], "output": _mark_failure(one)} for one in results
    ]


def build_chat_completions_tool_results(results: Iterable[ToolResult]) -> list[Body]:
    return [{"role": "tool", "tool_call_id": one["tool_use_id"], "content": _mark_failure(one)} for one in results]


def build_anthropic_tool_results(results: Iterable[ToolResult]) -> list[Body]:
    return [
        {"type": "tool_result", "tool_use_id": one["tool_use_id"], "content": as_text(one["content"])}
        | ({"is_error": True} if one.get("is_error") else {})
        for one in results
    ]


def as_text(content: Any) -> str:
    """What a tool gave, as the model reads it."""
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)


def _mark_failure(result: ToolResult) -> str:
    """OpenAI's wires have no flag for a failure."""
    text = as_text(result["content"])
    return f"Error: {text}" if result.get("is_error") else text
