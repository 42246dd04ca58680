"""Tools: strict wherever it can be, said where it cannot, and what a model sends fits the tool's own schema."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.library.providers.conftest import TOOLS

from belljar.providers.null_defaults import with_defaults
from belljar.providers.tool_converters import (
    build_anthropic_tool_results,
    build_chat_completions_tool_results,
    build_openai_tool_results,
    convert_chat_completions_tool_calls,
    convert_openai_tool_calls,
    convert_tools_for_anthropic,
    convert_tools_for_chat_completions,
    convert_tools_for_gemini,
    convert_tools_for_openai,
)

Schema = dict[str, Any]

# -- an own checker of what strict mode takes, written from its rules -------------------------------------------------

_KEYWORDS = {
    "type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "$ref", "$defs",
    "description", "title", "default", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "minItems", "maxItems",
}  # fmt: skip


def faults(schema: Schema) -> list[str]:
    """What OpenAI would refuse; empty for a good one."""
    found: list[str] = []
    definitions = schema.get("$defs", {})

    def walk(node: Any, path: str) -> None:
        if not isinstance(node, dict):
            found.append(f"{path}: {node!r} is no schema")
            return
        found.extend(f"{path}: {name} is not supported" for name in node if name not in _KEYWORDS)
        if "$ref" in node:
            if len(node) > 1:
                found.append(f"{path}: $ref has company")
            target = node["$ref"].removeprefix("#/$defs/")
            if node["$ref"] != "#" and target not in definitions:
                found.append(f"{path}: {node['$ref']} points at nothing")
            return
        if "anyOf" in node:
            for n, branch in enumerate(node["anyOf"]):
                walk(branch, f"{path}|{n}")
            return
        if "type" not in node:
            found.append(f"{path}: no type")
            return
        types = [node["type"]] if isinstance(node["type"], str) else node["type"]
        if "object" in types:
            if node.get("additionalProperties") is not False:
                found.append(f"{path}: additionalProperties is not false")
            if sorted(node.get("required", ["?"])) != sorted(node.get("properties", {})):
                found.append(f"{path}: required does not name every property")
            for name, one in node.get("properties", {}).items():
                walk(one, f"{path}.{name}")
        if "array" in types:
            walk(node.get("items"), f"{path}[]")

    if schema.get("type") != "object":
        found.append("the root is no object")
    walk(schema, "")
    for name, one in definitions.items():
        walk(one, f"$defs.{name}")
    return found


def test_the_checker_finds_faults() -> None:
    assert faults({"type": "object", "properties": {"a": {"type": "string"}}, "required": []}) == [
        ": additionalProperties is not false",
        ": required does not name every property",
    ]
    assert faults({"anyOf": [{"$ref": "#/$defs/x", "title": "t"}]}) == [
        "the root is no object",
        "|0: $ref has company",
        "|0: #/$defs/x points at nothing",
    ]


# -- any schema, and any value that a strict one allows ---------------------------------------------------------------

NAMES = st.sampled_from(["alpha", "beta", "gamma", "delta"])
PLAIN: list[tuple[Schema, Any]] = [
    ({"type": "string"}, "x"),
    ({"type": "string", "minLength": 1}, "x"),
    ({"type": "integer", "minimum": 0}, 3),
    ({"type": "number"}, 1.5),
    ({"type": "boolean"}, True),
    ({"type": ["string", "null"]}, None),
    ({"type": "string", "enum": ["red", "green"]}, "green"),
    ({"enum": ["red", 1]}, 1),
    ({"const": "fixed"}, "fixed"),
    ({"type": "string", "format": "uri"}, "http://x"),
    ({"type": "string", "format": "date"}, "2026-01-01"),
]
LOOSE: list[Schema] = [
    {},
    {"type": "object"},
    {"type": "object", "additionalProperties": {"type": "string"}},
    {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
    {"type": "array"},
    {"type": "array", "items": {}},
    {"type": "object", "patternProperties": {"^x": {"type": "string"}}},
    {"allOf": [{"type": "string"}, {"minLength": 1}]},
    {"not": {"type": "string"}},
    {"$ref": "https://example.org/schema"},
]


@st.composite
def leaves(draw: st.DrawFn) -> Schema:
    schema, value = draw(st.sampled_from(PLAIN))
    beside: Schema = draw(st.sampled_from([{}, {"description": "what it is"}, {"default": value}]))
    return {**schema, **beside}


def objects(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    @st.composite
    def made(draw: st.DrawFn) -> Schema:
        properties = draw(st.dictionaries(NAMES, inner, min_size=1, max_size=3))
        required: list[str] = draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
        schema: Schema = {"type": "object", "properties": properties}
        listed = draw(st.booleans())
        if required or listed:
            schema["required"] = required
        if draw(st.booleans()):
            schema["additionalProperties"] = False
        return schema

    return made()


def nested(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.one_of(
        objects(inner),
        inner.map(lambda one: {"type": "array", "items": one}),
        inner.map(lambda one: {"type": "array", "items": one, "maxItems": 2, "uniqueItems": False}),
        inner.map(lambda one: {"anyOf": [one, {"type": "null"}]}),
        inner.map(lambda one: {"allOf": [one], "description": "wrapped"}),
        st.sampled_from([{"$ref": "#/$defs/Leaf"}, {"$ref": "#/$defs/Tree", "description": "a tree"}]),
    )


SCHEMAS = st.recursive(leaves(), nested, max_leaves=6)


@st.composite
def tools(draw: st.DrawFn) -> Schema:
    """A tool with any schema that can be strict."""
    root = draw(objects(SCHEMAS))
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}, "label": draw(leaves())}}
    root["$defs"] = {"Leaf": draw(leaves()), "Tree": tree}
    return {"name": "tool", "description": "a tool", "input_schema": root}


def values(schema: Schema, root: Schema, depth: int = 0) -> st.SearchStrategy[Any]:
    """What a model may send under a strict schema."""
    if "$ref" in schema:
        return values(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, depth + 1)
    if "anyOf" in schema:
        branches = schema["anyOf"] if depth < 4 else [one for one in schema["anyOf"] if one.get("type") == "null"]
        return st.one_of([values(one, root, depth + 1) for one in branches or schema["anyOf"]])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if depth > 4 and "null" in types:
        return st.none()
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "null": st.none(),
        "string": st.sampled_from(["x", "2026-01-01"]),
        "integer": st.integers(0, 9),
        "number": st.sampled_from([0.5, 2]),
        "boolean": st.booleans(),
    }
    if "object" in types:
        properties = {name: values(one, root, depth + 1) for name, one in schema["properties"].items()}
        kinds["object"] = st.fixed_dictionaries(properties)
    if "array" in types:
        kinds["array"] = st.lists(values(schema["items"], root, depth + 1), max_size=2)
    return st.one_of([kinds[one] for one in types])


@given(tool=tools(), data=st.data())
def test_any_tool_becomes_strict_and_what_fits_it_fits_the_tools_own_schema(tool: Schema, data: st.DataObject) -> None:
    before = deepcopy(tool)
    [converted] = convert_tools_for_openai([tool])
    assert tool == before
    assert converted["strict"] is True
    assert faults(converted["parameters"]) == []
    json.dumps(converted)
    value = data.draw(values(converted["parameters"], converted["parameters"]))
    jsonschema.validate(value, converted["parameters"])
    kept = deepcopy(value)
    filled = with_defaults(value, tool["input_schema"])
    assert value == kept
    jsonschema.validate(filled, tool["input_schema"])


@given(st.data())
def test_a_tool_that_cannot_be_strict_goes_out_as_it_is(data: st.DataObject) -> None:
    loose = data.draw(st.sampled_from(LOOSE))
    wrapped = data.draw(st.sampled_from([loose, {"type": "array", "items": loose}, {"anyOf": [loose]}]))
    schema = {"type": "object", "properties": {"free": wrapped}, "required": ["free"]}
    [converted] = convert_tools_for_openai([{"name": "tool", "input_schema": schema}])
    assert converted == {"type": "function", "name": "tool", "parameters": schema, "strict": False}


# -- tables -----------------------------------------------------------------------------------------------------------


def strict(schema: Schema) -> Schema:
    [converted] = convert_tools_for_openai([{"name": "tool", "input_schema": schema}])
    assert converted["strict"] is True
    parameters: Schema = converted["parameters"]
    return parameters


def member(schema: Schema, *, required: bool = False) -> Schema:
    """How one property comes out."""
    root = {"type": "object", "properties": {"it": schema}, "required": ["it"] if required else []}
    written = strict(root)
    assert written["required"] == ["it"]
    found: Schema = written["properties"]["it"]
    return found


def test_the_founding_example() -> None:
    assert convert_tools_for_openai(TOOLS) == [
        {
            "type": "function",
            "name": "run_command",
            "description": "Execute a shell command",
            "parameters": {
                "type": "object",
                "properties": {
                    "command": {"type": "string"},
                    "requires_confirmation": {"type": ["boolean", "null"], "default": False},
                },
                "required": ["command", "requires_confirmation"],
                "additionalProperties": False,
            },
            "strict": True,
        }
    ]


def test_without_strict_the_schema_is_untouched() -> None:
    """And it is said: the Responses API takes a tool for strict where nothing is."""
    [converted] = convert_tools_for_openai(TOOLS, strict=False)
    assert converted == {
        "type": "function",
        "strict": False,
        "name": "run_command",
        "description": "Execute a shell command",
        "parameters": TOOLS[0]["input_schema"],
    }


@pytest.mark.parametrize(
    ("given", "optional"),
    [
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({"type": ["string", "integer"]}, {"type": ["string", "integer", "null"]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"enum": ["a", None]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"const": 1}, {"type": ["integer", "null"], "enum": [1, None]}),
        (
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        ),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}}},
            {
                "type": ["array", "null"],
                "items": {
                    "type": "object",
                    "properties": {"x": {"type": ["integer", "null"], "default": 1}},
                    "required": ["x"],
                    "additionalProperties": False,
                },
            },
        ),
    ],
)
def test_optional_becomes_nullable(given: Schema, optional: Schema) -> None:
    assert member(given) == optional


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (
            {"type": "string", "minLength": 3, "description": "A name"},
            {"type": "string", "description": "A name (minLength: 3)"},
        ),
        ({"type": "string", "format": "uri"}, {"type": "string", "description": '(format: "uri")'}),
        ({"type": "string", "format": "uuid"}, {"type": "string", "format": "uuid"}),
        ({"type": "integer", "minimum": 1, "x-order": 2}, {"type": "integer", "minimum": 1}),
        ({"allOf": [{"type": "string"}], "title": "T"}, {"type": "string", "title": "T"}),
        ({"const": "a"}, {"type": "string", "const": "a"}),
    ],
)
def test_what_has_no_keyword_is_told_in_words(given: Schema, written: Schema) -> None:
    assert member(given, required=True) == written


def test_references_stand_alone_and_recursion_is_kept() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/definitions/Node"}}}
    written = strict(
        {
            "$ref": "#/definitions/Root",
            "definitions": {
                "Root": {
                    "type": "object",
                    "properties": {"head": {"$ref": "#/definitions/Node", "description": "the first"}},
                    "required": ["head"],
                },
                "Node": node,
            },
        }
    )
    assert written["properties"] == {"head": {"anyOf": [{"$ref": "#/$defs/Node"}], "description": "the first"}}
    assert written["$defs"]["Node"]["properties"] == {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}
    assert faults(written) == []


@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}, {"type": "object", "properties": {}}])
def test_a_tool_without_arguments_is_strict(schema: Schema | None) -> None:
    assert strict(schema) == {  # type: ignore[arg-type]
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


DEFINED: Schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/Gone"}}}, "properties.a.* points at '#/$defs/Gone'"),
        (
            {"properties": {"a": {"type": "array", "items": {"$ref": "#/definitions/Gone"}}}, "$defs": {"A": DEFINED}},
            "points at '#/$defs/Gone', which is not there",
        ),
        (
            {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/B"}]}}},
            "points at '#/$defs/B'",
        ),
        ({"$ref": "#/$defs/Gone"}, "points at nothing"),
    ],
    ids=range(4),
)
def test_a_reference_to_nowhere_is_not_strict(schema: Schema, told: str, caplog: pytest.LogCaptureFixture) -> None:
    given = {"type": "object", **schema}
    [converted] = convert_tools_for_openai([{"name": "t", "input_schema": given}])
    assert (converted["strict"], converted["parameters"]) == (False, given)
    assert re.search(told.replace("$", r"\$"), caplog.text)


@pytest.mark.parametrize(
    "inner",
    [
        {"$ref": "#/$defs/a~1b"},
        {"type": "string", "enum": ["x"], "default": "x", "examples": [{"$ref": "#/nowhere"}]},
        {"$ref": "#"},
    ],
    ids=["escaped", "a value", "itself"],
)
def test_references_that_lead_somewhere_are_strict(inner: Schema) -> None:
    given = {"type": "object", "properties": {"$ref": inner}, "$defs": {"a/b": DEFINED}}
    [converted] = convert_tools_for_openai([{"name": "t", "input_schema": given}])
    assert converted["strict"] is True


def test_it_is_said_why_a_tool_is_not_strict(caplog: pytest.LogCaptureFixture) -> None:
    schema = {
        "type": "object",
        "properties": {"env": {"type": "object", "additionalProperties": {"type": "string"}}},
        "required": ["missing"],
    }
    convert_tools_for_openai([{"name": "run", "input_schema": schema}])
    schema["required"] = []
    convert_tools_for_openai([{"name": "run", "input_schema": schema}])
    assert caplog.messages == [
        "the tool run is sent without strict mode: the schema requires a property that it does not describe",
        "the tool run is sent without strict mode: env is a map with keys of any name",
    ]


CAT = {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer", "default": 9}}}
DOG = {"type": "object", "properties": {"kind": {"const": "dog"}, "lives": {"type": "integer", "default": 1}}}


@pytest.mark.parametrize(
    ("schema", "value", "filled"),
    [
        ({"type": "integer", "default": 3}, None, {"it": 3}),
        ({"type": "integer", "default": 3}, 4, {"it": 4}),
        ({"type": "integer"}, None, {}),
        ({"type": ["integer", "null"], "default": 3}, None, {"it": None}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 3}, None, {"it": None}),
        ({"$ref": "#/$defs/Level"}, None, {"it": 5}),
        ({"$ref": "#/$defs/Level", "default": 6}, None, {"it": 6}),
        ({"enum": ["a", "b"], "default": "a"}, None, {"it": "a"}),
        ({"type": "array", "items": CAT}, [{"kind": "cat", "lives": None}], {"it": [{"kind": "cat", "lives": 9}]}),
        ({"oneOf": [CAT, DOG]}, {"kind": "dog", "lives": None}, {"it": {"kind": "dog", "lives": 1}}),
        ({"allOf": [CAT]}, {"kind": "cat", "lives": None}, {"it": {"kind": "cat", "lives": 9}}),
        ({"type": "object"}, {"any": None}, {"it": {"any": None}}),
    ],
)
def test_null_means_the_default(schema: Schema, value: Any, filled: Schema) -> None:
    root = {"type": "object", "properties": {"it": schema}, "$defs": {"Level": {"type": "integer", "default": 5}}}
    assert with_defaults({"it": value}, root) == filled


def test_a_default_is_the_callers_own_copy() -> None:
    schema: Schema = {"type": "object", "properties": {"it": {"type": "array", "default": []}}}
    with_defaults({"it": None}, schema)["it"].append(1)
    assert schema["properties"]["it"]["default"] == []


def test_required_null_stays() -> None:
    schema = {"type": "object", "properties": {"it": {"type": "string", "default": "x"}}, "required": ["it"]}
    assert with_defaults({"it": None}, schema) == {"it": None}


def test_every_vendors_form() -> None:
    schema = TOOLS[0]["input_schema"]
    named = {"name": "run_command", "description": "Execute a shell command"}
    assert convert_tools_for_anthropic(TOOLS) == TOOLS
    assert convert_tools_for_gemini(TOOLS) == [{**named, "parametersJsonSchema": schema}]
    assert convert_tools_for_chat_completions(TOOLS) == [
        {"type": "function", "function": {**named, "parameters": schema}}
    ]
    [chat] = convert_tools_for_chat_completions(TOOLS, strict=True)
    assert chat["function"] == {
        name: value for name, value in convert_tools_for_openai(TOOLS)[0].items() if name != "type"
    }


def test_calls_and_results_of_each_wire() -> None:
    arguments = '{"command": "ls", "requires_confirmation": null}'
    expected = [{"id": "c", "name": "run_command", "input": {"command": "ls", "requires_confirmation": False}}]
    item = {"type": "function_call", "call_id": "c", "name": "run_command", "arguments": arguments}
    assert convert_openai_tool_calls([{"type": "message"}, item], TOOLS) == expected
    call = {"id": "c", "type": "function", "function": {"name": "run_command", "arguments": arguments}}
    assert convert_chat_completions_tool_calls([call], TOOLS) == expected
    assert convert_openai_tool_calls([item])[0]["input"] == {"command": "ls", "requires_confirmation": None}
    results: Any = [{"tool_use_id": "c", "content": {"n": 1}}, {"tool_use_id": "d", "content": "no", "is_error": True}]
    assert build_openai_tool_results(results) == [
        {"type": "function_call_output", "call_id": "c", "output": '{"n": 1}'},
        {"type": "function_call_output", "call_id": "d", "output": "Error: no"},
    ]
    assert build_chat_completions_tool_results(results) == [
        {"role": "tool", "tool_call_id": "c", "content": '{"n": 1}'},
        {"role": "tool", "tool_call_id": "d", "content": "Error: no"},
    ]
    assert build_anthropic_tool_results(results) == [
        {"type": "tool_result", "tool_use_id": "c", "content": '{"n": 1}'},
        {"type": "tool_result", "tool_use_id": "d", "content": "no", "is_error": True},
    ]
