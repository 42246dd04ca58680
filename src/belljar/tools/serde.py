"""Parse typed values from JSON and dump them back: `parse(type(x), dump(x)) == x`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Set
from enum import Enum
from typing import Any, Literal, TypeVar, assert_never, overload

import msgspec

from belljar.errors import ToolValidationError
from belljar.tools.annotations import (
    LEAVES,
    Anything,
    ConstantForm,
    Described,
    DictForm,
    Form,
    Leaf,
    ListForm,
    OneOf,
    Record,
    TupleForm,
    form_of,
)

T = TypeVar("T")


@overload
def parse(annotation: type[T], value: object, *, extra: Literal["forbid", "ignore"] = ..., where: str = ...) -> T: ...


@overload
def parse(annotation: Any, value: object, *, extra: Literal["forbid", "ignore"] = ..., where: str = ...) -> Any: ...


def parse(annotation: Any, value: object, *, extra: Literal["forbid", "ignore"] = "forbid", where: str = "") -> Any:
    """A value of that type from what JSON gives; ToolValidationError names the place and the fault.

    Of a union, the first arm that fits is taken.
    """
    return _parse_form(form_of(annotation), value, where, extra == "ignore")


def dump(value: object, *, exclude_none: bool = False) -> Any:
    """What JSON can hold of a value. `exclude_none` leaves out members of dataclasses that are None."""
    match value:
        case Enum():
            return dump(value.value)
        case str() | int() | float() | None:
            return value
        case Mapping():
            return {str(key): dump(inside, exclude_none=exclude_none) for key, inside in value.items()}
        case list() | tuple():
            return [dump(inside, exclude_none=exclude_none) for inside in value]
        case Set():
            return sorted((dump(inside, exclude_none=exclude_none) for inside in value), key=json.dumps)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        return {
            name: dump(member, exclude_none=exclude_none)
            for name, member in members.items()
            if member is not None or not exclude_none
        }
    return msgspec.to_builtins(value)


def _parse_form(form: Form, value: Any, where: str, more: bool) -> Any:
    match form:
        case Anything():
            return value
        case Leaf():
            return _leaf(form.type, value, where)
        case ConstantForm():
            return _choice(form, value, where)
        case ListForm():
            _expect(isinstance(value, list | tuple), where, "a list", value)
            return form.make(
                [_parse_form(form.element, inside, f"{where}[{n}]", more) for n, inside in enumerate(value)]
            )
        case TupleForm():
            right = isinstance(value, list | tuple) and len(value) == len(form.elements)
            _expect(right, where, f"a list of {len(form.elements)}", value)
            pairs = enumerate(zip(form.elements, value, strict=True))
            return tuple(_parse_form(element, inside, f"{where}[{n}]", more) for n, (element, inside) in pairs)
        case DictForm():
            _expect(isinstance(value, Mapping), where, "an object", value)
            return {str(key): _parse_form(form.value, value[key], _beneath(where, key), more) for key in value}
        case Record():
            return _record(form, value, where, more)
        case OneOf():
            return _one_of(form, value, where, more)
        case Described():
            return _parse_form(form.form, value, where, more)
        case _:
            assert_never(form)


def _leaf(kind: type, value: Any, where: str) -> Any:
    if kind is int and isinstance(value, float) and value.is_integer():  # JSON does not tell 3.0 from 3
        return int(value)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise _expected_error(where, LEAVES[kind][1], value) from None


def _choice(form: ConstantForm, value: Any, where: str) -> Any:
    for allowed in form.values:
        if allowed == value and isinstance(allowed, bool) == isinstance(value, bool):
            return form.member(allowed)
    raise _expected_error(where, "one of " + ", ".join(json.dumps(allowed) for allowed in form.values), value)


def _record(form: Record, value: Any, where: str, more: bool) -> Any:
    _expect(isinstance(value, Mapping), where, "an object", value)
    known = [member.name for member in form.members]
    if unknown := [str(key) for key in value if key not in known and not more]:
        raise _fault(where, f"has no member {unknown[0]!r}; it has {', '.join(known) or 'none'}")
    if missing := [member.name for member in form.members if member.required and member.name not in value]:
        raise _fault(where, f"lacks {', '.join(missing)}")
    members = {
        member.name: _parse_form(member.form, value[member.name], _beneath(where, member.name), more)
        for member in form.members
        if member.name in value
    }
    try:
        return form.type(**members)
    except (ValueError, TypeError) as error:
        raise _fault(where, str(error)) from error


def _one_of(form: OneOf, value: Any, where: str, more: bool) -> Any:
    faults = []
    for arm in form.arms:
        try:
            return _parse_form(arm, value, where, more)
        except ToolValidationError as error:
            faults.append((arm, error))
    apt = [error for arm, error in faults if _apt(arm, value)]
    raise apt[0] if len(apt) == 1 else ToolValidationError("; or ".join(str(error) for _, error in faults))


def _apt(arm: Form, value: Any) -> bool:
    """Whether the arm was meant, going by the shape: its fault alone is then worth telling."""
    if isinstance(arm, Described):
        return _apt(arm.form, value)
    if isinstance(arm, Record | DictForm):
        return isinstance(value, Mapping)
    return isinstance(arm, ListForm | TupleForm) and isinstance(value, list)


def _expect(right: bool, where: str, what: str, value: Any) -> None:
    if not right:
        raise _expected_error(where, what, value)


def _expected_error(where: str, what: str, value: Any) -> ToolValidationError:
    shown = json.dumps(value, default=str)
    return _fault(where, f"must be {what}, not {shown if len(shown) <= 60 else shown[:60] + '…'}")


def _fault(where: str, message: str) -> ToolValidationError:
    return ToolValidationError(f"{where or 'the value'}: {message}")


def _beneath(where: str, name: object) -> str:
    return f"{where}.{name}" if where else str(name)
