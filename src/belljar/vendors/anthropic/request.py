"""A turn as the body of POST /messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from belljar.errors import InvalidRequest
from belljar.vendors import code_call, function_names
from belljar.vendors.anthropic.messages import VENDOR, MessagesWriter, speaks_of_code
from belljar.vendors.anthropic.models import ClaudeFamily, family
from belljar.vendors.anthropic.sampling import SAMPLING, takes_sampling
from belljar.vendors.anthropic.wire_version import WireVersion
from belljar.vendors.request import ModelRequest, VendorTool
from belljar.vendors.sampling import members
from belljar.wire import codec
from belljar.wire.items import Json
from belljar.wire.tools import AllowedTools, Choice, CodeInterpreterTool, CustomTool, FunctionTool, HostedTool

Body: TypeAlias = dict[str, Any]
_Tool: TypeAlias = FunctionTool | CustomTool | CodeInterpreterTool | VendorTool

HOSTED = "code_execution"
"""What the vendor's own code interpreter is called."""
_NOTHING: Body = {"type": "object", "properties": {}}
_TEXT: Body = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


class Paused(Struct, frozen=True):
    """An answer that the vendor interrupted: what it has said so far, and the container that it ran code in."""

    content: tuple[Json, ...]
    container: str | None = None


def encode(request: ModelRequest, version: WireVersion, paused: Paused | None = None) -> bytes:
    """Always a stream, since long answers are not to be had otherwise. What the model would not take is left out."""
    request = function_names.fit_names(request, function_names.LONG)
    kind = family(request.model)
    conversation = MessagesWriter(request)
    messages = conversation.messages
    if paused is not None:
        messages = [*messages, {"role": "assistant", "content": paused.content}]
    body: Body = {
        "model": request.model,
        "max_tokens": request.max_output_tokens or kind.most,
        "messages": messages,
        "stream": True,
    }
    orders = [*conversation.orders, *_describe_form(request)]
    if orders:
        body["system"] = "\n\n".join(orders)
    body.update(_tools(request, version, conversation))
    forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    thinking = None if forced else kind.write_thinking(request.reasoning)
    if thinking is not None:
        body["thinking"] = thinking
    if config := _output_config(request, version, kind):
        body["output_config"] = config
    chosen = members(request.sampling, SAMPLING)
    if takes_sampling(request.model, version) and thinking is None:
        chosen.update(_write_sampling(request))
    else:
        chosen.pop("top_k", None)
    body.update(chosen)
    if request.safety_identifier:
        body["metadata"] = {"user_id": request.safety_identifier}
    if container := (paused.container if paused is not None else None) or _container(request):
        body["container"] = container
    return codec.encode(body)


def _container(request: ModelRequest) -> str | None:
    """The vendor's container to go on in."""
    named = (tool.container for tool in request.tools if isinstance(tool, CodeInterpreterTool | VendorTool))
    return next((id for id in named if isinstance(id, str)), None)


def is_hosted(request: ModelRequest) -> bool:
    """Whether a tool of the vendor's own is declared: only those are ever paused, and only code has a container."""
    return any(isinstance(tool, CodeInterpreterTool | VendorTool) for tool in request.tools) or speaks_of_code(request)


def _write_sampling(request: ModelRequest) -> Body:
    """One of the two: later models refuse both at once. Here temperature ends at 1."""
    if request.temperature is not None:
        return {"temperature": min(request.temperature, 1.0)}
    return {} if request.top_p is None else {"top_p": request.top_p}


# -- form of the answer -----------------------------------------------------------------------------------------------


def answer_tool(request: ModelRequest, version: WireVersion) -> str | None:
    """The tool whose input is the answer, where a form can be had in no other way."""
    if request.text.format.type != "json_schema" or _keeps_form(request, version, family(request.model)):
        return None
    name = "json"
    taken = {_name(tool) for tool in _select_tools(request)}
    while name in taken:
        name += "_"
    return name


def _keeps_form(request: ModelRequest, version: WireVersion, kind: ClaudeFamily) -> bool:
    return kind.forms and version.forms and not _is_open(request.text.format.schema or {})


def _is_open(schema: Json) -> bool:
    """Whether an object in it says that it has members beyond those it names, which no form may."""
    if isinstance(schema, dict):
        return schema.get("additionalProperties", False) is not False or any(map(_is_open, schema.values()))
    return isinstance(schema, list) and any(map(_is_open, schema))


def _output_config(request: ModelRequest, version: WireVersion, kind: ClaudeFamily) -> Body:
    config: Body = {}
    if effort := kind.effort(request.reasoning):
        config["effort"] = effort
    if request.text.format.type == "json_schema" and _keeps_form(request, version, kind):
        config["format"] = {
            "type": "json_schema",
            "schema": _close_objects(request.text.format.schema or {"type": "object"}),
        }
    return config


def _describe_form(request: ModelRequest) -> list[str]:
    if request.text.format.type != "json_object":
        return []
    return ["Answer with one JSON object and nothing else: no words around it, no code fence."]


