"""The small client against servers that send exactly these bytes."""

from __future__ import annotations

import asyncio

import pytest

from belljar.gateway.upstream.http_response import ConnectionFailed
from belljar.gateway.upstream.loopback import HELD_BYTES, LoopbackClient
from belljar.gateway.upstream.transport import read_whole

from .conftest import PATIENCE, Run, request_of, serving, until

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n7;note=x\r\n, world\r\n0\r\nX-Trailer: t\r\n\r\n"
)


async def exchange(*pieces: bytes, keep: bool = True) -> tuple[int, dict[str, str], bytes]:
    """What the client makes of an answer that comes in these pieces; `keep` leaves the connection open after it."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        if keep:
            await reader.read()

    client = LoopbackClient()
    async with serving(handle) as origin:
        try:
            answer = await client.send("POST", origin, {}, b"{}", timeout=PATIENCE)
            return answer.status, dict(answer.headers), await read_whole(answer)
        finally:
            await client.close()


def test_chunks_in_any_split(run: Run) -> None:
    for size in (1, 2, 3, 7, 50, 1000):
        pieces = [CHUNKED[at : at + size] for at in range(0, len(CHUNKED), size)]
        status, headers, body = run(exchange(*pieces))
        assert (status, body) == (200, b"hello, world")
        assert headers["content-type"] == "text/event-stream"


def test_a_body_of_a_given_length(run: Run) -> None:
    assert run(exchange(b"HTTP/1.1 201 Made\r\ncontent-length: 3\r\n\r\n", b"abc"))[::2] == (201, b"abc")
    assert run(exchange(b"HTTP/1.1 204 Nothing\r\n\r\n"))[::2] == (204, b"")
    assert run(exchange(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"))[::2] == (200, b"")


def test_a_body_that_ends_with_the_connection(run: Run) -> None:
    assert run(exchange(b"HTTP/1.1 200 OK\r\n\r\nall ", b"of it", keep=False))[::2] == (200, b"all of it")
    assert run(exchange(b"HTTP/1.0 200 OK\r\n\r\n", keep=False))[::2] == (200, b"")


def test_a_second_answer_is_no_part_of_the_first(run: Run) -> None:
    one = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n"
    assert run(exchange(one + b"abc" + one + b"def"))[::2] == (200, b"abc")


def test_what_comes_before_the_answer_is_passed_over(run: Run) -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Hints\r\nlink: x\r\n\r\n"
    status, headers, body = run(exchange(*early, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"))
    assert (status, body) == (200, b"ok")
    assert "link" not in headers


@pytest.mark.parametrize(
    ("pieces", "why", "resend"),
    [
        ([], "without an answer", True),
        ([b"HTTP/1.1 200 O"], "middle of the answer", False),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"], "middle of the answer", False),
        ([CHUNKED[:-9]], "middle of the answer", False),
        ([b"SSH-2.0-OpenSSH\r\n"], "not HTTP", False),
        ([b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nxxx"], "not HTTP", False),
        ([CHUNKED[:-20] + b"zzz\r\n"], "middle of the answer", False),
    ],
)
def test_what_breaks_says_how(run: Run, pieces: list[bytes], why: str, resend: bool) -> None:
    with pytest.raises(ConnectionFailed, match=why) as caught:
        run(exchange(*pieces, keep=False))
    assert caught.value.resend is resend


def test_bytes_that_came_before_the_break_are_given_out_first(run: Run) -> None:
    async def main() -> None:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request_of(reader)
            writer.write(CHUNKED[:-20])

        client = LoopbackClient()
        async with serving(handle) as origin:
            answer = await client.send("POST", origin, {}, b"", timeout=PATIENCE)
            await asyncio.sleep(0.05)
            assert await answer.read() == b"hello, world"
            with pytest.raises(ConnectionFailed):
                await answer.read()
            with pytest.raises(ConnectionFailed):
                await answer.read()
            answer.close()

    run(main())


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", True),
        (CHUNKED, True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", False),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil", False),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 2", False),
    ],
)
def test_a_connection_is_kept_only_where_the_answer_left_it_clean(run: Run, answer: bytes, kept: bool) -> None:
    async def main() -> None:
        connections = 0

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            while True:
                await request_of(reader)
                writer.write(answer)

        client = LoopbackClient()
        async with serving(handle) as origin:
            for _ in range(3):
                assert (await client.send("GET", origin, {}, b"", timeout=PATIENCE)).status == 200
                await asyncio.sleep(0)
            assert connections == (1 if kept else 3)
            await client.close()

    run(main())


@pytest.mark.parametrize("body", [b"", b"{}"])
def test_a_connection_of_no_further_use_is_closed(run: Run, body: bytes) -> None:
    """Also after a request without a body, of which nothing may stay behind to be written."""

    async def main() -> None:
        closed = asyncio.get_running_loop().create_future()

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request_of(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
            try:
                async with asyncio.timeout(PATIENCE):
                    closed.set_result(await reader.read())
            except TimeoutError:
                closed.set_result(b"still open")

        client = LoopbackClient()
        async with serving(handle) as origin:
            assert await read_whole(await client.send("GET", origin, {}, body, timeout=PATIENCE)) == b"ok"
            assert await closed == b""
            await client.close()

    run(main())


def test_a_server_that_is_not_listened_to_has_to_wait(run: Run) -> None:
    size = 64 * HELD_BYTES

    async def main() -> None:
        sent = 0

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            await request_of(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
            while sent < size:
                writer.write(b"x" * 65536)
                sent += 65536
                await writer.drain()
            await reader.read()

        client = LoopbackClient()
        async with serving(handle) as origin:
            answer = await client.send("POST", origin, {}, b"", timeout=PATIENCE)
            last = -1
            while last != sent:  # until nothing moves any more
                last = sent
                await asyncio.sleep(0.2)
            assert sent < size
            assert len(await read_whole(answer, limit=size)) == size
            await until(lambda: sent == size, "everything was sent")
            await client.close()

    run(main())


def test_closing_twice_or_after_the_end_is_nothing(run: Run) -> None:
    async def main() -> None:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await request_of(reader)
                writer.write(CHUNKED)

        client = LoopbackClient()
        async with serving(handle) as origin:
            first = await client.send("POST", origin, {}, b"", timeout=PATIENCE)
            assert await read_whole(first) == b"hello, world"
            second = await client.send("POST", origin, {}, b"", timeout=PATIENCE)
            first.close()  # the connection is the second's now
            assert await read_whole(second) == b"hello, world"
            second.close()
            await client.close()

    run(main())


def test_an_address_of_version_six(run: Run) -> None:
    async def main() -> None:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert b"host: [::1]:" in await request_of(reader)
            writer.write(CHUNKED)
            writer.close()

        server = await asyncio.start_server(handle, "::1", 0)
        client = LoopbackClient()
        port = server.sockets[0].getsockname()[1]
        answer = await client.send("POST", f"http://[::1]:{port}/v1", {}, b"", timeout=PATIENCE)
        assert await read_whole(answer) == b"hello, world"
        await client.close()
        server.close()
        await server.wait_closed()

    run(main())
