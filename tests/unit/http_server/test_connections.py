"""Connections as uvicorn has them under our protocol: who leaves is noticed, and what is written together leaves so."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import Any

import pytest

from belljar.gateway.server.wording import Wording
from belljar.http_server import run
from belljar.http_server.asgi import Message, Receive, Scope, Send
from belljar.http_server.reply import Answer, Reply, Stream
from belljar.http_server.request import Gone, Request
from belljar.http_server.sender import Sender
from belljar.http_server.uvicorn_protocol import WriteBuffer

PATIENCE = 20.0
GET = b"GET %b HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Held:
    """`/held` is an answer that goes on until it is let go, or its client leaves; `/` is a short one."""

    def __init__(self) -> None:
        self.watched, self.go, self.left = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.answered: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        def watch() -> Awaitable[Message]:
            self.watched.set()
            return receive()

        request = Request(scope, watch, patience=PATIENCE)
        with contextlib.suppress(Gone):
            await Sender(request, send, Wording()).answer(self._answer(request))
            self.answered.append(request.path)

    async def _answer(self, request: Request) -> Answer:
        if request.path == "/held":
            return Stream(pieces=self._pieces(), headers=((b"content-type", b"text/plain"),))
        return Reply(200, await request.body(1 << 20))

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        try:
            yield b"begun"
            await self.go.wait()
            yield b"over"
        except BaseException:
            self.left.set()
            raise


@contextlib.asynccontextmanager
async def served(app: Any) -> AsyncIterator[int]:
    door = socket.create_server(("127.0.0.1", 0))
    port: int = door.getsockname()[1]
    server = run.Server(run.config(app, Wording(), "", 0, drain=1, websockets=False, lifespan=False))
    serving = asyncio.create_task(server.serve(sockets=[door]))
    await server.listening
    try:
        yield port
    finally:
        server.stop()
        await serving
        await server.cut_off(1)


@contextlib.asynccontextmanager
async def connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.parametrize("behind", [0, 1, 3])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_client_that_leaves_is_noticed_whatever_it_sent_behind(behind: int, at_once: bool) -> None:
    async def main() -> None:
        app = Held()
        async with asyncio.timeout(PATIENCE), served(app) as port:
            async with connection(port) as (reader, writer):
                writer.write(GET % b"/held" + (GET % b"/" * behind if at_once else b""))
                await reader.readuntil(b"begun")
                if not at_once:
                    await app.watched.wait()
                    writer.write(GET % b"/" * behind)
                    await writer.drain()
            await app.left.wait()
        assert app.answered == []

    asyncio.run(main())


def test_those_behind_are_answered_in_their_turn() -> None:
    async def main() -> None:
        app = Held()
        async with asyncio.timeout(PATIENCE), served(app) as port, connection(port) as (reader, writer):
            body = b"x" * 200_000
            post = b"POST /b HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
            writer.write(GET % b"/held" + GET % b"/a" * 40 + post)
            await reader.readuntil(b"begun")
            app.go.set()
            await reader.readuntil(body)
            assert app.answered == ["/held", *["/a"] * 40, "/b"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("after", "answered"),
    [
        (b"nonsense\r\n\r\n", ["/held"]),
        (GET % b"/a" + b"nonsense\r\n\r\n", ["/held", "/a"]),
        (b"POST /b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", ["/held"]),
        (GET % b"/a" + b"POST /b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", ["/held", "/a"]),
    ],
    ids=range(4),
)
def test_what_is_broken_behind_others_does_not_break_their_answers(after: bytes, answered: list[str]) -> None:
    async def main() -> None:
        app = Held()
        async with asyncio.timeout(PATIENCE), served(app) as port, connection(port) as (reader, writer):
            writer.write(GET % b"/held" + after)
            await reader.readuntil(b"begun\r\n")
            app.go.set()
            rest = await reader.read()
        assert rest.startswith(b"4\r\nover\r\n0\r\n\r\n")
        assert rest.count(b"HTTP/1.1 ") == len(answered) - 1
        assert b" 400 " not in rest
        assert app.answered == answered

    asyncio.run(main())


# -- writing ----------------------------------------------------------------------------------------------------------


class Wire:
    """A transport that notes each write."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closing = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.written.extend(parts)

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True

    def get_extra_info(self, name: str) -> None:
        return None


def buffered() -> tuple[Wire, WriteBuffer]:
    wire: Any = Wire()
    return wire, WriteBuffer(wire, asyncio.get_running_loop())


def test_what_is_written_at_once_leaves_at_once() -> None:
    async def main() -> None:
        wire, buffer = buffered()
        buffer.write(b"head")
        buffer.write(b"body")
        assert wire.written == []
        await asyncio.sleep(0)
        buffer.write(b"more")
        await asyncio.sleep(0)
        assert wire.written == [b"headbody", b"more"]

    asyncio.run(main())


def test_much_is_not_held_for_more() -> None:
    """So the transport can say that it is too much, and nothing large is copied."""

    async def main() -> None:
        wire, buffer = buffered()
        large = bytes(1 << 16)
        buffer.write(b"head")
        buffer.write(large)
        assert wire.written == [b"head", large]
        assert wire.written[1] is large

    asyncio.run(main())


def test_the_last_words_leave_before_the_end() -> None:
    async def main() -> None:
        wire, buffer = buffered()
        buffer.write(b"last")
        buffer.close()
        assert (wire.written, wire.closing) == ([b"last"], True)
        buffer.write(b"too late")
        await asyncio.sleep(0)
        assert wire.written == [b"last"]

    asyncio.run(main())
