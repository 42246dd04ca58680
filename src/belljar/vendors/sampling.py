"""How the words of an answer are chosen: the names that a server has for our `Sampling`, and what it is sent of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from belljar.wire.requests import Sampling

CHOSEN = frozenset({"temperature", "top_p"})
"""What stands beside `Sampling` in every request."""


class Row(Struct, frozen=True):
    """One kind of server: its names for those of our `Sampling` that it takes."""

    names: Mapping[str, str]
    stops: int | None = None
    """How many stop sequences it takes; the gateway itself keeps the rest."""


def row(*same: str, stops: int | None = None, **other: str) -> Row:
    """Names that are ours, and those that are called otherwise there."""
    return Row(MappingProxyType({**{name: name for name in same}, **other}), stops)


def members(asked: Sampling, row: Row) -> dict[str, Any]:
    """The members of a body that say it. A stop of nothing but space is left out, as some refuse it."""
    said = asked.given_members()
    if "stop" in said:
        said["stop"] = [one for one in said["stop"] if not one.isspace()][: row.stops]
    return {row.names[name]: value for name, value in said.items() if name in row.names and value != []}
