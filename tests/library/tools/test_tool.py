"""Tools: what is refused when one is made, and how its arguments are read."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from belljar.errors import PromptValidationError, ToolValidationError
from belljar.tools import Tool, ToolContext, ToolExample, ToolResult


@dataclass(frozen=True)
class QueryParams:
    sql: str


@dataclass(frozen=True)
class QueryResult:
    rows: list[dict[str, Any]]
    row_count: int


def run_query(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
    """Execute SQL."""
    return ToolResult(message=params.sql, value=QueryResult([], 0))


def query_tool(**changes: Any) -> Tool[QueryParams, QueryResult]:
    given = {"name": "run_query", "description": "Execute SQL query", "handler": run_query, **changes}
    return Tool[QueryParams, QueryResult](**given)


def test_the_founding_example() -> None:
    tool = query_tool()
    assert (tool.name, tool.handler, tool.examples, tool.accepts_overrides) == ("run_query", run_query, (), True)
    assert (tool.params_type, tool.result_type, tool.result_container) == (QueryParams, QueryResult, "object")
    assert isinstance(tool, Tool)
    assert tool.parameters == {
        "type": "object",
        "properties": {"sql": {"type": "string"}},
        "required": ["sql"],
        "additionalProperties": False,
    }


def test_a_tool_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        query_tool().name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("arguments", [QueryParams, (QueryParams,), (QueryParams, QueryResult, None)], ids=str)
def test_two_type_arguments(arguments: Any) -> None:
    with pytest.raises(TypeError, match="takes 2 type arguments"):
        Tool[arguments]  # type: ignore[misc]


def test_types_must_be_written() -> None:
    with pytest.raises(PromptValidationError, match=re.escape("Tool[Params, Result]")):
        Tool(name="t", description="d", handler=None)


@pytest.mark.parametrize("name", ["", " a", "a b", "A", "é", "a" * 65, "a\n"], ids=repr)
def test_bad_names(name: str) -> None:
    with pytest.raises(PromptValidationError, match="a name is"):
        query_tool(name=name)


@pytest.mark.parametrize("description", ["", "  ", "x" * 1025], ids=len)
def test_bad_descriptions(description: str) -> None:
    with pytest.raises(PromptValidationError, match="tool 'run_query': a description is"):
        query_tool(description=description)


@pytest.mark.parametrize("params", [int, dict[str, str], list[QueryParams]], ids=str)
def test_parameters_are_a_dataclass_or_none(params: Any) -> None:
    with pytest.raises(PromptValidationError, match="parameters are a dataclass or None"):
        Tool[params, None](name="t", description="d")


@pytest.mark.parametrize("result", [int, list[int], dict[str, Any], tuple[QueryResult, QueryResult]], ids=str)
def test_results_are_dataclasses(result: Any) -> None:
    with pytest.raises(PromptValidationError, match="results are a dataclass"):
        Tool[None, result](name="t", description="d")


@pytest.mark.parametrize(
    ("result", "container"),
    [(None, "object"), (QueryResult, "object"), (list[QueryResult], "array"), (tuple[QueryResult, ...], "array")],
    ids=str,
)
def test_result_containers(result: Any, container: str) -> None:
    assert Tool[None, result](name="t", description="d").result_container == container


# -- handlers ---------------------------------------------------------------------------------------------------------


def no_context(params: QueryParams) -> ToolResult[QueryResult]:
    raise NotImplementedError


def positional_context(params: QueryParams, context: ToolContext) -> ToolResult[QueryResult]:
    raise NotImplementedError


def default_context(params: QueryParams, *, context: ToolContext | None = None) -> ToolResult[QueryResult]:
    raise NotImplementedError


def no_params(*, context: ToolContext) -> ToolResult[QueryResult]:
    raise NotImplementedError


def more(params: QueryParams, *, context: ToolContext, other: int = 0) -> ToolResult[QueryResult]:
    raise NotImplementedError


def other_params(params: QueryResult, *, context: ToolContext) -> ToolResult[QueryResult]:
    raise NotImplementedError


def other_result(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryParams]:
    raise NotImplementedError


def bare_result(params: QueryParams, *, context: ToolContext) -> QueryResult:
    raise NotImplementedError


def other_context(params: QueryParams, *, context: int) -> ToolResult[QueryResult]:
    raise NotImplementedError


def yielding(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:  # type: ignore[misc]
    yield


async def yielding_later(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:  # type: ignore[misc]
    yield


async def other_result_later(params: QueryParams, *, context: ToolContext) -> QueryResult:
    raise NotImplementedError


def bare(params, *, context):  # type: ignore[no-untyped-def]
    raise NotImplementedError


def unreadable(params: Nowhere, *, context: ToolContext) -> ToolResult[QueryResult]:  # type: ignore[name-defined] # noqa: F821
    raise NotImplementedError


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (no_context, "takes no keyword-only context"),
        (positional_context, "takes 2 positional parameters, not one"),
        (default_context, "its context has a default"),
        (no_params, "takes 0 positional parameters"),
        (more, "takes no keyword-only context and nothing else"),
        (other_params, "params is annotated QueryResult, and the tool's parameters are QueryParams"),
        (other_result, "it returns belljar.tools.result.ToolResult["),
        (bare_result, "it returns QueryResult, and the tool's result is ToolResult[QueryResult]"),
        (other_context, "context is annotated int, not ToolContext"),
        (yielding, "it yields, and a call has one result"),
        (yielding_later, "it yields, and a call has one result"),
        (other_result_later, "it returns QueryResult, and the tool's result is ToolResult[QueryResult]"),
        (bare, "params is annotated nothing"),
        (unreadable, "name 'Nowhere' is not defined"),
        (5, "has no signature"),
    ],
)
def test_a_handler_that_does_not_fit_is_told_why(handler: Callable[..., Any], message: str) -> None:
    with pytest.raises(PromptValidationError, match=re.escape(message)) as caught:
        query_tool(handler=handler)
    assert str(caught.value).startswith("tool 'run_query': handler: ")


class Handler:
    def __call__(self, params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
        return run_query(params, context=context)

    def method(self, params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
        return run_query(params, context=context)

    async def coroutine(self, params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
        return run_query(params, context=context)


def test_methods_and_objects_can_handle() -> None:
    query_tool(handler=Handler())
    query_tool(handler=Handler().method)
    query_tool(handler=Handler().coroutine)


def test_types_inside_a_function_can_be_handled() -> None:
    @dataclass
    class Local:
        x: int

    Local.__annotations__ = {"x": int}

    def handle(params: Local, *, context: ToolContext) -> ToolResult[QueryResult]:
        raise NotImplementedError

    assert Tool[Local, QueryResult](name="t", description="d", handler=handle).params_type is Local


def test_no_parameters_and_no_result() -> None:
    def ping(params: None, *, context: ToolContext) -> ToolResult[None]:
        return ToolResult("pong", None)

    tool = Tool[None, None](name="ping", description="d", handler=ping)
    assert tool.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert tool.parse_arguments("{}") is None
    assert tool.parse_arguments("") is None
    with pytest.raises(ToolValidationError, match="ping takes none, not 'x'"):
        tool.parse_arguments('{"x": 1}')


def test_examples_are_of_the_tools_types() -> None:
    example = ToolExample[QueryParams, QueryResult]("all", QueryParams("select 1"), QueryResult([], 0))
    assert query_tool(examples=[example]).examples == (example,)
    with pytest.raises(PromptValidationError, match="example 'all': its input is no QueryParams"):
        query_tool(examples=[ToolExample("all", 1, QueryResult([], 0))])
    with pytest.raises(PromptValidationError, match="example 'all': its output is no"):
        query_tool(examples=[ToolExample("all", QueryParams(""), QueryParams(""))])
    for wrong in (example, [{"description": "all"}], "all", 3):
        with pytest.raises(PromptValidationError, match=r"'run_query': examples: .+ is not a list of ToolExample\("):
            query_tool(examples=wrong)


def test_arguments_from_json_or_an_object() -> None:
    assert query_tool().parse_arguments('{"sql": "x"}') == QueryParams("x")
    assert query_tool().parse_arguments({"sql": "x"}) == QueryParams("x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{", "arguments: are not JSON"),
        ("[1]", "arguments: must be an object, not [1]"),
        ("{}", "arguments: lacks sql"),
        ('{"sql": 1}', "arguments.sql: must be a string, not 1"),
        ('{"sql": "", "x": 1}', "arguments: has no member 'x'; it has sql"),
    ],
)
def test_bad_arguments_are_named(arguments: str, message: str) -> None:
    with pytest.raises(ToolValidationError, match=re.escape(message)):
        query_tool().parse_arguments(arguments)


# -- results ----------------------------------------------------------------------------------------------------------


def test_a_result_is_a_success_unless_it_says_otherwise() -> None:
    assert ToolResult(message="m", value=1).success
    assert ToolResult("m", None) == ToolResult(message="m", value=None, success=True, exclude_value_from_context=False)
    assert ToolResult.ok(1) == ToolResult[int]("OK", 1)
    assert ToolResult.error("bad") == ToolResult("bad", None, success=False)


@dataclass(frozen=True)
class Drawn:
    n: int

    def render(self) -> str:
        return f"<{self.n}>"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        ("é", "é"),
        (b"\xc3\xa9", "é"),
        (Drawn(1), "<1>"),
        ([Drawn(1), Drawn(2)], "<1>\n\n<2>"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        ([], "[]"),
        (QueryResult([{"é": 1}], 1), '{"rows": [{"é": 1}], "row_count": 1}'),
    ],
    ids=repr,
)
def test_what_the_model_is_shown(value: object, shown: str) -> None:
    assert ToolResult("m", value).render() == shown
    assert ToolResult("m", value).text == ("m\n\n" + shown if shown else "m")
    assert ToolResult("m", value, exclude_value_from_context=True).text == "m"


def test_json_in_text_is_json() -> None:
    value = QueryResult([{"a": 1}], 1)
    assert json.loads(ToolResult("", value).text) == {"rows": [{"a": 1}], "row_count": 1}
