"""How many sandboxes there may be at once, and who gets the next place: whoever has waited longest."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator

from belljar.errors import NoneFree


class _Waiting:
    """Somebody on an event loop. `granted` is guarded by the lock of the places, and final."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._told = asyncio.Event()
        self.granted = False

    def grant(self) -> bool:
        """False where there is nobody any more."""
        try:
            self._loop.call_soon_threadsafe(self._told.set)
        except RuntimeError:  # its loop was closed
            return False
        self.granted = True
        return True

    async def wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._told.wait()


class Places:
    """For any number of threads and loops. A place that is given back goes straight to the next who waits for one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._queue: deque[_Waiting] = deque()
        self.taken = 0

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """A place for as long as the context lasts; `NoneFree` at once where there is none."""
        if not self._try():
            raise self._refusal("try again when one is free")
        try:
            yield
        finally:
            self._give_back()

    @contextlib.asynccontextmanager
    async def wait(self, seconds: float) -> AsyncIterator[None]:
        """The same; where there is none, the next one that is this caller's turn, if it comes within so long."""
        waiting = _Waiting() if seconds > 0 else None
        if not self._try(else_wait=waiting):
            if waiting is None:
                raise self._refusal("try again when one is free")
            await self._await_turn(waiting, seconds)
        try:
            yield
        finally:
            self._give_back()

    async def _await_turn(self, waiting: _Waiting, seconds: float) -> None:
        try:
            await waiting.wait(seconds)
        except BaseException:
            if not self._leave(waiting):
                self._give_back()
            raise
        if self._leave(waiting):
            raise self._refusal(f"none became free within {seconds:g} s; try again later")

    def _leave(self, waiting: _Waiting) -> bool:
        """Whether it goes without a place."""
        with self._lock:
            if waiting in self._queue:  # not so where its loop was closed under it
                self._queue.remove(waiting)
            return not waiting.granted

    def _try(self, else_wait: _Waiting | None = None) -> bool:
        with self._lock:
            if self.taken < self._most:
                self.taken += 1
                return True
            if else_wait is not None:
                self._queue.append(else_wait)
            return False

    def _give_back(self) -> None:
        with self._lock:
            while self._queue:
                if self._queue.popleft().grant():
                    return
            self.taken -= 1

    def _refusal(self, remedy: str) -> NoneFree:
        most = self._most
        message = f"all {most} sandboxes that there may be (max_sandboxes) are in use; {remedy}"
        return NoneFree(message, most=most)
