"""Error messages and codes for invalid request values, as OpenAI's API words them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from belljar.errors import InvalidRequest
from belljar.wire.items import Json

Sized: TypeAlias = Literal["string", "array"]

_A: dict[Sized, str] = {"string": "a string", "array": "an array"}
_SHOWN = 100
_KINDS = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


def at(path: str, key: str) -> str:
    """The path of a member, as in `tools[0].container`."""
    return f"{path}.{_cut(key)}" if path else _cut(key)


def missing(path: str, remedy: str = "") -> InvalidRequest:
    message = f"Missing required parameter: '{path}'. {remedy}".rstrip()
    return InvalidRequest(message, param=path, fault="missing_required_parameter")


def unknown(path: str) -> InvalidRequest:
    return InvalidRequest(f"Unknown parameter: '{path}'.", param=path, fault="unknown_parameter")


def unsupported(path: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(
        f"Unsupported parameter: '{path}' is not supported by this server. {remedy}",
        param=path,
        fault="unsupported_parameter",
    )


def wrong_type(path: str, expected: Sequence[str], value: Json) -> InvalidRequest:
    """`expected` has an article each, as in "a string"."""
    first, *others = expected
    wanted = " or ".join([f"one of {first}", *(other.split(" ", 1)[1] for other in others)]) if others else first
    return InvalidRequest(
        f"Invalid type for '{path}': expected {wanted}, but got {_KINDS[type(value)]} instead.",
        param=path,
        fault="invalid_type",
    )


def not_one_of(path: str, value: str, supported: Iterable[str]) -> InvalidRequest:
    return InvalidRequest(
        f"Invalid value: '{_cut(value)}'. Supported values are: {_join_values(supported)}.",
        param=path,
        fault="invalid_value",
    )


def not_declared(path: str, tool: str) -> InvalidRequest:
    return InvalidRequest(f"Tool choice '{_cut(tool)}' not found in 'tools' parameter.", param=path)


def out_of_range(path: str, value: float, limit: float, *, decimal: bool) -> InvalidRequest:
    kind, below = "decimal" if decimal else "integer", value < limit
    bound = limit if abs(limit) < 1e15 else f"{limit:g}"
    return InvalidRequest(
        f"Invalid '{path}': {kind} {'below minimum' if below else 'above maximum'} value."
        f" Expected a value {'>=' if below else '<='} {bound}, but got {_cut(str(value))} instead.",
        param=path,
        fault=f"{kind}_{'below_min' if below else 'above_max'}_value",
    )


def not_an_id(path: str, value: str, beginning: str) -> InvalidRequest:
    return InvalidRequest(
        f"Invalid '{path}': '{_cut(value)}'. Expected an ID that begins with '{beginning}' and has letters, digits, '_'"
        " and '-' only.",
        param=path,
        fault="invalid_value",
    )


def has_nul(path: str) -> InvalidRequest:
    """No store keeps it in a text."""
    return InvalidRequest(f"Invalid '{path}': a NUL character is not text.", param=path, fault="invalid_value")


def both(path: str, other: str) -> InvalidRequest:
    """Two that say the same in different ways, of which one would be passed over."""
    return InvalidRequest(
        f"Mutually exclusive parameters: '{path}' and '{other}'. Send only one of them.",
        param=other,
        fault="mutually_exclusive_parameters",
    )


def too_short(path: str, kind: Sized, least: int) -> InvalidRequest:
    """Of one that is empty: nothing here asks for more than one."""
    return InvalidRequest(
        f"Invalid '{path}': empty {kind}."
        f" Expected {_A[kind]} with minimum length {least}, but got an empty {kind} instead.",
        param=path,
        fault=f"empty_{kind}",
    )


def too_long(path: str, kind: Sized, most: int, length: int) -> InvalidRequest:
    return InvalidRequest(
        f"Invalid '{path}': {kind} too long."
        f" Expected {_A[kind]} with maximum length {most}, but got {_A[kind]} with length {length} instead.",
        param=path,
        fault=f"{kind}_above_max_length",
    )


def long_name(path: str, name: str, most: int) -> InvalidRequest:
    return InvalidRequest(
        f"Invalid property name in '{path}': '{_cut(name)}' is too long."
        f" Expected a string with maximum length {most}, but got a string with length {len(name)} instead.",
        param=at(path, name),
        fault="string_above_max_length",
    )


def too_many(path: str, most: int, count: int) -> InvalidRequest:
    return InvalidRequest(
        f"Invalid '{path}': too many properties."
        f" Expected an object with at most {most} properties, but got an object with {count} properties instead.",
        param=path,
        fault="object_above_max_properties",
    )


def unlike(path: str, pattern: str) -> InvalidRequest:
    # `$` would let a newline through at the end; callers know `$`, not `\Z`.
    return InvalidRequest(
        f"Invalid '{path}': string does not match pattern."
        f" Expected a string that matches the pattern '{pattern.replace(chr(92) + 'Z', '$')}'.",
        param=path,
        fault="invalid_value",
    )


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _join_values(values: Iterable[str]) -> str:
    *first, last = (f"'{value}'" for value in values)
    if len(first) > 1:
        return f"{', '.join(first)}, and {last}"
    return " and ".join([*first, last])
