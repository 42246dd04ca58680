"""What handlers return is sent, and what they raise is told: once, in order, and never as two answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from belljar.errors import NotFound
from belljar.gateway.server.wording import Wording
from belljar.http_server.asgi import Message
from belljar.http_server.reply import Answer, Ping, Reply, Stream
from belljar.http_server.request import Gone, ProtocolRefusal, Request
from belljar.http_server.sender import Sender
from belljar.wire.faults import Fault

PLAIN = ((b"content-type", b"text/plain"),)


def sent(
    handler: Callable[[Request], Awaitable[Answer]], *, method: str = "GET", leaves: asyncio.Event | None = None
) -> list[Message]:
    """The messages of one answer; the client waits for it, or leaves then."""
    messages: list[Message] = []

    async def run() -> None:
        async def receive() -> Message:
            await (leaves or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            messages.append(message)

        scope = {"method": method, "raw_path": b"/", "query_string": b"", "headers": []}
        request = Request(scope, receive, patience=1)
        await Sender(request, send, Wording()).answer(handler(request))

    asyncio.run(run())
    return messages


def body(messages: list[Message]) -> bytes:
    return b"".join(message["body"] for message in messages[1:])


def whole(messages: list[Message]) -> bool:
    return [one.get("more_body", False) for one in messages[1:]] == [True] * (len(messages) - 2) + [False]


async def pieces(*given: bytes | Exception) -> AsyncGenerator[bytes, None]:
    for one in given:
        if isinstance(one, Exception):
            raise one
        yield one


def streaming(*given: bytes | Exception, told: bool = False) -> Callable[[Request], Awaitable[Answer]]:
    async def handler(request: Request) -> Answer:
        trouble = (lambda fault: b"trouble " + str(fault.status).encode()) if told else None
        return Stream(pieces=pieces(*given), headers=PLAIN, trouble=trouble)

    return handler


def test_a_small_answer_is_one_start_and_one_body() -> None:
    async def handler(request: Request) -> Answer:
        return Reply(200, b"{}", headers=((b"x", b"y"),))

    start, data = sent(handler)
    assert start["status"] == 200
    assert start["headers"][:3] == [(b"content-type", b"application/json"), (b"content-length", b"2"), (b"x", b"y")]
    assert data == {"type": "http.response.body", "body": b"{}"}


def test_an_answer_without_a_body_has_no_type_and_no_length() -> None:
    async def handler(request: Request) -> Answer:
        request.always = ((b"vary", b"origin"),)
        return Reply(204)

    start, data = sent(handler)
    names = [name for name, _ in start["headers"]]
    assert names == [b"x-request-id", b"openai-processing-ms", b"openai-version", b"vary"]
    assert data["body"] == b""


def test_each_piece_is_sent_as_it_is() -> None:
    messages = sent(streaming(b"", b"a", b"", b"bc"))
    assert [message["body"] for message in messages[1:]] == [b"a", b"bc", b""]
    assert whole(messages)


def test_a_stream_without_pieces_is_an_empty_answer() -> None:
    messages = sent(streaming())
    assert (messages[0]["status"], body(messages), whole(messages)) == (200, b"", True)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound("not here"), 404),
        (ProtocolRefusal(Fault(status=415, type="invalid_request_error", message="no")), 415),
        (ValueError("inside"), 500),
    ],
)
def test_what_is_raised_before_the_first_piece_is_a_refusal(error: Exception, status: int) -> None:
    messages = sent(streaming(error, told=True))
    assert messages[0]["status"] == status
    assert (b"content-type", b"application/json") in messages[0]["headers"]
    assert b"inside" not in body(messages)


@pytest.mark.parametrize(("error", "status"), [(NotFound("gone"), b"404"), (ValueError("inside"), b"500")])
def test_what_is_raised_later_is_told_in_the_stream(error: Exception, status: bytes) -> None:
    messages = sent(streaming(b"a", error, told=True))
    assert (messages[0]["status"], body(messages), whole(messages)) == (200, b"atrouble " + status, True)


def test_a_stream_that_cannot_tell_is_left_open_for_the_connection_to_break() -> None:
    messages = sent(streaming(b"a", ValueError("inside")))
    assert (messages[0]["status"], body(messages)) == (200, b"a")
    assert messages[-1]["more_body"]


def test_nobody_reads_the_pieces_of_a_head() -> None:
    messages = sent(streaming(ValueError("asked for")), method="HEAD")
    assert (messages[0]["status"], body(messages), whole(messages)) == (200, b"", True)


def test_a_client_that_leaves_ends_the_stream() -> None:
    leaves, ended = asyncio.Event(), []

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            yield b"a"
            leaves.set()
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def handler(request: Request) -> Answer:
        return Stream(pieces=endless(), headers=PLAIN)

    with pytest.raises(Gone):
        sent(handler, leaves=leaves)
    assert ended == [True]


def test_silence_is_broken_once_the_answer_has_begun() -> None:
    async def slow(enough: asyncio.Event) -> AsyncGenerator[bytes, None]:
        yield b"a"
        await enough.wait()
        yield b"b"

    messages: list[Message] = []

    async def run() -> None:
        enough = asyncio.Event()

        async def receive() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            messages.append(message)
            if message.get("body") == b"ping":
                enough.set()

        scope = {"method": "GET", "raw_path": b"/", "query_string": b"", "headers": []}
        stream = Stream(pieces=slow(enough), headers=PLAIN, ping=Ping(b"ping", 0.01))
        await Sender(Request(scope, receive, patience=1), send, Wording()).send(stream)

    asyncio.run(run())
    said = [message["body"] for message in messages[1:]]
    assert said[0] == b"a"
    assert b"ping" in said
    assert said[-2:] == [b"b", b""]
