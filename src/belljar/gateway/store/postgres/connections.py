"""Connections to PostgreSQL: a small pool that notices loss, comes back by itself, and waits only so long.

Behind PgBouncer and its like, each transaction may go to another session. So nothing here is kept in one: no settings,
no locks, no listening; and where such a pooler is found, no statement is prepared under a name either.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import chain, repeat
from typing import Any, Protocol, TypeAlias, TypeVar

import asyncpg

from belljar.database_address import DatabaseAddress
from belljar.errors import OperatorError
from belljar.gateway.store.postgres import failures

T = TypeVar("T")
Row: TypeAlias = Any
"""A row as asyncpg gives it: its columns by number."""

MOST = 8
"""Connections of one gateway, beside the one that is kept for what must not wait."""
CONNECT = 3.0
"""Seconds in which a connection must be made."""
ANSWER = 10.0
"""Seconds in which a statement must be answered, waits for locks and all."""
PATIENCE = 5.0
"""Seconds after the loss of PostgreSQL for which calls wait for it; from then on they are told at once."""
_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.5)
_LOOK = 1.0
"""Seconds between two tries to connect, once `PATIENCE` is over."""


class Connection(Protocol):
    """What we use of asyncpg's."""

    async def execute(self, query: str, *args: object, timeout: float | None = None) -> str: ...
    async def executemany(
        self, command: str, args: Iterable[Iterable[object]], *, timeout: float | None = None
    ) -> None: ...
    async def fetch(self, query: str, *args: object, timeout: float | None = None) -> list[Row]: ...
    async def fetchmany(
        self, query: str, args: Iterable[Iterable[object]], *, timeout: float | None = None
    ) -> list[Row]: ...
    async def fetchrow(self, query: str, *args: object, timeout: float | None = None) -> Row | None: ...
    async def fetchval(self, query: str, *args: object, timeout: float | None = None) -> Any: ...
    def get_server_pid(self) -> int: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...
    async def close(self, *, timeout: float | None = None) -> None: ...


Work: TypeAlias = Callable[[Connection], Awaitable[T]]
"""Something to do with a connection. It is done again where the connection was lost in its middle."""


class _NotConnected(Exception):
    """No connection could be made: nothing was asked."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause


class Pool:
    """Connections that are lent one at a time. Of one loop; `open` comes first."""

    def __init__(self, address: DatabaseAddress, *, most: int = MOST) -> None:
        self.address = address
        self.pooled = False
        """Whether a pooler stands between us and PostgreSQL."""
        self._idle: list[Connection] = []
        self._room = asyncio.Semaphore(most)
        self._urgent_room = asyncio.Semaphore(1)
        self._away_since = float("inf")
        self._looked_at = float("-inf")
        self._closed = False

    async def open(self, prepare: Work[None]) -> None:
        """Look who answers, and have things made ready; `BadSettings` where that can never be."""
        await asyncio.to_thread(failures.check_files, self.address)
        connection = await self._connect_at_start()
        try:
            # A pooler answers for itself when a client connects; what is asked later reaches PostgreSQL.
            self.pooled = await connection.fetchval("SELECT pg_backend_pid()") != connection.get_server_pid()
            await prepare(connection)
        except failures.KINDS as error:
            if failures.is_settings(error):
                raise failures.of_settings(self.address, error) from None
            raise failures.explain(self.address, error) from None
        finally:
            connection.terminate()

    async def _connect_at_start(self) -> Connection:
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            try:
                return await self._connect(cached=0)
            except failures.KINDS as error:
                if failures.is_settings(error):
                    raise failures.of_settings(self.address, error) from None
                if not failures.is_lost(error) or asyncio.get_running_loop().time() > deadline:
                    raise failures.explain(self.address, error) from None
            await asyncio.sleep(_PAUSES[-1])

    async def fetch(self, sql: str, *values: object) -> list[Row]:
        """What a statement that only reads finds."""
        return await self.run(lambda connection: connection.fetch(sql, *values))

    async def run(self, work: Work[T], *, urgent: bool = False) -> T:
        """Have it done, again where the connection was lost; `StoreUnavailable` once that has lasted."""
        now = asyncio.get_running_loop().time
        failed_at = float("inf")
        for pause in chain(_PAUSES, repeat(_PAUSES[-1])):
            try:
                async with self._lend(urgent) as connection:
                    return await work(connection)
            except Exception as error:
                cause = error.cause if isinstance(error, _NotConnected) else error
                if cause is error and not failures.is_lost(error) and not failures.is_undone(error):
                    raise
                failed_at = min(failed_at, now())
                if now() > min(failed_at, self._away_since) + PATIENCE:
                    raise failures.unavailable(self.address, cause) from None
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
        raise AssertionError("endless")

    async def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in idle:
            try:
                await connection.close(timeout=CONNECT)
            except Exception:  # noqa: BLE001 - it is gone either way
                connection.terminate()

    @asynccontextmanager
    async def _lend(self, urgent: bool) -> AsyncIterator[Connection]:
        async with self._urgent_room if urgent else self._room:
            connection = await self._take()
            try:
                yield connection
            except BaseException as error:
                if failures.is_lost(error):
                    self._note_loss()
                    self._drop_idle()  # the others were made to the same server
                    connection.terminate()
                elif isinstance(error, Exception):
                    self._give_back(connection)
                else:  # cancelled: what it was asked may still be answered
                    connection.terminate()
                raise
            self._give_back(connection)

    async def _take(self) -> Connection:
        if self._closed:
            raise OperatorError(f"the database at {self.address}: the store is closed")
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        now = asyncio.get_running_loop().time()
        if now > self._away_since + PATIENCE:
            if now < self._looked_at + _LOOK:
                raise failures.unavailable(self.address, None)
            self._looked_at = now
        try:
            connection = await self._connect(cached=0 if self.pooled else 100)
            if self.pooled:
                await _learn_types(connection)
        except failures.KINDS as error:
            self._note_loss()
            raise _NotConnected(error) from None
        self._away_since = float("inf")
        return connection

    def _give_back(self, connection: Connection) -> None:
        if self._closed or connection.is_closed():
            connection.terminate()
        else:
            self._idle.append(connection)

    def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.terminate()

    def _note_loss(self) -> None:
        self._away_since = min(self._away_since, asyncio.get_running_loop().time())

    async def _connect(self, cached: int) -> Connection:
        connection: Connection = await asyncpg.connect(
            self.address.dsn,
            timeout=CONNECT,
            command_timeout=ANSWER,
            statement_cache_size=cached,
            max_cached_statement_lifetime=0,
            server_settings={"application_name": "belljar"},
        )
        return connection


async def _learn_types(connection: Connection) -> None:
    """In one session: the driver asks for types that it does not know when they are first used, and sets `jit` then."""
    async with transaction(connection):
        await connection.fetch("SELECT $1::bytea[], $2::bigint[], $3::float8[]", [], [], [])


@asynccontextmanager
async def transaction(connection: Connection) -> AsyncIterator[None]:
    """All of it or nothing. PostgreSQL ends it where we are stopped in its middle: others may wait for its locks."""
    await connection.execute("BEGIN; SET LOCAL idle_in_transaction_session_timeout = 5000")
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) and not failures.is_lost(error):
            await connection.execute("ROLLBACK")
        raise
    await connection.execute("COMMIT")
