"""When to ask again: by what the vendor's answer means, with pauses that grow, scatter and end."""

from __future__ import annotations

import json
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.errors import BelljarError, Garbled, InvalidRequest, ProviderError, Unreachable
from belljar.vendors.errors import fault, read_stream_error
from belljar.vendors.retry import RetryLimits, choose_pause, is_passing

NOW = 1_750_000_000.0
DATE = {"date": formatdate(NOW, usegmt=True)}
LIMITS = RetryLimits()


def answered(status: int, headers: dict[str, str] | None = None, **said: Any) -> ProviderError:
    return fault(status, headers or {}, json.dumps({"error": {"message": "no", **said}}).encode(), "acme")


def pause(
    error: BelljarError, tries: int = 1, waited: float = 0.0, chance: float = 0.0, limits: RetryLimits = LIMITS
) -> float | None:
    return choose_pause(error, tries, waited, limits, chance=chance)


@pytest.mark.parametrize("status", [408, 429, 498, 500, 501, 502, 503, 504, 529])
def test_what_may_pass_is_asked_again_twice(status: int) -> None:
    assert [pause(answered(status), tries) for tries in (1, 2, 3)] == [0.5, 0.5, None]


@pytest.mark.parametrize("status", [302, 400, 401, 402, 403, 404, 409, 413, 415, 418, 422])
def test_any_other_answer_stands(status: int) -> None:
    assert pause(answered(status)) is None


@pytest.mark.parametrize(
    "error",
    [
        answered(429, code="insufficient_quota"),
        answered(500, code="invalid_api_key"),
        answered(500, message="image input is not supported"),
        answered(503, message="maximum context length is 8192 tokens"),
        Garbled("no wire"),
        InvalidRequest("no"),
        ProviderError("something of ours"),
    ],
    ids=str,
)
def test_what_is_sure_to_come_again_is_not_asked_for_whatever_its_status(error: BelljarError) -> None:
    assert not is_passing(error)


def test_a_failure_inside_a_stream_is_as_one_before_it() -> None:
    assert is_passing(read_stream_error({"type": "api_error", "message": "Internal server error"}, "acme"))
    assert is_passing(read_stream_error({"type": "overloaded_error", "code": 529, "message": "busy"}, "acme"))
    assert not is_passing(read_stream_error({"code": "invalid_prompt", "message": "no"}, "acme"))


def test_the_server_has_the_last_word() -> None:
    assert not is_passing(answered(500, {"x-should-retry": "false"}))
    assert not is_passing(answered(429, {"x-should-retry": " False"}))
    assert is_passing(answered(409, {"x-should-retry": "true"}))
    assert is_passing(answered(500, {"x-should-retry": "perhaps"}))


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.25"}, 0.5),
        ({"retry-after": "0"}, 0.5),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "20"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "20"}, 20.0),
        ({"retry-after": formatdate(NOW + 7, usegmt=True), **DATE}, 7.0),
        ({"retry-after": formatdate(NOW - 60, usegmt=True), **DATE}, 0.5),
        ({"retry-after": "30"}, 30.0),
        ({"retry-after": "31"}, None),
        ({"retry-after": formatdate(NOW + 3600, usegmt=True), **DATE}, None),
    ],
)
def test_the_pause_asked_for_is_the_least(status: int, headers: dict[str, str], seconds: float | None) -> None:
    assert pause(answered(status, headers)) == seconds


@pytest.mark.parametrize("value", ["", "soon", "-5", "nan", "inf", "Thu, 32 Foo 2025 00:00:00 GMT"])
def test_a_pause_that_cannot_be_read_is_our_own(value: str) -> None:
    assert pause(answered(429, {"retry-after": value, **DATE})) == pause(answered(429))


def test_a_date_is_counted_from_the_date_of_the_answer() -> None:
    assert pause(answered(429, {"retry-after": formatdate(NOW + 7, usegmt=True)})) == 0.5


def test_what_is_not_asked_again_names_no_time() -> None:
    assert answered(400, {"retry-after": "3"}).after is None
    assert answered(503, {"retry-after": "3"}).after == 3


def test_pauses_grow_and_scatter() -> None:
    busy, limits = answered(503), RetryLimits(tries=6)
    assert [pause(busy, tries, chance=1.0, limits=limits) for tries in range(1, 7)] == [1, 2, 4, 8, 8, None]
    assert [pause(busy, tries, chance=0.5, limits=limits) for tries in (1, 2, 3)] == [0.75, 1.25, 2.25]
    assert pause(answered(503, {"retry-after": "3"}), chance=1.0) == 3.25


def test_all_pauses_together_have_an_end() -> None:
    assert pause(answered(503), waited=29.5) == 0.5
    assert pause(answered(503), waited=29.6) is None
    assert pause(answered(429, {"retry-after": "20"}), 2, waited=20) is None


@given(st.integers(1, 10_000), st.floats(0, 30), st.floats(0, 1))
def test_no_pause_is_shorter_than_the_first_or_longer_than_the_longest(tries: int, waited: float, at: float) -> None:
    found = pause(Unreachable("gone"), tries, waited, at, RetryLimits(tries=20_000))
    assert found is None or 0.5 <= found <= 8
