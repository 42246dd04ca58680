"""Ten thousand cells through the API, after which nothing is left and nothing has grown. `make soak` runs it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests import traces
from tests.gateway.busy import SANDBOXES, Users, leaving_nothing, let_in, rows, sandboxes

pytestmark = pytest.mark.soak

EARLY, CELLS = 2_000, 10_000
GROWTH = 1.15


def test_ten_thousand_cells_through_the_api_leave_nothing(tmp_path: Path) -> None:
    memory: list[int] = []
    with leaving_nothing(tmp_path) as house:

        async def act(users: Users) -> None:
            for cells in (EARLY, CELLS):
                await users.work(cells)
                memory.append(traces.resident(house.process.pid))
            assert rows(house)["containers"] > SANDBOXES
            held = await asyncio.to_thread(sandboxes, house)
            assert held["busy"] + held["idle"] <= SANDBOXES
            print(f"\n{dict(users.deeds)}, {users.healed} healed, memory {[size >> 20 for size in memory]} MiB")
            assert users.healed > 100
            await users.clear()

        let_in(house, act)
    early, late = memory
    assert late < early * GROWTH
