"""Tools and tool_choice of a request as one turn of the model gets them."""

from __future__ import annotations

from collections.abc import Sequence

from belljar.dialects.deltas import Traits
from belljar.errors import InvalidRequest
from belljar.wire.requests import CreateResponse
from belljar.wire.tools import (
    AllowedTools,
    AutoContainer,
    Choice,
    CodeInterpreterTool,
    CustomTool,
    FunctionTool,
    HostedTool,
    Tool,
    ToolChoice,
)

NAME = "code_interpreter"
_FUNCTION = Choice(type="function", name=NAME)
_ALIASES = frozenset(
    {
        NAME,
        "python",
        "python3",
        "python_tool",
        "python_interpreter",
        "python_code_interpreter",
        "code",
        "code-interpreter",
        "code_execution",
        "execute_code",
        "execute_python",
        "execute_python_code",
        "run_code",
        "run_python",
        "run_python_code",
        "ipython",
        "jupyter",
    }
)


def interpreter_of(request: CreateResponse) -> CodeInterpreterTool | None:
    return next((tool for tool in request.tools if isinstance(tool, CodeInterpreterTool)), None)


def ours(request: CreateResponse) -> frozenset[str]:
    """Names by which a model may call the interpreter; a weak one guesses. The caller's own functions come first."""
    return _ALIASES - {tool.name for tool in request.tools if isinstance(tool, FunctionTool | CustomTool)}


def missing(request: CreateResponse, name: str) -> str | None:
    """What a model is told that calls a tool which nobody declared; None if somebody did, or may have."""
    declared: list[str] = []
    for tool in request.tools:
        if isinstance(tool, HostedTool):  # some bring tools with them
            return None
        declared.append(NAME if isinstance(tool, CodeInterpreterTool) else tool.name)
    if name in declared:
        return None
    if not declared:
        return f"There is no tool {name!r}: there are no tools here. Answer without."
    return f"There is no tool {name!r}. The tools are: {', '.join(declared)}."


def check(request: CreateResponse, traits: Traits, *, interpreter: bool, provider_runs: bool) -> None:
    """Tools that nobody here can run, or not as asked for, are refused by name.

    `interpreter` says whether there is one at all, `provider_runs` that it is not ours.
    """
    first = interpreter_of(request)
    if first is not None and not interpreter:
        number = request.tools.index(first)
        raise InvalidRequest(
            f"Unsupported value: 'code_interpreter' is switched off on this gateway. Leave 'tools[{number}]' out, or"
            " have the operator set code_interpreter to true.",
            param=f"tools[{number}].type",
            fault="unsupported_value",
        )
    if first is not None and not provider_runs:
        _check_network(first, f"tools[{request.tools.index(first)}].container.network_policy")
    for number, tool in enumerate(request.tools):
        if isinstance(tool, CodeInterpreterTool) and tool is not first:
            raise InvalidRequest(
                f"Invalid value: 'tools[{number}]'. One code_interpreter is enough: a response has one container.",
                param=f"tools[{number}]",
                fault="invalid_value",
            )
        if isinstance(tool, HostedTool) and not traits.hosted:
            raise InvalidRequest(
                f"Unsupported value: '{tool.type}' is not supported with the model '{request.model}'."
                " Supported tool types are: 'code_interpreter', 'function', and 'custom'.",
                param=f"tools[{number}].type",
                fault="unsupported_value",
            )
        if isinstance(tool, FunctionTool | CustomTool) and tool.name == NAME and first is not None:
            raise InvalidRequest(
                f"Invalid value for 'tools[{number}].name': '{NAME}' is the code interpreter's own name here."
                " Give the function another one.",
                param=f"tools[{number}].name",
                fault="invalid_value",
            )


def _check_network(tool: CodeInterpreterTool, path: str) -> None:
    policy = tool.container.network_policy if isinstance(tool.container, AutoContainer) else None
    if policy and policy.type != "disabled":
        raise InvalidRequest(
            f"Unsupported value: '{policy.type}' cannot be had, since there is no network in a sandbox here. Leave it"
            ' out, or send {"type": "disabled"}, and upload what the code needs.',
            param=path,
            fault="unsupported_value",
        )


def offered(request: CreateResponse, declared: FunctionTool | CodeInterpreterTool | None) -> tuple[Tool, ...]:
    """The tools of a turn: the interpreter as `declared`, or absent; only the allowed ones."""
    tools: list[Tool] = []
    for tool in request.tools:
        if not _allowed(tool, request.tool_choice):
            continue
        if isinstance(tool, CodeInterpreterTool):
            if declared is not None:
                tools.append(declared)
        else:
            tools.append(tool)
    return tuple(tools)


def _allowed(tool: Tool, choice: ToolChoice) -> bool:
    if not isinstance(choice, AllowedTools):
        return True
    name = getattr(tool, "name", None)
    kind = tool.type if isinstance(tool, HostedTool) else type(tool).__struct_config__.tag
    return any(one.type == kind and (name is None or one.name == name) for one in choice.tools)


def forced(choice: ToolChoice, tools: Sequence[Tool]) -> ToolChoice:
    """The choice as a model is told it: the interpreter is a function to it, allowed tools were already picked."""
    if not tools:
        return "none" if choice == "none" else "auto"
    if isinstance(choice, AllowedTools):
        return choice.mode
    if isinstance(choice, Choice) and choice.type == NAME and any(isinstance(tool, FunctionTool) for tool in tools):
        declared = any(isinstance(tool, FunctionTool) and tool.name == NAME for tool in tools)
        return _FUNCTION if declared else choice
    return choice


def released(choice: ToolChoice) -> ToolChoice:
    """After the first call a forced tool is free: else the model could never answer."""
    return "none" if choice == "none" else "auto"
