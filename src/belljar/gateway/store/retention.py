"""Retention: remove what is older than it is to be kept, a bounded part at a time, by one gateway at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import get_args

from belljar.config import Settings
from belljar.gateway.store.base import Kept, Old, Records

KINDS: tuple[Kept, ...] = get_args(Kept)
BATCH = 500
"""Removed in one transaction."""
BATCHES = 200
"""Of each kind in one turn of a gateway; the rest waits for the next."""
TURN = "retention"
_SECONDS = 300.0
"""For which a gateway has the turn, unless it says more."""


def find_limits(settings: Settings, now: float) -> dict[Kept, int]:
    """By kind, the time before which nothing is kept; those that are kept for ever are left out."""
    ages = {kind: getattr(settings, f"keep_{kind}") for kind in KINDS}
    return {kind: int(now) - age for kind, age in ages.items() if age is not None}


async def count_old(records: Records, limits: Mapping[Kept, int]) -> dict[Kept, Old]:
    return {kind: await records.count_old(kind, before) for kind, before in limits.items()}


async def remove_old(
    records: Records,
    limits: Mapping[Kept, int],
    who: str,
    *,
    batches: int = BATCHES,
    progress: Callable[[Kept, int], None] = lambda kind, count: None,
) -> dict[Kept, int] | None:
    """How many went, by kind; None where somebody else is at it."""
    gone: dict[Kept, int] = dict.fromkeys(limits, 0)
    for kind, before in limits.items():
        for _ in range(batches):
            if not await records.take_turn(TURN, who, _SECONDS):
                return None if not any(gone.values()) else gone
            some = await records.remove_old(kind, before, BATCH)
            if not some:
                break
            gone[kind] += some
            progress(kind, gone[kind])
    await records.take_turn(TURN, who, 0)
    return gone
