"""One thread that writes: whatever is waiting goes into one transaction, and each caller hears once it is committed."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeAlias, TypeVar

from belljar.errors import OperatorError
from belljar.gateway.store import disk_errors

T = TypeVar("T")
Work: TypeAlias = Callable[[sqlite3.Connection], T]
"""Statements of one caller, all or nothing. May be run again, so it changes nothing but the database."""


class Job(NamedTuple):
    """Some work and the future, of whichever loop, that waits for it."""

    work: Work[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class Outcome(NamedTuple):
    value: object = None
    error: Exception | None = None


class Writer:
    """Owns the connection that writes. A hop to a thread costs more than a write, so hops are shared as well."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._queue: SimpleQueue[list[Job] | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._gathered: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        """What tasks submit in one turn of their loop is handed in at its end, and so wakes the thread once."""
        self._closing = False
        # A daemon, as a program that forgot to close should still end; what was answered is committed.
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Work[T]) -> asyncio.Future[T]:
        """Have the work done; its result once it is committed. Who stops waiting does not stop the work."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._gate:
            if self._closing:
                raise OperatorError(f"{self._path}: the store is closed")
            gathered = self._gathered.get(loop)
            if gathered is None:
                gathered = self._gathered[loop] = []
                loop.call_soon(self._hand_in, loop)
            gathered.append(Job(work, loop, future))
        return future

    def _hand_in(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._gate:
            if gathered := self._gathered.pop(loop, None):
                self._queue.put(gathered)

    def close(self) -> None:
        """Finish what was submitted, then end the thread and the connection. Blocks; again is harmless."""
        with self._gate:
            if not self._closing:
                self._closing = True
                for gathered in self._gathered.values():
                    self._queue.put(gathered)
                self._gathered.clear()
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        open_ = True
        while open_:
            batch, open_ = self._take()
            if batch:
                _tell(batch, self._commit(batch))
        self._connection.close()

    def _take(self) -> tuple[list[Job], bool]:
        """Wait for jobs and take all that are there; False with the last."""
        batch: list[Job] = []
        jobs = self._queue.get()
        try:
            while jobs is not None:
                batch += jobs
                jobs = self._queue.get_nowait()
        except Empty:
            return batch, True
        return batch, False

    def _commit(self, batch: list[Job]) -> list[Outcome]:
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:  # locked, most likely: not worth waiting for once a job
            return [Outcome(error=self._explain(error)) for _ in batch]
        try:
            outcomes = [Outcome(job.work(connection)) for job in batch]
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the caller whose work raised it
            self._undo()
            if len(batch) == 1:
                return [Outcome(error=self._explain(error))]
            return [outcome for job in batch for outcome in self._commit([job])]
        return outcomes

    def _undo(self) -> None:
        try:
            self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # SQLite has done so itself, as it does when the disk fails

    def _explain(self, error: Exception) -> Exception:
        return disk_errors.of_sqlite(error, self._path) if isinstance(error, sqlite3.Error) else error


def _tell(batch: list[Job], outcomes: list[Outcome]) -> None:
    """Wake each loop once, however many of its tasks are waiting."""
    waiting: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Outcome]]] = {}
    for job, outcome in zip(batch, outcomes, strict=True):
        waiting.setdefault(job.loop, []).append((job.future, outcome))
    for loop, told in waiting.items():
        try:
            loop.call_soon_threadsafe(_settle, told)
        except RuntimeError:
            pass  # the loop was closed: nobody is waiting any more


def _settle(told: list[tuple[asyncio.Future[Any], Outcome]]) -> None:
    for future, (value, error) in told:
        if future.done():  # cancelled
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
