"""A JSON schema in Gemini's terms: what it knows stays, the rest is said another way or told in words."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.vendors.gemini.schema import convert_schema

KNOWN = {
    *("$ref", "$defs", "$id", "$anchor", "type", "description", "enum", "required", "properties", "propertyOrdering"),
    *("additionalProperties", "items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf"),
}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({}, {}),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "required": ["a"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"a": {"type": "string"}},
                "required": ["a"],
                "additionalProperties": False,
            },
        ),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": ["string", "integer"], "nullable": True}, {"type": ["string", "integer", "null"]}),
        ({"type": ["string", "null"], "nullable": True}, {"type": ["string", "null"]}),
        (
            {"anyOf": [{"type": "string"}], "nullable": True},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        ({"const": "x", "title": "X", "$schema": "s", "examples": ["x"]}, {"enum": ["x"]}),
        ({"oneOf": [{"const": 1}, {"type": "null"}]}, {"anyOf": [{"enum": [1]}, {"type": "null"}]}),
        (
            {"type": "string", "pattern": "^a$", "minLength": 1, "description": "An a."},
            {"type": "string", "description": 'An a. (pattern: "^a$", minLength: 1)'},
        ),
        (
            {"type": "string", "format": "date", "default": None},
            {"type": "string", "description": '(format: "date", default: null)'},
        ),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "number", "description": "(exclusiveMinimum: 0)"}),
        (
            {"properties": {"title": {"type": "string", "title": "Title"}, "const": {"type": "null"}}},
            {"properties": {"title": {"type": "string"}, "const": {"type": "null"}}},
        ),
        (
            {"$defs": {"N": {"type": "object", "title": "N"}}, "items": {"$ref": "#/$defs/N", "description": "d"}},
            {"$defs": {"N": {"type": "object"}}, "items": {"$ref": "#/$defs/N"}},
        ),
        (
            {"definitions": {"N": {"const": 1}}, "items": {"$ref": "#/definitions/N"}},
            {"$defs": {"N": {"enum": [1]}}, "items": {"$ref": "#/$defs/N"}},
        ),
        (
            {"$ref": "#/$defs/N", "$defs": {"N": {"title": "x", "type": "object"}}},
            {"$ref": "#/$defs/N", "$defs": {"N": {"type": "object"}}},
        ),
        ({"$ref": "#/$defs/N", "nullable": True}, {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]}),
        ({"allOf": [{"$ref": "#/$defs/N"}], "description": "d"}, {"$ref": "#/$defs/N"}),
        (
            {
                "allOf": [
                    {"properties": {"a": {"type": "string"}}, "required": ["a"]},
                    {"allOf": [{"properties": {"b": {"type": "null"}}, "required": ["b", "a"]}]},
                ],
                "type": "object",
            },
            {
                "properties": {"a": {"type": "string"}, "b": {"type": "null"}},
                "required": ["a", "b"],
                "type": "object",
            },
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string", "maxLength": 2}},
            {"type": "object", "additionalProperties": {"type": "string", "description": "(maxLength: 2)"}},
        ),
        ({"prefixItems": [{"const": 1}, True], "items": False}, {"prefixItems": [{"enum": [1]}, True], "items": False}),
        ({"anyOf": "no list", "properties": ["no", "map"]}, {"anyOf": "no list", "properties": ["no", "map"]}),
    ],
)
def test_keywords(schema: dict[str, Any], said: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    assert convert_schema(schema) == said
    assert schema == before


words = st.sampled_from(["type", "description", "title", "pattern", "minimum", "format", "default", "minLength"])
leaf = st.dictionaries(words, st.sampled_from(["string", "x"]), max_size=3)
schemas = st.recursive(
    leaf,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.text(max_size=3), inner, max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "oneOf": st.lists(inner, max_size=2),
            "allOf": st.lists(inner, max_size=2),
            "$defs": st.dictionaries(st.text(max_size=3), inner, max_size=2),
            "nullable": st.booleans(),
        },
    ),
    max_leaves=8,
)


def keywords(schema: dict[str, Any]) -> set[str]:
    found = set(schema)
    for name, value in schema.items():
        if name in ("properties", "$defs"):
            found |= {word for one in value.values() for word in keywords(one)}
        elif name == "anyOf":
            found |= {word for one in value for word in keywords(one)}
        elif name == "items":
            found |= keywords(value)
    return found


@given(schemas)
def test_nothing_else_is_said_and_twice_is_once(schema: dict[str, Any]) -> None:
    once = convert_schema(schema)
    assert keywords(once) <= KNOWN
    assert convert_schema(once) == once
