"""One call: what the model is told, what is reported, and what is rolled back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from belljar.errors import BudgetExceededError, DeadlineExceededError, PromptValidationError, ToolValidationError
from belljar.filesystem import Filesystem, InMemoryFilesystem
from belljar.runtime import Budget, BudgetTracker, ReducerContext, Session, TokenUsage, ToolInvoked
from belljar.tools import (
    ProviderTool,
    ResourceRegistry,
    Tool,
    ToolContext,
    ToolResult,
    call_tool,
    receive_output,
)

MakeContext: TypeAlias = Callable[..., ToolContext]


@dataclass(frozen=True)
class Params:
    n: int


@dataclass(frozen=True)
class Result:
    doubled: int


@dataclass(frozen=True)
class Seen:
    n: int


def tool_of(act: Callable[[Params, ToolContext], ToolResult[Result]]) -> Tool[Params, Result]:
    def handle(params: Params, *, context: ToolContext) -> ToolResult[Result]:
        context.session.dispatch(Seen(params.n))
        if context.filesystem is not None:
            context.filesystem.write_text("seen", str(params.n))
        return act(params, context)

    return Tool[Params, Result](name="double", description="Doubles.", handler=handle)


def doubled(params: Params, context: ToolContext) -> ToolResult[Result]:
    return ToolResult.ok(Result(2 * params.n))


def raising(error: BaseException) -> Callable[[Params, ToolContext], ToolResult[Result]]:
    def act(params: Params, context: ToolContext) -> ToolResult[Result]:
        raise error

    return act


def returning(value: Any) -> Callable[[Params, ToolContext], ToolResult[Result]]:
    return lambda params, context: value


def test_success_is_kept_and_reported(context: ToolContext, session: Session) -> None:
    result = call_tool(tool_of(doubled), '{"n": 2}', context=context, adapter="openai", call_id="call_1")
    assert result == ToolResult("OK", Result(4))
    assert (session[Seen].all(), session[Result].all()) == ((Seen(2),), (Result(4),))
    [event] = session[ToolInvoked].all()
    assert (event.name, event.params, event.result, event.call_id) == ("double", Params(2), result, "call_1")
    assert (event.prompt_name, event.adapter, event.rendered_output) == ("a prompt", "openai", '{"doubled": 4}')


FAILURES: dict[str, tuple[Callable[[Params, ToolContext], ToolResult[Result]], str]] = {
    "exception": (raising(KeyError("k")), "Tool 'double' execution failed: 'k'"),
    "validation": (raising(ToolValidationError("n is odd")), "Tool validation failed: n is odd"),
    "failed result": (lambda params, context: ToolResult("no", Result(0), success=False), "no"),
    "nothing": (
        returning(None),
        "Tool 'double' execution failed: it returned None, not a ToolResult; return ToolResult.ok",
    ),
    "a string": (returning("done"), "Tool 'double' execution failed: it returned 'done', not a ToolResult"),
    "no words": (
        returning(ToolResult(3, None)),  # type: ignore[arg-type]
        "Tool 'double' execution failed: it returned a ToolResult whose message",
    ),
}


@pytest.mark.parametrize(("act", "message"), FAILURES.values(), ids=FAILURES)
def test_failure_is_told_and_rolled_back(
    act: Callable[[Params, ToolContext], ToolResult[Result]],
    message: str,
    make_context: MakeContext,
    session: Session,
) -> None:
    files = InMemoryFilesystem()
    files.write_text("seen", "before")
    context = make_context(ResourceRegistry.build({Filesystem: files}))
    result = call_tool(tool_of(act), {"n": 2}, context=context, adapter="openai")
    assert not result.success
    assert result.message.startswith(message)
    assert (session[Seen].all(), session[Result].all()) == ((), ())
    assert files.read_text("seen") == "before"
    assert [event.result for event in session[ToolInvoked].all()] == [result]


def test_bad_arguments_are_told_and_the_handler_is_not_called(context: ToolContext, session: Session) -> None:
    result = call_tool(tool_of(doubled), '{"n": "two"}', context=context, adapter="openai")
    assert result == ToolResult.error('Tool validation failed: arguments.n: must be an integer, not "two"')
    assert session[Seen].all() == ()
    assert session[ToolInvoked].all()[0].params == '{"n": "two"}'


def test_a_broken_reducer_fails_the_call(context: ToolContext, session: Session) -> None:
    def broken(slice: tuple[Any, ...], event: object, *, context: ReducerContext) -> tuple[Any, ...]:
        raise RuntimeError("broken reducer")

    session[Result].register(Result, broken)
    heard: list[bool] = []
    session.dispatcher.subscribe(ToolInvoked, lambda event: heard.append(event.result.success))
    result = call_tool(tool_of(doubled), {"n": 2}, context=context, adapter="openai")
    assert not result.success
    assert "Nothing was kept" in result.message
    assert session[Seen].all() == ()
    assert heard == [False]
    assert [event.result for event in session[ToolInvoked].all()] == [result]


def test_a_broken_subscriber_fails_nothing(context: ToolContext, session: Session) -> None:
    def broken(event: ToolInvoked) -> None:
        raise RuntimeError("broken subscriber")

    session.dispatcher.subscribe(ToolInvoked, broken)
    assert call_tool(tool_of(doubled), {"n": 2}, context=context, adapter="openai").success
    assert session[Result].all() == (Result(4),)


def test_what_a_provider_ran_is_a_transaction_too(context: ToolContext, session: Session) -> None:
    def hook(result: Result, context: ToolContext) -> ToolResult[Result]:
        context.session.dispatch(Seen(result.doubled))
        return ToolResult("received", result, success=result.doubled > 0)

    tool = ProviderTool[None, Result, None](
        name="hosted", description="d", provider="openai", handle_provider_output=hook
    )
    usage = TokenUsage(1, 2)
    for doubled in (4, -4):
        receive_output(tool, {"doubled": doubled}, context=context, adapter="openai", call_id="c", usage=usage)
    assert (session[Seen].all(), session[Result].all()) == ((Seen(4),), (Result(4),))
    assert [
        (event.call_id, event.params, event.usage, event.result.success) for event in session[ToolInvoked].all()
    ] == [
        ("c", None, usage, True),
        ("c", None, usage, False),
    ]


@pytest.mark.parametrize(
    "error",
    [
        DeadlineExceededError("late"),
        BudgetExceededError("spent", budget=None, consumed=None, exceeded_dimension="total_tokens"),
    ],
    ids=["deadline", "budget"],
)
def test_what_has_run_out_is_raised_and_rolled_back(error: Exception, context: ToolContext, session: Session) -> None:
    with pytest.raises(type(error)):
        call_tool(tool_of(raising(error)), {"n": 2}, context=context, adapter="openai")
    assert session[Seen].all() == ()


def test_a_tool_without_a_handler_cannot_be_called(context: ToolContext) -> None:
    with pytest.raises(PromptValidationError, match="has no handler"):
        call_tool(Tool[None, None](name="t", description="d"), {}, context=context, adapter="openai")


# -- resources --------------------------------------------------------------------------------------------------------


class DatabaseConnection: ...


def test_resources_are_found_by_type() -> None:
    db = DatabaseConnection()
    resources = ResourceRegistry.build({DatabaseConnection: db, int: None})
    assert resources.get(DatabaseConnection) is db
    assert DatabaseConnection in resources
    assert int not in resources
    assert (resources.get(int), resources.get(int, 3), len(resources)) == (None, 3, 1)
    assert resources[DatabaseConnection] is db
    with pytest.raises(PromptValidationError, match="resources: there is no int, only DatabaseConnection; give one to"):
        resources[int]


def test_merging_prefers_the_other() -> None:
    one, other = ResourceRegistry.build({int: 1, str: "a"}), ResourceRegistry.build({int: 2})
    merged = one.merge(other)
    assert (merged.get(int), merged.get(str), one.get(int)) == (2, "a", 1)


def test_a_resource_is_put_back_once() -> None:
    files = InMemoryFilesystem()
    resources = ResourceRegistry.build({Filesystem: files, InMemoryFilesystem: files, str: "a"})
    assert resources.snapshotable_resources() == (files,)


def test_a_context_gives_all_that_handlers_were_promised(make_context: MakeContext, session: Session) -> None:
    files, tracker = InMemoryFilesystem(), BudgetTracker(Budget(max_total_tokens=1))
    context = make_context(ResourceRegistry.build({Filesystem: files, BudgetTracker: tracker}))
    assert (context.prompt.ns, context.prompt.key, context.prompt.name) == ("tests", "tools", "a prompt")
    assert context.session.dispatcher is session.dispatcher
    assert context.adapter.evaluate("another", session=context.session) == ("another", session)
    assert context.deadline is not None
    assert (context.filesystem, context.budget_tracker) == (files, tracker)
    assert make_context().filesystem is None


# -- coroutines -------------------------------------------------------------------------------------------------------


def coroutine_tool(act: Callable[[Params, ToolContext], ToolResult[Result]]) -> Tool[Params, Result]:
    async def handle(params: Params, *, context: ToolContext) -> ToolResult[Result]:
        context.session.dispatch(Seen(params.n))
        await asyncio.sleep(0)
        return act(params, context)

    return Tool[Params, Result](name="double", description="Doubles.", handler=handle)


def test_a_coroutine_is_awaited(context: ToolContext, session: Session) -> None:
    result = call_tool(coroutine_tool(doubled), {"n": 2}, context=context, adapter="openai")
    assert result == ToolResult("OK", Result(4))
    assert (session[Seen].all(), session[Result].all()) == ((Seen(2),), (Result(4),))


def test_a_coroutine_is_awaited_where_a_loop_runs_already(context: ToolContext) -> None:
    """As in a notebook, whose cells run in a loop."""

    async def cell() -> ToolResult[Result]:
        return call_tool(coroutine_tool(doubled), {"n": 2}, context=context, adapter="openai")

    assert asyncio.run(cell()) == ToolResult("OK", Result(4))


@pytest.mark.parametrize(
    ("act", "message"),
    [*FAILURES.values(), (raising(asyncio.CancelledError()), "Tool 'double' execution failed: it was")],
)
def test_the_failure_of_a_coroutine_is_told_and_rolled_back(
    act: Callable[[Params, ToolContext], ToolResult[Result]], message: str, context: ToolContext, session: Session
) -> None:
    result = call_tool(coroutine_tool(act), {"n": 2}, context=context, adapter="openai")
    assert not result.success
    assert result.message.startswith(message)
    assert session[Seen].all() == ()


def test_a_hook_may_be_a_coroutine_too(context: ToolContext) -> None:
    async def hook(result: Result, context: ToolContext) -> ToolResult[Result]:
        return ToolResult("received", result)

    tool = ProviderTool[None, Result, None](
        name="hosted", description="d", provider="openai", handle_provider_output=hook
    )
    result = receive_output(tool, {"doubled": 4}, context=context, adapter="openai")
    assert result == ToolResult("received", Result(4))
