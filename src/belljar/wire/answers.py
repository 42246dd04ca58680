"""Answers that all objects share: a page of a list, and the notice of a deletion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

T = TypeVar("T")


class HasId(Protocol):
    @property
    def id(self) -> str: ...


Row = TypeVar("Row", bound=HasId)


class ListPage(Struct, Generic[T], frozen=True, kw_only=True):
    """A part of a list; `last_id` is the `after` of the next. The ids of an empty one are empty, not null."""

    object: Literal["list"] = "list"
    data: tuple[T, ...]
    first_id: str
    last_id: str
    has_more: bool


DeletedKind: TypeAlias = Literal[
    "response", "container.deleted", "container.file.deleted", "file", "conversation.deleted"
]


class Deleted(Struct, frozen=True, kw_only=True):
    id: str
    object: DeletedKind
    deleted: bool = True


class ListedModel(Struct, frozen=True, kw_only=True):
    """One that can be asked for."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelList(Struct, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: tuple[ListedModel, ...]


class InputTokens(Struct, frozen=True, kw_only=True):
    """How many there would be, estimated."""

    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int


def page(rows: Sequence[Row], limit: int, shown: Callable[[Row], T]) -> ListPage[T]:
    """Of at most `limit` rows; one row more says that there are more."""
    kept = rows[:limit]
    return ListPage(
        data=tuple([shown(row) for row in kept]),
        first_id=kept[0].id if kept else "",
        last_id=kept[-1].id if kept else "",
        has_more=len(rows) > limit,
    )
