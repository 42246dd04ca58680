"""One request to an ASGI application: bodies both ways, pressure both ways, and either side going away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from belljar.openai.asgi_exchange import BrokenAnswer, Exchange, Message

Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
PIECE = bytes(600_000)


def start(status: int = 200) -> Message:
    return {"type": "http.response.start", "status": status, "headers": [(b"a", b"b")]}


def body(data: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def begun(app: Any) -> tuple[Exchange, asyncio.Task[None]]:
    exchange = Exchange(app, {"type": "http"})
    return exchange, asyncio.create_task(exchange.run())


async def whole(exchange: Exchange) -> None:
    await exchange.head()
    while await exchange.read():
        pass


def test_a_body_goes_in_piece_by_piece_and_comes_out_as_it_is_made() -> None:
    async def echo(scope: Message, receive: Receive, send: Send) -> None:
        await send(start())
        more = True
        while more:
            message = await receive()
            more = message["more_body"]
            await send(body(message["body"], more=more))
        assert (await receive())["type"] == "http.disconnect"

    async def main() -> None:
        exchange, task = await begun(echo)
        exchange.put(b"one", last=False)
        assert await exchange.head() == (200, [(b"a", b"b")])
        assert await exchange.read() == b"one"
        assert await exchange.wanting()
        exchange.put(b"two", last=True)
        assert await exchange.read() == b"two"
        assert await exchange.read() == b""
        await task

    asyncio.run(main())


def test_an_answer_that_nobody_reads_is_not_piled_up() -> None:
    sent: list[int] = []

    async def long(scope: Message, receive: Receive, send: Send) -> None:
        await send(start())
        for n in range(6):
            await send(body(PIECE, more=n < 5))
            sent.append(n)

    async def main() -> None:
        exchange, task = await begun(long)
        await exchange.head()
        await asyncio.sleep(0)
        assert sent == [0]
        read = 0
        while data := await exchange.read():
            read += len(data)
        await task
        assert (read, sent) == (6 * len(PIECE), [*range(6)])

    asyncio.run(main())


def test_an_application_that_answers_early_wants_no_more() -> None:
    async def refusing(scope: Message, receive: Receive, send: Send) -> None:
        await send(start(413))
        await send(body(b"too large"))

    async def main() -> None:
        exchange, task = await begun(refusing)
        exchange.put(b"first", last=False)
        assert not await exchange.wanting()
        assert ((await exchange.head())[0], await exchange.read()) == (413, b"too large")
        await task

    asyncio.run(main())


def test_an_application_hears_that_its_caller_went_away() -> None:
    async def waiting(scope: Message, receive: Receive, send: Send) -> None:
        await send(start())
        assert (await receive())["type"] == "http.request"
        assert (await receive())["type"] == "http.disconnect"
        await send(body(PIECE, more=True))  # to nobody
        await send(body(PIECE, more=True))

    async def main() -> None:
        exchange, task = await begun(waiting)
        exchange.put(b"", last=True)
        await exchange.head()
        exchange.hang_up()
        await task
        with pytest.raises(BrokenAnswer, match="broke off"):
            await exchange.read()

    asyncio.run(main())


@pytest.mark.parametrize("messages", [[], [start()], [start(), body(b"half", more=True)]])
def test_an_application_that_breaks_off_is_noticed(messages: list[Message]) -> None:
    async def breaking(scope: Message, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)
        raise ZeroDivisionError

    async def main() -> None:
        exchange, task = await begun(breaking)
        with pytest.raises(BrokenAnswer):
            await whole(exchange)
        with pytest.raises(ZeroDivisionError):
            await task

    asyncio.run(main())
