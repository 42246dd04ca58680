"""Stands between asyncpg and PostgreSQL: loses answers and connections on demand, and knows what was asked."""

from __future__ import annotations

import asyncio
import ssl
import struct
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

_SOCKET = ".s.PGSQL.5432"
_HEAD = struct.Struct("!I")
_ASKS_FOR_TLS = struct.pack("!II", 8, 80877103)


class Asked(NamedTuple):
    """A message with a statement in it."""

    sql: str
    name: str
    """Of a prepared statement; empty for the one that goes with its session's next."""
    in_transaction: bool


class Loss(NamedTuple):
    part: str
    arrived: bool


class PostgresProxy:
    """On a socket of its own. `lose` cuts one connection, `away` all of them until it is False again."""

    def __init__(self, server: Path, place: Path, *, pooled: bool = False, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        self.away = False
        self.refused = 0
        """Connections that came while it was away."""
        self.lost = 0
        self._server = server / _SOCKET
        self._place = place
        self._pooled = pooled
        self._tls = tls
        self._next: Loss | None = None
        self._links: set[asyncio.Task[None]] = set()

    def address(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={quote(str(self._place))}&port=5432"

    def lose(self, part: str, *, arrived: bool) -> None:
        """Cut the connection that next asks for a statement with this in it: once it was done, or before it arrived."""
        self._next = Loss(part, arrived)

    def cut(self) -> None:
        """All connections that there are; from any thread."""
        for link in [*self._links]:
            link.get_loop().call_soon_threadsafe(link.cancel)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        try:
            if self.away:
                self.refused += 1
                return
            if self._tls is not None:
                assert await reader.readexactly(8) == _ASKS_FOR_TLS
                writer.write(b"S")
                await writer.start_tls(self._tls)
            above, below = await asyncio.open_unix_connection(str(self._server))
            try:
                await _Link(self, reader, writer, above, below).run()
            finally:
                below.close()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._links.discard(task)
            writer.close()

    def take_loss(self, sql: str) -> Loss | None:
        if self._next is None or self._next.part not in sql:
            return None
        taken, self._next = self._next, None
        self.lost += 1
        return taken

    @property
    def pooled(self) -> bool:
        """Whether it says, as a pooler does, that it is the server itself."""
        return self._pooled


class _Link:
    def __init__(
        self,
        proxy: PostgresProxy,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        above: asyncio.StreamReader,
        below: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._reader, self._writer, self._above, self._below = reader, writer, above, below
        self._statements: dict[str, str] = {}
        self._doomed = False
        self._in_transaction = False

    async def run(self) -> None:
        ways = [asyncio.create_task(way) for way in (self._ask(), self._answer())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for way in ways:
                with suppress(asyncio.CancelledError, asyncio.IncompleteReadError, OSError):
                    await way

    async def _ask(self) -> None:
        first = await self._reader.readexactly(4)
        self._below.write(first + await self._reader.readexactly(_HEAD.unpack(first)[0] - 4))
        while True:
            kind, body = await _read(self._reader)
            for sql, name in self._find_statements(kind, body):
                self._proxy.asked.append(Asked(sql, name, self._in_transaction))
                loss = self._proxy.take_loss(sql) if kind in b"QB" else None
                if loss is not None and not loss.arrived:
                    return
                self._doomed = self._doomed or loss is not None
            self._below.write(kind + _HEAD.pack(len(body) + 4) + body)
            await self._below.drain()

    def _find_statements(self, kind: bytes, body: bytes) -> Iterator[tuple[str, str]]:
        texts = body.split(b"\0", 2)
        if kind == b"Q":
            yield texts[0].decode(), ""
        elif kind == b"P":
            name, sql = texts[0].decode(), texts[1].decode()
            self._statements[name] = sql
            yield sql, name
        elif kind == b"B":
            name = texts[1].decode()
            yield self._statements[name], name

    async def _answer(self) -> None:
        while True:
            kind, body = await _read(self._above)
            if kind == b"Z":
                self._in_transaction = body != b"I"
                if self._doomed:
                    return
            if kind == b"K" and self._proxy.pooled:
                body = bytes(4) + body[4:]
            if not self._doomed:
                self._writer.write(kind + _HEAD.pack(len(body) + 4) + body)
                await self._writer.drain()


async def _read(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind = await reader.readexactly(1)
    return kind, await reader.readexactly(_HEAD.unpack(await reader.readexactly(4))[0] - 4)


@asynccontextmanager
async def standing_before(server: Path, *, pooled: bool = False) -> AsyncIterator[PostgresProxy]:
    """Before the server whose socket is in this directory, on a socket too."""
    with tempfile.TemporaryDirectory(prefix="belljar-proxy-") as place:
        proxy = PostgresProxy(server, Path(place), pooled=pooled)
        listening = await asyncio.start_unix_server(proxy.carry, str(Path(place) / _SOCKET))
        try:
            yield proxy
        finally:
            listening.close()
            proxy.cut()
            await listening.wait_closed()


@asynccontextmanager
async def encrypting(server: Path, context: ssl.SSLContext) -> AsyncIterator[int]:
    """The same at a port of 127.0.0.1, by TLS, which the server that tests have does not know; the port."""
    proxy = PostgresProxy(server, server, tls=context)
    listening = await asyncio.start_server(proxy.carry, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        proxy.cut()
        await listening.wait_closed()


@contextmanager
def in_a_thread(server: Path) -> Iterator[PostgresProxy]:
    """For tests that are no coroutines: it runs beside them."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    context = standing_before(server)
    try:
        yield asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result(60)
    finally:
        asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
