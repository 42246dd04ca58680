"""Make the JSON schema of a type: no references, no additional properties."""

from __future__ import annotations

from dataclasses import MISSING
from typing import Any, Literal, TypeAlias, assert_never

from belljar.tools.annotations import (
    LEAVES,
    Anything,
    ConstantForm,
    Described,
    DictForm,
    Form,
    Leaf,
    ListForm,
    NoneType,
    OneOf,
    Record,
    RecordMember,
    TupleForm,
    form_of,
)
from belljar.tools.serde import dump

Schema: TypeAlias = dict[str, Any]
Extra: TypeAlias = Literal["forbid", "ignore"]
EMPTY: Schema = {"type": "object", "properties": {}, "additionalProperties": False}


def schema(annotation: Any, *, extra: Extra = "forbid") -> Schema:
    """Only members without a default are required. `None`, as the parameters of a tool, takes no arguments."""
    if annotation is None or annotation is NoneType:
        return {**EMPTY, "properties": {}}
    return _schema(form_of(annotation), extra == "ignore")


def _schema(form: Form, more: bool) -> Schema:
    match form:
        case Leaf():
            return dict(LEAVES[form.type][0])
        case Anything():
            return {}
        case ConstantForm():
            return _choice(form)
        case ListForm():
            unique = {"uniqueItems": True} if form.unique else {}
            return {"type": "array", "items": _schema(form.element, more), **unique}
        case TupleForm():
            length = len(form.elements)
            items = [_schema(element, more) for element in form.elements]
            return {"type": "array", "prefixItems": items, "items": False, "minItems": length, "maxItems": length}
        case DictForm():
            return {"type": "object", "additionalProperties": _schema(form.value, more)}
        case Record():
            return _record(form, more)
        case OneOf():
            return {"anyOf": [_schema(arm, more) for arm in form.arms]}
        case Described():
            return {**_schema(form.form, more), "description": form.description}
        case _:
            assert_never(form)


def _choice(form: ConstantForm) -> Schema:
    kinds = {type(value) for value in form.values}
    kind = dict(LEAVES[kinds.pop()][0]) if len(kinds) == 1 else {}
    return {**kind, "enum": list(form.values)}


def _record(form: Record, more: bool) -> Schema:
    required = [member.name for member in form.members if member.required]
    return {
        "type": "object",
        "properties": {member.name: _member(member, more) for member in form.members},
        **({"required": required} if required else {}),
        "additionalProperties": more,
    }


def _member(member: RecordMember, more: bool) -> Schema:
    written = _schema(member.form, more)
    if member.description is not None:
        written["description"] = member.description
    if member.default is not MISSING:
        written["default"] = dump(member.default)
    return written
