"""Deadlines and budgets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.errors import BudgetExceededError, DeadlineExceededError
from belljar.runtime import Budget, BudgetTracker, Deadline, TokenUsage

START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> datetime:
        return self.time


def test_a_deadline_counts_down() -> None:
    clock = Clock()
    deadline = Deadline(START + timedelta(seconds=10), clock=clock)
    assert deadline.remaining() == timedelta(seconds=10)
    assert deadline.remaining(START + timedelta(seconds=4)) == timedelta(seconds=6)
    deadline.check()
    clock.time += timedelta(seconds=10)
    with pytest.raises(DeadlineExceededError, match="2026-01-01T00:00:10"):
        deadline.check()


def test_a_deadline_lies_ahead_in_a_time_zone() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        Deadline(datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="at least a second ahead"):
        Deadline(START + timedelta(milliseconds=999), clock=Clock())
    Deadline(START + timedelta(seconds=1), clock=Clock())


def test_a_budget_limits_something() -> None:
    with pytest.raises(ValueError, match="limits nothing"):
        Budget()
    for bad in (0, -1):
        with pytest.raises(ValueError, match=f"max_input_tokens: {bad}"):
            Budget(max_input_tokens=bad)


def test_usage_is_summed_over_turns_and_evaluations() -> None:
    tracker = BudgetTracker(Budget(max_total_tokens=100))
    tracker.record_cumulative("one", TokenUsage(10, 5, 2))
    tracker.record_cumulative("one", TokenUsage(20, None))
    tracker.record_cumulative("two", TokenUsage(30, 5))
    assert tracker.consumed == TokenUsage(60, 10, 2)
    tracker.check()


@pytest.mark.parametrize(
    ("budget", "dimension"),
    [
        (Budget(max_total_tokens=29), "total_tokens"),
        (Budget(max_input_tokens=19), "input_tokens"),
        (Budget(max_output_tokens=9), "output_tokens"),
    ],
    ids=["total", "input", "output"],
)
def test_a_limit_that_is_passed_is_named(budget: Budget, dimension: str) -> None:
    tracker = BudgetTracker(budget)
    tracker.record_cumulative("one", TokenUsage(20, 10))
    with pytest.raises(BudgetExceededError, match=f"{dimension} are spent") as caught:
        tracker.check()
    assert (caught.value.exceeded_dimension, caught.value.budget) == (dimension, budget)
    assert caught.value.consumed == TokenUsage(20, 10)


def test_a_limit_may_be_reached() -> None:
    tracker = BudgetTracker(Budget(max_total_tokens=30, max_input_tokens=20, max_output_tokens=10))
    tracker.record_cumulative("one", TokenUsage(20, 10))
    tracker.check()


def test_a_budgets_deadline_is_one_of_its_limits() -> None:
    clock = Clock()
    tracker = BudgetTracker(Budget(Deadline(START + timedelta(seconds=2), clock=clock)))
    tracker.check()
    clock.time += timedelta(seconds=3)
    with pytest.raises(BudgetExceededError) as caught:
        tracker.check()
    assert caught.value.exceeded_dimension == "deadline"


COUNTS = st.none() | st.integers(0, 1000)
USAGES = st.builds(TokenUsage, COUNTS, COUNTS, COUNTS)


@given(USAGES, USAGES)
def test_usage_adds_up(one: TokenUsage, other: TokenUsage) -> None:
    assert (one + other).total_tokens in (None, (one.total_tokens or 0) + (other.total_tokens or 0))
    assert one + TokenUsage() == one
    assert one + other == other + one
