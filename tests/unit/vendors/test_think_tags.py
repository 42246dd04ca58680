"""Reasoning between tags is told from text, wherever the stream is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.vendors.think_tags import ThinkTags


def split(pieces: list[str]) -> tuple[str, str]:
    tags = ThinkTags()
    found = [tags.feed(piece) for piece in pieces] + [tags.end()]
    return "".join(thought for thought, _ in found), "".join(text for _, text in found)


CASES = [
    ("plain", "", "plain"),
    ("<think>so</think>then", "so", "then"),
    ("<think>\nso\n</think>\n\nthen", "so\n", "then"),
    (" \n<think>so</think>then", "so", "then"),
    ("  plain", "", "  plain"),
    ("<think></think>then", "", "then"),
    ("<think> ", "", ""),
    ("<think>so", "so", ""),
    ("<think>so</thi", "so</thi", ""),
    ("<think>a</b></think>c", "a</b>", "c"),
    ("<think>a<</think>c", "a<", "c"),
    ("<thin", "", "<thin"),
    ("<thinking>no</thinking>", "", "<thinking>no</thinking>"),
    ("say <think>this</think>", "", "say <think>this</think>"),
    ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
    ("", "", ""),
]


@pytest.mark.parametrize(("content", "thought", "text"), CASES)
def test_told_apart_whole_and_letter_by_letter(content: str, thought: str, text: str) -> None:
    assert split([content]) == (thought, text)
    assert split([*content]) == (thought, text)


@given(
    st.lists(st.sampled_from(["<", "think", "</think>", "<think>", ">", "/", "a", "\n", "</th"]), max_size=12),
    st.data(),
)
def test_any_split_gives_the_same(pieces: list[str], data: st.DataObject) -> None:
    content = "".join(pieces)
    at = data.draw(st.integers(0, len(content)))
    assert split(pieces) == split([content]) == split([content[:at], content[at:]])


def test_nothing_is_held_back_without_need() -> None:
    tags = ThinkTags()
    assert tags.feed("<think>so it is") == ("so it is", "")
    assert tags.feed(" a < b") == (" a < b", "")
    assert not tags.over
    assert tags.feed("</think>yes") == ("", "yes")
    assert tags.over
