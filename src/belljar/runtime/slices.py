"""A session's state: one tuple of values for each type, and the reducers that change it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from belljar.runtime.session import SessionProtocol

T = TypeVar("T")
Values: TypeAlias = tuple[Any, ...]


class SlicePolicy(Enum):
    STATE = "state"
    """Rolled back when a tool fails."""
    LOG = "log"
    """Kept: what happened has happened."""


@dataclass(frozen=True, slots=True)
class ReducerContext:
    session: SessionProtocol


class Reducer(Protocol):
    """`(slice, event, *, context) -> slice`, without side effects."""

    def __call__(self, slice: Values, event: Any, /, *, context: ReducerContext) -> Values: ...


def append_all(slice: Values, event: Any, *, context: ReducerContext) -> Values:
    """A ledger."""
    return (*slice, event)


def replace_latest(slice: Values, event: Any, *, context: ReducerContext) -> Values:
    """Only the newest."""
    return (event,)


def upsert_by(key: Callable[[Any], Hashable]) -> Reducer:
    """One value a key; a newer one takes its predecessor's place."""

    def reducer(slice: Values, event: Any, *, context: ReducerContext) -> Values:
        if any(key(value) == key(event) for value in slice):
            return tuple(event if key(value) == key(event) else value for value in slice)
        return (*slice, event)

    return reducer


def replace_latest_by(key: Callable[[Any], Hashable]) -> Reducer:
    """One value a key; the newest comes last."""

    def reducer(slice: Values, event: Any, *, context: ReducerContext) -> Values:
        return (*(value for value in slice if key(value) != key(event)), event)

    return reducer


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every slice at one moment."""

    slices: Mapping[type, Values]
    policies: Mapping[type, SlicePolicy]
    created_at: datetime
    tag: str | None = None
