"""Whatever a text holds, what is shown of it takes one line and is read in its own order."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.visible import visible, visible_lines

TEXT = st.text(st.characters(codec=None, categories=None))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain name.csv", "plain name.csv"),
        ("報告 ü ❤️.csv", "報告 ü ❤️.csv"),
        ("a\x1b[2J\x1b[Hb", r"a\x1b[2J\x1b[Hb"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x9b2J\x7f\x00\x07\x08", r"\x9b2J\x7f\x00\x07\x08"),
        ("a\u202ecsv.exe", r"a\u202ecsv.exe"),
        ("\u2066\u2069\u200b\u200d\ufeff\u2028\u2029\x85", r"\u2066\u2069\u200b\u200d\ufeff\u2028\u2029\x85"),
        ("\u3164\u2800\u115f", r"\u3164\u2800\u115f"),
        ("\udcff\ud800", r"\udcff\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_controls_are_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown


@given(TEXT)
def test_nothing_that_is_obeyed_is_left(text: str) -> None:
    shown = visible(text)
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(one) for one in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert visible_lines(text).split("\n") == [visible(line) for line in text.split("\n")]
