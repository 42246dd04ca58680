"""Threads for one kind of work each: what takes long there keeps nobody waiting who wants something else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

T = TypeVar("T")


def start_thread(name: str, job: Callable[[], T]) -> Future[T]:
    """A job in a thread that nothing else waits for, nor the end of the program: what comes of it, in the future."""
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()

    def work() -> None:
        try:
            result = job()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            done.set_exception(error)
        else:
            done.set_result(result)

    threading.Thread(target=work, name=name, daemon=True).start()
    return done


class WorkerThreads:
    """At most `most` jobs at once, and of one owner a single one; others wait in the order in which they came.

    A job has a thread of its own, which a program that ends does not wait for. One that is given up on works on, and
    keeps its place until it is done: so there are never more threads than places.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._places = asyncio.Semaphore(most)
        self._owners: dict[str, _Line] = {}

    async def run(self, owner: str, job: Callable[[], T]) -> T:
        async with self._turn(owner):
            await self._places.acquire()
            try:
                running = start_thread(self._name, job)
            except RuntimeError:  # no room for a thread
                self._places.release()
                raise
            loop = asyncio.get_running_loop()

            def leave(_: Future[T]) -> None:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._places.release)

            running.add_done_callback(leave)
            return await asyncio.wrap_future(running)

    @asynccontextmanager
    async def _turn(self, owner: str) -> AsyncIterator[None]:
        line = self._owners.setdefault(owner, _Line())
        line.length += 1
        try:
            async with line.lock:
                yield
        finally:
            line.length -= 1
            if not line.length:
                del self._owners[owner]


class _Line:
    """Those of one owner who wait, or whose job runs."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.length = 0