def _close_objects(schema: Json) -> Json:
    """Every object in it says that it has no other members: without that, a form is refused."""
    if isinstance(schema, list):
        return [_close_objects(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _close_objects(one) for name, one in schema.items()}
    if schema.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


# -- tools ------------------------------------------------------------------------------------------------------------


def _tools(request: ModelRequest, version: WireVersion, conversation: MessagesWriter) -> Body:
    """The tools, and which must be used."""
    choice = request.tool_choice
    tools = _select_tools(request)
    if isinstance(choice, AllowedTools):
        tools = [tool for tool in tools if any(_is(one, tool) for one in choice.tools)]
        choice = choice.mode
    written = [_tool(tool, version, request.model) for tool in tools]
    said: Body = {"type": "auto"}
    if isinstance(choice, Choice):
        meant = next((tool for tool in tools if _is(choice, tool)), None)
        said = {"type": "any"} if meant is None else {"type": "tool", "name": _name(meant)}
    elif choice != "auto":
        said = {"type": "any" if choice == "required" else "none"}
    answer = answer_tool(request, version)
    if answer is not None and said["type"] in ("auto", "none"):
        if said["type"] == "none":
            written = []
        form = request.text.format
        about = form.description or "Give the answer. Call this once, when you have it."
        written.append({"name": answer, "description": about, "input_schema": _object(form.schema or None)})
        said = {"type": "any", "disable_parallel_tool_use": True}
    if conversation.ran and not any(map(_runs_code, written)):  # what is in the history wants its tool declared
        written.append(code_tool(version, request.model))
    if not written:
        return _declare_called_tools(conversation.called)
    if not request.parallel_tool_calls and said["type"] != "none":
        said["disable_parallel_tool_use"] = True
    return {"tools": written} if said == {"type": "auto"} else {"tools": written, "tool_choice": said}


def _declare_called_tools(called: Sequence[str]) -> Body:
    """A conversation with calls in it is refused without tools, so those are declared again and none is allowed."""
    if not called:
        return {}
    tools = [{"name": name, "input_schema": _NOTHING} for name in called]
    return {"tools": tools, "tool_choice": {"type": "none"}}


def _select_tools(request: ModelRequest) -> list[_Tool]:
    for tool in request.tools:
        if isinstance(tool, HostedTool):
            raise InvalidRequest(
                f"tools: {request.model!r} is asked over Anthropic's wire, which cannot run {tool.type!r}; leave the"
                " tool out or choose a model whose provider runs it",
                param="tools",
            )
    return [tool for tool in request.tools if not isinstance(tool, HostedTool) and _is_ours(tool)]


def _is_ours(tool: _Tool) -> bool:
    return not isinstance(tool, VendorTool) or tool.vendor == VENDOR


def code_tool(version: WireVersion, model: str) -> Body:
    """The vendor's own code interpreter in the newest version that both model and server know."""
    return {"type": min(version.code_tool, family(model).code_tool), "name": HOSTED}  # they end in their dates


def _runs_code(written: Body) -> bool:
    return str(written.get("type", "")).startswith(HOSTED)


def _tool(tool: _Tool, version: WireVersion, model: str) -> Body:
    if isinstance(tool, VendorTool):
        return tool.body
    if isinstance(tool, CodeInterpreterTool):
        return code_tool(version, model)
    if isinstance(tool, CustomTool):
        return {"name": tool.name, "description": _describe_tool(tool), "input_schema": _TEXT}
    written: Body = {"name": tool.name}
    if tool.description:
        written["description"] = tool.description
    schema = _object(tool.parameters)
    strict = bool(tool.strict and version.strict and family(model).forms) and not _is_open(schema)
    written["input_schema"] = _close_objects(schema) if strict else schema
    if strict:
        written["strict"] = True
    if version.eager and tool.name == code_call.NAME:
        written["eager_input_streaming"] = True
    return written


def _describe_tool(tool: CustomTool) -> str:
    said = [tool.description] if tool.description else []
    if isinstance(tool.format, dict) and "definition" in tool.format:
        said.append(f"The input must fit this {tool.format.get('syntax', '')} grammar:\n{tool.format['definition']}")
    return "\n\n".join(said)


def _object(schema: dict[str, Json] | None) -> Body:
    """Of type object, which the wire wants said."""
    return _NOTHING if not schema else schema if schema.get("type") == "object" else {**schema, "type": "object"}


def _name(tool: _Tool) -> str:
    if isinstance(tool, VendorTool):
        return str(tool.body["name"])
    return HOSTED if isinstance(tool, CodeInterpreterTool) else tool.name


def _is(choice: Choice, tool: _Tool) -> bool:
    if choice.type == code_call.NAME:
        return _name(tool) in (HOSTED, code_call.NAME)
    if isinstance(tool, VendorTool):
        return choice.type == _name(tool)
    return choice.type in ("function", "custom") and choice.name == _name(tool)
