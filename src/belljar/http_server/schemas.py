"""Types as JSON Schema: structs and dataclasses by name, everything else where it stands. Pure."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, Raw, Struct, UnsetType

Schema: TypeAlias = dict[str, Any]

_PLAIN: Mapping[Any, Schema] = {
    Any: {},
    Raw: {},
    object: {},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    dict: {"type": "object"},
    type(None): {"type": "null"},
}
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_COUNTED = {"string": "Length", "array": "Items", "object": "Properties"}


class Schemas:
    """Collects the named ones under `components` while it describes what refers to them."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}
        self._named: dict[str, Any] = {}

    def of(self, kind: Any) -> Schema:
        """The schema of a value of this type."""
        if kind in _PLAIN:
            return dict(_PLAIN[kind])
        origin, given = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._bounded(given[0], given[1:])
        if origin is Literal:
            return {"const": given[0]} if len(given) == 1 else {"enum": list(given)}
        if origin in (Union, types.UnionType):
            return self._any_of([one for one in given if one is not UnsetType])
        if origin in (tuple, list):
            return {"type": "array", "items": self.of(given[0])}
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(given[1])}
        made = origin or kind
        if isinstance(made, type) and (issubclass(made, Struct) or dataclasses.is_dataclass(made)):
            return self._refer(kind)
        return {"type": "object"}  # a class of ours that carries JSON as it came

    def _any_of(self, kinds: list[Any]) -> Schema:
        found: list[Schema] = []
        for one in kinds:
            schema = self.of(one)
            if schema not in found:
                found.append(schema)
        return found[0] if len(found) == 1 else {"anyOf": found}

    def _bounded(self, kind: Any, notes: tuple[Any, ...]) -> Schema:
        schema = self.of(kind)
        for note in notes:
            if not isinstance(note, Meta):
                continue
            counted = _COUNTED.get(schema.get("type", ""), "")
            schema |= {word: getattr(note, name) for name, word in _BOUNDS.items() if getattr(note, name) is not None}
            if note.min_length is not None:
                schema[f"min{counted}"] = note.min_length
            if note.max_length is not None:
                schema[f"max{counted}"] = note.max_length
            if note.pattern is not None:
                schema["pattern"] = note.pattern.replace(r"\Z", "$")  # whose regular expressions are JavaScript's
            if note.examples is not None:
                schema["examples"] = note.examples
            if note.description is not None:
                schema["description"] = note.description
        return schema

    def _refer(self, kind: Any) -> Schema:
        name = self._name(kind)
        if name not in self.components:
            self.components[name] = {}  # so that one which holds its like comes to an end
            self.components[name] = self._object(kind)
        return {"$ref": f"#/components/schemas/{name}"}

    def _name(self, kind: Any) -> str:
        """What the class is called; of two that are called the same, the second with its module."""
        made = get_origin(kind) or kind
        parts = "".join(self._name_of_part(one) for one in get_args(kind))
        short = made.__name__.strip("_") + (f"Of{parts}" if parts else "")
        module = "".join(word.title() for word in made.__module__.rpartition(".")[2].split("_"))
        for name in (short, f"{module}{short}", f"{made.__module__}.{short}"):
            if self._named.setdefault(name, kind) == kind:
                return name
        raise ValueError(f"two types are called {kind}")

    def _name_of_part(self, kind: Any) -> str:
        return self._name(kind) if isinstance(kind, type) else "Any"

    def _object(self, kind: Any) -> Schema:
        made = get_origin(kind) or kind
        properties, required = self._struct(kind) if issubclass(made, Struct) else self._dataclass(made)
        schema: Schema = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        if issubclass(made, Struct) and made.__struct_config__.forbid_unknown_fields:
            schema["additionalProperties"] = False
        doc = made.__doc__
        if doc and not doc.startswith(f"{made.__name__}("):  # which is what dataclasses write themselves
            schema["description"] = doc.splitlines()[0]
        return schema

    def _struct(self, kind: Any) -> tuple[dict[str, Schema], list[str]]:
        made = get_origin(kind) or kind
        config = made.__struct_config__
        properties: dict[str, Schema] = {}
        required = []
        if config.tag is not None:
            properties[config.tag_field] = {"const": config.tag}
            required.append(config.tag_field)
        for field in msgspec.structs.fields(kind):
            properties[field.encode_name] = _with_default(self.of(field.type), field.default)
            if field.default is NODEFAULT and field.default_factory is NODEFAULT:
                required.append(field.encode_name)
        return properties, required

    def _dataclass(self, made: Any) -> tuple[dict[str, Schema], list[str]]:
        hints = get_type_hints(made, include_extras=True)
        properties: dict[str, Schema] = {}
        required = []
        for field in dataclasses.fields(made):
            properties[field.name] = _with_default(self.of(hints[field.name]), field.default)
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                required.append(field.name)
        return properties, required


def _with_default(schema: Schema, default: object) -> Schema:
    if "$ref" in schema or not isinstance(default, str | int | float):
        return schema
    return {**schema, "default": default}
