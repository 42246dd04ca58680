"""Sessions: slices, reducers, observers, snapshots, threads, and what they take in from prompts and tools."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from uuid import uuid4

import pytest

from belljar.runtime import (
    InProcessDispatcher,
    PromptExecuted,
    PromptRendered,
    Reducer,
    ReducerContext,
    Session,
    SlicePolicy,
    ToolInvoked,
    append_all,
    replace_latest,
    replace_latest_by,
    transaction,
    upsert_by,
)


@dataclass(frozen=True)
class Note:
    key: str
    text: str = ""


@dataclass(frozen=True)
class Count:
    n: int


@dataclass(frozen=True)
class Bumped:
    by: int = 1


@dataclass(frozen=True)
class Result:
    value: Any = None
    output: Any = None
    success: bool = True
    message: str = ""
    text: str | None = None


def bump(slice: tuple[Any, ...], event: Bumped, *, context: ReducerContext) -> tuple[Any, ...]:
    return (Count((slice[-1].n if slice else 0) + event.by),)


def broken(slice: tuple[Any, ...], event: object, *, context: ReducerContext) -> tuple[Any, ...]:
    raise RuntimeError("broken reducer")


def counting() -> Session:
    session = Session()
    session[Count].register(Bumped, bump)
    return session


@pytest.mark.parametrize(
    "make",
    [lambda bus: Session(bus=bus), lambda bus: Session(dispatcher=bus), lambda bus: Session(bus=bus, dispatcher=bus)],
    ids=["bus", "dispatcher", "both"],
)
def test_bus_and_dispatcher_are_one_thing(make: Callable[[InProcessDispatcher], Session]) -> None:
    bus = InProcessDispatcher()
    session = make(bus)
    assert session.bus is session.dispatcher is bus


def test_two_different_dispatchers_are_refused() -> None:
    with pytest.raises(ValueError, match="two names of one thing"):
        Session(bus=InProcessDispatcher(), dispatcher=InProcessDispatcher())
    assert isinstance(Session().dispatcher, InProcessDispatcher)


def test_an_unregistered_type_is_a_ledger() -> None:
    session = Session()
    assert session[Note].latest() is None
    session.dispatch(Note("a"))
    session[Note].append(Note("b"))
    assert session[Note].all() == (Note("a"), Note("b"))
    assert session[Note].latest() == Note("b")
    assert session[Note].where(lambda note: note.key == "a") == (Note("a"),)


def test_seed_and_clear() -> None:
    session = Session()
    session[Note].seed(Note("a"))
    assert session[Note].all() == (Note("a"),)
    session[Note].seed([Note("b"), Note("c")])
    session[Note].clear(lambda note: note.key == "b")
    assert session[Note].all() == (Note("c"),)
    session[Note].clear()
    assert session[Note].all() == ()


@pytest.mark.parametrize(
    ("reducer", "kept"),
    [
        (append_all, "a1 b1 a2"),
        (replace_latest, "a2"),
        (upsert_by(attrgetter("key")), "a2 b1"),
        (replace_latest_by(attrgetter("key")), "b1 a2"),
    ],
    ids=["append_all", "replace_latest", "upsert_by", "replace_latest_by"],
)
def test_reducers(reducer: Reducer, kept: str) -> None:
    session = Session()
    session[Note].register(Note, reducer)
    for note in (Note("a", "1"), Note("b", "1"), Note("a", "2")):
        session.dispatch(note)
    assert " ".join(note.key + note.text for note in session[Note].all()) == kept


def test_an_event_may_change_another_slice() -> None:
    session = counting()
    assert session.dispatch(Bumped(2)).handlers_invoked == (bump,)
    session.dispatch(Bumped(3))
    assert session[Count].all() == (Count(5),)
    assert session[Bumped].all() == ()


def test_a_broken_reducer_is_logged_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    session = Session()
    session[Note].register(Bumped, broken)
    session[Count].register(Bumped, bump)
    session[Note].seed(Note("kept"))
    with caplog.at_level(logging.ERROR):
        result = session.dispatch(Bumped())
    assert not result.ok
    assert (result.handled_count, [str(e.error) for e in result.errors]) == (2, ["broken reducer"])
    assert "a reducer of Bumped failed" in caplog.text
    assert session[Note].all() == (Note("kept"),)
    assert session[Count].all() == (Count(1),)
    with pytest.raises(ExceptionGroup, match="1 of 2 handlers of Bumped"):
        result.raise_if_errors()


def test_observers_see_old_and_new_until_they_leave() -> None:
    session, seen = counting(), []
    subscription = session.observe(Count, lambda old, new: seen.append((old, new)))
    session.dispatch(Bumped())
    session.dispatch(Bumped(0))
    session[Count].clear()
    assert seen == [((), (Count(1),)), ((Count(1),), ())]
    assert subscription.unsubscribe()
    assert not subscription.unsubscribe()
    session.dispatch(Bumped())
    assert len(seen) == 2


def test_a_broken_observer_hinders_nobody(caplog: pytest.LogCaptureFixture) -> None:
    session, seen = Session(), []

    def broken(old: object, new: object) -> None:
        raise RuntimeError("broken observer")

    session.observe(Note, broken)
    session.observe(Note, lambda old, new: seen.append(new))
    session.dispatch(Note("a"))
    assert seen == [(Note("a"),)]
    assert "broken observer" in caplog.text


def test_an_observer_may_dispatch() -> None:
    session = counting()
    session.observe(Note, lambda old, new: session.dispatch(Bumped()))
    session.dispatch(Note("a"))
    assert session[Count].latest() == Count(1)


def test_restore_brings_state_back_and_keeps_logs() -> None:
    session = Session()
    session[Bumped].register(Bumped, append_all, policy=SlicePolicy.LOG)
    session.dispatch(Note("a"))
    before = session.snapshot(tag="before")
    session.dispatch(Note("b"))
    session.dispatch(Count(1))
    session.dispatch(Bumped())
    session.restore(before)
    assert before.tag == "before"
    assert session[Note].all() == (Note("a"),)
    assert session[Count].all() == ()
    assert session[Bumped].all() == (Bumped(),)
    session.restore(before, preserve_logs=False)
    assert session[Bumped].all() == ()


def test_restoring_tells_observers() -> None:
    session, seen = Session(), []
    before = session.snapshot()
    session.dispatch(Note("a"))
    session.observe(Note, lambda old, new: seen.append((old, new)))
    session.restore(before)
    assert seen == [((Note("a"),), ())]


def test_reset_keeps_reducers() -> None:
    session = counting()
    session.dispatch(Bumped(7))
    session.reset()
    assert session[Count].all() == ()
    session.dispatch(Bumped())
    assert session[Count].all() == (Count(1),)


def test_threads_lose_no_event() -> None:
    session = counting()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: session.dispatch(Bumped()), range(2000)))
    assert session[Count].all() == (Count(2000),)


def test_parents_know_their_children() -> None:
    parent = Session(tags={"who": "parent"})
    child = Session(parent=parent)
    assert (child.parent, parent.children, dict(parent.tags)) == (parent, (child,), {"who": "parent"})


# -- telemetry --------------------------------------------------------------------------------------------------------


def invoked(session: Session, result: Result) -> ToolInvoked:
    return ToolInvoked(
        prompt_name="p", adapter="a", name="t", params=None, result=result, session_id=session.session_id
    )


def executed(session: Session, output: object) -> PromptExecuted:
    return PromptExecuted(prompt_name="p", adapter="a", result=Result(output=output), session_id=session.session_id)


def test_a_tools_value_lands_in_the_slice_of_its_type() -> None:
    session = Session()
    event = invoked(session, Result(Note("a")))
    assert session.dispatcher.dispatch(event).ok
    assert session[ToolInvoked].all() == (event,)
    assert session[Note].all() == (Note("a"),)


def test_a_failed_tools_value_does_not() -> None:
    session = Session()
    session.dispatcher.dispatch(invoked(session, Result(Note("a"), success=False)))
    assert len(session[ToolInvoked].all()) == 1
    assert session[Note].all() == ()


@pytest.mark.parametrize(
    ("output", "kept"),
    [
        (Note("a"), (Note("a"),)),
        ([Note("a"), Note("b")], (Note("a"), Note("b"))),
        (None, ()),
        ("text", ()),
        ({"key": "a"}, ()),
    ],
    ids=["one", "list", "none", "text", "dict"],
)
def test_a_prompts_output_lands_item_by_item(output: object, kept: tuple[Note, ...]) -> None:
    session = Session()
    session.dispatcher.dispatch(executed(session, output))
    assert len(session[PromptExecuted].all()) == 1
    assert session[Note].all() == kept


def test_a_shared_bus_keeps_sessions_apart() -> None:
    bus = InProcessDispatcher()
    mine, other = Session(bus=bus), Session(bus=bus)
    bus.dispatch(invoked(mine, Result(Note("a"))))
    rendered = PromptRendered(
        prompt_ns="n",
        prompt_key="k",
        prompt_name=None,
        adapter="a",
        session_id=uuid4(),
        render_inputs=(),
        rendered_prompt="",
    )
    bus.dispatch(rendered)
    assert mine[Note].all() == (Note("a"),)
    assert mine[PromptRendered].all() == ()
    assert other[ToolInvoked].all() == ()


def test_whoever_reports_hears_of_broken_reducers() -> None:
    session = Session()
    session[Note].register(Note, broken)
    result = session.dispatcher.dispatch(invoked(session, Result(Note("a"))))
    assert not result.ok


def test_what_was_accepted_is_not_taken_in_again() -> None:
    session = Session()
    heard: list[tuple[Note, ...]] = []
    session.dispatcher.subscribe(ToolInvoked, lambda event: heard.append(session[Note].all()))
    event = invoked(session, Result(Note("a")))
    assert session.accept(event).ok
    assert session.dispatcher.dispatch(event).ok
    assert (session[ToolInvoked].all(), session[Note].all()) == ((event,), (Note("a"),))
    assert heard == [(Note("a"),)]
    session.dispatcher.dispatch(event)
    assert len(session[ToolInvoked].all()) == 2


def test_what_one_reducer_refuses_is_not_accepted_at_all() -> None:
    session = Session()
    told: list[object] = []
    session.observe(ToolInvoked, lambda old, new: told.append(new))
    session[Note].register(Note, broken)
    result = session.accept(invoked(session, Result(Note("a"))))
    assert [str(failure.error) for failure in result.errors] == ["broken reducer"]
    assert (session[ToolInvoked].all(), told) == ((), [])


# -- transactions -----------------------------------------------------------------------------------------------------


def test_an_exception_rolls_back_and_goes_on() -> None:
    session = Session()
    session.dispatch(Note("a"))

    def failing() -> None:
        with transaction(session):
            session.dispatch(Note("b"))
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert session[Note].all() == (Note("a"),)


def test_fail_rolls_back_quietly_and_success_keeps() -> None:
    session = Session()
    with transaction(session) as kept:
        session.dispatch(Note("a"))
    with transaction(session) as dropped:
        session.dispatch(Note("b"))
        dropped.fail()
    assert not kept.failed
    assert session[Note].all() == (Note("a"),)


def elsewhere(act: Callable[[], object]) -> None:
    """In another thread."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def test_what_others_do_meanwhile_is_not_rolled_back() -> None:
    session = Session()
    session.dispatch(Note("a"))
    with transaction(session) as failing:
        session.dispatch(Note("mine"))
        elsewhere(lambda: (session.dispatch(Note("theirs")), session.dispatch(Count(1))))
        session.dispatch(Note("mine too"))
        failing.fail()
    assert session[Note].all() == (Note("a"), Note("theirs"))
    assert session[Count].all() == (Count(1),)


