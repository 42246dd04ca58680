"""Sending, waiting and sending again, over real sockets with both clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from itertools import repeat

import pytest
from tests.helpers.ports import unused_port

from belljar.errors import ProviderError
from belljar.gateway.upstream.http_response import ConnectionFailed
from belljar.gateway.upstream.transport import Transport, read_whole
from belljar.testing import BREAK, FakeClock, LoopbackUpstream, Reply
from belljar.vendors.errors import fault

from .conftest import KEY, PATIENCE, Run, request_of, serving, transport, until

Address = Callable[[LoopbackUpstream], str]
HEADERS = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}


def meaning(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    return fault(status, headers, body, "lab")


async def post(sender: Transport, base_url: str, timeout: float = PATIENCE) -> tuple[int, bytes]:
    """Status and body of the answer, or of the last that is none."""
    said: list[tuple[int, bytes]] = []

    def mean(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        said.append((status, body))
        return meaning(status, headers, body)

    try:
        url, body = f"{base_url}/chat/completions", b'{"stream": true}'
        answer = await sender.post(url, HEADERS, body, timeout=timeout, meaning=mean)
    except ProviderError:
        return said[-1]
    return answer.status, await read_whole(answer)


def test_what_is_sent_arrives_and_what_is_answered_comes_back(run: Run, address: Address) -> None:
    async def main() -> None:
        async with transport() as sender:
            answer = await sender.post(
                f"{address(server)}/chat/completions?a=b", HEADERS, b'{"x": 1}', timeout=PATIENCE, meaning=meaning
            )
            assert answer.status == 200
            assert answer.headers["content-type"] == "text/event-stream"
            assert answer.headers["x-request-id"] == "Req"
            assert await answer.read()
            answer.close()

    with LoopbackUpstream([Reply(steps=["hi"], headers={"X-Request-Id": "Req"})]) as server:
        run(main())
    (received,) = server.requests
    assert (received.method, received.path, received.body) == ("POST", "/v1/chat/completions?a=b", b'{"x": 1}')
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.headers["content-length"] == "8"
    assert received.headers["host"].partition(":")[2] == server.base_url.split(":")[2].removesuffix("/v1")


def test_a_list_is_asked_for_once(run: Run, address: Address) -> None:
    async def main() -> tuple[int, bytes]:
        async with transport() as sender:
            return await sender.get(f"{address(server)}/models", {}, timeout=PATIENCE)

    with LoopbackUpstream(models=["a"]) as server:
        status, body = run(main())
    assert status == 200
    assert b'"id": "a"' in body


def test_a_failing_server_is_asked_three_times_in_all(run: Run, address: Address) -> None:
    clock = FakeClock()

    async def main() -> tuple[int, bytes]:
        async with transport(clock) as sender:
            return await post(sender, address(server))

    with LoopbackUpstream(repeat(Reply(status=503, body=b"busy"))) as server:
        assert run(main()) == (503, b"busy")
    assert len(server.requests) == 3
    assert clock.slept == [0.5, 0.5]
    assert len({received.body for received in server.requests}) == 1


def test_it_ends_with_the_first_answer_that_stands(run: Run, address: Address) -> None:
    clock = FakeClock()

    async def main() -> tuple[int, bytes]:
        async with transport(clock) as sender:
            return await post(sender, address(server))

    pause = Reply(status=429, headers={"retry-after-ms": "700"}, body=b"{}")
    with LoopbackUpstream([pause, Reply(status=500, body=b"{}"), "fine", "unasked"]) as server:
        status, body = run(main())
    assert status == 200
    assert b"fine" in body
    assert clock.slept == [0.7, 0.5]


@pytest.mark.parametrize(
    ("reply", "times"),
    [
        (Reply(status=400, body=b"{}"), 1),
        (Reply(status=503, body=b'{"error":{"message":"Loading model"}}'), 1),
        (Reply(status=401, body=b"{}"), 1),
        (Reply(status=500, headers={"x-should-retry": "false"}, body=b"{}"), 1),
        (Reply(status=409, headers={"x-should-retry": "true"}, body=b"{}"), 3),
        (Reply(status=429, headers={"retry-after": "3600"}, body=b"{}"), 1),
        (Reply(status=429, body=b'{"error":{"code":"insufficient_quota"}}'), 1),
    ],
)
def test_only_what_may_pass_is_asked_again(run: Run, address: Address, reply: Reply, times: int) -> None:
    async def main() -> tuple[int, bytes]:
        async with transport() as sender:
            return await post(sender, address(server))

    with LoopbackUpstream(repeat(reply)) as server:
        assert run(main()) == (reply.status, reply.body)
    assert len(server.requests) == times


def test_a_server_that_is_not_there_is_looked_for_three_times(run: Run, address: Address) -> None:
    clock = FakeClock()

    async def main(base_url: str) -> None:
        async with transport(clock) as sender:
            await post(sender, base_url)

    with unused_port() as port:
        server = LoopbackUpstream()
        server.base_url = f"http://127.0.0.1:{port}/v1"
        with pytest.raises(ConnectionFailed, match="connection refused") as caught:
            run(main(address(server)))
    assert caught.value.resend
    assert clock.slept == [0.5, 0.5]


def test_a_host_that_has_no_address_is_named_as_such(run: Run) -> None:
    async def main() -> None:
        async with transport() as sender:
            await post(sender, "http://no-such-host.invalid:1/v1")

    with pytest.raises(ConnectionFailed, match=r"host name is not known|no connection"):
        run(main())


def test_a_connection_dropped_without_a_word_is_replaced(run: Run, address: Address) -> None:
    clock = FakeClock()

    async def main() -> int:
        dropped = 0

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal dropped
            await request_of(reader)
            if dropped == 0:
                dropped += 1
                return
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            await writer.drain()

        async with serving(handle) as origin, transport(clock) as sender:
            fake = LoopbackUpstream()
            fake.base_url = origin
            assert await post(sender, address(fake)) == (200, b"ok")
        return dropped

    assert run(main()) == 1
    assert clock.slept == [0.0]


def test_nothing_is_sent_again_once_an_answer_has_begun(run: Run, address: Address) -> None:
    got: list[bytes] = []

    async def main() -> None:
        async with transport() as sender:
            answer = await sender.post(
                f"{address(server)}/chat/completions", HEADERS, b"{}", timeout=PATIENCE, meaning=meaning
            )
            while data := await answer.read():
                got.append(data)
                go.set()

    go = threading.Event()
    with (
        LoopbackUpstream([["begun", go, BREAK], "again"]) as server,
        pytest.raises(ConnectionFailed, match="middle of the answer") as caught,
    ):
        run(main())
    assert not caught.value.resend
    assert b"begun" in b"".join(got)
    assert len(server.requests) == 1


@pytest.mark.parametrize("reply", [Reply(before=threading.Event()), Reply(steps=["begun", threading.Event()])])
def test_silence_is_given_up_and_not_asked_for_again(run: Run, address: Address, reply: Reply) -> None:
    async def main() -> None:
        async with transport() as sender:
            await post(sender, address(server), timeout=0.2)

    with LoopbackUpstream(repeat(reply)) as server:
        with pytest.raises(ConnectionFailed, match=r"nothing for 0\.2 s"):
            run(main())
        assert server.abandoned.wait(PATIENCE)
    assert len(server.requests) == 1


def test_a_slow_drip_outlasts_the_timeout_in_all_but_not_in_one_gap(run: Run, address: Address) -> None:
    async def main() -> tuple[int, bytes]:
        async with transport() as sender:
            return await post(sender, address(server), timeout=1.0)

    drip = [step for word in range(8) for step in (f"w{word} ", 0.2)]
    with LoopbackUpstream([drip]) as server:
        status, body = run(main())
    assert status == 200
    assert b"[DONE]" in body


def test_bytes_are_given_out_as_they_come(run: Run, address: Address) -> None:
    go = threading.Event()

    async def main() -> None:
        async with transport() as sender:
            answer = await sender.post(
                f"{address(server)}/chat/completions", HEADERS, b"{}", timeout=PATIENCE, meaning=meaning
            )
            got = b""
            while b"first" not in got:
                got += await answer.read()
            assert b"second" not in got
            go.set()
            while data := await answer.read():
                got += data
            assert b"second" in got
            assert await answer.read() == b""

    with LoopbackUpstream([["first ", go, "second"]]) as server:
        run(main())


def test_connections_are_kept(run: Run, address: Address) -> None:
    async def main() -> None:
        async with transport() as sender:
            for _ in range(5):
                await post(sender, address(server))

    with LoopbackUpstream(repeat("hi")) as server:
        run(main())
    assert len(server.requests) == 5
    assert server.connections == 1


def test_a_kept_connection_that_went_stale_is_replaced(run: Run, address: Address) -> None:
    async def main() -> int:
        served = 0

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            await request_of(reader)
            served += 1
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            await writer.drain()
            await request_of(reader)  # read, and hung up on

        async with serving(handle) as origin, transport() as sender:
            fake = LoopbackUpstream()
            fake.base_url = origin
            for _ in range(3):
                assert await post(sender, address(fake)) == (200, b"ok")
        return served

    assert run(main()) == 3


@pytest.mark.parametrize("reading", [False, True], ids=["before the head", "in the body"])
def test_giving_up_closes_the_connection(run: Run, address: Address, reading: bool) -> None:
    never = threading.Event()

    async def main() -> None:
        async with transport() as sender:
            asked = asyncio.create_task(post(sender, address(server)))
            await until(lambda: bool(server.requests), "the request is there")
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            assert await asyncio.to_thread(server.abandoned.wait, PATIENCE)

    with LoopbackUpstream([["begun", never] if reading else Reply(before=never)]) as server:
        run(main())


def test_an_answer_that_is_closed_early_closes_the_connection(run: Run, address: Address) -> None:
    async def main() -> None:
        async with transport() as sender:
            answer = await sender.post(
                f"{address(server)}/chat/completions", HEADERS, b"{}", timeout=PATIENCE, meaning=meaning
            )
            answer.close()
            assert await asyncio.to_thread(server.abandoned.wait, PATIENCE)

    with LoopbackUpstream([["begun", threading.Event()]]) as server:
        run(main())


def test_sixty_four_at_once(run: Run, address: Address) -> None:
    async def main() -> None:
        async with transport() as sender:
            for status, body in await asyncio.gather(*(post(sender, address(server)) for _ in range(64))):
                assert status == 200
                assert body.count(b'"content": " w') == 99

    with LoopbackUpstream(repeat(" ".join(f"w{number}" for number in range(100)))) as server:
        run(main())
    assert server.connections <= 64


def test_a_large_body_arrives_whole(run: Run, address: Address) -> None:
    body = bytes(range(256)) * 20_000

    async def main() -> None:
        async with transport() as sender:
            answer = await sender.post(f"{address(server)}/responses", HEADERS, body, timeout=PATIENCE, meaning=meaning)
            await read_whole(answer)

    with LoopbackUpstream(["hi"]) as server:
        run(main())
    assert server.requests[0].body == body


def test_a_redirect_is_not_followed(run: Run, address: Address) -> None:
    async def main() -> tuple[int, bytes]:
        async with transport() as sender:
            return await post(sender, address(server))

    with LoopbackUpstream([Reply(status=302, headers={"location": "/v1/responses"}, body=b"")]) as server:
        assert run(main()) == (302, b"")
    assert len(server.requests) == 1


def test_an_endless_body_is_cut_off(run: Run) -> None:
    async def main() -> bytes:
        async with transport() as sender:
            answer = await sender.post(
                f"{server.base_url}/responses", HEADERS, b"{}", timeout=PATIENCE, meaning=meaning
            )
            return await read_whole(answer, limit=1000)

    with LoopbackUpstream([[b"x" * 5000, threading.Event()]]) as server:
        assert len(run(main())) == 1000
        assert server.abandoned.wait(PATIENCE)
