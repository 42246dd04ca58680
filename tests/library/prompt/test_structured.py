"""Structured output: what is asked for, and where the answer is found."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.errors import OutputParseError
from belljar.prompt import Prompt, PromptTemplate, parse_structured_output, text_format


@dataclass(frozen=True)
class Answer:
    n: int
    why: str = ""


def asking(output: Any, **more: Any) -> Any:
    return Prompt(PromptTemplate[output](ns="n", key="k", **more)).render()


ONE, MANY = asking(Answer), asking(list[Answer])
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "why": {"type": "string", "default": ""}},
    "required": ["n"],
    "additionalProperties": False,
}


def test_the_format_of_one() -> None:
    assert text_format(ONE, "my prompt") == {"type": "json_schema", "name": "my_prompt_schema", "schema": SCHEMA}


def test_the_format_of_many_is_an_object() -> None:
    written = text_format(MANY, "p")
    assert written is not None
    assert written["schema"] == {
        "type": "object",
        "properties": {"items": {"type": "array", "items": SCHEMA}},
        "required": ["items"],
        "additionalProperties": False,
    }


def test_text_has_no_format_and_cannot_be_parsed() -> None:
    plain = asking(None)
    assert text_format(plain, "p") is None
    with pytest.raises(OutputParseError, match="asks for text"):
        parse_structured_output('{"n": 1}', plain)


@pytest.mark.parametrize(
    "text",
    [
        '{"n": 1}',
        ' \n{"n": 1}\n',
        'Here:\n```json\n{"n": 1}\n```\nand {"n": 2}',
        '{"n": 2} before\n```json\n{"n": 1}\n```',
        '```json\nnot json\n```\n```json\n{"n": 1}\n```',
        'I think [maybe] {"n": 1} and {"n": 2}',
        'so {"n": 1}',
        'As [1] says, {"unit": "m"} and then {"n": 1}.',
        '```json\n{"draft": true}\n```\nand so:\n```json\n{"n": 1}\n```',
        '```json\n{"draft": true}\n```\nso {"n": 1}',
        '{"plan": ["look", "count"]}\n{"n": 1}',
        '{"n": 1, "why": null}',
        '```\n{"n": 1}\n```',
    ],
)
def test_the_order_of_looking(text: str) -> None:
    assert parse_structured_output(text, ONE) == Answer(1)


@pytest.mark.parametrize(
    "text", ['[{"n": 1}, {"n": 2}]', '{"items": [{"n": 1}, {"n": 2}]}', 'so: [{"n": 1}, {"n": 2}].']
)
def test_many_come_bare_or_wrapped(text: str) -> None:
    assert parse_structured_output(text, MANY) == [Answer(1), Answer(2)]


@pytest.mark.parametrize(
    "text", ['I looked at [1] and [2].\n[{"n": 1}, {"n": 2}]', '{"n": 7} is one, [{"n": 1}, {"n": 2}] are all']
)
def test_many_are_found_among_lists_of_others(text: str) -> None:
    assert parse_structured_output(text, MANY) == [Answer(1), Answer(2)]


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"a":' * 100_000, "{" * 200_000, '["' * 100_000, ("[1," * 900 + "x") * 200],
    ids=["lists", "objects", "braces", "quotes", "waves"],
)
def test_a_text_of_brackets_is_given_up_on(text: str) -> None:
    with pytest.raises(OutputParseError, match="holds no JSON"):
        parse_structured_output(text, ONE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('see [1]: {"n": "x"}', 'output.n: must be an integer, not "x"'),
        ('{"n": "1", "inner": {"n": 2}}', "output"),
        ('{"answer": {"n": 2}}', "output"),
        ("", "holds no JSON object or list"),
        ("sorry", "holds no JSON object or list: 'sorry'"),
        ("3", "holds no JSON object or list"),
        ("{}", "output: lacks n"),
        ('{"n": "1"}', 'output.n: must be an integer, not "1"'),
        ('{"n": 1, "m": 2}', "output: has no member 'm'"),
        ("[]", "output: must be an object, not []"),
    ],
)
def test_faults(text: str, message: str) -> None:
    with pytest.raises(OutputParseError, match=re.escape(message)):
        parse_structured_output(text, ONE)


def test_extra_keys_may_be_allowed() -> None:
    loose = asking(Answer, allow_extra_keys=True)
    assert parse_structured_output('{"n": 1, "m": 2}', loose) == Answer(1)
    written = text_format(loose, "p")
    assert written is not None
    assert written["schema"]["additionalProperties"] is True


@given(n=st.integers(), why=st.text(), before=st.text(alphabet="ab \n"), after=st.text(alphabet="ab \n{["))
def test_an_answer_is_found_among_words(n: int, why: str, before: str, after: str) -> None:
    assert parse_structured_output(before + json.dumps({"n": n, "why": why}) + after, ONE) == Answer(n, why)
