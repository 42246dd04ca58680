"""A hundred cells through the API, of all habits, and nothing is left of them. `make soak` does ten thousand."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.gateway.busy import SANDBOXES, Footprint, Users, leaving_nothing, let_in, rows, sandboxes

CELLS = 100


def test_a_hundred_cells_leave_nothing(tmp_path: Path) -> None:
    with leaving_nothing(tmp_path) as watched:
        house = watched.house

        async def act(users: Users) -> None:
            await users.work(CELLS)
            assert rows(house)["containers"] > SANDBOXES
            held = await asyncio.to_thread(sandboxes, house)
            assert held["busy"] + held["idle"] <= SANDBOXES
            await users.clear()

        let_in(house, act)


def test_what_leaks_is_named() -> None:
    nothing: Counter[str] = Counter()
    before = Footprint(Counter(python=3), nothing, Counter(all=2), nothing, nothing, Counter(responses=1), nothing)
    after = replace(before, processes=Counter(python=4, sleep=1), rows=Counter(responses=1, events=7))
    assert after.beside(before) == "processes: python: 3 -> 4, sleep: 0 -> 1\nrows: events: 0 -> 7"
    assert before.beside(before) == ""
