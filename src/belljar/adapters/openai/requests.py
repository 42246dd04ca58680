"""An evaluation as requests to the Responses API: pure data in, the body out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from belljar.adapters.openai.config import OpenAIHostedToolsConfig
from belljar.adapters.openai.settings import OpenAIModelConfig
from belljar.adapters.steps import Body
from belljar.adapters.turns import Call, Hosted
from belljar.errors import PromptValidationError
from belljar.models import find, is_reasoning_model, nearest_effort, supports_verbosity
from belljar.prompt.prompt import RenderedPrompt
from belljar.providers.strict import Loose, strict
from belljar.providers.tool_converters import build_openai_tool_results, convert_tools_for_openai
from belljar.tools import OpenAICodeInterpreterTool, ProviderTool, ToolContext, ToolResult
from belljar.tools.tool_choice import Chosen

CODE_INTERPRETER = "code_interpreter"
OUTPUTS = "code_interpreter_call.outputs"
SEALED = "reasoning.encrypted_content"


def hosted_tools(rendered: RenderedPrompt[Any], config: OpenAIHostedToolsConfig | None) -> tuple[Hosted, ...]:
    """The prompt's own, and those of the configuration that it does not have itself."""
    own: list[Hosted] = [tool for tool in rendered.tools if isinstance(tool, ProviderTool)]
    types = [tool.type for tool in own]
    if twice := next((type for type in types if types.count(type) > 1), None):
        raise PromptValidationError(f"two tools of the prompt are OpenAI's {twice}; keep one of them")
    return (*own, *(tool for tool in _configured(config) if tool.type not in types))


def _configured(config: OpenAIHostedToolsConfig | None) -> list[Hosted]:
    tools: list[Hosted] = []
    if config is not None and config.code_interpreter:
        tools.append(OpenAICodeInterpreterTool(name=CODE_INTERPRETER, container={"type": "auto"}))
    if config is not None and config.file_search is not None:
        search = config.file_search
        where = {"vector_store_ids": list(search.vector_store_ids), "max_num_results": search.max_results}
        tools.append(_passing("file_search", "Searches vector stores.", where))
    if config is not None and config.web_search:
        tools.append(_passing("web_search", "Searches the web."))
    return tools


def _passing(name: str, description: str, config: Mapping[str, Any] | None = None) -> Hosted:
    return ProviderTool[None, dict[str, object], Mapping[str, Any]](
        name=name, description=description, provider="openai", config=config, handle_provider_output=_passed
    )


def _passed(result: dict[str, object], context: ToolContext) -> ToolResult[dict[str, object]]:
    status = str(result.get("status"))
    return ToolResult(status, result, success=status == "completed")


def wire_tools(hosted: Iterable[Hosted], functions: Iterable[Mapping[str, Any]], container: str | None) -> list[Body]:
    """Hosted tools first. `container` is the one to run code in; None: what the tool itself says."""
    written = [tool.wire() for tool in hosted]
    for tool in written:
        if tool["type"] == CODE_INTERPRETER and container is not None:
            tool["container"] = container
    return [*written, *convert_tools_for_openai(functions)]


def request(
    model: str,
    input: Sequence[Body],
    *,
    config: OpenAIModelConfig,
    tools: Sequence[Body] = (),
    choice: Chosen = None,
    format: Body | None = None,
) -> Body:
    """What a turn sends. Whatever is not kept by the server must be sealed by it, so that it can be sent again."""
    body: Body = {"model": model, "input": list(input), **config.wire()}
    include: list[str] = body.pop("include", [])
    if tools:
        body["tools"] = list(tools)
        if choice is not None:
            body["tool_choice"] = choice
        if config.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = config.parallel_tool_calls
    if any(tool["type"] == CODE_INTERPRETER for tool in tools):
        include.append(OUTPUTS)
    if config.store is False and is_reasoning_model(model):
        include.append(SEALED)
    if include:
        body["include"] = include
    effort = None if config.reasoning_effort is None else nearest_effort(model, config.reasoning_effort)
    if effort is not None:
        body["reasoning"] = {"effort": effort}
    text: Body = {} if format is None else {"format": format}
    if config.verbosity is not None and heeds_verbosity(model):
        text["verbosity"] = config.verbosity
    if text:
        body["text"] = text
    return body


def heeds_verbosity(model: str) -> bool:
    """A model that is not in the table is taken at the caller's word."""
    return find(model) is None or supports_verbosity(model)


def held_to_form(format: Body | None) -> Body | None:
    """The format of a typed answer, strict where its schema can be."""
    if format is None:
        return None
    try:
        return {**format, "schema": strict(format["schema"]), "strict": True}
    except Loose:
        return {**format, "strict": False}


def message(text: str) -> Body:
    return {"role": "user", "content": text}


def results(told: Iterable[tuple[Call, ToolResult[Any]]]) -> list[Body]:
    return build_openai_tool_results(
        {"tool_use_id": call.id, "content": result.text, "is_error": not result.success} for call, result in told
    )
