"""How long a whole response may take: one timer for all the waiting it does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import TypeVar

from belljar.errors import DeadlinePassed

T = TypeVar("T")


class ResponseDeadline:
    """What `asyncio.timeout` does, for many short waits in a row: entering that one for every read from the network
    would cost more than the read."""

    __slots__ = ("_ends", "_limit", "_loop", "_passed", "_task", "_timer")

    def __init__(self, seconds: float) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._limit = seconds
        self._ends = loop.time() + seconds
        self._passed = False
        self._task: asyncio.Task[object] | None = None
        self._timer = loop.call_at(self._ends, self._pass)

    @property
    def left(self) -> float:
        return self._ends - self._loop.time()

    def cancel(self) -> None:
        self._timer.cancel()

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """Its result; `DeadlinePassed` if that comes too late."""
        if self._passed:
            if isinstance(awaitable, Coroutine):
                awaitable.close()
            raise self._fault()
        task = self._task = asyncio.current_task(self._loop)
        assert task is not None
        try:
            return await awaitable
        except asyncio.CancelledError:
            if self.left > 0 or task.uncancel() > 0:
                raise
            raise self._fault() from None
        finally:
            self._task = None

    def _fault(self) -> DeadlinePassed:
        return DeadlinePassed(
            f"The response took longer than {self._limit:g} seconds; ask for less at once, or have the operator raise"
            " `deadline`."
        )

    def _pass(self) -> None:
        self._passed = True
        if self._task is not None:
            self._task.cancel()
