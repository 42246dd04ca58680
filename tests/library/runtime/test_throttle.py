"""How patient an evaluation is, in the terms of the rule that decides."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from belljar.runtime import ThrottlePolicy
from belljar.vendors.retry import RetryLimits


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def test_the_defaults() -> None:
    assert ThrottlePolicy().limits == RetryLimits(tries=5, first=0.5, longest=8, total=30)


def test_what_is_said_is_kept_to() -> None:
    policy = ThrottlePolicy(
        max_attempts=2, base_delay=seconds(1), max_delay=seconds(1), max_total_delay=timedelta(minutes=1)
    )
    assert policy.limits == RetryLimits(tries=2, first=1, longest=1, total=60)


@pytest.mark.parametrize(
    "wrong",
    [{"max_attempts": 0}, {"base_delay": seconds(9)}, {"max_delay": seconds(31)}, {"base_delay": seconds(-1)}],
    ids=repr,
)
def test_what_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="ThrottlePolicy"):
        ThrottlePolicy(**wrong)
