"""The context: counted, summarised in time, and never losing what is recent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.errors import InvalidRequest
from belljar.providers import ContextManager, SimpleTokenCounter
from belljar.providers.context_manager import Message


def test_the_founding_example() -> None:
    seen: list[list[Message]] = []

    def my_summarize_function(messages: list[Message]) -> str:
        seen.append(messages)
        return "They said hello."

    manager = ContextManager(
        summarize_fn=my_summarize_function, context_budget=150000, summarize_threshold=0.75, min_recent_messages=6
    )
    manager.add_message("user", "Hello")
    manager.add_message("assistant", "Hi there!")
    assert manager.check_and_summarize() is False
    assert manager.get_messages() == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi there!"},
    ]
    stats = manager.get_stats()
    assert (stats.total_tokens, stats.summarized_message_count) == (5 // 4 + 9 // 4 + 20, 0)
    manager.context_budget = 30
    manager.min_recent_messages = 1
    assert manager.check_and_summarize() is True
    assert seen == [[{"role": "user", "content": "Hello"}]]
    summary = "[CONVERSATION SUMMARY]\nThey said hello.\n[END SUMMARY]"
    assert manager.get_messages() == [
        {"role": "system", "content": summary},
        {"role": "assistant", "content": "Hi there!"},
    ]
    assert manager.get_messages_for_anthropic()[0] == {"role": "user", "content": summary}
    assert manager.get_stats().summarized_message_count == 1
    assert manager.get_history_summary().startswith("1 messages, about ")
    manager.clear()
    assert (manager.get_messages(), manager.summary, manager.summarized_message_count) == ([], None, 0)
    assert manager.get_token_usage() == (0, 0.0)


def test_defaults() -> None:
    manager = ContextManager()
    assert (manager.context_budget, manager.summarize_threshold, manager.min_recent_messages) == (150_000, 0.75, 6)
    stats = manager.get_stats()
    assert (stats.token_budget, stats.has_summary, stats.budget_used_percentage) == (150_000, False, 0)


def test_four_characters_a_token_and_ten_a_message() -> None:
    assert SimpleTokenCounter().count_tokens("x" * 400) == 100
    manager = ContextManager(context_budget=1000)
    manager.add_message("user", "x" * 400)
    assert manager.get_token_usage() == (110, 0.11)


class Words:
    def count_tokens(self, text: str) -> int:
        return len(text.split())


def test_another_counter() -> None:
    manager = ContextManager(token_counter=Words())
    manager.add_message("user", "one two three")
    assert manager.get_token_usage()[0] == 13


def test_the_threshold_is_a_limit_to_be_passed() -> None:
    manager = ContextManager(lambda messages: "s", context_budget=40, summarize_threshold=0.75, min_recent_messages=1)
    manager.add_messages([{"role": "user", "content": "x" * 20}, {"role": "assistant", "content": "x" * 20}])
    assert manager.get_token_usage() == (30, 0.75)
    assert manager.needs_summarization() is False
    manager.add_message("user", "")
    assert manager.needs_summarization() is True


def test_a_summary_is_summarised_with_what_follows() -> None:
    seen: list[list[str]] = []

    def summarise(messages: list[Message]) -> str:
        seen.append([message["content"] for message in messages])
        return f"summary {len(seen)}"

    manager = ContextManager(summarise, min_recent_messages=1)
    manager.add_messages([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    assert manager.summarize()
    manager.add_message("user", "c")
    assert manager.summarize()
    assert seen == [["a"], ["[CONVERSATION SUMMARY]\nsummary 1\n[END SUMMARY]", "b"]]
    assert (manager.summary, manager.summarized_message_count) == ("summary 2", 2)


def failing(messages: list[Message]) -> str:
    raise ZeroDivisionError


@pytest.mark.parametrize("summarise", [None, failing, lambda messages: "  "])
def test_a_summary_that_fails_changes_nothing(summarise: Any) -> None:
    manager = ContextManager(summarise, context_budget=1, min_recent_messages=1)
    manager.add_messages([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    before = manager.get_messages()
    assert manager.check_and_summarize() is False
    assert manager.get_messages() == before


@pytest.mark.parametrize("wrong", [{"context_budget": 0}, {"min_recent_messages": 0}, {"summarize_threshold": 1.5}])
def test_numbers_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="must be 1 or more"):
        ContextManager(**wrong)


@given(
    turns=st.lists(st.sampled_from(["talk", "tools", "tools twice"]), max_size=12),
    least=st.integers(1, 8),
)
def test_the_recent_are_kept_and_no_result_without_its_call(turns: list[str], least: int) -> None:
    manager = ContextManager(lambda messages: "s", min_recent_messages=least)
    number = 0
    for turn in turns:
        rounds = {"talk": 0, "tools": 1, "tools twice": 2}[turn]
        for role in ("user", *(("assistant", "tool") * rounds), "assistant"):
            manager.add_message(role, str(number))
            number += 1
    before = manager.get_messages()
    done = manager.summarize()
    recent = manager.recent
    assert recent == before[-len(recent) :] if recent else not before
    assert len(recent) >= min(least, number)
    assert manager.summarized_message_count + len(recent) == number
    assert done is (manager.summarized_message_count > 0)
    if recent:
        assert recent[0]["role"] != "tool"


PARTS: list[tuple[Any, int]] = [
    ([{"type": "text", "text": "x" * 400}], 100),
    ([{"type": "input_text", "text": "x" * 200}, {"type": "input_text", "text": "y" * 199}], 100),
    ([{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x" * 400}]}], 100),
    (["x" * 200, "y" * 199], 100),
    ([{"type": "image", "source": {"type": "base64", "data": "A" * 4_000_000}}], 1_000),
    ([], 0),
    (None, 0),
]


@pytest.mark.parametrize(("content", "tokens"), PARTS, ids=range(len(PARTS)))
def test_content_may_be_parts(content: Any, tokens: int) -> None:
    manager = ContextManager(summarize_fn=lambda messages: "short", context_budget=1_500, min_recent_messages=1)
    manager.add_message("user", content)
    assert manager.get_token_usage()[0] == tokens + 10
    assert manager.get_messages() == [{"role": "user", "content": content}]
    manager.add_messages([{"role": "assistant", "content": [{"type": "text", "text": "y" * 8_000}]}])
    assert manager.check_and_summarize() is True
    assert manager.get_messages_for_anthropic()[-1]["content"] == [{"type": "text", "text": "y" * 8_000}]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"content": "x"}, r"messages\[1\]: has no role"),
        ({"role": "user", "content": 3}, r"messages\[1\].content: is a int"),
        ({"role": "user", "content": {"text": "x"}}, r"messages\[1\].content: is a dict"),
    ],
)
def test_what_is_no_message_is_named(message: Message, told: str) -> None:
    manager = ContextManager()
    with pytest.raises(InvalidRequest, match=told):
        manager.add_messages([{"role": "user", "content": "x"}, message])
    assert manager.message_count == 0
