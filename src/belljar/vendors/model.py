"""Describe a model in one row, and round the effort that is asked of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Speed: TypeAlias = Literal["fast", "medium", "slow"]
Cost: TypeAlias = Literal["low", "medium", "high"]

_E = TypeVar("_E", bound=Effort)

EFFORTS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The least first."""
LOW_HIGH: tuple[Effort, ...] = ("low", "medium", "high")
LOW_XHIGH: tuple[Effort, ...] = ("low", "medium", "high", "xhigh")
LOW_MAX: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")
NONE_HIGH: tuple[Effort, ...] = ("none", *LOW_HIGH)
NONE_XHIGH: tuple[Effort, ...] = ("none", *LOW_XHIGH)
NONE_MAX: tuple[Effort, ...] = ("none", *LOW_MAX)
MINIMAL_HIGH: tuple[Effort, ...] = ("minimal", *LOW_HIGH)

HARD = "Complex reasoning, agentic tasks, code generation"
TOUGH = "Tough problems requiring extended thinking"
CHEAP = "Cost-optimised reasoning and chat"
MANY = "High throughput, simple tasks, classification"
AGENTS = "Agents and coding"
CODING = "Agentic coding workflows, development tasks"
"""What a model is for, as the founding table puts it."""


class Model(Struct, frozen=True, kw_only=True):
    """One model. The defaults are what nearly all of them have."""

    id: str
    name: str
    provider: str
    """The vendor whose row it is."""
    use: str
    speed: Speed = "medium"
    cost: Cost = "medium"
    context: int | None = None
    """Tokens of the conversation and the answer together."""
    output: int | None = None
    """Tokens of an answer at most."""
    efforts: tuple[Effort, ...] = ()
    """How hard it can be told to think, the least first; empty where it cannot be told."""
    effort: Effort | None = None
    """How hard it thinks when nothing is said."""
    verbosity: bool = False
    """`text.verbosity` is heeded."""
    vision: bool = True
    temperature: bool = True
    """Temperature and top_p are taken; where it can think, only while it does not."""
    strict: bool = True
    """Functions can be held to their schema."""
    runs: bool = True
    """Its vendor can run code for it."""
    legacy: bool = False
    """There is a better one for everything."""
    ends: str | None = None
    """The day on which its vendor shuts it down, where that is announced, such as 2026-12-11."""
    instead: str | None = None
    """The model to go on with then, which has no such day."""


def round_effort(efforts: Sequence[_E], wanted: Effort) -> _E | None:
    """Of what is taken, the most that is not more than wanted, or else the least: more costs money.

    Only who wants no thinking gets `none`, which is not less of it but another thing. None where nothing is taken.
    """
    same = next((one for one in efforts if one == wanted), None)
    thinking = [one for one in efforts if one != "none"]
    lower = [one for one in thinking if EFFORTS.index(one) < EFFORTS.index(wanted)]
    return same or next(reversed(lower), next(iter(thinking), None))


_DATED = re.compile(r"[-@](\d{3,8}|\d{4}-\d{2}-\d{2}|latest|preview|preview-\d{2}-\d{4}|preview-customtools)")
"""What a name may have behind it and still be the same model."""


def find_row(rows: Mapping[str, Model], name: str) -> Model | None:
    """The row of a model by its name: with its vendor before it or not, dated or not."""
    bare = name.rpartition("/")[2]
    row = rows.get(bare)
    if row is not None:
        return row
    fitting = [id for id in rows if bare.startswith(id) and _DATED.fullmatch(bare, len(id))]
    return rows[max(fitting, key=len)] if fitting else None


def nearest_effort_of(rows: Mapping[str, Model], name: str, effort: Effort) -> Effort | None:
    """The effort to ask a model for, rounded down; None where it cannot be told. Unknown models get what was said."""
    row = find_row(rows, name)
    return effort if row is None else round_effort(row.efforts, effort)


def by_id(*rows: Model) -> Mapping[str, Model]:
    return MappingProxyType({row.id: row for row in rows})
