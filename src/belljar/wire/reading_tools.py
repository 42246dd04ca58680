"""Parse tools and tool_choice from JSON, and check that the choice was declared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from msgspec import UNSET

from belljar.errors import InvalidRequest
from belljar.wire import error_messages
from belljar.wire.conversion import fit
from belljar.wire.error_messages import at
from belljar.wire.items import Json, Value
from belljar.wire.tools import (
    HOSTED,
    AllowedTools,
    AutoContainer,
    Choice,
    CodeInterpreterTool,
    CustomTool,
    FunctionTool,
    HostedTool,
    NetworkPolicy,
    Tool,
    ToolChoice,
)

_OURS: dict[str, type[Value]] = {
    "function": FunctionTool,
    "custom": CustomTool,
    "code_interpreter": CodeInterpreterTool,
}
_TOOLS = tuple(sorted([*_OURS, *HOSTED]))
_CHOICES = tuple(sorted([*_TOOLS, "computer_use"]))
_MODES: tuple[Literal["none", "auto", "required"], ...] = ("none", "auto", "required")


def read_tools(value: Json, path: str) -> tuple[Tool, ...]:
    if not isinstance(value, list):
        raise error_messages.wrong_type(path, ["an array of objects"], value)
    tools = tuple([_read_tool(one, f"{path}[{n}]") for n, one in enumerate(value)])
    seen: set[str] = set()
    for n, tool in enumerate(tools):
        if isinstance(tool, FunctionTool | CustomTool):
            if tool.name in seen:
                raise InvalidRequest(
                    f"Invalid '{path}[{n}].name': duplicate tool name '{tool.name}'. Give every tool its own name.",
                    param=f"{path}[{n}].name",
                    fault="invalid_value",
                )
            seen.add(tool.name)
    return tools


def read_tool_choice(value: Json, tools: Sequence[Tool], path: str) -> ToolChoice:
    if isinstance(value, str):
        if value not in _MODES:
            raise error_messages.not_one_of(path, value, _MODES)
        if value == "required" and not tools:
            raise InvalidRequest("Tool choice 'required' must be specified with 'tools' parameter.", param=path)
        return value
    if not isinstance(value, dict):
        raise error_messages.wrong_type(path, ["a string", "an object"], value)
    if value.get("type") != "allowed_tools":
        choice = fit(value, Choice, path)
        _check_choice(choice, tools, path)
        return choice
    allowed = fit(value, AllowedTools, path)
    for n, choice in enumerate(allowed.tools):
        _check_choice(choice, tools, f"{path}.tools[{n}]")
    return allowed


def check_network(policy: NetworkPolicy | None, path: str) -> None:
    if policy is None or policy.type != "allowlist":
        return
    if policy.allowed_domains is UNSET:
        raise error_messages.missing(at(path, "allowed_domains"))
    if not policy.allowed_domains:
        raise error_messages.too_short(at(path, "allowed_domains"), "array", 1)


def _read_tool(value: Json, path: str) -> Tool:
    if not isinstance(value, dict):
        raise error_messages.wrong_type(path, ["an object"], value)
    kind = value.get("type")
    if kind is None:
        raise error_messages.missing(at(path, "type"))
    if not isinstance(kind, str):
        raise error_messages.wrong_type(at(path, "type"), ["a string"], kind)
    if kind in HOSTED:
        return HostedTool(value)
    if kind not in _OURS:
        raise error_messages.not_one_of(at(path, "type"), kind, _TOOLS)
    tool = cast(Tool, fit(value, _OURS[kind], path))
    if isinstance(tool, CodeInterpreterTool) and isinstance(tool.container, AutoContainer):
        check_network(tool.container.network_policy or None, f"{path}.container.network_policy")
    return tool


def _check_choice(choice: Choice, tools: Sequence[Tool], path: str) -> None:
    if choice.type not in _CHOICES:
        raise error_messages.not_one_of(at(path, "type"), choice.type, _CHOICES)
    if choice.type in ("function", "custom") and choice.name is UNSET:
        raise error_messages.missing(at(path, "name"))
    if choice.type == "mcp" and choice.server_label is UNSET:
        raise error_messages.missing(at(path, "server_label"))
    if not any(_is(choice, tool) for tool in tools):
        raise error_messages.not_declared(path, choice.name or choice.type)


def _is(choice: Choice, tool: Tool) -> bool:
    match tool:
        case FunctionTool():
            return choice.type == "function" and choice.name == tool.name
        case CustomTool():
            return choice.type == "custom" and choice.name == tool.name
        case CodeInterpreterTool():
            return choice.type == "code_interpreter"
        case HostedTool():
            if choice.type == "mcp":
                return tool.type == "mcp" and tool.data.get("server_label") == choice.server_label
            if choice.type == "computer_use":
                return tool.type in ("computer", "computer_use_preview")
            return tool.type == choice.type
