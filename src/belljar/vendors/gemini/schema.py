"""A JSON schema as Gemini takes it: its subset of the keywords, the rest told in words.

`parametersJsonSchema` and `responseJsonSchema` take types and lists of types, properties and additionalProperties,
items and prefixItems, enum, anyOf, required, bounds, and `$defs` with `$ref`. `const`, `oneOf`, `allOf` and `nullable`
are said in those terms; a reference stands alone. What else limits a value is put into its description, where the
model still reads it; what only decorates it goes.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from belljar.wire import codec

Schema: TypeAlias = dict[str, Any]

_KEPT = frozenset(
    [
        "$id",
        "$anchor",
        "type",
        "description",
        "enum",
        "required",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "propertyOrdering",
    ]
)
_ONE = frozenset(["items", "additionalProperties"])
_LIST = frozenset(["anyOf", "prefixItems"])
_MAP = frozenset(["properties", "$defs"])
_DECORATION = frozenset(
    ["$schema", "$comment", "title", "examples", "example", "discriminator", "readOnly", "writeOnly"]
)
_RENAMED = {"oneOf": "anyOf", "definitions": "$defs"}


def convert_schema(schema: Schema) -> Schema:
    """The same in Gemini's terms; what is given stays as it is."""
    schema = _merge_all_of(schema)
    if "$ref" in schema:
        return _reference(schema)
    said: Schema = {}
    told: list[str] = []
    for name, value in schema.items():
        name = _RENAMED.get(name, name)
        if name in _KEPT:
            said[name] = value
        elif name in _ONE:
            said[name] = _convert_value(value)
        elif name in _LIST and isinstance(value, list):
            said[name] = [*_list(said.get(name)), *map(_convert_value, value)]
        elif name in _MAP and isinstance(value, dict):
            said[name] = {**_map(said.get(name)), **{key: _convert_value(one) for key, one in value.items()}}
        elif name in _LIST or name in _MAP:
            said[name] = value  # that is no schema, and Gemini will say so
        elif name == "const":
            said["enum"] = [value]
        elif name not in _DECORATION and name != "nullable":
            told.append(f"{name}: {codec.encode(value).decode()}")
    if told:
        about = said.get("description")
        said["description"] = " ".join([*([about] if about and isinstance(about, str) else []), f"({', '.join(told)})"])
    return _nullable(said) if schema.get("nullable") is True else said


def _convert_value(value: Any) -> Any:
    return convert_schema(value) if isinstance(value, dict) else value


def _reference(schema: Schema) -> Schema:
    """Only what begins with a dollar may stand beside a reference."""
    said: Schema = {"$ref": str(schema["$ref"]).replace("#/definitions/", "#/$defs/", 1)}
    if schema.get("nullable") is True:
        said = {"anyOf": [said, {"type": "null"}]}
    defined = {**_map(schema.get("$defs")), **_map(schema.get("definitions"))}
    return {**said, "$defs": {key: _convert_value(one) for key, one in defined.items()}} if defined else said


def _merge_all_of(schema: Schema) -> Schema:
    """`allOf` has no counterpart: its members become one, as far as their keywords allow."""
    if not isinstance(schema.get("allOf"), list):
        return schema
    whole: Schema = {}
    own = {name: value for name, value in schema.items() if name != "allOf"}
    for part in (*(one for one in schema["allOf"] if isinstance(one, dict)), own):
        for name, value in _merge_all_of(part).items():
            if name in ("properties", "$defs", "definitions") and isinstance(value, dict):
                whole[name] = {**_map(whole.get(name)), **value}
            elif name == "required" and isinstance(value, list):
                names = [*_list(whole.get(name)), *value]
                whole[name] = list(dict.fromkeys(one for one in names if isinstance(one, str)))
            else:
                whole[name] = value
    return whole


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _map(value: Any) -> Schema:
    return value if isinstance(value, dict) else {}


def _nullable(said: Schema) -> Schema:
    kind = said.get("type")
    if isinstance(kind, str):
        return {**said, "type": [kind, "null"]}
    if isinstance(kind, list) and "null" not in kind:
        return {**said, "type": [*kind, "null"]}
    if isinstance(options := said.get("anyOf"), list) and {"type": "null"} not in options:
        return {**said, "anyOf": [*options, {"type": "null"}]}
    return said
