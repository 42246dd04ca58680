"""Ids of calls on any wire: they fit, they are each call's own, and they stay the same while a conversation grows."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from belljar.vendors import call_ids
from belljar.vendors.call_ids import CallIds, _make_id

FORMS = pytest.mark.parametrize("form", ["RESPONSES", "ANTHROPIC", "GEMINI", "CHAT", "NINE"])
IDS = st.one_of(
    st.text(max_size=70), st.sampled_from(["", "0", "call_0", "abcdefghi", _make_id("0", 0), _make_id("0", 1)])
)


@FORMS
@given(st.lists(IDS), st.lists(IDS))
@example(["0", "0", _make_id("0", 1), "0"], ["0"])
@example([_make_id("0", 0), _make_id("0", 1), "0", "0"], [_make_id("0", 2)])
def test_they_fit_are_unique_and_stay(form: str, before: list[str], after: list[str]) -> None:
    form = getattr(call_ids, form)
    first, second = CallIds(form), CallIds(form)
    early = [first.call(id) for id in before]
    late = [second.call(id) for id in (*before, *after)]
    assert late[: len(early)] == early
    assert len(set(late)) == len(late)
    assert all(re.fullmatch(form, id) for id in late)


@FORMS
@given(st.lists(IDS, unique=True))
def test_what_fits_goes_as_it_is_and_what_is_made_is_nine(form: str, given: list[str]) -> None:
    form = getattr(call_ids, form)
    ids = CallIds(form)
    for id in given:
        sent = ids.call(id)
        assert sent == id or len(sent) == 9
        assert sent == id or not re.fullmatch(form, id) or sent in {_make_id(id, n) for n in range(1, len(given) + 1)}


@given(st.lists(IDS))
def test_outputs_find_their_calls_in_order(given: list[str]) -> None:
    ids = CallIds(call_ids.RESPONSES)
    called = [(id, ids.open_call(id)) for id in given]
    assert [(id, ids.output(id)) for id in given] == called


def test_a_call_that_keeps_its_id_is_found_by_its_output() -> None:
    ids = CallIds(call_ids.RESPONSES)
    ids.keep("f:0")
    made = ids.open_call("f:0")
    assert made != "f:0"
    assert [ids.output("f:0"), ids.output("f:0")] == ["f:0", made]


def test_an_output_of_no_call_has_an_id_of_its_own() -> None:
    ids = CallIds(call_ids.NINE)
    assert ids.call("abcdefghi") == "abcdefghi"
    lost = ids.output("abcdefghi")
    assert lost != "abcdefghi"
    assert re.fullmatch(call_ids.NINE, lost)


def test_ids_do_not_change_with_the_version() -> None:
    """Conversations outlive it, and vendors keep what they have read by its beginning."""
    assert CallIds(call_ids.NINE).call("call_1") == "230321bb1"


def test_many_calls_under_one_id_take_no_time() -> None:
    """Nor do ids that were chosen to be in the way of what is made."""
    ids = CallIds(call_ids.NINE)
    tries = [_make_id("0", n) for n in range(3_000)]
    counted: list[int] = []
    for id in tries:
        ids.call(id)
    for _ in range(3_000):
        ids.call("0")
        counted.append(ids._tried["0"])
    assert counted == list(range(3_001, 6_001))


def test_half_a_character_is_an_id_too() -> None:
    assert re.fullmatch(call_ids.CHAT, CallIds(call_ids.CHAT).call("\ud800"))
