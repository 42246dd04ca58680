"""A small HTTP/1.1 client for models on this machine: streams, keeps connections, costs little.

Half the work of a gateway in front of a fast local model is its HTTP client, hence one that does only what is needed.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from functools import lru_cache
from typing import cast
from urllib.parse import urlsplit

import httptools

from belljar.gateway.upstream.http_response import (
    CONNECT_SECONDS,
    ConnectionFailed,
    HttpResponse,
    make_break_error,
    make_connect_error,
    make_drop_error,
    make_protocol_error,
    make_silence_error,
)

HELD_BYTES = 256 * 1024
"""Of an answer that nobody reads: then the server has to wait."""
IDLE_CONNECTIONS = 256


class LoopbackClient:
    """Sends requests over `http://`, one at a time on each connection."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, int], list[_Connection]] = {}

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, *, timeout: float
    ) -> HttpResponse:
        place, path, host = _read_address(url)
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        head = f"{method} {path} HTTP/1.1\r\nhost: {host}\r\n{lines}content-length: {len(body)}\r\n\r\n"
        message = head.encode("latin-1") + body
        idle = self._idle.setdefault(place, [])
        while idle:
            connection = idle.pop()
            if connection.open:
                try:
                    return await connection.ask(message, timeout)
                except ConnectionFailed as broken:
                    if not broken.resend:
                        raise
                break  # the server had closed it meanwhile; a new connection tells whether it is there at all
        connection = await _connect(place, idle)
        return await connection.ask(message, timeout)

    async def close(self) -> None:
        for idle in self._idle.values():
            while idle:
                idle.pop().abort()


@lru_cache(256)
def _read_address(url: str) -> tuple[tuple[str, int], str, str]:
    """Where to connect, what to ask for there, and as whom to address it: the same few are asked again and again."""
    parts = urlsplit(url)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return (parts.hostname or "", parts.port or 80), path, parts.netloc


async def _connect(place: tuple[str, int], idle: list[_Connection]) -> _Connection:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, connection = await loop.create_connection(lambda: _Connection(loop, idle), *place)
    except TimeoutError:
        raise make_connect_error(f"no connection within {CONNECT_SECONDS:g} s") from None
    except socket.gaierror:
        raise make_connect_error("its host name is not known") from None
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else "nothing listens there"
        raise make_connect_error(why[0].lower() + why[1:]) from None
    return connection


class _Connection(asyncio.Protocol):
    """One connection: its bytes, parsed, go to the exchange under way; between two it waits in `idle`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, idle: list[_Connection]) -> None:
        self._loop = loop
        self._idle = idle
        self._body: list[bytes] = []
        """What a read brought of it. The parser hands over chunk by chunk, and model servers make one of each token."""
        self.on_body = self._body.append
        self._parser = httptools.HttpResponseParser(self)
        self._exchange: _Exchange | None = None
        self._reusable = False

    @property
    def open(self) -> bool:
        return not self._transport.is_closing()

    async def ask(self, message: bytes, timeout: float) -> HttpResponse:
        exchange = self._exchange = _Exchange(self, self._loop, timeout)
        # One piece: of several an empty one, such as no body, stays in asyncio's buffer for ever from Python 3.12 on.
        self._transport.write(message)
        await exchange.head()
        return exchange

    def abort(self) -> None:
        self._exchange = None
        self._transport.abort()

    def resume(self) -> None:
        self._transport.resume_reading()

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:  # nobody asked
            self._transport.abort()
            return
        exchange.begun = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._hand_on()
            self.abort()
            exchange.fail(make_break_error() if exchange.status else make_protocol_error())
            return
        self._hand_on()
        if exchange.done:
            self._exchange = None
            if self._reusable and len(self._idle) < IDLE_CONNECTIONS and not self._transport.get_write_buffer_size():
                self._idle.append(self)
            else:
                self._transport.close()
        elif exchange.full:
            self._transport.pause_reading()
        exchange.wake()

    def connection_lost(self, error: Exception | None) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            if self in self._idle:
                self._idle.remove(self)
        elif exchange.until_closed and error is None:
            exchange.done = True
            exchange.wake()
        else:
            exchange.fail(make_break_error() if exchange.begun else make_drop_error())

    def _hand_on(self) -> None:
        if self._body:
            if self._exchange:
                self._exchange.take(b"".join(self._body))
            self._body.clear()

    # -- the parser's side

    def on_message_begin(self) -> None:
        self._reusable = False
        if self._exchange and self._exchange.done:  # a second answer, that nobody asked for
            self._exchange = None

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._exchange:
            self._exchange.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        exchange, status = self._exchange, self._parser.get_status_code()
        if exchange is None:
            return
        if status < 200:  # not the answer yet
            exchange.headers.clear()
            return
        exchange.status = status
        exchange.until_closed = "content-length" not in exchange.headers and (
            "transfer-encoding" not in exchange.headers
        )

    def on_message_complete(self) -> None:
        self._hand_on()
        if self._exchange and self._exchange.status:
            self._exchange.done = True
            self._reusable = self._parser.should_keep_alive()


class _Exchange:
    """One request and its answer, apart from the connection, which may serve the next before this one is read."""

    __slots__ = (
        "_connection",
        "_held",
        "_loop",
        "_pieces",
        "_timeout",
        "_waiter",
        "begun",
        "broken",
        "done",
        "headers",
        "status",
        "until_closed",
    )

    def __init__(self, connection: _Connection, loop: asyncio.AbstractEventLoop, timeout: float) -> None:
        self._connection = connection
        self._loop = loop
        self._timeout = timeout
        self._pieces: list[bytes] = []
        self._held = 0
        self._waiter: asyncio.Future[None] | None = None
        self.headers: dict[str, str] = {}
        self.status = 0
        self.begun = False
        self.until_closed = False
        self.done = False
        self.broken: ConnectionFailed | None = None

    async def head(self) -> None:
        while not self.status:
            if self.broken:
                raise self.broken
            await self._wait()

    async def read(self) -> bytes:
        while not self._pieces:
            if self.broken:
                raise self.broken
            if self.done:
                return b""
            await self._wait()
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        if self.full and not self.done:
            self._connection.resume()
        self._held = 0
        return data

    def close(self) -> None:
        if not self.done and not self.broken:
            self._connection.abort()
            self.fail(make_break_error())

    # -- the connection's side

    @property
    def full(self) -> bool:
        return self._held > HELD_BYTES

    def take(self, body: bytes) -> None:
        self._pieces.append(body)
        self._held += len(body)

    def fail(self, broken: ConnectionFailed) -> None:
        self.broken = broken
        self.wake()

    def wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    def _expire(self) -> None:
        self._connection.abort()
        self.fail(make_silence_error(self._timeout))

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(self._timeout, self._expire)
        try:
            await self._waiter
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            timer.cancel()
            self._waiter = None
