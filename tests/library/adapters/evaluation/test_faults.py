"""What goes wrong: throttling, broken servers and connections, filters, deadlines and budgets."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.gateway.houses import Scene
from tests.library.adapters.evaluation.conftest import AT_ONCE, MakeAdapter
from tests.library.adapters.evaluation.replies import (
    QUERY,
    QueryParams,
    QueryResult,
    Verdict,
    calls,
    prompt,
    ran,
    refuses,
    said,
    says,
    whole,
)

from belljar.adapters.openai import CompactionConfig, OpenAIHostedToolsConfig
from belljar.adapters.openai.compaction import CompactionOwed, CompactionState
from belljar.adapters.retry import ask_turn
from belljar.adapters.steps import Ask, Do, Heard, Pause
from belljar.errors import (
    BadKey,
    BudgetExceededError,
    CompactionError,
    ContextTooLong,
    DeadlineExceededError,
    Declined,
    Filtered,
    OutputFiltered,
    PromptEvaluationError,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    Unreachable,
)
from belljar.prompt import Tool, ToolContext, ToolResult
from belljar.providers import OpenAIError
from belljar.runtime import (
    Budget,
    BudgetTracker,
    CompactionFailed,
    Deadline,
    PromptExecuted,
    Session,
    ThrottlePolicy,
    TokenUsage,
    ToolInvoked,
)
from belljar.testing import BREAK, Reply
from belljar.tools import CodeInterpreterOutput, OpenAICodeInterpreterTool

OVER = Reply(steps=[BREAK])
BUSY = refuses(429, "slow down", "rate_limit_exceeded", retry_after_ms="1")


def ahead(seconds: float = 60) -> Deadline:
    return Deadline(datetime.now(UTC) + timedelta(seconds=seconds))


# -- throttling -------------------------------------------------------------------------------------------------------

PASSING: dict[str, Reply] = {
    "429": BUSY,
    "500": refuses(500),
    "503": refuses(503),
    "connection": OVER,
    "rate limit in the response": whole(status="failed", error={"code": "rate_limit_exceeded", "message": "slow"}),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_what_passes_is_tried_again(fault: Reply, scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(fault, fault, says("at last"))
    assert make().evaluate(prompt(), session=session).text == "at last"
    assert len(scene.asked) == 3
    assert len({one.body for one in scene.asked}) == 1


STAYING: dict[str, tuple[Reply, type[ProviderError]]] = {
    "key": (refuses(401), BadKey),
    "quota": (refuses(429, "no money", "insufficient_quota"), QuotaExceeded),
    "model": (refuses(404, "The model `sim` does not exist", "model_not_found"), Declined),
    "request": (refuses(400), Declined),
    "too long": (refuses(400, "too long", "context_length_exceeded"), ContextTooLong),
}


@pytest.mark.parametrize(("fault", "kind"), STAYING.values(), ids=STAYING)
def test_what_stays_is_raised_at_once(
    fault: Reply, kind: type[ProviderError], scene: Scene, make: MakeAdapter, session: Session
) -> None:
    scene.play(fault, says("never"))
    with pytest.raises(kind) as caught:
        make().evaluate(prompt(), session=session)
    error: Any = caught.value
    assert isinstance(error.__cause__, OpenAIError)
    assert all(isinstance(error, kind) for kind in (OpenAIError, PromptEvaluationError))
    assert (error.phase, error.prompt_name, error.attempts) == ("request", "a-prompt", 1)
    assert error.code == kind.code
    assert len(scene.asked) == 1


def test_giving_up(scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(*[BUSY] * 6)
    with pytest.raises(RateLimited, match="Rate limited") as caught:
        make().evaluate(prompt(), session=session)
    assert isinstance(caught.value, PromptEvaluationError)
    assert (caught.value.attempts, len(scene.asked)) == (5, 5)
    assert isinstance(caught.value.provider_payload, dict)
    assert caught.value.provider_payload["message"] == "slow down"


def test_errors_survive_a_process(scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(refuses(400))
    with pytest.raises(Declined) as caught:
        make().evaluate(prompt(), session=session)
    error = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(error, Declined)
    assert isinstance(error, PromptEvaluationError)
    assert (str(error), error.phase) == (str(caught.value), "request")


class Conversation:
    """Only what `ask_turn` uses."""

    def __init__(self, mends: bool = False) -> None:
        self.mends = mends

    def request(self) -> bytes:
        return b""

    def decoder(self) -> None:
        """It reads nothing."""

    def mend(self, error: ProviderError) -> bool:
        return self.mends


def played(
    *faults: Exception, policy: ThrottlePolicy, deadline: Deadline | None = None, mends: bool = False
) -> tuple[list[float], int]:
    """How long was waited between the tries, and how many there were; the last of them is answered."""
    steps = ask_turn(Conversation(mends), "p", policy, deadline, chance=lambda: 1.0)  # type: ignore[arg-type]
    left, pauses, tries = list(faults), [], 0
    step = next(steps)
    try:
        while True:
            match step:
                case Ask() if left:
                    tries += 1
                    step = steps.throw(left.pop(0))
                case Ask():
                    tries += 1
                    step = steps.send(Heard({}))
                case Pause():
                    pauses.append(step.seconds)
                    step = next(steps)
                case Do():
                    step = steps.send(step.act())
    except StopIteration:
        return pauses, tries


def limited(after: float | None = None) -> OpenAIError:
    return OpenAIError.of("RATE_LIMIT", like=RateLimited("slow", after=after))


def test_waits_grow_and_the_server_s_word_counts() -> None:
    policy = ThrottlePolicy()
    assert played(*[limited()] * 4, policy=policy) == ([1, 2, 4, 8], 5)
    assert played(limited(3), limited(0.1), policy=policy) == ([3.25, 2], 3)


def test_waiting_has_an_end() -> None:
    with pytest.raises(RateLimited):
        played(limited(31), policy=ThrottlePolicy())
    with pytest.raises(RateLimited):
        played(limited(20), limited(20), policy=ThrottlePolicy())
    with pytest.raises(RateLimited):
        played(limited(), policy=ThrottlePolicy(max_attempts=1))


def test_no_wait_goes_past_the_deadline() -> None:
    with pytest.raises(DeadlineExceededError, match="will before the next try: Rate limited") as caught:
        played(limited(20), policy=ThrottlePolicy(), deadline=ahead(10))
    assert isinstance(caught.value.__cause__, RateLimited)


def test_what_was_mended_is_tried_at_once_and_once() -> None:
    declined = OpenAIError.of("BAD_REQUEST", like=Declined("Container is expired."))
    assert played(declined, policy=AT_ONCE, mends=True) == ([], 2)
    with pytest.raises(Declined):
        played(declined, declined, policy=AT_ONCE, mends=True)


@pytest.mark.parametrize("body", [b"{}", b"[]", b"<html>", b'{"output": [{}]}', b'{"output": [{"type": "message"}]}'])
def test_what_is_no_response_is_said_to_be_none(body: bytes, scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(Reply(body=body))
    with pytest.raises(ProviderError) as caught:
        make().evaluate(prompt(output=Verdict), session=session)
    assert isinstance(caught.value, PromptEvaluationError)


# -- streams ----------------------------------------------------------------------------------------------------------


def test_a_stream_that_breaks_before_a_word_is_tried_again(scene: Scene, make: MakeAdapter, session: Session) -> None:
    heard: list[str] = []
    scene.play(OVER, BUSY, "Hello there.")
    assert make().evaluate(prompt(), session=session, on_text=heard.append).text == "Hello there."
    assert "".join(heard) == "Hello there."
    assert len(scene.asked) == 3


def test_a_stream_that_breaks_after_a_word_is_not(scene: Scene, make: MakeAdapter, session: Session) -> None:
    heard: list[str] = []
    go = threading.Event()

    def hear(text: str) -> None:
        heard.append(text)
        go.set()

    scene.play(["Well, ", go, BREAK], "never")
    with pytest.raises(Unreachable) as caught:
        make().evaluate(prompt(), session=session, on_text=hear)
    assert isinstance(caught.value, PromptEvaluationError)
    assert ("".join(heard).strip(), len(scene.asked)) == ("Well,", 1)


def test_a_listener_that_fails_is_not_the_provider_s_fault(scene: Scene, make: MakeAdapter, session: Session) -> None:
    def hear(text: str) -> None:
        raise KeyError("listener")

    scene.play("Hello.", "never")
    with pytest.raises(KeyError, match="listener"):
        make().evaluate(prompt(), session=session, on_text=hear)
    assert len(scene.asked) == 1


# -- filters ----------------------------------------------------------------------------------------------------------

FILTERED: Any = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
HELD: dict[str, tuple[Reply, Any, str]] = {
    "the answer": (says("I was ab", **FILTERED), None, "held the answer back"),
    "a typed answer": (says("{", **FILTERED), Verdict, "held the answer back"),
    "the request": (refuses(400, "flagged", "content_policy_violation"), None, "Content policy violation"),
    "a refusal where a type was asked for": (
        whole({**said(""), "content": [{"type": "refusal", "refusal": "I must not."}]}),
        Verdict,
        "refused to answer: I must not.",
    ),
}


@pytest.mark.parametrize(("reply", "output", "message"), HELD.values(), ids=HELD)
def test_what_is_filtered_breaks_the_contract(
    reply: Reply, output: Any, message: str, scene: Scene, make: MakeAdapter, session: Session
) -> None:
    scene.play(reply, says("never"))
    with pytest.raises(AssertionError, match=message) as caught:
        make().evaluate(prompt(output=output), session=session)
    for kind in (OutputFiltered, Filtered, PromptEvaluationError):
        assert isinstance(caught.value, kind)
    assert len(scene.asked) == 1


def test_a_refusal_is_an_answer_where_any_text_is(scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(HELD["a refusal where a type was asked for"][0])
    assert make().evaluate(prompt(), session=session).text == "I must not."


def test_what_ran_before_the_filter_is_told_of(scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(whole(ran(), **FILTERED))
    with pytest.raises(OutputFiltered):
        make(hosted_tools=OpenAIHostedToolsConfig(code_interpreter=True)).evaluate(prompt(), session=session)
    assert len(session[ToolInvoked].all()) == 1


# -- deadlines --------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def deadline(clock: Clock) -> Deadline:
    return Deadline(clock.now + timedelta(minutes=10), clock=clock)


@pytest.fixture
def late(clock: Clock) -> Tool[QueryParams, QueryResult]:
    """A tool that takes an hour."""

    def handle(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
        clock.now += timedelta(hours=1)
        return ToolResult("ok", None)

    return Tool[QueryParams, QueryResult](name="late", description="d", handler=handle)


def test_a_deadline_that_has_passed_asks_nothing(
    scene: Scene, make: MakeAdapter, session: Session, clock: Clock, deadline: Deadline
) -> None:
    clock.now += timedelta(hours=1)
    with pytest.raises(DeadlineExceededError) as caught:
        make().evaluate(prompt(), session=session, deadline=deadline)
    assert isinstance(caught.value, PromptEvaluationError)
    assert caught.value.phase == "budget"
    assert scene.server.requests == []


@pytest.mark.parametrize("how", ["deadline", "budget"])
def test_no_turn_and_no_tool_after_the_deadline(
    how: str,
    scene: Scene,
    make: MakeAdapter,
    session: Session,
    deadline: Deadline,
    late: Tool[QueryParams, QueryResult],
) -> None:
    scene.play(whole(calls("late", sql=""), calls("run_query", "call_2", sql="")), says("never"))
    given: Any = {"deadline": deadline} if how == "deadline" else {"budget": Budget(deadline=deadline)}
    with pytest.raises((DeadlineExceededError, BudgetExceededError)) as caught:
        make().evaluate(prompt(late, QUERY), session=session, **given)
    assert isinstance(caught.value, PromptEvaluationError)
    assert caught.value.phase == "budget"
    assert [one.name for one in session[ToolInvoked].all()] == ["late"]
    assert len(scene.asked) == 1


def test_an_answer_that_is_there_is_given(
    scene: Scene, make: MakeAdapter, session: Session, clock: Clock, deadline: Deadline
) -> None:
    def expire(usage: TokenUsage) -> None:
        clock.now += timedelta(hours=1)

    session.dispatcher.subscribe(TokenUsage, expire)
    scene.play(says("just in time"))
    assert make().evaluate(prompt(), session=session, deadline=deadline).text == "just in time"


def test_nothing_waits_for_a_server_beyond_the_deadline(scene: Scene, make: MakeAdapter, session: Session) -> None:
    never = threading.Event()
    scene.play(Reply(steps=["too late"], before=never), says("never"))
    with pytest.raises(DeadlineExceededError) as caught:
        make().evaluate(prompt(), session=session, deadline=ahead(1.1))
    assert isinstance(caught.value.__cause__, DeadlineExceededError)
    assert isinstance(caught.value.__cause__.__cause__, Unreachable)
    assert len(scene.asked) == 1


def test_a_stream_ends_at_the_deadline(
    scene: Scene, make: MakeAdapter, session: Session, clock: Clock, deadline: Deadline
) -> None:
    def hear(text: str) -> None:
        clock.now += timedelta(hours=1)

    scene.play("one two three")
    with pytest.raises(DeadlineExceededError):
        make().evaluate(prompt(), session=session, deadline=deadline, on_text=hear)


def test_the_earlier_deadline_counts(scene: Scene, make: MakeAdapter, session: Session) -> None:
    seen: list[Deadline | None] = []

    def handle(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
        seen.append(context.deadline)
        return ToolResult("ok", None)

    tool = Tool[QueryParams, QueryResult](name="t", description="d", handler=handle)
    sooner, later = ahead(60), ahead(120)
    for given in (
        {"deadline": sooner, "budget": Budget(deadline=later)},
        {"deadline": later, "budget": Budget(sooner)},
    ):
        scene.play(whole(calls("t", sql="")), says("ok"))
        make().evaluate(prompt(tool), session=session, **given)  # type: ignore[arg-type]
    assert seen == [sooner, sooner]


def test_a_deadline_inside_a_tool_ends_the_outer_evaluation_too(
    scene: Scene, make: MakeAdapter, session: Session
) -> None:
    def handle(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
        raise DeadlineExceededError("inner")

    tool = Tool[QueryParams, QueryResult](name="t", description="d", handler=handle)
    scene.play(whole(calls("t", sql="")), says("never"))
    with pytest.raises(DeadlineExceededError, match="inner") as caught:
        make().evaluate(prompt(tool), session=session)
    assert isinstance(caught.value, PromptEvaluationError)
    assert (caught.value.phase, len(scene.asked)) == ("budget", 1)


def test_a_deadline_inside_a_hook_ends_the_evaluation_too(scene: Scene, make: MakeAdapter, session: Session) -> None:
    def hook(result: CodeInterpreterOutput, context: ToolContext) -> ToolResult[CodeInterpreterOutput]:
        raise DeadlineExceededError("inner")

    tool = OpenAICodeInterpreterTool(name="python", container={"type": "auto"}, handle_provider_output=hook)
    scene.play(whole(ran(), said("x")))
    with pytest.raises(DeadlineExceededError, match="inner") as caught:
        make().evaluate(prompt(tool), session=session)
    assert isinstance(caught.value, PromptEvaluationError)
    assert caught.value.phase == "budget"


# -- compaction -------------------------------------------------------------------------------------------------------


LONG = CompactionConfig(threshold_tokens=1)


def compacted(*kept: dict[str, Any]) -> Reply:
    sealed = {"id": "cmp_1", "type": "compaction", "encrypted_content": "sealed"}
    return Reply(body=json.dumps({"id": "r", "object": "response.compaction", "output": [*kept, sealed]}).encode())


def to_compact(scene: Scene) -> list[Any]:
    """What the server was asked to compact."""
    return [one.json["input"] for one in scene.server.requests if one.asks("compact")]


@pytest.mark.parametrize(
    ("fault", "tries", "again"),
    [(refuses(500), 3, True), (refuses(429, retry_after="0"), 3, True), (refuses(404), 1, False)],
)
@pytest.mark.parametrize("how", ["blocking", "asyncio"])
def test_an_answer_is_not_lost_when_compaction_fails(
    fault: Reply, tries: int, again: bool, how: str, scene: Scene, make: MakeAdapter, session: Session
) -> None:
    adapter = make(compaction=LONG, throttle=replace(AT_ONCE, max_attempts=3))
    scene.play(says("the answer"), *[fault] * tries)
    if how == "asyncio":
        answer = asyncio.run(adapter.evaluate_async(prompt(), session=session))
    else:
        answer = adapter.evaluate(prompt(), session=session)
    assert answer.text == "the answer"
    assert len(to_compact(scene)) == tries
    [told] = session[CompactionFailed].all()
    assert isinstance(told.error, CompactionError)
    assert (told.error.token_count, told.will_retry, told.prompt_name, told.adapter) == (
        15,
        again,
        "a-prompt",
        "openai",
    )
    [executed] = session[PromptExecuted].all()
    assert executed.result.text == "the answer"
    assert session[CompactionState].all() == ()


def test_compaction_that_is_throttled_is_tried_again(scene: Scene, make: MakeAdapter, session: Session) -> None:
    scene.play(says("one"), refuses(429, retry_after="0"), refuses(503), compacted())
    assert make(compaction=LONG).evaluate(prompt(), session=session).text == "one"
    assert (len(to_compact(scene)), session[CompactionFailed].all()) == (3, ())
    assert session[CompactionState].all()[-1].compaction_count == 1


def test_what_was_not_compacted_is_with_the_next_evaluation(scene: Scene, make: MakeAdapter, session: Session) -> None:
    adapter = make(compaction=LONG, throttle=ThrottlePolicy(max_attempts=1))
    scene.play(says("one"), refuses(503), refuses(503), says("two"), refuses(503))
    adapter.evaluate(prompt(), session=session)
    adapter.evaluate(prompt(), session=session)
    assert len(session[CompactionFailed].all()) == 3, "at the end of the first, before the second, at its end"
    scene.play(compacted(), says("three"), compacted())
    assert adapter.evaluate(prompt(), session=session).text == "three"
    *_, caught_up, last = to_compact(scene)
    assert [one in json.dumps(caught_up) for one in ("one", "two", "three")] == [True, True, False]
    assert [one in json.dumps(last) for one in ("one", "two", "three")] == [False, False, True]
    asked = next(one.json["input"] for one in reversed(scene.server.requests) if one.asks("responses"))
    assert asked[0]["encrypted_content"] == "sealed", "the third evaluation had the other two before it"
    assert len(session[CompactionFailed].all()) == 3
    assert session[CompactionOwed].all() == ()


def test_what_never_can_be_compacted_is_not_tried_for_ever(scene: Scene, make: MakeAdapter, session: Session) -> None:
    adapter = make(compaction=LONG, throttle=ThrottlePolicy(max_attempts=1))
    scene.play(says("one"), refuses(503), refuses(400), says("two", tokens=(0, 0)), says("three", tokens=(0, 0)))
    for _ in range(3):
        adapter.evaluate(prompt(), session=session)
    assert [one.will_retry for one in session[CompactionFailed].all()] == [True, False]
    assert len(to_compact(scene)) == 2


def test_a_conversation_goes_on_when_compaction_fails_between_turns(
    scene: Scene, make: MakeAdapter, session: Session
) -> None:
    adapter = make(compaction=LONG, throttle=ThrottlePolicy(max_attempts=1))
    scene.play(whole(calls("run_query", sql="")), refuses(503), says("done"), compacted())
    assert adapter.evaluate(prompt(QUERY), session=session).text == "done"
    assert len(session[CompactionFailed].all()) == 1
    assert [len(one) for one in to_compact(scene)] == [3, 4]


def test_compaction_keeps_to_the_deadline(
    scene: Scene, make: MakeAdapter, session: Session, clock: Clock, deadline: Deadline
) -> None:
    def expire(usage: TokenUsage) -> None:
        clock.now += timedelta(hours=1)

    session.dispatcher.subscribe(TokenUsage, expire)
    scene.play(says("just in time"))
    answer = make(compaction=LONG).evaluate(prompt(), session=session, deadline=deadline)
    assert (answer.text, to_compact(scene)) == ("just in time", [])
    [told] = session[CompactionFailed].all()
    assert (isinstance(told.error, DeadlineExceededError), told.will_retry) == (True, True)
    assert session[CompactionOwed].all() != ()


def test_no_compaction_is_waited_for_beyond_the_deadline(scene: Scene, make: MakeAdapter, session: Session) -> None:
    never = threading.Event()
    scene.play(says("the answer"), Reply(steps=["too late"], before=never))
    assert make(compaction=LONG).evaluate(prompt(), session=session, deadline=ahead(1.5)).text == "the answer"
    [told] = session[CompactionFailed].all()
    assert isinstance(told.error, DeadlineExceededError)
    assert len(to_compact(scene)) == 1


# -- budgets ----------------------------------------------------------------------------------------------------------

BUDGETS = {
    "total": (Budget(max_total_tokens=14), "total_tokens"),
    "input": (Budget(max_input_tokens=9), "input_tokens"),
    "output": (Budget(max_output_tokens=4), "output_tokens"),
}


@pytest.mark.parametrize(("budget", "dimension"), BUDGETS.values(), ids=BUDGETS)
def test_no_tool_and_no_turn_beyond_the_budget(
    budget: Budget, dimension: str, scene: Scene, make: MakeAdapter, session: Session
) -> None:
    scene.play(whole(calls("run_query", sql="x"), tokens=(10, 5)), says("never"))
    with pytest.raises(BudgetExceededError, match=f"max_{dimension}=") as caught:
        make().evaluate(prompt(QUERY), session=session, budget=budget)
    assert isinstance(caught.value, PromptEvaluationError)
    assert (caught.value.phase, caught.value.exceeded_dimension) == ("budget", dimension)
    assert caught.value.consumed == TokenUsage(10, 5, 2)
    assert (len(scene.asked), session[ToolInvoked].all()) == (1, ())


def test_a_budget_is_over_all_turns_and_all_evaluations_that_share_it(
    scene: Scene, make: MakeAdapter, session: Session
) -> None:
    tracker = BudgetTracker(Budget(max_total_tokens=40))
    scene.play(whole(calls("run_query", sql="x"), tokens=(10, 5)), says("one", tokens=(20, 6)), says("never"))
    assert make().evaluate(prompt(QUERY), session=session, budget_tracker=tracker).text == "one"
    assert tracker.consumed == TokenUsage(30, 11, 4)
    with pytest.raises(BudgetExceededError, match="41 total_tokens are spent"):
        make().evaluate(prompt(), session=session, budget_tracker=tracker)
    assert len(scene.asked) == 2


def test_tools_see_the_tracker(scene: Scene, make: MakeAdapter, session: Session) -> None:
    seen: list[BudgetTracker | None] = []

    def handle(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
        seen.append(context.budget_tracker)
        return ToolResult("ok", None)

    tool = Tool[QueryParams, QueryResult](name="t", description="d", handler=handle)
    tracker = BudgetTracker(Budget(max_total_tokens=100))
    scene.play(whole(calls("t", sql="")), says("ok"))
    make().evaluate(prompt(tool), session=session, budget_tracker=tracker)
    assert seen == [tracker]


def test_an_answer_without_usage_costs_nothing_that_is_known(scene: Scene, make: MakeAdapter, session: Session) -> None:
    seen: list[TokenUsage] = []
    session.dispatcher.subscribe(TokenUsage, seen.append)
    answer = json.loads(says("x").body or b"") | {"usage": None}
    scene.play(Reply(body=json.dumps(answer).encode()))
    make().evaluate(prompt(), session=session)
    assert seen == [TokenUsage()]
