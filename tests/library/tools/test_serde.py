"""Schemas, parsing and dumping: what a type means in JSON, in both directions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import jsonschema
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import Doc

from belljar.errors import PromptValidationError, ToolValidationError
from belljar.tools import dump, parse, schema


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(Enum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.5


@dataclass(frozen=True)
class Everything:
    text: str = field(metadata={"description": "Some words."})
    number: int
    flag: bool
    point: Point
    colour: Colour
    level: Level
    mode: Literal["a", "b", 3]
    pair: tuple[int, str]
    when: datetime
    day: date
    id: UUID
    price: Decimal
    raw: bytes
    maybe: str | None = None
    nested: list[Point] = field(default_factory=list)
    table: dict[str, list[int]] = field(default_factory=dict)
    many: tuple[Point, ...] = ()
    unique: frozenset[str] = frozenset()
    either: Point | int | None = None
    anything: Any = None
    optional_list: list[int | None] | None = None
    favourite: Colour = Colour.RED


@dataclass(frozen=True)
class Positive:
    n: int

    def __post_init__(self) -> None:
        if self.n <= 0:
            raise ValueError(f"n: {self.n} is not positive")


@dataclass(frozen=True)
class Nested:
    inner: list[Point]
    table: dict[str, Point] = field(default_factory=dict)


@dataclass(frozen=True)
class Node:
    children: list[Node]


@dataclass(frozen=True)
class Odd:
    key: dict[int, str]


@dataclass(frozen=True)
class Worse:
    thing: re.Pattern[str]


@dataclass(frozen=True)
class Mute:
    text: str = field(metadata={"description": 3})


POINTS = st.builds(Point, x=st.integers(), y=st.floats(allow_nan=False, allow_infinity=False))
EVERYTHING = st.builds(
    Everything,
    text=st.text(),
    number=st.integers(),
    flag=st.booleans(),
    point=POINTS,
    colour=st.sampled_from(Colour),
    level=st.sampled_from(Level),
    mode=st.sampled_from(["a", "b", 3]),
    pair=st.tuples(st.integers(), st.text()),
    when=st.datetimes(timezones=st.just(UTC)),
    day=st.dates(),
    id=st.uuids(),
    price=st.decimals(allow_nan=False, allow_infinity=False),
    raw=st.binary(),
    maybe=st.none() | st.text(),
    nested=st.lists(POINTS, max_size=3),
    table=st.dictionaries(st.text(), st.lists(st.integers(), max_size=2), max_size=3),
    many=st.lists(POINTS, max_size=3).map(tuple),
    unique=st.frozensets(st.text(), max_size=3),
    either=POINTS | st.integers() | st.none(),
    anything=st.recursive(
        st.none() | st.booleans() | st.text(), lambda inside: st.lists(inside, max_size=3), max_leaves=4
    ),
    optional_list=st.none() | st.lists(st.none() | st.integers(), max_size=3),
    favourite=st.sampled_from(Colour),
)


SCHEMA = schema(Everything)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@given(EVERYTHING)
def test_round_trip_through_json_and_the_schema_allows_it(value: Everything) -> None:
    written = json.loads(json.dumps(dump(value)))
    assert parse(Everything, written) == value
    VALIDATOR.validate(written)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_word_for_word() -> None:
    assert schema(Point) == {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "number", "default": 0.5}},
        "required": ["x"],
        "additionalProperties": False,
    }
    assert schema(Point, extra="ignore")["additionalProperties"] is True


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("text", {"type": "string", "description": "Some words."}),
        ("colour", {"type": "string", "enum": ["red", "blue"]}),
        ("level", {"type": "integer", "enum": [1, 2]}),
        ("mode", {"enum": ["a", "b", 3]}),
        ("maybe", {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}),
        ("table", {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}}),
        ("unique", {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "default": []}),
        ("anything", {"default": None}),
        ("favourite", {"type": "string", "enum": ["red", "blue"], "default": "red"}),
        (
            "pair",
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "items": False,
                "minItems": 2,
                "maxItems": 2,
            },
        ),
    ],
)
def test_members(name: str, wanted: dict[str, Any]) -> None:
    assert SCHEMA["properties"][name] == wanted


def test_only_members_without_default_are_required() -> None:
    assert SCHEMA["required"][-1] == "raw"
    assert "maybe" not in SCHEMA["required"]


@pytest.mark.parametrize("nothing", [None, type(None)])
def test_no_parameters(nothing: object) -> None:
    assert schema(nothing) == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("annotation", "wanted"),
    [
        (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Annotated[int, "words"], {"type": "integer", "description": "words"}),
        (Annotated[Annotated[int, "inner"], "outer"], {"type": "integer", "description": "outer"}),
        (Annotated[int, 3, msgspec.Meta(ge=0, description=" words ")], {"type": "integer", "description": "words"}),
        (Annotated[int, Doc("words"), msgspec.Meta(ge=0)], {"type": "integer", "description": "words"}),
        (Annotated[int, pydantic.Field(description="words")], {"type": "integer", "description": "words"}),
        (Annotated[int, "", 3, {"not": "hashable"}], {"type": "integer"}),
        (list[Annotated[str, "an id"]], {"type": "array", "items": {"type": "string", "description": "an id"}}),
        (
            Annotated[int | None, "words"],
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "words"},
        ),
        (list, {"type": "array", "items": {}}),
        (tuple, {"type": "array", "items": {}}),
        (dict, {"type": "object", "additionalProperties": {}}),
    ],
    ids=str,
)
def test_other_annotations(annotation: Any, wanted: dict[str, Any]) -> None:
    assert schema(annotation) == wanted


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (Node, "Node.children[]: Node holds itself"),
        (Odd, "Odd.key: int cannot be a key"),
        (Worse, "Worse.thing: re.Pattern[str] has no form in JSON"),
        (complex, "complex has no form in JSON"),
        (Mute, "Mute.text: 3 is no description; metadata's is a string"),
    ],
    ids=["recursive", "key", "pattern", "complex", "description"],
)
def test_types_without_a_form_are_named(annotation: Any, message: str) -> None:
    with pytest.raises(PromptValidationError, match=re.escape(message)):
        schema(annotation)


def test_an_annotation_that_cannot_be_read_is_named() -> None:
    @dataclass
    class Hidden:
        x: int

    @dataclass
    class Local:
        hidden: Hidden

    with pytest.raises(PromptValidationError, match="name 'Hidden' is not defined"):
        schema(Local)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (Point, {"x": "1"}, 'x: must be an integer, not "1"'),
        (Point, {"x": True}, "x: must be an integer, not true"),
        (Point, {"x": 1.5}, "x: must be an integer, not 1.5"),
        (Point, {"y": 1}, "the value: lacks x"),
        (Point, {"x": 1, "z": 2}, "the value: has no member 'z'; it has x, y"),
        (Point, [1], "the value: must be an object, not [1]"),
        (Nested, {"inner": [{"x": 1}, {"x": None}]}, "inner[1].x: must be an integer, not null"),
        (Nested, {"inner": [], "table": {"k": {"x": 1, "zz": 1}}}, "table.k: has no member 'zz'"),
        (Nested, {"inner": {"x": 1}}, 'inner: must be a list, not {"x": 1}'),
        (Positive, {"n": 0}, "the value: n: 0 is not positive"),
        (Colour, "green", 'the value: must be one of "red", "blue", not "green"'),
        (Literal[1, "a"], True, "the value: must be one of 1"),
        (tuple[int, str], [1], "the value: must be a list of 2, not [1]"),
        (Point | None, {"x": "a"}, 'x: must be an integer, not "a"'),
        (Annotated[Point, "where"] | None, {"x": "a"}, 'x: must be an integer, not "a"'),
        (int | None, "a", 'the value: must be an integer, not "a"; or the value: must be null'),
        (datetime, "yesterday", "must be a date and time as in RFC 3339"),
    ],
    ids=repr,
)
def test_faults_name_the_place(annotation: Any, value: object, message: str) -> None:
    with pytest.raises(ToolValidationError, match=re.escape(message)):
        parse(annotation, value)


def test_long_values_are_cut_in_faults() -> None:
    with pytest.raises(ToolValidationError) as caught:
        parse(int, "x" * 10_000)
    assert len(str(caught.value)) < 120


def test_integral_floats_are_integers_and_integers_are_numbers() -> None:
    assert repr(parse(Point, {"x": 3.0, "y": 1})) == "Point(x=3, y=1.0)"


def test_unknown_members_may_be_passed_over_at_any_depth() -> None:
    value = {"inner": [{"x": 1, "more": 2}], "other": 3}
    assert parse(Nested, value, extra="ignore") == Nested([Point(1)])


def test_none_may_be_left_out() -> None:
    @dataclass
    class Answer:
        a: object = None
        b: object = None

    assert dump(Answer(a=Answer(b=1)), exclude_none=True) == {"a": {"b": 1}}
    assert dump(Answer()) == {"a": None, "b": None}
