"""Threads for one kind of work each: what takes long there keeps nobody waiting who wants something else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
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
    keeps its place and its owner's turn until it is done: so there are never more threads than places, and nobody gets
    more of them by hanging up.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._places = asyncio.Semaphore(most)
        self._owners: dict[str, _Line] = {}

    async def run(self, owner: str, job: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        with ExitStack() as stack:
            line = self._owners.setdefault(owner, _Line())
            line.length += 1
            stack.callback(self._leave_line, owner, line)
            await line.lock.acquire()
            stack.callback(line.lock.release)
            await self._places.acquire()
            stack.callback(self._places.release)
            running = start_thread(self._name, job)
            leave = stack.pop_all().close
        running.add_done_callback(lambda _: _call_in(loop, leave))
        return await asyncio.wrap_future(running)

    def _leave_line(self, owner: str, line: _Line) -> None:
        line.length -= 1
        if not line.length:
            del self._owners[owner]


def _call_in(loop: asyncio.AbstractEventLoop, act: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # it is closed
        loop.call_soon_threadsafe(act)


class _Line:
    """Those of one owner who wait, or whose job runs."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.length = 0
