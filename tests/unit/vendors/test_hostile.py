"""Requests that mean harm, or nothing: whatever stands in a schema, in arguments or in an address can be written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.errors import InvalidRequest
from belljar.vendors import code_call
from belljar.vendors.chat.call_openings import Names
from belljar.vendors.chat.call_repair import find_written_calls
from belljar.vendors.registry import KINDS, WIRES
from belljar.vendors.request import ModelRequest
from belljar.wire.codec import DEEPEST
from belljar.wire.items import FunctionCall, InputFile, InputImage, InputText, Message
from belljar.wire.responses import TextConfig, TextFormat
from belljar.wire.tools import FunctionTool

DIALECTS: dict[str, tuple[str, str]] = {
    "anthropic": ("anthropic", "claude-opus-4-6"),
    "chat": ("generic", "sim"),
    "gemini": ("generic", "gemini-3-pro-preview"),
    "openai": ("openai", "gpt-5"),
    "xai": ("generic", "grok-4"),
}
ANY = pytest.mark.parametrize("dialect", DIALECTS)
HELLO = Message(role="user", content=(InputText(text="hello"),))

KEYWORDS = """$ref $defs definitions allOf anyOf oneOf not if then type enum const properties required items prefixItems
additionalProperties minItems minLength pattern minimum nullable description default"""
keywords = st.sampled_from(KEYWORDS.split())
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from(["#", "#/$defs/a", "object", "array", "string", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keywords | st.sampled_from("ab"), inner, max_size=5),
    max_leaves=25,
)


def written(dialect: str, **fields: Any) -> Any:
    quirks, model = DIALECTS[dialect]
    bound = KINDS[quirks].dialect("acme", WIRES[dialect])
    return json.loads(bound.encode(ModelRequest(**{"model": model, "items": (HELLO,), **fields})))


@ANY
@given(st.dictionaries(keywords, anything, max_size=6))
def test_any_schema_can_be_written(dialect: str, schema: dict[str, Any]) -> None:
    for strict in (True, False):
        tool = FunctionTool(name="f", parameters=schema, strict=strict)
        form = TextFormat(type="json_schema", name="answer", schema=schema, strict=strict)
        assert written(dialect, tools=(tool,), text=TextConfig(format=form))


def nested(levels: int, wrap: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = wrap(schema)
    return schema


@ANY
@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: {"items": inner},
        lambda inner: {"properties": {"a": inner}},
        lambda inner: {"allOf": [inner]},
        lambda inner: {"anyOf": [inner]},
        lambda inner: {"not": inner},
        lambda inner: {"$defs": {"a": inner}, "$ref": "#/$defs/a"},
        lambda inner: {"additionalProperties": inner, "type": "object"},
    ],
    ids=lambda wrap: next(iter(wrap({}))),
)
def test_the_deepest_schema_that_is_read_can_be_written(dialect: str, wrap: Any) -> None:
    each = str(wrap("x")).count("{") + str(wrap("x")).count("[")
    schema = nested((DEEPEST - 6) // each, wrap)
    tool = FunctionTool(name="f", parameters=schema, strict=True)
    form = TextFormat(type="json_schema", name="answer", schema=schema, strict=True)
    assert written(dialect, tools=(tool,), text=TextConfig(format=form))


@ANY
@pytest.mark.parametrize("doubled", ["allOf", "anyOf"])
def test_a_schema_that_doubles_is_not_unfolded(dialect: str, doubled: str) -> None:
    names: dict[str, Any] = {f"d{n}": {doubled: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**names, "d60": {}}}
    body = written(dialect, tools=(FunctionTool(name="f", parameters=schema, strict=True),))
    assert len(json.dumps(body)) < 20_000


@ANY
@pytest.mark.parametrize(
    "arguments",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"a":' * 900 + "1" + "}" * 900,
        "{",
        "",
        "null",
        "NaN",
        '"\\ud800"',
        "9" * 5_000,
    ],
    ids=["open", "opened", "deep", "begun", "empty", "null", "nan", "surrogate", "digits"],
)
def test_arguments_that_are_no_object_can_be_sent_back(dialect: str, arguments: str) -> None:
    call = FunctionCall(call_id="call_1", name="f", arguments=arguments)
    assert written(dialect, items=(HELLO, call))


@ANY
@pytest.mark.parametrize(
    "url", ["data:" + "a" * 100_000, "data:" + ";" * 100_000, "data:;base64" * 10_000], ids=["a", ";", ";base64"]
)
def test_an_address_without_an_end_is_read_once(dialect: str, url: str) -> None:
    """In a time that grows with its length: with its square, these would take minutes."""
    for part in (InputImage(image_url=url), InputFile(file_data=url, filename="a.png")):
        try:
            assert written(dialect, items=(Message(role="user", content=(part,)),))
        except InvalidRequest as refused:
            assert refused.param or str(refused)  # noqa: PT017 - either is right


BEGUN = '<tool_call>{"name": "code_interpreter", "arguments": '
MANY = 100_000


@pytest.mark.parametrize(
    "text",
    [
        "{" + '"a":{' * MANY,
        "<tool_call>a" + " " * MANY + "b",
        "<tool_call>" + "[" * MANY,
        "<tool_call>" * MANY,
        BEGUN + "[" * MANY,
        BEGUN + '{"a":' * MANY,
        BEGUN + "{" + " " * MANY + "x",
        BEGUN * (MANY // 50),
        f"{BEGUN}{'</tool_call>' * MANY}",
        f"{BEGUN}{' </tool_call>' * MANY}x",
        "<function=python>" + "<parameter=code>" * (MANY // 10),
        "<function=python>" + "<parameter=code></parameter>" * (MANY // 10),
        "<|python_tag|>" + "(" * MANY,
        "[python(code=" + "-" * MANY + "1)]",
        "[python(code=" + "1+" * MANY + "1)]",
        "```json\n" * MANY,
        "```python\n" + "a." * MANY + "b\n```",
        "```tool_code\n" + "print(" * MANY,
        '{"tool_calls": [' * MANY,
        '{"name": "python", "arguments": ' + "9" * MANY + "}",
    ],
    ids=range(20),
)
def test_what_a_model_writes_in_place_of_a_call(text: str) -> None:
    """In a time that grows with its length: with its square, these would take minutes."""
    written = find_written_calls(text, Names(code_call.ALIASES, {"f": None}))
    assert written is None or written.calls
