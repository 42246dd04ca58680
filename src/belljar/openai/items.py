"""Let output items be read like the JSON they came from: `item["type"]`, `item.get("annotations")`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, cast, overload

from openai import BaseModel


class KeyedItem:
    """Keys are the wire's. A message has the annotations of all its parts as its own, as the founding example reads."""

    def __getitem__(self, key: str) -> Any:
        if key == "annotations" and key not in _members(self):
            return [one for part in _members(self).get("content") or () for one in _members(part).get(key) or ()]
        return _members(self)[key]

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        return key in _members(self)

    def keys(self) -> Iterator[str]:
        return iter(_members(self))

    def __reduce__(self) -> tuple[Any, ...]:
        plain = type(self).__mro__[2]
        return _restore_item, (plain, cast(BaseModel, self).__getstate__())


@overload
def readable(value: BaseModel) -> KeyedItem: ...


@overload
def readable(value: list[Any]) -> list[KeyedItem]: ...


def readable(value: Any) -> Any:
    """The same objects, and all that are in them, under a class of theirs that has the keys."""
    _make_readable(value)
    return value


def _make_readable(value: object) -> None:
    if isinstance(value, BaseModel):
        if not isinstance(value, KeyedItem):
            kind: type[BaseModel] = type(value)
            value.__class__ = cast(Any, _with_keys(kind))
        for inside in _members(value).values():
            _make_readable(inside)
    elif isinstance(value, list):
        for inside in value:
            _make_readable(inside)


@cache
def _with_keys(kind: type[BaseModel]) -> type[BaseModel]:
    """A kind of the same name, which is also an instance of the SDK's."""
    made = type(kind.__name__, (KeyedItem, kind), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})
    return cast(type[BaseModel], made)


def _restore_item(kind: type[BaseModel], state: dict[str, Any]) -> BaseModel:
    made = _with_keys(kind).__new__(_with_keys(kind))
    made.__setstate__(state)
    return made


def _members(value: object) -> dict[str, Any]:
    if not isinstance(value, BaseModel):
        return {}
    return {**value.__dict__, **(value.model_extra or {})}
