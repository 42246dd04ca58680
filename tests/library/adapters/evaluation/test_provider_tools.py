"""Calls that the provider ran: the hook first, the typed result, one context, what failed, and what was cited."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.gateway.houses import Scene
from tests.library.adapters.evaluation.conftest import MakeAdapter
from tests.library.adapters.evaluation.replies import (
    CITED,
    QUERY,
    QueryParams,
    QueryResult,
    calls,
    prompt,
    ran,
    said,
    says,
    whole,
)

from belljar.adapters.openai import OpenAIHostedToolsConfig
from belljar.prompt import Prompt, Tool, ToolContext, ToolResult
from belljar.runtime import Deadline, Session, TokenUsage, ToolInvoked
from belljar.tools import CodeInterpreterOutput, FileCitation, OpenAICodeInterpreterTool, ProviderTool

CODE = OpenAIHostedToolsConfig(code_interpreter=True)


@dataclass(frozen=True)
class Params:
    status: str
    type: str
    id: str
    queries: tuple[str, ...]
    annotations: tuple[dict[str, object], ...]


@dataclass(frozen=True)
class Found:
    status: str
    queries: tuple[str, ...]


SEARCHED = {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["a", "b"]}


def handle(params: Params, *, context: ToolContext) -> ToolResult[Found]:
    return ToolResult("handler", Found(params.status, params.queries))


def hook(result: Found, context: ToolContext) -> ToolResult[Found]:
    assert isinstance(result, Found)
    return ToolResult("hook", result)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"handler": handle, "handle_provider_output": hook}, "hook"),
        ({"handle_provider_output": hook}, "hook"),
        ({"handler": handle}, "handler"),
    ],
    ids=["both", "hook", "handler"],
)
def test_the_hook_is_asked_first_and_else_the_handler(
    given: dict[str, Any], message: str, scene: Scene, make: MakeAdapter, session: Session
) -> None:
    tool = ProviderTool[Params, Found, Any](
        name="file_search", description="d", provider="openai", config={"vector_store_ids": ["vs_1"]}, **given
    )
    scene.play(whole(SEARCHED, said("Found.")))
    assert make().evaluate(prompt(tool), session=session).text == "Found."
    [event] = session[ToolInvoked].all()
    assert (event.name, event.call_id, event.adapter) == ("file_search", "fs_1", "openai")
    assert event.result == ToolResult(message, Found("completed", ("a", "b")))
    assert session[Found].all() == (Found("completed", ("a", "b")),)


@dataclass(frozen=True)
class Action:
    query: str


@dataclass(frozen=True)
class Search:
    action: Action


def test_a_handler_of_a_web_search_as_openai_tells_of_it(scene: Scene, make: MakeAdapter, session: Session) -> None:
    def heard(params: Search, *, context: ToolContext) -> ToolResult[Action]:
        return ToolResult("searched", params.action)

    tool = ProviderTool[Search, Action, None](name="web_search", description="d", provider="openai", handler=heard)
    action = {"type": "search", "query": "belljar", "queries": ["belljar"], "sources": [{"type": "url", "url": "u"}]}
    call = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action}
    scene.play(whole(call, said("Found.")))
    make().evaluate(prompt(tool), session=session)
    [event] = session[ToolInvoked].all()
    assert event.result == ToolResult("searched", Action("belljar"))


def test_a_handler_of_the_code_interpreter_gets_the_output(scene: Scene, make: MakeAdapter, session: Session) -> None:
    def heard(params: CodeInterpreterOutput, *, context: ToolContext) -> ToolResult[CodeInterpreterOutput]:
        return ToolResult(f"it printed {params.output_text.strip()}", params)

    tool = OpenAICodeInterpreterTool(name="python", container={"type": "auto"}, handler=heard)
    scene.play(whole(ran("4\n"), said("Four.")))
    make().evaluate(prompt(tool), session=session)
    [event] = session[ToolInvoked].all()
    result: Any = event.result
    assert (result.message, result.value.code) == ("it printed 4", "print(2 + 2)")


def test_files_that_were_cited_on_the_way_are_among_the_citations(
    scene: Scene, make: MakeAdapter, session: Session
) -> None:
    other = {**CITED, "file_id": "cfile_2", "filename": "table.csv"}
    scene.play(
        whole(ran(), said("See plot.png.", CITED), calls("run_query", sql="x")),
        whole(said("Hm.", CITED), calls("run_query", sql="x")),
        says("And table.csv.", other),
    )
    answer = make(hosted_tools=CODE).evaluate(prompt(QUERY), session=session)
    assert (answer.text, answer.annotations) == ("And table.csv.", (other,))
    assert [one.filename for one in answer.citations] == ["plot.png", "table.csv"]


def test_hooks_and_handlers_share_one_context_with_everything_in_it(
    scene: Scene, make: MakeAdapter, session: Session
) -> None:
    contexts: list[ToolContext] = []

    def hook(result: CodeInterpreterOutput, context: ToolContext) -> ToolResult[CodeInterpreterOutput]:
        contexts.append(context)
        inner = context.adapter.evaluate(prompt(), session=context.session)
        return ToolResult(inner.text, result)

    def handle(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
        contexts.append(context)
        return ToolResult("ok", None)

    python = OpenAICodeInterpreterTool(name="python", container={"type": "auto"}, handle_provider_output=hook)
    query = Tool[QueryParams, QueryResult](name="run_query", description="d", handler=handle)
    scene.play(whole(ran(), calls("run_query", sql="x")), says("inner"), says("done"))
    adapter = make()
    deadline = Deadline(datetime.now(UTC) + timedelta(minutes=5))
    asked: Prompt[Any] = prompt(python, query)
    adapter.evaluate(asked, session=session, deadline=deadline)
    one, other = contexts
    assert one is other
    assert (one.prompt, one.adapter, one.session, one.deadline) == (asked, adapter, session, deadline)
    assert one.rendered_prompt is not None
    assert one.rendered_prompt.text == asked.render().text
    assert one.session.dispatcher is session.dispatcher
    assert [event.result.message for event in session[ToolInvoked].all()] == ["inner", "ok"]


def test_a_code_interpreter_without_a_hook(scene: Scene, make: MakeAdapter, session: Session) -> None:
    tool: OpenAICodeInterpreterTool[Any] = OpenAICodeInterpreterTool(name="openai_python", container={"type": "auto"})
    scene.play(whole(ran("4\n"), said("It is 4: plot.png", CITED), tokens=(7, 3)))
    answer = make().evaluate(prompt(tool), session=session)
    cited = FileCitation("cntr_1", "cfile_1", "plot.png")
    assert (answer.annotations, answer.citations) == ((CITED,), (cited,))
    [event] = session[ToolInvoked].all()
    assert (event.name, event.call_id, event.params, event.usage) == (
        "openai_python",
        "ci_1",
        None,
        TokenUsage(7, 3, 2),
    )
    output = CodeInterpreterOutput(
        output_text="4\n", code="print(2 + 2)", container_id="cntr_1", stdout="4\n", citations=(cited,)
    )
    assert event.result == ToolResult("4\n", output)
    assert session[CodeInterpreterOutput].all() == (output,)


def test_a_code_interpreter_that_only_the_adapter_knows_is_told_of_too(
    scene: Scene, make: MakeAdapter, session: Session
) -> None:
    scene.play(whole(ran("1\n", id="ci_1"), ran("2\n", id="ci_2"), said("done")))
    make(hosted_tools=CODE).evaluate(prompt(), session=session)
    assert [(one.name, one.call_id) for one in session[ToolInvoked].all()] == [
        ("code_interpreter", "ci_1"),
        ("code_interpreter", "ci_2"),
    ]
    assert [one.output_text for one in session[CodeInterpreterOutput].all()] == ["1\n", "2\n"]


def test_files_of_one_name_belong_to_the_call_that_made_them(scene: Scene, make: MakeAdapter, session: Session) -> None:
    """Our gateway tells the ids and the paths; on the wire it shares with OpenAI, a citation has the name alone."""
    made = [
        ran("1\n", id="ci_1", belljar={"exit": "ok", "files": ["a/plot.png"], "file_ids": ["cfile_1"]}),
        ran("2\n", id="ci_2", belljar={"exit": "ok", "files": ["b/plot.png"], "file_ids": ["cfile_2", "cfile_3"]}),
    ]
    cited = [CITED, {**CITED, "file_id": "cfile_2"}, {**CITED, "file_id": "cfile_3", "filename": "cfile_3.png"}]
    scene.play(whole(*made, said("done", *cited)))
    answer = make(hosted_tools=CODE).evaluate(prompt(), session=session)
    one, two, shown = answer.citations
    assert [(each.file_id, each.path) for each in (one, two)] == [("cfile_1", "a/plot.png"), ("cfile_2", "b/plot.png")]
    assert (shown.filename, shown.path) == ("cfile_3.png", None)
    assert [each.citations for each in session[CodeInterpreterOutput].all()] == [(one,), (two, shown)]


def test_a_hook_may_take_a_plain_dict(scene: Scene, make: MakeAdapter, session: Session) -> None:
    def identity(result: dict[str, object], context: ToolContext) -> ToolResult[dict[str, object]]:
        return ToolResult(message=str(result.get("output_text") or result.get("message") or ""), value=result)

    tool = OpenAICodeInterpreterTool(name="python", container={"type": "auto"}, handle_provider_output=identity)
    scene.play(whole(ran("4\n"), said("4", CITED)))
    make().evaluate(prompt(tool), session=session)
    [event] = session[ToolInvoked].all()
    assert event.result.message == "4\n"
    assert event.result.value["message"] == "4\n"
    [file] = event.result.value["citations"]
    assert file == {"container_id": "cntr_1", "file_id": "cfile_1", "filename": "plot.png", "path": None}


@pytest.mark.parametrize(
    "more",
    [{"status": "failed"}, {"status": "incomplete"}, {"belljar": {"exit": "raised", "file_ids": ["cfile_1"]}}],
    ids=repr,
)
def test_code_that_fails_is_a_failed_result_with_its_traceback_and_citations(
    more: dict[str, Any], scene: Scene, make: MakeAdapter, session: Session
) -> None:
    scene.play(whole(ran("Traceback …\nValueError: bad", **more), said("It failed; see plot.png", CITED)))
    answer = make(hosted_tools=CODE).evaluate(prompt(), session=session)
    [event] = session[ToolInvoked].all()
    assert event.result.success is False
    output = event.result.value
    assert (output.stdout, output.stderr) == (None, "Traceback …\nValueError: bad")
    assert output.citations == answer.citations == (FileCitation("cntr_1", "cfile_1", "plot.png"),)
    assert session[CodeInterpreterOutput].all() == ()


@dataclass(frozen=True)
class Seen:
    n: int


def test_a_hook_that_fails_leaves_nothing_behind(
    scene: Scene, make: MakeAdapter, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    def hook(result: CodeInterpreterOutput, context: ToolContext) -> ToolResult[CodeInterpreterOutput]:
        context.session.dispatch(Seen(1))
        raise RuntimeError("hook")

    tool = OpenAICodeInterpreterTool(name="python", container={"type": "auto"}, handle_provider_output=hook)
    scene.play(whole(ran(), said("4")))
    assert make().evaluate(prompt(tool), session=session).text == "4"
    assert session[Seen].all() == ()
    assert [one.result for one in session[ToolInvoked].all()] == [
        ToolResult.error("Tool 'python' execution failed: hook")
    ]
    assert "tool python failed" in caplog.text


def test_hosted_calls_before_functions_of_the_same_turn(scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(whole(calls("run_query", sql="x"), ran()), says("done"))
    make(hosted_tools=CODE).evaluate(prompt(QUERY), session=session)
    assert [one.name for one in session[ToolInvoked].all()] == ["code_interpreter", "run_query"]
    history = scene.asked[1].json["input"]
    assert [item.get("type", "message") for item in history] == [
        "message",
        "function_call",
        "code_interpreter_call",
        "function_call_output",
    ]


def test_searches_are_told_of_as_they_came(scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(whole({"type": "web_search_call", "id": "ws_1", "status": "completed"}, said("x")))
    make(hosted_tools=OpenAIHostedToolsConfig(web_search=True)).evaluate(prompt(), session=session)
    [event] = session[ToolInvoked].all()
    assert (event.name, event.result.success, event.result.value["id"]) == ("web_search", True, "ws_1")


# -- who made what ----------------------------------------------------------------------------------------------------


def cited(filename: str) -> dict[str, Any]:
    return {**CITED, "file_id": f"cfile_{filename}", "filename": filename}


def files_of(session: Session) -> list[list[str]]:
    return [[one.filename for one in event.result.value.citations] for event in session[ToolInvoked].all()]


def test_a_file_belongs_to_the_last_call_before_it_is_cited(scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(whole(ran(id="1"), said("a", cited("a")), ran(id="2"), ran(id="3"), said("b", cited("b"), cited("c"))))
    make(hosted_tools=CODE).evaluate(prompt(), session=session)
    assert files_of(session) == [["a"], [], ["b", "c"]]


def test_a_file_belongs_to_the_call_that_made_it_where_the_server_tells(
    scene: Scene, make: MakeAdapter, session: Session
) -> None:
    first = ran(id="1", belljar={"exit": "ok", "files": ["a", "d/b"], "file_ids": ["cfile_a", "cfile_d/b"]})
    second = ran(id="2", belljar={"exit": "ok"})
    scene.play(whole(first, second, said("all", cited("a"), cited("d/b"), cited("of an earlier turn"))))
    make(hosted_tools=CODE).evaluate(prompt(), session=session)
    assert files_of(session) == [["a", "d/b"], []]
