"""Convert JSON to structs: null means absent where none is allowed, and an error names the path of the first misfit."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

import msgspec
from msgspec import inspect

from belljar.wire import error_messages
from belljar.wire.error_messages import at
from belljar.wire.items import Json

T = TypeVar("T", bound=msgspec.Struct)

_TAKES: dict[type[inspect.Type], tuple[type, ...]] = {
    inspect.AnyType: (str, bool, int, float, list, dict, type(None)),
    inspect.StrType: (str,),
    inspect.LiteralType: (str,),
    inspect.BoolType: (bool,),
    inspect.IntType: (int,),
    inspect.FloatType: (int, float),
    inspect.VarTupleType: (list,),
    inspect.DictType: (dict,),
    inspect.StructType: (dict,),
    inspect.NoneType: (type(None),),
}
_NAMES: dict[type[inspect.Type], str] = {
    inspect.StrType: "a string",
    inspect.LiteralType: "a string",
    inspect.BoolType: "a boolean",
    inspect.IntType: "an integer",
    inspect.FloatType: "a decimal",
    inspect.DictType: "an object",
    inspect.StructType: "an object",
}
_HUGE = sys.float_info.max  # JSON's integers have no end
_shape = cache(inspect.type_info)


def fit(value: Json, to: type[T], path: str) -> T:
    """The value as this struct. msgspec is fast and says little, so only what it refuses is looked at here."""
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError:
        return msgspec.convert(_fit_value(value, _shape(to), path), to)


def _fit_value(value: Json, shape: inspect.Type, path: str) -> Json:
    options = _options(shape)
    takers = [option for option in options if type(value) in _TAKES[type(option)]]
    if not takers:
        raise error_messages.wrong_type(path, _list_expected(options), value)
    match takers[0]:
        case inspect.StructType():
            return _members(value, _choose_struct(value, takers, path), path)
        case inspect.VarTupleType() as array:
            _check_length(value, "array", array, path)
            return [_fit_value(one, array.item_type, f"{path}[{n}]") for n, one in enumerate(value)]
        case inspect.DictType() as mapping:
            _check_names(value, mapping, path)
            return {key: _fit_value(one, mapping.value_type, at(path, key)) for key, one in value.items()}
        case inspect.LiteralType(values=values):
            if value not in values:
                raise error_messages.not_one_of(path, value, sorted(map(str, values), key=_by_size))
        case inspect.StrType() as string:
            _check_length(value, "string", string, path)
            if string.pattern is not None and not re.search(string.pattern, value):
                raise error_messages.unlike(path, string.pattern)
        case inspect.IntType(ge=least, le=most):
            _check_range(value, least, most, path, decimal=False)
        case inspect.FloatType(ge=least, le=most):
            _check_range(value, -_HUGE if least is None else least, _HUGE if most is None else most, path, decimal=True)
    return value


def _options(shape: inspect.Type) -> tuple[inspect.Type, ...]:
    return tuple(shape.types) if isinstance(shape, inspect.UnionType) else (shape,)


def _members(value: dict[str, Json], shape: inspect.StructType, path: str) -> dict[str, Json]:
    """The members that the struct has, each made to fit."""
    fields = {field.encode_name: field for field in shape.fields}
    if shape.forbid_unknown_fields:
        for key in value:
            if key not in fields and key != shape.tag_field:
                raise error_messages.unknown(at(path, key))
    fitted: dict[str, Json] = {}
    for key, field in fields.items():
        if key in value:
            if value[key] is not None or field.required or _nullable(field.type):
                fitted[key] = _fit_value(value[key], field.type, at(path, key))
        elif field.required:
            raise error_messages.missing(at(path, key))
    if shape.tag_field is not None:
        fitted[shape.tag_field] = shape.tag
    return fitted


def _nullable(shape: inspect.Type) -> bool:
    return any(isinstance(option, inspect.NoneType | inspect.AnyType) for option in _options(shape))


def _choose_struct(value: dict[str, Json], takers: Sequence[inspect.Type], path: str) -> inspect.StructType:
    """The one that the tag names; where there is no choice, the tag may be left out."""
    structs = {taker.tag: taker for taker in takers if isinstance(taker, inspect.StructType)}
    only = next(iter(structs.values()))
    if only.tag_field is None:
        return only
    found, where = value.get(only.tag_field), at(path, only.tag_field)
    if found is None:
        if len(structs) == 1:
            return only
        raise error_messages.missing(where)
    if not isinstance(found, str):
        raise error_messages.wrong_type(where, ["a string"], found)
    if found not in structs:
        raise error_messages.not_one_of(where, found, map(str, structs))
    return structs[found]


def _check_names(value: dict[str, Json], shape: inspect.DictType, path: str) -> None:
    if shape.max_length is not None and len(value) > shape.max_length:
        raise error_messages.too_many(path, shape.max_length, len(value))
    if isinstance(shape.key_type, inspect.StrType) and shape.key_type.max_length is not None:
        for key in value:
            if len(key) > shape.key_type.max_length:
                raise error_messages.long_name(path, key, shape.key_type.max_length)


def _check_length(
    value: str | list[Json], kind: error_messages.Sized, shape: inspect.StrType | inspect.VarTupleType, path: str
) -> None:
    if shape.min_length is not None and len(value) < shape.min_length:
        raise error_messages.too_short(path, kind, shape.min_length)
    if shape.max_length is not None and len(value) > shape.max_length:
        raise error_messages.too_long(path, kind, shape.max_length, len(value))


def _check_range(value: float, least: float | None, most: float | None, path: str, *, decimal: bool) -> None:
    if least is not None and value < least:
        raise error_messages.out_of_range(path, value, least, decimal=decimal)
    if most is not None and value > most:
        raise error_messages.out_of_range(path, value, most, decimal=decimal)


def _list_expected(options: Sequence[inspect.Type]) -> list[str]:
    """What a place takes, in words, null aside."""
    names = [_name(option) for option in options if not isinstance(option, inspect.NoneType)]
    return list(dict.fromkeys(names))


def _name(shape: inspect.Type) -> str:
    if not isinstance(shape, inspect.VarTupleType):
        return _NAMES[type(shape)]
    members = {_NAMES.get(type(option), "") for option in _options(shape.item_type)}
    return f"an array of {members.pop().split(' ')[1]}s" if len(members) == 1 and "" not in members else "an array"


def _by_size(value: str) -> tuple[int, str]:
    """So that 4g comes before 16g."""
    digits = re.match(r"\d*", value)
    return int(digits[0]) if digits and digits[0] else 0, value
