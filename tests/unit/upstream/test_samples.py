"""Values made from schemas, judged by a validator."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.gateway.upstream.samples import sample

POINT = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"], "additionalProperties": False}
TREE = {
    "type": "object",
    "properties": {"left": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "name": {"type": "string"}},
    "required": ["left", "name"],
}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "Rome"),
        ({"type": "string", "minLength": 6}, "Rome.."),
        ({"type": "string", "maxLength": 2}, "Ro"),
        ({"type": "string", "enum": ["C", "F"]}, "C"),
        ({"const": 7}, 7),
        ({"type": "integer"}, 0),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "integer", "exclusiveMinimum": 3}, 4),
        ({"type": "integer", "maximum": -3}, -3),
        ({"type": "integer", "minimum": 5, "multipleOf": 4}, 8),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": ["null", "integer"]}, 0),
        ({"type": "array", "items": {"type": "string"}}, []),
        ({"type": "array", "items": {"type": "string"}, "minItems": 2}, ["Rome", "Rome"]),
        ({"type": "object"}, {}),
        ({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}, {"a": "Rome"}),
        ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"a": "Rome"}),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, 0),
        ({"oneOf": [{"type": "string"}]}, "Rome"),
        ({"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"type": "integer"}}}]}, {"a": 0}),
        ({"$ref": "#/$defs/P", "$defs": {"P": POINT}}, {"x": 0}),
        ({"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"const": 1}}}, 1),
        ({}, "Rome"),
    ],
)
def test_the_smallest_value(schema: dict[str, Any], value: Any) -> None:
    made = sample(schema, "Rome")
    assert made == value
    jsonschema.validate(made, schema)


@pytest.mark.parametrize("kind", ["date", "email", "ipv4", "ipv6", "uuid"])
def test_formats(kind: str) -> None:
    schema = {"type": "string", "format": kind}
    jsonschema.validate(sample(schema, "Rome"), schema, format_checker=jsonschema.FormatChecker())


def test_a_schema_that_holds_itself_ends() -> None:
    made = sample(TREE, "leaf")
    jsonschema.validate(made, TREE)
    assert len(json.dumps(made)) < 10_000
    endless = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    assert json.dumps(sample(endless, ""))
    assert sample({"$ref": "#"}, "") is not None


@pytest.mark.parametrize(
    "schema", [{"$ref": "#/nowhere"}, {"anyOf": "x"}, {"type": 3}, {"enum": []}, {"required": None}, {"allOf": [True]}]
)
def test_a_strange_schema_gives_something(schema: dict[str, Any]) -> None:
    json.dumps(sample(schema, "x"))


sizes = st.integers(0, 9)
leaves = st.one_of(
    st.builds(lambda least: {"type": "integer", "minimum": least}, st.integers(-9, 9)),
    st.builds(lambda most: {"type": "number", "exclusiveMaximum": most}, st.integers(-9, 9)),
    st.builds(
        lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more}, *[st.integers(0, 9)] * 2
    ),
    st.builds(lambda values: {"enum": values}, st.lists(st.integers() | st.text(), min_size=1)),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}, {}]),
)
schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda one, least: {"type": "array", "items": one, "minItems": least}, inner, st.integers(0, 3)),
        st.builds(
            lambda properties: {
                "type": "object",
                "properties": properties,
                "required": sorted(properties),
                "additionalProperties": False,
            },
            st.dictionaries(st.text(max_size=5), inner, max_size=4),
        ),
    ),
    max_leaves=8,
)


@given(schemas, st.text())
def test_every_value_fits(schema: dict[str, Any], text: str) -> None:
    jsonschema.validate(sample(schema, text), schema)
