"""A JSON schema as OpenAI's strict mode takes it: every property required, nothing else allowed, optional is nullable.

What a keyword says that strict mode has no place for is moved into the description where it only narrows a value, so
that the model still reads it. A schema that strict mode cannot express at all, such as a free-form map, is `Loose`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

_ANNOTATIONS = frozenset(["description", "title", "default"])
_CONSTRAINTS = frozenset(
    ["pattern", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"]
)
_FORMATS = frozenset(["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"])
_TOLD = frozenset(
    [
        "minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties", "examples", "example", "format",
        "contentEncoding", "contentMediaType", "deprecated", "readOnly", "writeOnly",
    ]
)  # fmt: skip
"""Keywords that narrow or explain a value, and have no place in a strict schema."""
_DROPPED = frozenset(["$schema", "$id", "$comment", "discriminator", "nullable"])
_VALUES = frozenset(["default", "enum", "const", "examples"])
"""Keywords whose values are no schemas."""
_STRUCTURE = frozenset(["type", "properties", "required", "additionalProperties", "items", "enum", "const"])
_NAMES: Mapping[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array", type(None): "null",
}  # fmt: skip


class Loose(Exception):
    """This schema cannot be strict; the message says where and why."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path or 'the schema'} {why}")


def strict(schema: Mapping[str, Any]) -> Schema:
    """The schema of a tool's input, made strict; the one given is left as it is."""
    root = _without_root_ref(dict(schema))
    definitions = {**root.pop("definitions", {}), **root.pop("$defs", {})}
    if _types(root) != ["object"]:
        raise Loose("", "is not that of an object")
    root.setdefault("properties", {})
    written = _write_schema(root, "", is_root=True)
    if definitions:
        written["$defs"] = {name: _write_schema(one, f"$defs.{name}") for name, one in definitions.items()}
    _check_references(written, frozenset(definitions), "")
    return written


def _check_references(node: object, names: frozenset[str], path: str) -> None:
    """Whether each points at something: a vendor refuses the whole request where one does not."""
    match node:
        case {"$ref": str(target)} if target != "#" and _name(target) not in names:
            raise Loose(path, f"points at {target!r}, which is not there")
        case dict():
            for name, inner in node.items():
                if name not in _VALUES:
                    _check_references(inner, names, f"{path}.{name}".lstrip("."))
        case list():
            for n, inner in enumerate(node):
                _check_references(inner, names, f"{path}[{n}]")


def _name(pointer: str) -> str:
    return pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")


def _without_root_ref(root: Schema) -> Schema:
    """A root must be an object itself, not point at one."""
    if "$ref" not in root:
        return root
    pointer = _reference(root.pop("$ref"), "")
    found = {**root.get("definitions", {}), **root.get("$defs", {})}.get(_name(pointer))
    if pointer == "#" or not isinstance(found, dict):
        raise Loose("", "points at nothing")
    return {**found, **root}


def _write_schema(node: object, path: str, *, optional: bool = False, is_root: bool = False) -> Schema:
    if not isinstance(node, dict):
        raise Loose(path, f"is {json.dumps(node)}, which allows anything or nothing")
    node = dict(node)
    while "allOf" in node:
        parts = node.pop("allOf")
        if not isinstance(parts, list) or len(parts) != 1 or not isinstance(parts[0], dict):
            raise Loose(path, "combines several schemas by allOf")
        node = {**parts[0], **node}
    optional = optional or node.get("nullable") is True
    if "$ref" in node:
        return _pointing(node, path, optional)
    if "anyOf" in node or "oneOf" in node:
        return _choice(node, path, optional)
    return _write_type(node, path, optional, is_root)


def _pointing(node: Schema, path: str, optional: bool) -> Schema:
    """Strict mode allows nothing beside a $ref."""
    reference = {"$ref": _reference(node["$ref"], path)}
    beside = _annotations(node, path, known=frozenset(["$ref"]))
    if optional:
        return {"anyOf": [reference, {"type": "null"}], **beside}
    return {"anyOf": [reference], **beside} if beside else reference


