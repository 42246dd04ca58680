"""Asking several upstreams for their lists together: never twice at once, and not again before its time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from belljar.gateway.upstream.upstream_models import UpstreamModels

_NEVER = float("inf")
"""The age of lists that have not been asked for."""


class ListRefresh:
    """Some upstreams that are asked at the same time; whoever wants that meanwhile waits for the same answers."""

    def __init__(
        self,
        shelves: Sequence[UpstreamModels],
        answered: Callable[[], None],
        changed: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        """`answered` is called whenever one has answered, `changed` where it has something else than before."""
        self._shelves = shelves
        self._answered = answered
        self._changed = changed
        self._is_stale = False
        """They have to be asked once more after the round that is under way."""
        self._clock = clock
        self._asked_at = -_NEVER
        self._task: asyncio.Task[None] | None = None

    @property
    def age(self) -> float:
        """Seconds since they were asked."""
        return self._clock() - self._asked_at if self._shelves else 0.0

    @property
    def is_first(self) -> bool:
        """Whether they have not answered yet."""
        return self.age == _NEVER

    def begin(self) -> asyncio.Task[None]:
        """The round that is under way, or a new one."""
        if self._task is None:
            self._task = asyncio.create_task(self._ask())
        return self._task

    def renew(self) -> None:
        """Have them asked by a round that begins after now."""
        self._is_stale = self._task is not None
        if self._shelves:
            self.begin()

    async def wait(self, seconds: float | None = None) -> None:
        """Until they have answered, or so long; whoever gives up earlier does not end it for the others."""
        if self._shelves:
            await asyncio.wait({self.begin()}, timeout=seconds)

    async def again(self, pause: float, seconds: float) -> None:
        """Likewise, unless they were asked less than `pause` seconds ago."""
        if self._task is not None or self.age >= pause:
            await self.wait(seconds)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _ask(self) -> None:
        try:
            await asyncio.gather(*map(self._ask_one, self._shelves))
            while self._is_stale:
                self._is_stale = False
                await asyncio.gather(*map(self._ask_one, self._shelves))
        finally:
            self._asked_at = self._clock()
            self._task = None

    async def _ask_one(self, shelf: UpstreamModels) -> None:
        changed = await shelf.refresh()
        self._answered()
        if changed:
            self._changed()
