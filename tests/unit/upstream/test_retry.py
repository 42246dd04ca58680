"""When to ask again."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from belljar.gateway.upstream import retry
from belljar.gateway.upstream.http_response import ConnectionFailed

NOW = 1_750_000_000.0


def wait(status: int, attempt: int = 0, chance: float = 0.0, headers: dict[str, str] | None = None) -> float | None:
    return retry.after_answer(status, headers or {}, attempt, chance=chance, now=NOW)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
def test_a_passing_trouble_is_tried_again_twice(status: int) -> None:
    assert wait(status, 0) is not None
    assert wait(status, 1) is not None
    assert wait(status, 2) is None


@pytest.mark.parametrize("status", [200, 201, 302, 400, 401, 403, 404, 408, 409, 413, 422, 501, 505])
def test_any_other_answer_stands(status: int) -> None:
    assert wait(status) is None


def test_the_server_has_the_last_word() -> None:
    assert wait(500, headers={"x-should-retry": "false"}) is None
    assert wait(409, headers={"x-should-retry": "true"}) is not None
    assert wait(409, 2, headers={"x-should-retry": "true"}) is None
    assert wait(200, headers={"x-should-retry": "true"}) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "20"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "20"}, 20.0),
        ({"retry-after": formatdate(NOW + 7, usegmt=True)}, 7.0),
        ({"retry-after": formatdate(NOW - 60, usegmt=True)}, 0.0),
        ({"retry-after": "30"}, 30.0),
        ({"retry-after": "31"}, None),
        ({"retry-after": formatdate(NOW + 3600, usegmt=True)}, None),
    ],
)
def test_the_pause_asked_for_is_kept(headers: dict[str, str], seconds: float | None) -> None:
    assert wait(429, headers=headers) == seconds


@pytest.mark.parametrize("value", ["", "soon", "-5", "nan", "inf", "Thu, 32 Foo 2025 00:00:00 GMT"])
def test_a_pause_that_cannot_be_read_is_our_own(value: str) -> None:
    assert wait(429, headers={"retry-after": value}) == wait(429)


def test_pauses_grow_and_scatter() -> None:
    first, second = (wait(503, 0), wait(503, 1))
    assert first is not None
    assert second == 2 * first
    scattered = wait(503, 0, chance=1.0)
    assert scattered == 2 * first
    asked = wait(503, chance=1.0, headers={"retry-after": "3"})
    assert asked is not None
    assert 3 < asked < 4


def test_a_connection_that_never_was_is_tried_again() -> None:
    lost = ConnectionFailed("connection refused", resend=True)
    assert retry.after_break(lost, 0, 0.0) == 0.25
    assert retry.after_break(lost, 1, 0.0) == 0.5
    assert retry.after_break(lost, 2, 0.0) is None
    assert retry.after_break(ConnectionFailed("half an answer"), 0, 0.0) is None


def test_a_dropped_connection_is_replaced_at_once_but_only_once() -> None:
    dropped = ConnectionFailed("closed", resend=True, dropped=True)
    assert retry.after_break(dropped, 0, 0.0) == 0.0
    assert retry.after_break(dropped, 1, 0.0) == 0.5
