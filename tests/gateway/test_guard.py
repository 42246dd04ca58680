"""The watch over the gateway's event loop, which every test of the gateway stands under, sees what it is for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop
from tests.helpers.loop_guard import BLOCKED, watch

MOST = 0.2
PATIENCE = 60.0


def spin(seconds: float, until: Callable[[], bool] = lambda: False) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end and not until():
        pass


async def works(heard: threading.Event) -> None:
    spin(PATIENCE, heard.is_set)


async def waits(heard: threading.Event) -> None:
    heard.wait(PATIENCE)


async def works_beside_it(heard: threading.Event) -> None:
    await asyncio.to_thread(spin, 3 * MOST)


async def works_in_small_pieces(heard: threading.Event) -> None:
    for _ in range(30):
        spin(MOST / 10)
        await asyncio.sleep(0)


async def has_nothing_to_do(heard: threading.Event) -> None:
    await asyncio.sleep(3 * MOST)


@pytest.mark.parametrize("make", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize(
    ("work", "told"),
    [
        (works, "of work"),
        (waits, "of waiting"),
        (works_beside_it, ""),
        (works_in_small_pieces, ""),
        (has_nothing_to_do, ""),
    ],
)
def test_only_what_holds_the_loop_up_is_told(
    make: Callable[[], asyncio.AbstractEventLoop],
    work: Callable[[threading.Event], Coroutine[Any, Any, None]],
    told: str,
) -> None:
    heard, lines = threading.Event(), list[str]()

    def hear(line: str) -> None:
        lines.append(line)
        heard.set()

    with asyncio.Runner(loop_factory=make) as runner:
        watch(runner.get_loop(), hear, MOST)
        runner.run(work(heard))
    assert [line.count(BLOCKED) for line in lines] == ([1] if told else [])
    assert all(told in line and f"in {work.__name__}" in line for line in lines)
