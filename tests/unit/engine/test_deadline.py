"""The deadline of a response: passes once, spoils nothing else."""

from __future__ import annotations

import asyncio

import pytest

from belljar.errors import DeadlinePassed
from belljar.gateway.engine.deadline import ResponseDeadline


def test_what_comes_in_time_is_given() -> None:
    async def main() -> int:
        deadline = ResponseDeadline(60)
        try:
            return await deadline.wait(asyncio.sleep(0, 7))
        finally:
            deadline.cancel()

    assert asyncio.run(main()) == 7


def test_a_wait_beyond_it_is_ended_and_so_is_every_later_one() -> None:
    async def main() -> None:
        deadline = ResponseDeadline(0.01)
        for _ in range(2):
            with pytest.raises(DeadlinePassed, match=r"0\.01 seconds"):
                await deadline.wait(asyncio.sleep(60))
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()

    asyncio.run(main())


def test_a_cancellation_from_outside_stays_one() -> None:
    async def main() -> None:
        deadline = ResponseDeadline(60)
        waiting = asyncio.create_task(deadline.wait(asyncio.sleep(60)))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        deadline.cancel()

    asyncio.run(main())
