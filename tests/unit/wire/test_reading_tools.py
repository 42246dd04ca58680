"""Tools as they are declared, and the choice among them."""

import typing
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET
from openai.types.responses import tool_param

from belljar.wire import reading
from belljar.wire.tools import (
    HOSTED,
    AllowedTools,
    AutoContainer,
    Choice,
    CodeInterpreterTool,
    CustomTool,
    DomainSecret,
    FunctionTool,
    HostedTool,
    NetworkPolicy,
    Tool,
    ToolChoice,
)

F = {"type": "function", "name": "f"}
G = {"type": "custom", "name": "g"}
CODE = {"type": "code_interpreter", "container": {"type": "auto"}}
MCP = {"type": "mcp", "server_label": "here", "server_url": "https://example.com"}
COMPUTER = {"type": "computer_use_preview", "environment": "browser"}
ALL = [F, G, CODE, MCP, COMPUTER, {"type": "web_search"}]

Wrong = Callable[..., tuple[str | None, str | None, str]]


@pytest.mark.parametrize(
    ("sent", "tool"),
    [
        (F, FunctionTool(name="f")),
        (
            F | {"description": None, "parameters": {"default": None}, "strict": None, "defer_loading": None},
            FunctionTool(name="f", parameters={"default": None}),
        ),
        (
            F | {"description": "d", "parameters": {}, "strict": True, "output_schema": {}},
            FunctionTool(name="f", description="d", parameters={}, strict=True),
        ),
        (
            G | {"description": "d", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
            CustomTool(name="g", description="d", format={"type": "grammar", "syntax": "lark", "definition": "x"}),
        ),
        (CODE, CodeInterpreterTool(container=AutoContainer())),
        ({"type": "code_interpreter", "container": "cntr_1"}, CodeInterpreterTool(container="cntr_1")),
        (
            {
                "type": "code_interpreter",
                "container": {
                    "type": "auto",
                    "file_ids": ["file-1"],
                    "memory_limit": "64g",
                    "network_policy": {
                        "type": "allowlist",
                        "allowed_domains": ["example.com"],
                        "domain_secrets": [{"domain": "example.com", "name": "KEY", "value": "v"}],
                    },
                },
                "allowed_callers": ["direct"],
            },
            CodeInterpreterTool(
                container=AutoContainer(
                    file_ids=("file-1",),
                    memory_limit="64g",
                    network_policy=NetworkPolicy(
                        type="allowlist",
                        allowed_domains=("example.com",),
                        domain_secrets=(DomainSecret(domain="example.com", name="KEY", value="v"),),
                    ),
                ),
                allowed_callers=("direct",),
            ),
        ),
        (
            {"type": "code_interpreter", "container": {"type": "auto", "file_ids": None, "memory_limit": None}},
            CodeInterpreterTool(container=AutoContainer(file_ids=UNSET, memory_limit=None)),
        ),
        (MCP, HostedTool(MCP)),
    ],
)
def test_tools(sent: dict[str, Any], tool: Tool) -> None:
    assert reading.read_response({"model": "m", "input": "hi", "tools": [sent]}).tools == (tool,)


def test_every_tool_that_the_sdk_can_send_is_known() -> None:
    kinds: set[str] = set()
    for variant in typing.get_args(tool_param.ToolParam):
        hint = typing.get_type_hints(variant)["type"]
        kinds |= set(typing.get_args(hint))
    assert len(kinds) > 12
    assert kinds <= HOSTED | {"function", "custom", "code_interpreter"}


@pytest.mark.parametrize(
    ("tool", "param", "code", "message"),
    [
        (
            {"type": "code_interpreter"},
            "tools[0].container",
            "missing_required_parameter",
            "Missing required parameter: 'tools[0].container'.",
        ),
        (
            {"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "8g"}},
            "tools[0].container.memory_limit",
            "invalid_value",
            "Invalid value: '8g'. Supported values are: '1g', '4g', '16g', and '64g'.",
        ),
        (
            {"type": "code_interpreter", "container": {"id": "cntr_1"}},
            "tools[0].container.id",
            "unknown_parameter",
            "Unknown parameter: 'tools[0].container.id'.",
        ),
        (
            {"type": "code_interpreter", "container": {"type": "auto", "host_mounts": []}},
            "tools[0].container.host_mounts",
            "unknown_parameter",
            "Unknown parameter: 'tools[0].container.host_mounts'.",
        ),
        (
            {"type": "code_interpreter", "container": {"type": "manual"}},
            "tools[0].container.type",
            "invalid_value",
            "Invalid value: 'manual'. Supported values are: 'auto'.",
        ),
        (
            {"type": "code_interpreter", "container": None},
            "tools[0].container",
            "invalid_type",
            "Invalid type for 'tools[0].container': expected one of a string or object, but got null instead.",
        ),
        (
            {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-1"] * 51}},
            "tools[0].container.file_ids",
            "array_above_max_length",
            "Invalid 'tools[0].container.file_ids': array too long."
            " Expected an array with maximum length 50, but got an array with length 51 instead.",
        ),
        (
            {
                "type": "code_interpreter",
                "container": {"type": "auto", "network_policy": {"type": "allowlist", "allowed_domains": []}},
            },
            "tools[0].container.network_policy.allowed_domains",
            "empty_array",
            "Invalid 'tools[0].container.network_policy.allowed_domains': empty array."
            " Expected an array with minimum length 1, but got an empty array instead.",
        ),
        (
            {"type": "function", "function": {"name": "f"}},
            "tools[0].name",
            "missing_required_parameter",
            "Missing required parameter: 'tools[0].name'.",
        ),
        (
            F | {"name": "no good"},
            "tools[0].name",
            "invalid_value",
            "Invalid 'tools[0].name': string does not match pattern."
            " Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        ),
        (
            F | {"name": "f" * 129},
            "tools[0].name",
            "string_above_max_length",
            "Invalid 'tools[0].name': string too long."
            " Expected a string with maximum length 128, but got a string with length 129 instead.",
        ),
        (
            F | {"parameters": "{}"},
            "tools[0].parameters",
            "invalid_type",
            "Invalid type for 'tools[0].parameters': expected an object, but got a string instead.",
        ),
        ({}, "tools[0].type", "missing_required_parameter", "Missing required parameter: 'tools[0].type'."),
        (
            {"type": {}},
            "tools[0].type",
            "invalid_type",
            "Invalid type for 'tools[0].type': expected a string, but got an object instead.",
        ),
        (
            "code_interpreter",
            "tools[0]",
            "invalid_type",
            "Invalid type for 'tools[0]': expected an object, but got a string instead.",
        ),
    ],
)
def test_what_is_wrong_with_a_tool(wrong: Wrong, tool: object, param: str, code: str, message: str) -> None:
    assert wrong(tools=[tool]) == (param, code, message)


def test_an_unknown_tool_is_told_which_there_are(wrong: Wrong) -> None:
    param, code, message = wrong(tools=[{"type": "hammer"}])
    assert (param, code) == ("tools[0].type", "invalid_value")
    assert message.startswith("Invalid value: 'hammer'. Supported values are: 'apply_patch', 'code_interpreter', ")
    assert all(f"'{kind}'" in message for kind in HOSTED | {"function", "custom", "code_interpreter"})


@pytest.mark.parametrize("second", [F, G | {"name": "f"}])
def test_two_tools_of_one_name(wrong: Wrong, second: dict[str, Any]) -> None:
    assert wrong(tools=[F, second]) == (
        "tools[1].name",
        "invalid_value",
        "Invalid 'tools[1].name': duplicate tool name 'f'. Give every tool its own name.",
    )


# -- tool_choice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "choice"),
    [
        ("none", "none"),
        ("auto", "auto"),
        ("required", "required"),
        (F, Choice(type="function", name="f")),
        (G, Choice(type="custom", name="g")),
        ({"type": "code_interpreter"}, Choice(type="code_interpreter")),
        ({"type": "code_interpreter", "name": None}, Choice(type="code_interpreter")),
        ({"type": "web_search"}, Choice(type="web_search")),
        ({"type": "computer_use"}, Choice(type="computer_use")),
        ({"type": "mcp", "server_label": "here"}, Choice(type="mcp", server_label="here")),
        ({"type": "mcp", "server_label": "here", "name": "x"}, Choice(type="mcp", server_label="here", name="x")),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [F, {"type": "code_interpreter"}]},
            AllowedTools(mode="required", tools=(Choice(type="function", name="f"), Choice(type="code_interpreter"))),
        ),
    ],
)
def test_choices(sent: object, choice: ToolChoice) -> None:
    assert reading.read_response({"model": "m", "input": "hi", "tools": ALL, "tool_choice": sent}).tool_choice == choice


@pytest.mark.parametrize(
    ("choice", "param", "code", "message"),
    [
        (
            {"type": "file_search"},
            "tool_choice",
            None,
            "Tool choice 'file_search' not found in 'tools' parameter.",
        ),
        (F | {"name": "h"}, "tool_choice", None, "Tool choice 'h' not found in 'tools' parameter."),
        ({"type": "custom", "name": "f"}, "tool_choice", None, "Tool choice 'f' not found in 'tools' parameter."),
        (
            {"type": "mcp", "server_label": "there"},
            "tool_choice",
            None,
            "Tool choice 'mcp' not found in 'tools' parameter.",
        ),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [F, {"type": "shell"}]},
            "tool_choice.tools[1]",
            None,
            "Tool choice 'shell' not found in 'tools' parameter.",
        ),
        (
            "any",
            "tool_choice",
            "invalid_value",
            "Invalid value: 'any'. Supported values are: 'none', 'auto', and 'required'.",
        ),
        (
            ["auto"],
            "tool_choice",
            "invalid_type",
            "Invalid type for 'tool_choice': expected one of a string or object, but got an array instead.",
        ),
        (
            {},
            "tool_choice.type",
            "missing_required_parameter",
            "Missing required parameter: 'tool_choice.type'.",
        ),
        (
            {"type": "function", "function": {"name": "f"}},
            "tool_choice.name",
            "missing_required_parameter",
            "Missing required parameter: 'tool_choice.name'.",
        ),
        (
            {"type": "mcp"},
            "tool_choice.server_label",
            "missing_required_parameter",
            "Missing required parameter: 'tool_choice.server_label'.",
        ),
        (
            {"type": "allowed_tools", "tools": []},
            "tool_choice.mode",
            "missing_required_parameter",
            "Missing required parameter: 'tool_choice.mode'.",
        ),
        (
            {"type": "allowed_tools", "mode": "none", "tools": []},
            "tool_choice.mode",
            "invalid_value",
            "Invalid value: 'none'. Supported values are: 'auto' and 'required'.",
        ),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": ["f"]},
            "tool_choice.tools[0]",
            "invalid_type",
            "Invalid type for 'tool_choice.tools[0]': expected an object, but got a string instead.",
        ),
    ],
)
def test_what_is_wrong_with_a_choice(wrong: Wrong, choice: object, param: str, code: str | None, message: str) -> None:
    assert wrong(tools=ALL, tool_choice=choice) == (param, code, message)


def test_an_unknown_choice_is_told_which_there_are(wrong: Wrong) -> None:
    param, code, message = wrong(tools=ALL, tool_choice={"type": "hammer"})
    assert (param, code) == ("tool_choice.type", "invalid_value")
    assert "'computer_use'" in message


def test_a_tool_is_required_and_there_is_none(wrong: Wrong) -> None:
    assert wrong(tool_choice="required") == (
        "tool_choice",
        None,
        "Tool choice 'required' must be specified with 'tools' parameter.",
    )
