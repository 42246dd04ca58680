"""Waits grow, are bounded, and heed what the provider says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.runtime import ThrottlePolicy

NONE = timedelta(0)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def longest(low: float, high: float) -> float:
    return high


def test_the_defaults() -> None:
    policy = ThrottlePolicy()
    waits = [policy.delay(attempts, NONE, None, longest) for attempts in range(1, 6)]
    assert waits == [seconds(1), seconds(2), seconds(4), seconds(8), None]
    assert policy.delay(1, NONE, None, min) == seconds(0.5)


@pytest.mark.parametrize(
    ("waited", "after", "wait"),
    [(0, 3, 3), (0, 0.1, 1), (0, 30, 30), (0, 31, None), (29, None, 1), (29.5, None, None)],
)
def test_the_providers_word_and_the_total(waited: float, after: float | None, wait: float | None) -> None:
    told = None if after is None else seconds(after)
    found = ThrottlePolicy().delay(1, seconds(waited), told, longest)
    assert found == (None if wait is None else seconds(wait))


@given(st.integers(1, 100), st.floats(0, 30), st.floats(0, 1))
def test_no_wait_is_shorter_than_the_base_or_longer_than_the_limit(attempts: int, waited: float, at: float) -> None:
    policy = ThrottlePolicy(max_attempts=200)
    wait = policy.delay(attempts, seconds(waited), None, lambda low, high: low + at * (high - low))
    assert wait is None or policy.base_delay <= wait <= policy.max_delay


@pytest.mark.parametrize(
    "wrong",
    [{"max_attempts": 0}, {"base_delay": seconds(9)}, {"max_delay": seconds(31)}, {"base_delay": seconds(-1)}],
    ids=repr,
)
def test_what_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="ThrottlePolicy"):
        ThrottlePolicy(**wrong)
