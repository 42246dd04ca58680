"""The watch over the gateway's event loop, which every test of the gateway stands under, sees what it is for."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.gateway.houses import GUARDED
from tests.helpers.guarded import BLOCKED

PROGRAM = """
import asyncio, sys, time
sys.path.insert(0, {folder!r})
import guarded, uvloop
guarded.install()

def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

async def work():
    await asyncio.sleep(0.2)
    {work}
    await asyncio.sleep(0.2)

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(work())
"""


@pytest.mark.parametrize(
    ("work", "told"),
    [
        ("spin(3 * guarded.MOST)", True),
        ("await asyncio.to_thread(spin, 2 * guarded.MOST)", False),
        ("time.sleep(1.5 * guarded.MOST)", False),
        ("for _ in range(20): spin(0.1 * guarded.MOST); await asyncio.sleep(0)", False),
    ],
)
def test_only_what_holds_the_loop_up_by_working_is_told(work: str, told: bool) -> None:
    program = PROGRAM.format(folder=str(GUARDED.parent), work=work)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert (BLOCKED in done.stderr) == told
    assert ("in spin" in done.stderr) == told
