"""Translate Python annotations to the few forms that JSON has: the one place that reads `typing`."""

from __future__ import annotations

import collections.abc
import dataclasses
import types
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from belljar.errors import PromptValidationError

NoneType = type(None)
LEAVES: Mapping[type, tuple[Mapping[str, str], str]] = types.MappingProxyType(
    {
        str: ({"type": "string"}, "a string"),
        int: ({"type": "integer"}, "an integer"),
        float: ({"type": "number"}, "a number"),
        bool: ({"type": "boolean"}, "true or false"),
        NoneType: ({"type": "null"}, "null"),
        datetime: ({"type": "string", "format": "date-time"}, "a date and time as in RFC 3339"),
        date: ({"type": "string", "format": "date"}, "a date as YYYY-MM-DD"),
        UUID: ({"type": "string", "format": "uuid"}, "a UUID"),
        Decimal: ({"type": "string", "format": "decimal"}, "a decimal number as a string"),
        bytes: ({"type": "string", "contentEncoding": "base64"}, "bytes in base64"),
    }
)
"""Each with its schema and its name for people."""


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    type: type


@dataclasses.dataclass(frozen=True, slots=True)
class Anything:
    pass


@dataclasses.dataclass(frozen=True, slots=True)
class ConstantForm:
    """One of some constants, or the members of an Enum by value."""

    values: tuple[Any, ...]
    member: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class ListForm:
    element: Form
    make: Callable[[list[Any]], Any]
    unique: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class TupleForm:
    elements: tuple[Form, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class DictForm:
    value: Form


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    type: type
    members: tuple[RecordMember, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class OneOf:
    arms: tuple[Form, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Described:
    """`Annotated[…, "what it is"]`: the same values, with a word for the model."""

    form: Form
    description: str


@dataclasses.dataclass(frozen=True, slots=True)
class RecordMember:
    name: str
    form: Form
    required: bool
    default: Any = dataclasses.MISSING
    description: str | None = None


Form: TypeAlias = Leaf | Anything | ConstantForm | ListForm | TupleForm | DictForm | Record | OneOf | Described

_LISTS: Mapping[Any, Callable[[list[Any]], Any]] = types.MappingProxyType(
    {
        list: list,
        set: set,
        frozenset: frozenset,
        collections.abc.Sequence: tuple,
        collections.abc.Iterable: tuple,
        collections.abc.Collection: tuple,
        collections.abc.Set: frozenset,
    }
)
_TABLES = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def form_of(annotation: Any, where: str = "", above: tuple[type, ...] = ()) -> Form:
    """The form of a type; PromptValidationError names the field whose type has none."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:  # before anything looks it up: what it is annotated with need not be hashable
        return _read_description(arguments, where, above)
    if annotation is None:
        return Leaf(NoneType)
    if annotation is Any or annotation is object:
        return Anything()
    if annotation in LEAVES:
        return Leaf(annotation)
    if origin is Literal:
        return _literal(arguments, where)
    if origin in (Union, types.UnionType):
        return OneOf(tuple(form_of(argument, where, above) for argument in arguments))
    if (origin or annotation) is tuple:
        return _tuple(arguments, where, above)
    if (origin or annotation) in _LISTS:
        make = _LISTS[origin or annotation]
        element = form_of(arguments[0], f"{where}[]", above) if arguments else Anything()
        return ListForm(element, make, unique=make in (set, frozenset))
    if (origin or annotation) in _TABLES:
        return _table(arguments, where, above)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _enum(annotation, where)
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return _record(annotation, where, above)
    raise _unfit_error(where, annotation, "has no form in JSON; use dataclasses, lists, dicts, enums and plain values")


def _read_description(arguments: tuple[Any, ...], where: str, above: tuple[type, ...]) -> Form:
    """A string, or what other libraries' metadata say: `Meta(description=…)`, `Field(description=…)`, `Doc(…)`."""
    form = form_of(arguments[0], where, above)
    for told in reversed(arguments[1:]):  # the outermost is the last
        text = getattr(told, "description", None) or getattr(told, "documentation", None) or told
        if isinstance(text, str) and text.strip():
            return Described(form, text.strip())
    return form


def _literal(values: tuple[Any, ...], where: str) -> ConstantForm:
    for value in values:
        if not isinstance(value, str | int | bool | None):
            raise _unfit_error(where, value, "is no plain value; a Literal holds strings, integers, booleans or None")
    return ConstantForm(values, lambda value: value)


def _enum(annotation: type[Enum], where: str) -> ConstantForm:
    values = tuple(member.value for member in annotation)
    for value in values:
        if not isinstance(value, str | int | float | bool):
            raise _unfit_error(where, annotation, f"has the value {value!r}; its values must be strings or numbers")
    return ConstantForm(values, annotation)


def _tuple(arguments: tuple[Any, ...], where: str, above: tuple[type, ...]) -> Form:
    if not arguments:
        return ListForm(Anything(), tuple)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return ListForm(form_of(arguments[0], f"{where}[]", above), tuple)
    return TupleForm(tuple(form_of(argument, f"{where}[{n}]", above) for n, argument in enumerate(arguments)))


def _table(arguments: tuple[Any, ...], where: str, above: tuple[type, ...]) -> DictForm:
    if not arguments:
        return DictForm(Anything())
    if arguments[0] is not str:
        raise _unfit_error(where, arguments[0], "cannot be a key; JSON's keys are strings")
    return DictForm(form_of(arguments[1], f"{where}{{}}", above))


def _record(annotation: type, where: str, above: tuple[type, ...]) -> Record:
    if annotation in above:
        raise _unfit_error(where, annotation, "holds itself; a schema that is written out whole would not end")
    try:
        hints = get_type_hints(annotation, include_extras=True)
    except NameError as error:
        raise _unfit_error(
            where, annotation, f"has an annotation that cannot be read: {error}; define it in the module"
        ) from None
    members = []
    for field in dataclasses.fields(annotation):
        if not field.init:
            continue
        inside = f"{where}.{field.name}" if where else f"{annotation.__name__}.{field.name}"
        description = field.metadata.get("description")
        if not isinstance(description, str | None):
            raise _unfit_error(inside, description, "is no description; metadata's is a string")
        members.append(
            RecordMember(
                field.name,
                form_of(hints[field.name], inside, (*above, annotation)),
                required=field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
                default=field.default,
                description=description,
            )
        )
    return Record(annotation, tuple(members))


def _unfit_error(where: str, annotation: Any, why: str) -> PromptValidationError:
    named = annotation.__name__ if isinstance(annotation, type) else repr(annotation)
    return PromptValidationError(f"{where}: {named} {why}" if where else f"{named} {why}")
