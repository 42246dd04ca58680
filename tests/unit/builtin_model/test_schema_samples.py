"""Values made from schemas, judged by a validator."""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.gateway.builtin_model.schema_samples import LONGEST, Unfit, sample

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
    assert sample({"$ref": "#"}, "") is not None


def test_an_option_that_has_no_value_is_passed_over() -> None:
    ends = {"type": "object", "properties": {"of": {"$ref": "#/$defs/node"}}, "required": ["of"]}
    schema = {"$ref": "#/$defs/node", "$defs": {"node": {"anyOf": [ends, {"type": "string", "pattern": "x"}, POINT]}}}
    made = sample(schema, "leaf")
    jsonschema.validate(made, schema)
    assert sample({"anyOf": [{"type": "string", "minLength": 10**9}, {"type": "integer"}]}, "") == 0


def doubling(key: str, levels: int = 100) -> dict[str, Any]:
    """A hundred names that each stand twice in the one before."""
    names = {f"d{n}": {key: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**names, f"d{levels}": {"type": "integer", "required": ["a"]}}}


def doubling_object(levels: int = 60) -> dict[str, Any]:
    """As small as that, and its value has more members than there are atoms."""
    names = {
        f"d{n}": {
            "type": "object",
            "properties": {side: {"$ref": f"#/$defs/d{n + 1}"} for side in ("left", "right")},
            "required": ["left", "right"],
        }
        for n in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**names, f"d{levels}": {"type": "integer"}}}


ENDLESS = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
LONG = "x" * 1_000
UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"type": "string", "minLength": 4_000_000_000}, "'minLength' is 4000000000.*262144.*#/minLength"),
    ({"type": "string", "minLength": 4e18}, "'minLength' is 4000000000000000000"),
    ({"type": "string", "minLength": 10**400}, "'minLength' is beyond counting"),
    ({"type": "array", "minItems": 3_000_000}, "'minItems' is 3000000.*262144"),
    ({"type": "array", "minItems": 5, "uniqueItems": True, "items": {"type": "integer"}}, "uniqueItems"),
    ({"type": "array", "minItems": 1_000, "items": {"type": "array", "minItems": 1_000}}, "262144.*#/items"),
    ({"type": "array", "minItems": 1_000, "items": {"const": LONG}}, "262144"),
    ({"type": "array", "minItems": 1_000, "items": {"enum": [LONG]}}, "262144"),
    ({"type": "array", "minItems": 1_000, "items": {"type": "string", "minLength": 1_000}}, "262144"),
    ({"type": "object", "minProperties": 3_000_000}, "'minProperties' is 3000000"),
    ({"type": "object", "required": [str(n) for n in range(200_000)]}, "more to look at than 50000 parts"),
    ({"const": "x" * 300_000}, "262144.*#/const"),
    ({"type": "string", "pattern": "(a+)+$"}, "'pattern'"),
    ({"type": "integer", "minimum": 2, "maximum": 1}, "no integer"),
    ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}, "no integer"),
    ({"type": "number", "minimum": 1.1, "maximum": 1.2, "multipleOf": 7}, "no number"),
    (ENDLESS, "64 levels, or no end.*#/properties/next/"),
    ({"type": "array", "minItems": 2, "items": {"$ref": "#"}}, "64 levels, or no end"),
    ({"anyOf": [ENDLESS, {"type": "string", "pattern": "x"}]}, "64 levels"),
    (doubling_object(), "262144"),
    ({"allOf": [{"required": [str(n)]} for n in range(30_000)]}, "50000 parts"),
    (
        {"properties": {"a/b": {"type": "string", "minLength": 10**9}}, "required": ["a/b"]},
        "#/properties/a~1b/minLength",
    ),
]


@pytest.mark.parametrize(("schema", "why"), UNFIT)
def test_what_has_no_small_value_says_why(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(Unfit, match=why) as caught:
        sample(schema, "Rome")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("key", ["allOf", "anyOf", "oneOf"])
def test_what_is_said_twice_is_looked_at_once(key: str) -> None:
    with pytest.raises(Unfit, match="levels") if key != "allOf" else nullcontext():
        assert sample(doubling(key), "") == 0
    assert sample(doubling(key, 20), "") == 0


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "prefixItems": [{"const": 1}, {"type": "string"}], "items": {"const": 2}, "minItems": 4},
        {"type": "array", "prefixItems": [{"const": 1}, {"type": "string"}], "minItems": 1},
        {"type": "object", "minProperties": 3, "properties": {"a": {"const": 1}}},
        {"type": "object", "minProperties": 2, "required": ["b"], "properties": {"b": {"const": 1}}},
        {"type": "number", "minimum": 1e308},
        {"type": "integer", "minimum": 1e308},
        {"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 1.25},
        {"type": "number", "minimum": 0.25, "multipleOf": 0.5},
        {"type": "integer", "minimum": 1, "multipleOf": 1.5},
        {"type": "integer", "maximum": -7, "multipleOf": 4},
        {"$ref": "#/anyOf/1/items", "anyOf": [{}, {"items": {"const": 5}}]},
    ],
)
def test_further_keywords(schema: dict[str, Any]) -> None:
    jsonschema.validate(sample(schema, "Rome"), schema)


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


KEYWORDS = """$ref $defs allOf anyOf oneOf not if type enum const properties required additionalProperties minProperties
items prefixItems minItems uniqueItems minLength maxLength pattern format minimum exclusiveMinimum maximum
exclusiveMaximum multipleOf"""
keywords = st.sampled_from(KEYWORDS.split())
anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([10**30, -(10**400), 4_000_000_000, 3_000_000, 70_000, 1e308, 5e-324, -1e-7]),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(
            ["#", "#/$defs/a", "#/properties/a", "#/anyOf/0", "object", "array", "string", "integer", "number"]
        ),
        st.text(max_size=3),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keywords | st.sampled_from("ab"), inner, max_size=5),
    max_leaves=25,
)


@given(st.dictionaries(keywords, anything, max_size=6))
def test_whatever_the_schema_says_there_is_a_value_or_a_reason(schema: dict[str, Any]) -> None:
    """Within the bounds, and such that it can be written."""
    made: Any = None
    with suppress(Unfit):
        made = sample(schema, "text")
    assert len(json.dumps(made, allow_nan=False)) <= LONGEST


@given(schemas, st.text())
def test_every_value_fits(schema: dict[str, Any], text: str) -> None:
    jsonschema.validate(sample(schema, text), schema)
