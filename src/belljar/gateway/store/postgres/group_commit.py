"""Writes that wait at the same moment go into one transaction, and each caller hears once it is committed.

Writes of one kind are one statement with different values: they are sent in one go, and are committed or not as one.
So there is no moment in which a transaction waits for us, and none holds a lock while this process is stopped. A write
that fails takes the others of its batch with it, which are then made one by one.

Where the answer was lost, a write may have been made. Then it is made again: most come to the same if they are made
twice, and the others look first (`again`), in one transaction with the second try and behind a lock that the first one
would hold as long as it is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from belljar.errors import OperatorError, StoreUnavailable
from belljar.gateway.store.postgres import failures
from belljar.gateway.store.postgres.connections import Connection, Pool, Row, Work, transaction

T = TypeVar("T")


class Write(Struct, frozen=True):
    """A kind of write: a statement that gives one row of what came of it, or none at all where `silent`."""

    sql: str
    silent: bool = False
    together: int = 128
    """How many go into one transaction; 1 where it locks rows of two tables that others lock in another order."""
    timeout: float | None = None
    urgent: bool = False


Again = Callable[[Connection], Awaitable[Row | None]]
"""What came of a write whose answer was lost; None where it was not made."""


class Job(Struct):
    values: tuple[object, ...]
    key: str
    """What it locks: all batches lock in the same order."""
    again: Again | None
    future: asyncio.Future[Row]
    sent: bool = False


class Outcome(NamedTuple):
    row: Row = None
    error: Exception | None = None


class GroupCommit:
    """Makes writes, those of one kind one batch after the other."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._waiting: dict[Write, list[Job]] = {}
        self._at_work: dict[Write, asyncio.Task[None]] = {}
        self._running: set[asyncio.Future[Any]] = set()
        self._closing = False

    def submit(self, write: Write, *values: object, key: str = "", again: Again | None = None) -> asyncio.Future[Row]:
        """Have it made; its row once it is committed. Who stops waiting does not stop it."""
        self._check_open()
        future: asyncio.Future[Row] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(write, []).append(Job(values, key, again, future))
        if write not in self._at_work:  # begins in the next turn of the loop, with all that come in this one
            self._at_work[write] = asyncio.create_task(self._work(write))
        return future

    def run(self, work: Work[T]) -> asyncio.Future[T]:
        """Have several statements run, in a transaction of their own; who stops waiting does not stop them."""
        self._check_open()
        task = asyncio.ensure_future(self._pool.run(work))
        self._running.add(task)
        task.add_done_callback(self._forget)
        return asyncio.shield(task)

    async def close(self) -> None:
        """Finish what was submitted."""
        self._closing = True
        while under_way := {*self._at_work.values(), *self._running}:
            await asyncio.wait(under_way)

    def _check_open(self) -> None:
        if self._closing:
            raise OperatorError(f"the database at {self._pool.address}: the store is closed")

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited has heard of it, and where nobody did nobody wants to

    async def _work(self, write: Write) -> None:
        try:
            while jobs := self._waiting.get(write):
                batch, self._waiting[write] = jobs[: write.together], jobs[write.together :]
                batch.sort(key=lambda job: job.key)
                for job, (row, error) in zip(batch, await self._commit(write, batch), strict=True):
                    if job.future.done():  # cancelled
                        continue
                    if error is None:
                        job.future.set_result(row)
                    else:
                        job.future.set_exception(error)
        finally:
            del self._at_work[write]

    async def _commit(self, write: Write, batch: list[Job]) -> list[Outcome]:
        try:
            rows = await self._pool.run(lambda connection: _make(connection, write, batch), urgent=write.urgent)
            return [Outcome(row) for row in rows]
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the caller whose write it was
            if len(batch) == 1 or isinstance(error, StoreUnavailable):
                return [Outcome(error=error) for _ in batch]
        alone = await asyncio.gather(*(self._commit(write, [job]) for job in batch))
        return [outcome for [outcome] in alone]


async def _make(connection: Connection, write: Write, batch: list[Job]) -> list[Row]:
    if any(job.sent and job.again is not None for job in batch):
        return [await _make_again(connection, write, job) for job in batch]
    new = [job for job in batch if not job.sent]
    for job in new:
        job.sent = True
    try:
        return await _send(connection, write, [job.values for job in batch])
    except Exception as error:
        if not failures.is_lost(error):  # it was answered: nothing of it has been done
            for job in new:
                job.sent = False
        raise


async def _send(connection: Connection, write: Write, values: list[tuple[object, ...]]) -> list[Row]:
    timeout = write.timeout
    match write.silent, values:
        case True, [alone]:
            await connection.execute(write.sql, *alone, timeout=timeout)
            return [None]
        case True, _:
            await connection.executemany(write.sql, values, timeout=timeout)
            return [None] * len(values)
        case _, [alone]:
            return [await connection.fetchrow(write.sql, *alone, timeout=timeout)]
        case _:
            return await connection.fetchmany(write.sql, values, timeout=timeout)


async def _make_again(connection: Connection, write: Write, job: Job) -> Row:
    async with transaction(connection):
        if job.sent and job.again is not None and (found := await job.again(connection)) is not None:
            return found
        return await connection.fetchrow(write.sql, *job.values, timeout=write.timeout)
