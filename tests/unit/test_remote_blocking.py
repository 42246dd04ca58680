"""A thread's loop for callers without await: whoever is called away leaves nothing running."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from belljar.sandbox.remote.blocking import LoopThread


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()


def test_its_result_and_its_error(loop: LoopThread) -> None:
    async def fails() -> None:
        raise ValueError("no")

    assert loop.run(asyncio.sleep(0, 7)) == 7
    with pytest.raises(ValueError, match="no"):
        loop.run(fails())


@pytest.mark.parametrize("handed_over", [True, False])
def test_a_signal_while_it_is_handed_over_ends_it_too(
    loop: LoopThread, handed_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a handler does that raises: between any two steps of the caller's thread."""
    schedule, ends = loop._loop.call_soon_threadsafe, list[str]()

    def called_away(callback: Callable[..., Any], *given: Any) -> Any:
        monkeypatch.undo()
        if handed_over:
            schedule(callback, *given)
        raise SystemExit(143)

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ends.append("ended")

    monkeypatch.setattr(loop._loop, "call_soon_threadsafe", called_away)
    with pytest.raises(SystemExit):
        loop.run(work())
    assert ends in ([], ["ended"])
    assert loop.run(running()) == 1


async def running() -> int:
    """Tasks but the one that keeps the loop: this one."""
    return len(asyncio.all_tasks()) - 1
