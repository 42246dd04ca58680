"""What a tool is called with: null stands for the default where the schema has no null of its own.

A strict schema makes a model say null for what it leaves out. The tool's own schema, as it was before, tells which
nulls those are.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from belljar.providers.strict import Schema

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str, "boolean": bool, "integer": int, "number": (int, float), "object": dict, "array": list,
    "null": type(None),
}  # fmt: skip


def with_defaults(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value with each such null replaced by the default, or left out where there is none."""
    return _fill_value(value, dict(schema), dict(schema))


def _fill_value(value: Any, schema: Schema, root: Schema) -> Any:
    schema = _resolve_schema(schema, root)
    branches = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(branches, list):
        fitting = (one for one in branches if isinstance(one, dict) and _fits(value, _resolve_schema(one, root), root))
        found = next(fitting, None)
        return value if found is None else _fill_value(value, found, root)
    for part in schema.get("allOf", ()):
        if isinstance(part, dict):
            value = _fill_value(value, part, root)
    if isinstance(value, dict):
        return _members(value, schema, root)
    items = schema.get("items")
    if isinstance(value, list) and isinstance(items, dict):
        return [_fill_value(one, items, root) for one in value]
    return value


def _members(value: dict[str, Any], schema: Schema, root: Schema) -> dict[str, Any]:
    properties, required = schema.get("properties", {}), schema.get("required", ())
    filled = {}
    for name, one in value.items():
        inner = properties.get(name)
        if not isinstance(inner, dict):
            filled[name] = one
        elif one is not None or name in required or _fits(None, _resolve_schema(inner, root), root):
            filled[name] = _fill_value(one, inner, root)
        elif "default" in (whole := {**_resolve_schema(inner, root), **inner}):
            filled[name] = deepcopy(whole["default"])
    return filled


def _resolve_schema(schema: Schema, root: Schema) -> Schema:
    """Without a $ref or a lone allOf at its head; a $ref that points at nothing says nothing."""
    seen = set[str]()
    while True:
        whole = schema.get("allOf")
        if isinstance(whole, list) and len(whole) == 1 and isinstance(whole[0], dict):
            schema = {**whole[0], **{name: one for name, one in schema.items() if name != "allOf"}}
        elif "$ref" in schema and schema["$ref"] not in seen:
            seen.add(schema["$ref"])
            schema = _pointed_at(str(schema["$ref"]), root)
        else:
            return schema


def _pointed_at(target: str, root: Schema) -> Schema:
    found: Any = root
    for name in filter(None, target.removeprefix("#").split("/")):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _fits(value: Any, schema: Schema, root: Schema) -> bool:
    """Whether this may be the schema that was meant: by type, constants and names of members."""
    if "enum" in schema or "const" in schema:
        return value in schema.get("enum", [schema.get("const")])
    branches = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(branches, list):
        return any(isinstance(one, dict) and _fits(value, _resolve_schema(one, root), root) for one in branches)
    if value is None and schema.get("nullable") is True:
        return True
    given = schema.get("type", [])
    types = [given] if isinstance(given, str) else given
    if types and not any(_is(value, one) for one in types):
        return False
    if not isinstance(value, dict):
        return bool(types) or value is not None
    properties = schema.get("properties", {})
    if set(schema.get("required", ())) - set(value) or (properties and set(value) - set(properties)):
        return False
    described = ((one, properties.get(name)) for name, one in value.items() if one is not None)
    return all(_fits(one, _resolve_schema(inner, root), root) for one, inner in described if isinstance(inner, dict))


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES.get(name, object))
