"""Ten thousand cells through the API, after which nothing is left and nothing has grown. `make soak` runs it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest
from tests import traces
from tests.gateway.busy import SANDBOXES, Users, leaving_nothing, let_in, sandboxes

pytestmark = pytest.mark.soak

LAPS, CELLS = 10, 1_000
EARLY = 2
"""Laps after which everything that is made once has been made."""
GROWTH = 1.15
HEALED = 100
"""Sandboxes that have to give way to others in all, at least."""


def test_ten_thousand_cells_through_the_api_leave_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In laps: a leak shows after the first, and not at the end."""
    memory: list[int] = []
    deeds: Counter[str] = Counter()
    healed = 0
    began = time.monotonic()
    with leaving_nothing(tmp_path) as watched:
        house = watched.house
        pid = house.process.pid

        def say(what: str) -> None:
            with capsys.disabled():
                print(f"\n{time.monotonic() - began:6.0f} s  {what}", end="", flush=True)

        async def act(users: Users) -> None:
            nonlocal healed
            await users.work(
                CELLS, lambda: say(f"  {users.cells} cells, {len(traces.descendants(pid))} processes at the moment")
            )
            held = await asyncio.to_thread(sandboxes, house)
            assert held["busy"] + held["idle"] <= SANDBOXES
            await users.clear()
            deeds.update(users.deeds)
            healed += users.healed

        for lap in range(1, LAPS + 1):
            let_in(house, act)
            watched.check()
            memory.append(traces.resident(pid))
            say(f"lap {lap} of {LAPS}: nothing left, {memory[-1] >> 20} MiB, {healed} healed so far")
        say(", ".join(f"{name} {count}" for name, count in deeds.most_common()))
    assert healed > HEALED
    assert memory[-1] < memory[EARLY - 1] * GROWTH, [size >> 20 for size in memory]
