"""What is kept of the responses that were read last: not too much, nothing that may change."""

from __future__ import annotations

import pytest

from belljar.gateway.store.base import ResponseRecord
from belljar.gateway.store.response_cache import Recent


def record(id: str, *, size: int = 30, status: str = "completed") -> ResponseRecord:
    return ResponseRecord(
        id=id, owner="ann", created_at=1, status=status, input=b"", output=b"x" * (size - 2), body=b"{}"
    )


def kept(recent: Recent, *ids: str) -> list[str]:
    return [id for id in ids if recent.get(id) is not None]


def test_what_was_added_is_there() -> None:
    recent, one = Recent(), record("resp_1")
    recent.add(one)
    assert recent.get("resp_1") is one
    assert recent.get("resp_2") is None


def test_the_longest_unread_goes_first() -> None:
    recent = Recent(most=100)
    for id in ("a", "b", "c"):
        recent.add(record(id))
    assert recent.get("a")
    recent.add(record("d"))
    assert kept(recent, "a", "b", "c", "d") == ["a", "c", "d"]


def test_one_that_is_larger_than_all_the_room_is_not_kept() -> None:
    recent = Recent(most=100)
    recent.add(record("small"))
    recent.add(record("large", size=101))
    assert kept(recent, "small", "large") == []
    recent.add(record("next", size=100))
    assert kept(recent, "next") == ["next"]


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_what_may_change_is_not_kept(status: str) -> None:
    recent = Recent()
    recent.add(record("resp_1", status=status))
    assert kept(recent, "resp_1") == []
