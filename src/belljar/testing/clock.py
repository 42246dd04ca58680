"""A clock that only a test moves."""

from __future__ import annotations

import asyncio


class FakeClock:
    """A clock that stands until it is told to go on; its `sleep` goes on at once and is remembered."""

    def __init__(self, now: float = 1_750_000_000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)
