"""Tools and tool_choice of a request as one turn of the model gets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from msgspec import structs

from belljar.errors import InvalidRequest
from belljar.gateway.engine.namespaces import NAMESPACE, Namespaces
from belljar.vendors.code_call import ALIASES, NAME
from belljar.vendors.deltas import Traits
from belljar.wire.extras import Executor, Ignored
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

_HAD = "'code_interpreter', 'function', 'custom', and 'namespace' of those"
_FUNCTION = Choice(type="function", name=NAME)
_EXECUTORS: tuple[str, ...] = get_args(Executor)


def find_interpreter(request: CreateResponse) -> CodeInterpreterTool | None:
    return next((tool for tool in request.tools if isinstance(tool, CodeInterpreterTool)), None)


def list_interpreter_names(request: CreateResponse) -> frozenset[str]:
    """Names by which a model may call the interpreter; a weak one guesses. The caller's own functions come first."""
    return ALIASES - {tool.name for tool in request.tools if isinstance(tool, FunctionTool | CustomTool)}


def explain_missing(request: CreateResponse, name: str) -> str | None:
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


def list_ignored(request: CreateResponse, traits: Traits) -> tuple[Ignored, ...]:
    """What a request says without effect, and without being refused for it."""
    found = [
        Ignored(
            param=f"tools[{number}]",
            message=f"'{tool.type}' cannot be run for the model '{request.model}', which was not offered it."
            f" Tools that can be had with it are: {_HAD}.",
        )
        for number, tool in enumerate(request.tools)
        if isinstance(tool, HostedTool) and not _can_have(tool, traits)
    ]
    if request.metadata.get("executor") in _EXECUTORS:
        moved = (
            '"executor" has moved out of the metadata, which are the caller\'s own: send "belljar": {"executor": …}.'
        )
        found.append(Ignored(param="metadata.executor", message=moved))
    if traits.carries is not None:
        lost = sorted(_list_wishes(request) - traits.carries)
        why = f"The provider of '{request.model}' does not take it. Leave it out, or choose another model."
        named = {"logprobs": "top_logprobs" if request.top_logprobs else "include"}
        found += [Ignored(param=named.get(name, name), message=why) for name in lost]
    return tuple(found)


def select_tools(request: CreateResponse, traits: Traits) -> tuple[CreateResponse, Namespaces]:
    """The request with the tools that the model can have, all of them under names that it can call them by.

    Programs send tools unasked that only their own vendor has, such as a search of the web. One that nobody here can
    run is left out, which the caller is told; it is refused only where the model was to use it and nothing else.
    """
    namespaces = Namespaces(request.tools, known=traits.hosted and traits.dialect == "openai")
    if not request.tools:
        return request, namespaces
    tools = tuple(tool for tool in namespaces.tools if _can_have(tool, traits))
    return structs.replace(request, tools=tools), namespaces


def _can_have(tool: Tool, traits: Traits) -> bool:
    return not isinstance(tool, HostedTool) or traits.hosted or tool.type == NAMESPACE


def _check_forced(request: CreateResponse, traits: Traits) -> None:
    """A tool that cannot be run is refused where it must be used: left out, the answer would not be what was asked."""
    choice = request.tool_choice
    for number, tool in enumerate(request.tools):
        if not isinstance(tool, HostedTool) or _can_have(tool, traits):
            continue
        others = any(_can_have(one, traits) and _is_allowed(one, choice) for one in request.tools)
        must = choice == "required" or (isinstance(choice, AllowedTools) and choice.mode == "required")
        if (isinstance(choice, Choice) and choice.type == tool.type) or (must and not others):
            raise InvalidRequest(
                f"Unsupported value: '{tool.type}' is not supported with the model '{request.model}', and"
                f" 'tool_choice' leaves it no other. Supported tool types are: {_HAD}.",
                param=f"tools[{number}].type",
                fault="unsupported_value",
            )


def _list_wishes(request: CreateResponse) -> set[str]:
    """How the caller wants the words chosen; `stop` is kept here, whoever the model is."""
    wishes = {*request.wishes()}
    if request.temperature is not None:
        wishes.add("temperature")
    if request.top_p is not None:
        wishes.add("top_p")
    if wants_logprobs(request):
        wishes.add("logprobs")
    wishes.discard("stop")
    return wishes


def wants_logprobs(request: CreateResponse) -> bool:
    return request.top_logprobs > 0 or "message.output_text.logprobs" in request.include


def check_tools(request: CreateResponse, traits: Traits, *, interpreter: bool, provider_runs: bool) -> None:
    """Tools that cannot be run as asked for are refused by name.

    `interpreter` says whether there is one at all, `provider_runs` that it is not ours.
    """
    _check_forced(request, traits)
    first = find_interpreter(request)
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


def offer_tools(request: CreateResponse, declared: FunctionTool | CodeInterpreterTool | None) -> tuple[Tool, ...]:
    """The tools of a turn: the interpreter as `declared`, or absent; only the allowed ones."""
    tools: list[Tool] = []
    for tool in request.tools:
        if not _is_allowed(tool, request.tool_choice):
            continue
        if isinstance(tool, CodeInterpreterTool):
            if declared is not None:
                tools.append(declared)
        else:
            tools.append(tool)
    return tuple(tools)


def _is_allowed(tool: Tool, choice: ToolChoice) -> bool:
    if not isinstance(choice, AllowedTools):
        return True
    name = getattr(tool, "name", None)
    kind = tool.type if isinstance(tool, HostedTool) else type(tool).__struct_config__.tag
    return any(one.type == kind and (name is None or one.name == name) for one in choice.tools)


def translate_choice(choice: ToolChoice, tools: Sequence[Tool]) -> ToolChoice:
    """The choice as a model is told it: the interpreter is a function to it, allowed tools were already picked."""
    if not tools:
        return "none" if choice == "none" else "auto"
    if isinstance(choice, AllowedTools):
        return choice.mode
    if isinstance(choice, Choice) and choice.type == NAME and any(isinstance(tool, FunctionTool) for tool in tools):
        declared = any(isinstance(tool, FunctionTool) and tool.name == NAME for tool in tools)
        return _FUNCTION if declared else choice
    return choice


def release_choice(choice: ToolChoice) -> ToolChoice:
    """After the first call a forced tool is free: else the model could never answer."""
    return "none" if choice == "none" else "auto"


def wants_summary(request: CreateResponse) -> bool:
    """Whether the caller wants to read a summary of what the model thinks."""
    asked = request.reasoning
    return asked is not None and bool(asked.summary or asked.generate_summary)
