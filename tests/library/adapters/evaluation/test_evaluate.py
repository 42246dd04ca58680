"""An evaluation from rendering to the answer: its events, its tools, its transactions and its typed output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.gateway.houses import Scene
from tests.library.adapters.evaluation.conftest import MakeAdapter
from tests.library.adapters.evaluation.replies import (
    QUERY,
    QueryParams,
    QueryResult,
    Verdict,
    calls,
    prompt,
    ran,
    said,
    says,
    whole,
)

from belljar.adapters.openai import OpenAIHostedToolsConfig, OpenAIModelConfig
from belljar.errors import OutputParseError, PromptEvaluationError, PromptValidationError, TurnLimitExceededError
from belljar.filesystem import Filesystem, InMemoryFilesystem
from belljar.prompt import MarkdownSection, Prompt, PromptResponse, PromptTemplate, Tool, ToolContext, ToolResult
from belljar.runtime import (
    Budget,
    BudgetTracker,
    InProcessDispatcher,
    PromptExecuted,
    PromptRendered,
    ReducerContext,
    Session,
    TokenUsage,
    ToolInvoked,
)
from belljar.tools import ResourceRegistry


@dataclass(frozen=True)
class Seen:
    sql: str


class DatabaseConnection:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def execute(self, sql: str) -> int:
        self.asked.append(sql)
        return len(self.asked)


# -- the answer -------------------------------------------------------------------------------------------------------


def test_text(scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(whole(said("Let me see."), said("It is 4.")))
    assert make().evaluate(prompt(), session=session) == PromptResponse("a-prompt", "Let me see.\n\nIt is 4.", None)


def test_text_asked_for_as_a_type(scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(says("It is 4."))
    assert make().evaluate(prompt(output=str), session=session) == PromptResponse("a-prompt", "It is 4.", "It is 4.")


JSON = '{"summary": "fine", "issues": ["a"]}'
ANSWERS = {
    "whole": JSON,
    "fenced": f"Here:\n```json\n{JSON}\n```\nDone.",
    "fenced goes first": f'{{"summary": "wrong", "issues": []}}\n```json\n{JSON}\n```',
    "somewhere": f"The verdict is {JSON} and that is it.",
}


@pytest.mark.parametrize("text", ANSWERS.values(), ids=ANSWERS)
def test_a_typed_answer(text: str, scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(says(text))
    answer = make().evaluate(prompt(output=Verdict), session=session)
    assert answer == PromptResponse("a-prompt", None, Verdict("fine", ["a"]))
    assert session[Verdict].latest() == answer.output


def test_a_list_of_typed_answers(scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(says(f'{{"items": [{JSON}, {JSON}]}}'))
    answer = make().evaluate(prompt(output=list[Verdict]), session=session)
    assert answer.output == [Verdict("fine", ["a"])] * 2
    assert session[Verdict].all() == tuple(answer.output)


def test_a_typed_answer_is_in_the_last_message(scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(whole(said('I will print({"summary": 1})'), ran(), said(JSON)))
    assert make().evaluate(prompt(output=Verdict), session=session).output == Verdict("fine", ["a"])


@pytest.mark.parametrize("text", ["no json", '{"summary": 3, "issues": []}', '{"summary": "x"}', ""], ids=repr)
def test_an_answer_that_is_not_of_the_type(text: str, scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(says(text))
    with pytest.raises(OutputParseError) as caught:
        make().evaluate(prompt(output=Verdict), session=session)
    assert isinstance(caught.value, PromptEvaluationError)
    assert (caught.value.phase, caught.value.prompt_name) == ("response", "a-prompt")
    assert isinstance(caught.value.provider_payload, dict)
    assert caught.value.provider_payload["id"] == "resp_1"
    assert session[PromptExecuted].all() == ()


def test_an_answer_that_was_cut_off(scene: Scene, make: MakeAdapter, session: Session) -> None:
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    scene.play(says("It is", **cut), says('{"summary": "f', **cut))
    answer = make().evaluate(prompt(), session=session)
    assert (answer.text, answer.finish_reason) == ("It is", "length")
    with pytest.raises(OutputParseError, match="the answer was cut off"):
        make().evaluate(prompt(output=Verdict), session=session)


def test_annotations_stay_on_the_answer(scene: Scene, make: MakeAdapter, session: Session) -> None:
    cited = {"type": "url_citation", "url": "https://x", "title": "t", "start_index": 0, "end_index": 1}
    scene.play(says("See.", cited))
    answer = make().evaluate(prompt(), session=session)
    assert (answer.annotations, answer.citations) == ((cited,), ())


# -- tools ------------------------------------------------------------------------------------------------------------


def test_tools_are_called_in_order_and_their_results_go_back(scene: Scene, make: MakeAdapter, session: Session) -> None:
    items = [calls("run_query", "call_1", sql="a", limit=1), calls("run_query", "call_2", sql="b", limit=None)]
    scene.play(whole(*items), says("Eleven rows."))
    assert make().evaluate(prompt(QUERY), session=session).text == "Eleven rows."
    first, second = scene.asked
    assert second.json["input"] == [
        *first.json["input"],
        *items,
        {"type": "function_call_output", "call_id": "call_1", "output": '1 rows\n\n{"rows": 1}'},
        {"type": "function_call_output", "call_id": "call_2", "output": '10 rows\n\n{"rows": 10}'},
    ]
    assert [event.params for event in session[ToolInvoked].all()] == [QueryParams("a", 1), QueryParams("b", 10)]
    assert session[QueryResult].all() == (QueryResult(1), QueryResult(10))


def test_resources_and_files_reach_the_handler(scene: Scene, make: MakeAdapter, session: Session) -> None:
    def handle(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
        db = context.resources.get(DatabaseConnection)
        assert db is not None
        assert context.filesystem is files
        return ToolResult("ok", QueryResult(db.execute(params.sql)))

    class Files(MarkdownSection):
        filesystem = InMemoryFilesystem()

    db, files = DatabaseConnection(), Files.filesystem
    tool = Tool[QueryParams, QueryResult](name="run_query", description="d", handler=handle)
    scene.play(whole(calls("run_query", sql="select")), says("ok"))
    asked = prompt(tool, sections=[Files(title="Files", key="files", template="")])
    make().evaluate(asked, session=session, resources=ResourceRegistry.build({DatabaseConnection: db}))
    assert db.asked == ["select"]


def test_the_caller_s_files_go_before_the_prompt_s(scene: Scene, make: MakeAdapter, session: Session) -> None:
    own = InMemoryFilesystem()
    found: list[Filesystem | None] = []

    def handle(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
        found.append(context.filesystem)
        return ToolResult("ok", None)

    class Files(MarkdownSection):
        filesystem = InMemoryFilesystem()

    tool = Tool[QueryParams, QueryResult](name="t", description="d", handler=handle)
    scene.play(whole(calls("t", sql="")), says("ok"))
    asked = prompt(tool, sections=[Files(title="Files", key="files", template="")])
    make().evaluate(asked, session=session, resources=ResourceRegistry.build({Filesystem: own}))
    assert found == [own]


FAILING: dict[str, Any] = {
    "raised": (lambda: 1 / 0, "Error: Tool 'run_query' execution failed: division by zero"),
    "said so": (lambda: ToolResult("not today", None, success=False), "Error: not today"),
}


@pytest.mark.parametrize(("act", "told"), FAILING.values(), ids=FAILING)
def test_a_call_that_fails_leaves_nothing_behind_and_the_model_is_told(
    act: Any, told: str, scene: Scene, make: MakeAdapter, session: Session
) -> None:
    files = InMemoryFilesystem()

    def handle(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
        context.session.dispatch(Seen(params.sql))
        files.write_text("seen", params.sql)
        if params.sql == "good":
            return ToolResult("ok", QueryResult(1))
        failed: ToolResult[QueryResult] = act()
        return failed

    tool = Tool[QueryParams, QueryResult](name="run_query", description="d", handler=handle)
    scene.play(whole(calls("run_query", sql="good"), calls("run_query", "call_2", sql="bad")), says("sorry"))
    resources = ResourceRegistry.build({Filesystem: files})
    assert make().evaluate(prompt(tool), session=session, resources=resources).text == "sorry"
    assert scene.asked[1].json["input"][-1] == {"type": "function_call_output", "call_id": "call_2", "output": told}
    assert (session[Seen].all(), files.read_text("seen")) == ((Seen("good"),), "good")
    assert [event.result.success for event in session[ToolInvoked].all()] == [True, False]


def test_a_result_that_a_reducer_refuses_is_reported_as_failed_and_only_so(
    scene: Scene, make: MakeAdapter, session: Session
) -> None:
    def broken(slice: tuple[Any, ...], event: object, *, context: ReducerContext) -> tuple[Any, ...]:
        raise RuntimeError("broken reducer")

    heard: list[bool] = []
    session.dispatcher.subscribe(ToolInvoked, lambda event: heard.append(event.result.success))
    session[QueryResult].register(QueryResult, broken)
    scene.play(whole(calls("run_query", sql="x")), says("sorry"))
    make().evaluate(prompt(QUERY), session=session)
    assert heard == [False]
    assert [event.result.success for event in session[ToolInvoked].all()] == [False]
    assert "Nothing was kept" in scene.asked[1].json["input"][-1]["output"]
    assert session[QueryResult].all() == ()


@pytest.mark.parametrize("arguments", ['{"sql": 3}', '{"sql": ', "[]"], ids=repr)
def test_bad_arguments_are_the_model_s_to_mend(
    arguments: str, scene: Scene, make: MakeAdapter, session: Session
) -> None:
    scene.play(whole({**calls("run_query"), "arguments": arguments}), says("sorry"))
    make().evaluate(prompt(QUERY), session=session)
    assert scene.asked[1].json["input"][-1]["output"].startswith("Error: Tool validation failed: arguments")


def test_a_tool_that_is_not_there(scene: Scene, make: MakeAdapter, session: Session) -> None:
    """The model is told, and goes on."""
    scene.play(whole(calls("drop_tables"), calls("run_query", "call_2", sql="x")), says("done"))
    assert make().evaluate(prompt(QUERY), session=session).text == "done"
    unknown, known = scene.asked[1].json["input"][-2:]
    assert unknown == {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": "Error: There is no tool 'drop_tables'. The tools are: run_query.",
    }
    assert known["output"].startswith("10 rows")
    first, second = session[ToolInvoked].all()
    assert (first.name, first.result.success, first.call_id) == ("drop_tables", False, "call_1")
    assert (second.name, second.result.success) == ("run_query", True)


def test_a_tool_where_there_is_none(scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(whole(calls("run_query", sql="x")), says("done"))
    assert make().evaluate(prompt(), session=session).text == "done"
    assert scene.asked[1].json["input"][-1]["output"].endswith("There are no functions here: answer without.")


def test_turns_have_a_limit(scene: Scene, make: MakeAdapter, session: Session) -> None:
    """A tool that nobody would hear the result of is not run."""
    again = whole(calls("run_query", sql="x"))
    scene.play(again, again, again)
    with pytest.raises(TurnLimitExceededError, match="asked 3 times, still calls run_query, and max_turns=3") as caught:
        make(max_turns=3).evaluate(prompt(QUERY), session=session)
    assert isinstance(caught.value, PromptEvaluationError)
    assert caught.value.phase == "budget"
    assert len(scene.asked) == 3
    assert len(session[ToolInvoked].all()) == 2


def test_an_answer_in_the_last_turn_is_an_answer(scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(whole(calls("run_query", sql="x")), says("done"))
    assert make(max_turns=2).evaluate(prompt(QUERY), session=session).text == "done"


def test_a_model_that_never_ends_is_stopped(scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(*[whole(calls("nothing"))] * 60)
    with pytest.raises(TurnLimitExceededError, match="max_turns=50"):
        make().evaluate(prompt(QUERY), session=session)
    assert len(scene.asked) == 50


def test_a_tool_may_evaluate_another_prompt(scene: Scene, make: MakeAdapter, session: Session) -> None:
    def handle(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
        answer = context.adapter.evaluate(prompt(), session=context.session)
        return ToolResult(answer.text, None)

    tool = Tool[QueryParams, QueryResult](name="ask", description="d", handler=handle)
    scene.play(whole(calls("ask", sql="")), says("inner"), says("outer"))
    assert make().evaluate(prompt(tool), session=session).text == "outer"
    assert scene.asked[2].json["input"][-1]["output"] == "inner"
    assert len(session[PromptExecuted].all()) == 2


# -- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Topic:
    name: str


def test_events_in_order(scene: Scene, make: MakeAdapter) -> None:
    bus = InProcessDispatcher()
    events: list[Any] = []
    for kind in (PromptRendered, ToolInvoked, PromptExecuted, TokenUsage):
        bus.subscribe(kind, events.append)
    session = Session(bus=bus)
    section = MarkdownSection[Topic](title="T", key="t", template="About $name.", tools=(QUERY,))
    asked = Prompt(PromptTemplate(ns="n", key="k", name="p", sections=[section])).bind(Topic("bees"))
    scene.play(whole(calls("run_query", sql="x"), tokens=(10, 5)), says("done", tokens=(20, 1)))
    answer = make().evaluate(asked, session=session)
    rendered, first, invoked, second, executed = events
    assert (rendered.prompt_ns, rendered.prompt_key, rendered.prompt_name) == ("n", "k", "p")
    assert (rendered.adapter, rendered.session_id) == ("openai", session.session_id)
    assert (rendered.render_inputs, "About bees." in rendered.rendered_prompt) == ((Topic("bees"),), True)
    assert (first, second) == (TokenUsage(10, 5, 2), TokenUsage(20, 1, 2))
    assert (invoked.name, invoked.call_id, invoked.usage, invoked.adapter) == ("run_query", "call_1", first, "openai")
    assert (executed.result, executed.usage) == (answer, TokenUsage(30, 6, 4))


def test_a_subscriber_that_fails_stops_nothing(scene: Scene, make: MakeAdapter, session: Session) -> None:
    def fail(event: object) -> None:
        raise RuntimeError("deaf")

    for kind in (PromptRendered, ToolInvoked, PromptExecuted, TokenUsage):
        session.dispatcher.subscribe(kind, fail)
    scene.play(whole(calls("run_query", sql="x")), says("done"))
    assert make().evaluate(prompt(QUERY), session=session).text == "done"
    assert session[QueryResult].all() == (QueryResult(10),)


def test_each_turn_is_logged(
    scene: Scene, make: MakeAdapter, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    adapter = make(
        model_config=OpenAIModelConfig(max_tokens=99), hosted_tools=OpenAIHostedToolsConfig(code_interpreter=True)
    )
    scene.play(whole(ran(), said("4")))
    with caplog.at_level("INFO", "belljar.adapters"):
        adapter.evaluate(prompt(), session=session)
    [record] = [one for one in caplog.records if one.name == "belljar.adapters.evaluation"]
    assert record.__dict__["turn"] == {
        "adapter": "openai",
        "prompt": "a-prompt",
        "model": "sim",
        "max_output_tokens": 99,
        "container_id": "cntr_1",
        "memory_limit": "1g",
        "request_id": "req_1",
        "response_id": "resp_1",
        "input_tokens": 10,
        "output_tokens": 5,
    }
    assert "container_id=cntr_1 memory_limit=1g" in record.getMessage()


# -- how it is called -------------------------------------------------------------------------------------------------


def test_a_budget_and_another_s_tracker_are_refused(make: MakeAdapter, session: Session) -> None:
    tracker = BudgetTracker(Budget(max_total_tokens=1))
    with pytest.raises(ValueError, match="budget is not that of budget_tracker"):
        make().evaluate(prompt(), session=session, budget=Budget(max_total_tokens=1), budget_tracker=tracker)


def test_parameters_that_are_missing_are_named(scene: Scene, make: MakeAdapter, session: Session) -> None:
    section = MarkdownSection[Topic](title="T", key="t", template="About $name.")
    with pytest.raises(PromptValidationError, match="section t needs a Topic"):
        make().evaluate(Prompt(PromptTemplate(ns="n", key="k", sections=[section])), session=session)
    assert scene.server.requests == []
