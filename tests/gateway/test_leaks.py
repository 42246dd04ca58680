"""A hundred cells through the API, of all habits, and nothing is left of them. `make soak` does ten thousand."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.gateway.busy import SANDBOXES, Users, leaving_nothing, let_in, rows, sandboxes

CELLS = 100


def test_a_hundred_cells_leave_nothing(tmp_path: Path) -> None:
    with leaving_nothing(tmp_path) as house:

        async def act(users: Users) -> None:
            await users.work(CELLS)
            assert rows(house)["containers"] > SANDBOXES
            held = await asyncio.to_thread(sandboxes, house)
            assert held["busy"] + held["idle"] <= SANDBOXES
            await users.clear()

        let_in(house, act)
