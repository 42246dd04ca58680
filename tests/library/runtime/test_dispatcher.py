"""The dispatcher: exact types, order, and failures that are told and not raised."""

from __future__ import annotations

import pytest

from belljar.runtime import DispatchResult, InProcessDispatcher


def test_subscribers_of_exactly_that_type_hear_in_order() -> None:
    bus = InProcessDispatcher()
    heard: list[tuple[str, object]] = []
    bus.subscribe(int, lambda event: heard.append(("first", event)))
    bus.subscribe(int, lambda event: heard.append(("second", event)))
    bus.subscribe(object, lambda event: heard.append(("object", event)))
    result = bus.dispatch(3)
    assert heard == [("first", 3), ("second", 3)]
    assert (result.event, result.handled_count, result.ok) == (3, 2, True)
    result.raise_if_errors()


def test_nobody_listens() -> None:
    assert InProcessDispatcher().dispatch(3) == DispatchResult(3)


def test_a_failing_subscriber_is_told_of() -> None:
    bus = InProcessDispatcher()
    heard: list[int] = []

    def failing(event: int) -> None:
        raise KeyError(event)

    bus.subscribe(int, failing)
    bus.subscribe(int, heard.append)
    result = bus.dispatch(3)
    assert heard == [3]
    assert not result.ok
    assert [failure.handler for failure in result.errors] == [failing]
    assert "failing: 3" in str(result.errors[0])
    with pytest.raises(ExceptionGroup) as caught:
        result.raise_if_errors()
    assert isinstance(caught.value.exceptions[0], KeyError)


def test_unsubscribing_says_whether_it_did() -> None:
    bus = InProcessDispatcher()
    heard: list[int] = []
    bus.subscribe(int, heard.append)
    assert bus.unsubscribe(int, heard.append)
    assert not bus.unsubscribe(int, heard.append)
    bus.dispatch(3)
    assert heard == []


def test_a_subscriber_may_leave_while_it_is_told() -> None:
    bus = InProcessDispatcher()
    heard: list[int] = []

    def once(event: int) -> None:
        heard.append(event)
        bus.unsubscribe(int, once)

    bus.subscribe(int, once)
    bus.dispatch(1)
    bus.dispatch(2)
    assert heard == [1]
