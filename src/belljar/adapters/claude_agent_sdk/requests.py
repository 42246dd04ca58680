"""An evaluation as requests to Anthropic's Messages API: pure data in, the body out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from belljar.adapters.claude_agent_sdk.settings import ClaudeAgentSDKModelConfig
from belljar.adapters.steps import Body
from belljar.adapters.turns import Call, Hosted
from belljar.providers import anthropic_client
from belljar.providers.tool_converters import build_anthropic_tool_results, convert_tools_for_anthropic
from belljar.tools import CodeInterpreterOutput, ProviderTool, Tool, ToolContext, ToolResult
from belljar.tools.tool_choice import Chosen
from belljar.vendors.anthropic.models import family
from belljar.wire.responses import Reasoner

_WORDS = MappingProxyType({"auto": "auto", "none": "none", "required": "any"})


def code_execution(model: str) -> Hosted:
    """Anthropic's own code interpreter, whose calls are told as those of OpenAI's are."""
    wire = anthropic_client.code_execution(model)
    return ProviderTool[None, CodeInterpreterOutput, Mapping[str, Any]](
        name=wire["name"],
        description="Runs code that the model writes, in a sandbox of Anthropic's.",
        provider="anthropic",
        config=wire,
        handle_provider_output=_told,
    )


def _told(result: CodeInterpreterOutput, context: ToolContext) -> ToolResult[CodeInterpreterOutput]:
    return ToolResult(result.output_text, result, result.success)


def wire_tools(tools: Iterable[Tool[Any, Any]], hosted: Iterable[Hosted]) -> list[Body]:
    return [
        *({"name": tool.name, **tool.wire()} for tool in hosted),
        *convert_tools_for_anthropic(tool.definition for tool in tools),
    ]


def wire_choice(choice: Chosen) -> Body | None:
    match choice:
        case None:
            return None
        case str():
            return {"type": _WORDS[choice]}
        case _:
            return {"type": "tool", "name": choice.get("name") or choice["type"]}


def form(model: str, format: Body | None) -> tuple[str, Body]:
    """A typed answer, asked for in words or, where the model can be held to it, by the request; one of the two."""
    if format is None:
        return "", {}
    schema = format["schema"]
    if family(model).forms and _closed(schema):
        return "", {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    words = "Answer with one JSON value and nothing else: no words around it, no code fence. It fits this JSON schema:"
    return f"\n\n{words}\n\n{json.dumps(schema, ensure_ascii=False)}", {}


def add_settings(body: Body, config: ClaudeAgentSDKModelConfig) -> None:
    """How Claude is asked, as the model takes it. It cannot think where a tool is forced."""
    kind, wanted = family(body["model"]), Reasoner(effort=config.reasoning_effort)
    if effort := kind.effort(wanted):
        body["output_config"] = {**body.get("output_config", {}), "effort": effort}
    is_forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    if not is_forced and (thinking := kind.thinking(wanted)):
        body["thinking"] = thinking
    if config.safety_identifier is not None:
        body["metadata"] = {"user_id": config.safety_identifier}


def _closed(schema: Any) -> bool:
    """Whether every object in it has the members it names and no others, which is all that the request takes."""
    match schema:
        case dict():
            is_open = schema.get("type") == "object" and schema.get("additionalProperties") is not False
            return not is_open and all(map(_closed, schema.values()))
        case list():
            return all(map(_closed, schema))
        case _:
            return True


def message(text: str) -> Body:
    return {"role": "user", "content": text}


def results(told: Sequence[tuple[Call, ToolResult[Any]]]) -> Body:
    written = build_anthropic_tool_results(
        {"tool_use_id": call.id, "content": result.text, "is_error": not result.success} for call, result in told
    )
    return {"role": "user", "content": written}