def _reference(target: object, path: str) -> str:
    pointer = str(target).replace("#/definitions/", "#/$defs/")
    if pointer != "#" and (not pointer.startswith("#/$defs/") or pointer.count("/") != 2):
        raise Loose(path, f"points at {target!r}, which is not one of its $defs")
    return pointer


def _choice(node: Schema, path: str, optional: bool) -> Schema:
    branches = node.get("anyOf", node.get("oneOf"))
    if ("anyOf" in node and "oneOf" in node) or not isinstance(branches, list) or not branches:
        raise Loose(path, "does not have one list of choices")
    beside = _annotations(node, path, known=frozenset(["anyOf", "oneOf"]))
    written = [_write_schema(branch, f"{path}.anyOf[{n}]") for n, branch in enumerate(branches)]
    if optional and not any("null" in _types(branch) for branch in written):
        written.append({"type": "null"})
    return {"anyOf": written, **beside}


def _write_type(node: Schema, path: str, optional: bool, is_root: bool) -> Schema:
    types = _types(node)
    if not types:
        raise Loose(path, "has no type")
    written = _annotations(node, path, known=_STRUCTURE | _CONSTRAINTS)
    written.update({name: deepcopy(node[name]) for name in _CONSTRAINTS if name in node})
    if "const" in node and not optional:
        written["const"] = node["const"]
    elif "enum" in node or "const" in node:
        values = list(node["enum"]) if "enum" in node else [node["const"]]
        written["enum"] = [*values, None] if optional and None not in values else values
    if optional and "null" not in types:
        types.append("null")
    written["type"] = types[0] if len(types) == 1 else types
    if "object" in types:
        written.update(_members(node, path, is_root))
    if "array" in types:
        if "items" not in node:
            raise Loose(path, "is a list of anything")
        written["items"] = _write_schema(node["items"], f"{path}[]")
    return written


def _members(node: Schema, path: str, is_root: bool) -> Schema:
    properties, required = node.get("properties", {}), node.get("required", [])
    if node.get("additionalProperties", False) is not False or (not properties and not is_root):
        raise Loose(path, "is a map with keys of any name")
    if not set(required) <= set(properties):
        raise Loose(path, "requires a property that it does not describe")
    return {
        "properties": {
            name: _write_schema(one, f"{path}.{name}".lstrip("."), optional=name not in required)
            for name, one in properties.items()
        },
        "required": list(properties),
        "additionalProperties": False,
    }


def _annotations(node: Schema, path: str, known: frozenset[str]) -> Schema:
    """What explains the value, with what strict mode has no keyword for told in words."""
    kept = {name: deepcopy(node[name]) for name in _ANNOTATIONS if name in node}
    told = []
    for name, value in node.items():
        if name == "format" and value in _FORMATS:
            kept["format"] = value
        elif name in _TOLD:
            told.append(f"{name}: {json.dumps(value, ensure_ascii=False, default=str)}")
        elif name not in known | _ANNOTATIONS | _DROPPED and not name.startswith("x-"):
            raise Loose(path, f"uses {name}")
    if told:
        kept["description"] = f"{kept.get('description', '')} ({'; '.join(told)})".lstrip()
    return kept


def _types(node: Schema) -> list[str]:
    """What the value may be: as it says, or as its other keywords tell."""
    given = node.get("type")
    if isinstance(given, str):
        return [given]
    if isinstance(given, list):
        return list(dict.fromkeys(given))
    if "enum" in node or "const" in node:
        values = node["enum"] if "enum" in node else [node["const"]]
        return list(dict.fromkeys(_NAMES[type(value)] for value in values))
    if "properties" in node or "additionalProperties" in node:
        return ["object"]
    return ["array"] if "items" in node else []
