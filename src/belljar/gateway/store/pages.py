"""Cursor pages as SQL: which rows, in which order, and how what is found becomes a page. Pure, for any database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from belljar.gateway.store.base import Page

R = TypeVar("R")
Mark = Callable[[int], str]
"""How a statement names its first value, its second, and so on."""


def list_cursors(page: Page) -> list[tuple[str, str]]:
    """The rows beside which the page is, by parameter: where they stand in the order has to be looked up."""
    named = (("after", page.after), ("before", page.before))
    return [(param, cursor) for param, cursor in named if cursor is not None]


def build_query(
    page: Page,
    order: Sequence[str],
    wanted: Mapping[str, object],
    places: Mapping[str, Iterable[object]],
    mark: Mark,
) -> tuple[str, list[Any]]:
    """What follows `SELECT … FROM …`, and its values: the rows that have what is `wanted`, where None stands for any.

    `places` tells of each cursor what its row has in the columns of the order.
    """
    values: list[Any] = []

    def add(value: object) -> str:
        values.append(value)
        return mark(len(values))

    conditions = [f"{column} = {add(value)}" for column, value in wanted.items() if value is not None]
    ascending = page.order == "asc"
    for param, place in places.items():
        larger = ascending == (param == "after")
        conditions.append(f"({', '.join(order)}) {'>' if larger else '<'} ({', '.join(map(add, place))})")
    direction = "ASC" if ascending != _is_backwards(page) else "DESC"
    sorting = ", ".join(f"{column} {direction}" for column in order)
    return f"WHERE {' AND '.join(conditions)} ORDER BY {sorting} LIMIT {add(page.limit + 1)}", values


def arrange(page: Page, found: list[R]) -> list[R]:
    """As the page has them: the one that tells that there are more comes last."""
    return [*found[page.limit - 1 :: -1], *found[page.limit :]] if _is_backwards(page) else found


def _is_backwards(page: Page) -> bool:
    """The page that ends at a row is read from its end."""
    return page.before is not None and page.after is None
