"""The tools that OpenAI runs itself: a prompt's own, and those of an adapter's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from belljar.adapters.openai.config import OpenAIHostedToolsConfig
from belljar.adapters.turns import Hosted
from belljar.errors import PromptValidationError
from belljar.prompt.prompt import RenderedPrompt
from belljar.tools import OpenAICodeInterpreterTool, ProviderTool, ToolContext, ToolResult

CODE_INTERPRETER = "code_interpreter"


def list_hosted_tools(rendered: RenderedPrompt[Any], config: OpenAIHostedToolsConfig | None) -> tuple[Hosted, ...]:
    """The prompt's own, and those of the configuration that it does not have itself."""
    own: list[Hosted] = [tool for tool in rendered.tools if isinstance(tool, ProviderTool)]
    types = [tool.type for tool in own]
    if twice := next((type for type in types if types.count(type) > 1), None):
        raise PromptValidationError(f"two tools of the prompt are OpenAI's {twice}; keep one of them")
    return (*own, *(tool for tool in _configured_tools(config) if tool.type not in types))


def _configured_tools(config: OpenAIHostedToolsConfig | None) -> list[Hosted]:
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
        name=name, description=description, provider="openai", config=config, handle_provider_output=_pass_result
    )


def _pass_result(result: dict[str, object], context: ToolContext) -> ToolResult[dict[str, object]]:
    status = str(result.get("status"))
    return ToolResult(status, result, success=status == "completed")


def declare_tool(tool: Hosted, container: str | None) -> dict[str, Any]:
    """The tool as it goes out. `container` is the one to run code in; None: what the tool itself says."""
    written = tool.wire()
    if written["type"] == CODE_INTERPRETER and container is not None:
        written["container"] = container
    return written
