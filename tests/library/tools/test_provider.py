"""Tools that a provider runs: bound to it, hook before handler, one context for both."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from belljar.errors import PromptValidationError, ToolValidationError
from belljar.tools import ProviderTool, Tool, ToolContext, ToolResult


@dataclass(frozen=True)
class Params:
    query: str


@dataclass(frozen=True)
class Result:
    query: str
    hits: int = 0


@dataclass(frozen=True)
class Config:
    size: int


def handle(params: Params, *, context: ToolContext) -> ToolResult[Result]:
    assert isinstance(params, Params)
    return ToolResult(f"handler {id(context)}", Result(params.query))


def hook(result: Result, context: ToolContext) -> ToolResult[Result]:
    assert isinstance(result, Result)
    return ToolResult(f"hook {id(context)}", result)


def search(**changes: Any) -> ProviderTool[Params, Result, Config]:
    given = {"name": "search", "description": "Searches.", "provider": "openai", **changes}
    return ProviderTool[Params, Result, Config](**given)


def test_it_is_a_tool_of_three_types() -> None:
    tool = search(config=Config(3))
    assert isinstance(tool, Tool)
    assert (tool.params_type, tool.result_type, tool.provider, tool.config) == (Params, Result, "openai", Config(3))
    assert tool.handle_provider_output is None
    assert tool.parameters["required"] == ["query"]


@pytest.mark.parametrize("arguments", [Params, (Params, Result), (Params, Result, Config, None)], ids=str)
def test_three_type_arguments(arguments: Any) -> None:
    with pytest.raises(TypeError, match="takes 3 type arguments"):
        ProviderTool[arguments]  # type: ignore[misc]


def test_a_provider_is_named() -> None:
    with pytest.raises(PromptValidationError, match="tool 'search': provider: is empty"):
        search(provider="")


def test_the_hook_comes_first_and_sees_the_typed_result(context: ToolContext) -> None:
    tool = search(handler=handle, handle_provider_output=hook)
    payload = {"query": "q", "hits": 2, "id": "ws_1"}
    assert tool.receive(payload, context=context) == ToolResult(f"hook {id(context)}", Result("q", 2))


def test_a_provider_may_tell_more_than_the_params_have_a_place_for(context: ToolContext) -> None:
    told = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search"}, "query": "q"}
    assert search(handler=handle).receive(told, context=context).value == Result("q")

    def ignore(params: None, *, context: ToolContext) -> ToolResult[Result]:
        return ToolResult("heard", None)

    tool = ProviderTool[None, Result, None](name="search", description="d", provider="openai", handler=ignore)
    assert tool.receive(told, context=context).message == "heard"


def test_what_the_params_need_is_missed(context: ToolContext) -> None:
    with pytest.raises(ToolValidationError, match="search: lacks query"):
        search(handler=handle).receive({"id": "ws_1"}, context=context)


def test_without_a_hook_the_handler_gets_the_params_and_the_same_context(context: ToolContext) -> None:
    result = search(handler=handle).receive({"query": "q"}, context=context)
    assert result == ToolResult(f"handler {id(context)}", Result("q"))


def test_without_both_there_is_nothing_to_do(context: ToolContext) -> None:
    with pytest.raises(PromptValidationError, match="neither a handler nor handle_provider_output"):
        search().receive({}, context=context)


def test_a_payload_that_does_not_fit_is_named(context: ToolContext) -> None:
    with pytest.raises(ToolValidationError, match="hits: must be an integer"):
        search(handle_provider_output=hook).receive({"query": "q", "hits": "many"}, context=context)


def test_a_result_may_be_a_plain_dict(context: ToolContext) -> None:
    def raw(result: dict[str, object], context: ToolContext) -> ToolResult[dict[str, object]]:
        return ToolResult("raw", result)

    tool = ProviderTool[None, dict[str, object], None](
        name="t", description="d", provider="openai", handle_provider_output=raw
    )
    assert tool.receive({"a": 1}, context=context) == ToolResult("raw", {"a": 1})


def one_argument(result: Result) -> ToolResult[Result]:
    raise NotImplementedError


def other_result(result: Params, context: ToolContext) -> ToolResult[Params]:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("wrong", "message"),
    [(one_argument, "too many positional arguments"), (other_result, "takes <class"), (3, "3 is not")],
)
def test_a_hook_that_does_not_fit_is_told_why(wrong: Any, message: str) -> None:
    with pytest.raises(PromptValidationError, match=re.escape(f"handle_provider_output: {message}")):
        search(handle_provider_output=wrong)


def test_a_hook_without_annotations_is_taken_at_its_word(context: ToolContext) -> None:
    tool = search(handle_provider_output=lambda result, context: ToolResult("lambda", result))
    assert tool.receive({"query": "q"}, context=context).value == Result("q")


def test_the_handler_is_checked_as_any_tools() -> None:
    with pytest.raises(PromptValidationError, match="handler: takes 2 positional"):
        search(handler=hook)


def test_on_the_wire_it_is_its_type_and_its_config() -> None:
    assert (search().type, search().wire()) == ("search", {"type": "search"})
    assert search(config=Config(3)).wire() == {"type": "search", "size": 3}