def test_a_thread_in_the_same_context_is_rolled_back() -> None:
    session = Session()
    with transaction(session) as failing:
        context = copy_context()
        elsewhere(lambda: context.run(session.dispatch, Note("mine")))
        failing.fail()
    assert session[Note].all() == ()


def test_a_value_that_was_replaced_comes_back_unless_others_have_put_another_there() -> None:
    session = Session()
    session[Note].register(Note, replace_latest)
    session.dispatch(Note("a"))
    with transaction(session) as failing:
        session.dispatch(Note("mine"))
        session[Note].clear()
        failing.fail()
    assert session[Note].all() == (Note("a"),)
    with transaction(session) as failing:
        session.dispatch(Note("mine"))
        elsewhere(lambda: session.dispatch(Note("theirs")))
        failing.fail()
    assert session[Note].all() == (Note("theirs"),)


@pytest.mark.parametrize(("inner", "outer", "kept"), [(0, 0, "abc"), (1, 0, "ac"), (0, 1, ""), (1, 1, "")])
def test_transactions_in_transactions(inner: int, outer: int, kept: str) -> None:
    session = Session()
    with transaction(session) as first:
        session.dispatch(Note("a"))
        with transaction(session) as second:
            session.dispatch(Note("b"))
            second.failed = bool(inner)
        session.dispatch(Note("c"))
        first.failed = bool(outer)
    assert "".join(note.key for note in session[Note].all()) == kept


def test_rolling_back_is_told_to_observers() -> None:
    session = Session()
    told: list[tuple[Note, ...]] = []
    session.observe(Note, lambda old, new: told.append(new))
    with transaction(session) as failing:
        session.dispatch(Note("a"))
        failing.fail()
    assert told == [(Note("a"),), ()]


def test_another_session_is_another_matter() -> None:
    mine, other = Session(), Session()
    with transaction(mine) as failing:
        other.dispatch(Note("a"))
        failing.fail()
    assert other[Note].all() == (Note("a"),)


def test_everything_that_changes_a_session_can_be_undone() -> None:
    session = Session()
    session.dispatch(Note("a"))
    before = session.snapshot()
    session.dispatch(Note("b"))
    for change in (
        session.reset,
        lambda: session.restore(before),
        lambda: session[Note].seed([Note("x")]),
        lambda: session[Note].clear(lambda note: note.key == "a"),
        lambda: session[Note].append(Note("c")),
    ):
        with transaction(session) as failing:
            change()
            assert session[Note].all() != (Note("a"), Note("b"))
            failing.fail()
        assert session[Note].all() == (Note("a"), Note("b"))
