"""`AsyncOpenAI.local()`: the same gateway for asyncio, whose own loop is another."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import openai
import pytest

from belljar.openai import AsyncOpenAI
from belljar.openai.embedded_gateway import Inside
from belljar.testing import LoopbackUpstream, ScriptedModel


def local(**settings: Any) -> AsyncOpenAI:
    return AsyncOpenAI.local(**{"discover": False, "code_interpreter": False, **settings})


def test_many_at_once() -> None:
    others = {*threading.enumerate()}

    async def main() -> None:
        async with local(model=ScriptedModel([[str(n)] for n in range(20)])) as client:
            asked = [client.responses.create(model="belljar", input="x") for _ in range(20)]
            said = [response.output[0]["content"][0]["text"] for response in await asyncio.gather(*asked)]  # type: ignore[index]
            assert sorted(map(int, said)) == [*range(20)]

    asyncio.run(main())
    assert "belljar-gateway" not in {thread.name for thread in {*threading.enumerate()} - others}


def test_events_arrive_as_they_are_made_and_a_closed_stream_cancels_the_run() -> None:
    gate, never = threading.Event(), threading.Event()

    async def main() -> None:
        async with local(upstreams=[upstream.base_url]) as client:
            said: list[str] = []
            async for event in await client.responses.create(model="sim", input="x", stream=True):
                if event.type == "response.output_text.delta":
                    said.append(event.delta)
                    gate.set()
            assert said == ["one", " two"]
            async with await client.responses.create(model="sim", input="x", stream=True) as stream:
                async for event in stream:
                    if event.type == "response.output_text.delta":
                        break
            assert await asyncio.to_thread(upstream.abandoned.wait, 30)
            never.set()

    with LoopbackUpstream([["one", gate, " two"], ["three", never]]) as upstream:
        asyncio.run(main())


def test_a_cancelled_caller_cancels_the_run() -> None:
    never = threading.Event()

    async def main() -> None:
        async with local(upstreams=[upstream.base_url]) as client:
            asking = asyncio.create_task(client.responses.create(model="sim", input="x"))
            while not any(one.method == "POST" for one in upstream.requests):  # noqa: ASYNC110 - in another thread
                await asyncio.sleep(0.01)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert await asyncio.to_thread(upstream.abandoned.wait, 30)
            never.set()

    with LoopbackUpstream([["one", never]]) as upstream:
        asyncio.run(main())


@pytest.mark.parametrize("begun", [False, True])
def test_one_cancelled_before_the_request_has_begun_cancels_it(begun: bool) -> None:
    """Or just after: the gateway has begun it, and its caller does not know yet."""
    never = threading.Event()

    async def main() -> None:
        async with local(upstreams=[upstream.base_url]) as client:
            inside: Inside = client._client._transport._inside  # type: ignore[attr-defined]
            reached, released = threading.Event(), threading.Event()

            def stand() -> None:
                reached.set()
                assert released.wait(30)

            if not begun:
                inside._loop.call_soon_threadsafe(stand)
                assert await asyncio.to_thread(reached.wait, 30)
            asking = asyncio.create_task(client.responses.create(model="sim", input="x"))
            while not (inside._exchanges or inside._pending):  # noqa: ASYNC110 - in another thread
                await asyncio.sleep(0)
            while begun and not inside._exchanges:  # without this loop's hearing of it
                time.sleep(0.001)  # noqa: ASYNC251
            asking.cancel()
            released.set()
            with pytest.raises(asyncio.CancelledError):
                await asking
            async with asyncio.timeout(30):
                while inside._exchanges or inside._pending:  # noqa: ASYNC110 - in another thread
                    await asyncio.sleep(0.01)
            never.set()

    with LoopbackUpstream([["one", never]]) as upstream:
        asyncio.run(main())


def test_one_that_waits_no_longer_is_told() -> None:
    never = threading.Event()

    async def main() -> None:
        async with local(upstreams=[upstream.base_url]) as client:
            with pytest.raises(openai.APITimeoutError):
                await client.with_options(timeout=0.2, max_retries=0).responses.create(model="sim", input="x")
            never.set()

    with LoopbackUpstream([["one", never]]) as upstream:
        asyncio.run(main())


def test_closing_amid_requests_leaves_nobody_waiting() -> None:
    async def ask(client: AsyncOpenAI) -> str:
        try:
            while True:
                await client.models.list()
        except (openai.APIConnectionError, RuntimeError) as error:
            return type(error).__name__

    async def main() -> None:
        client = local()
        asking = [asyncio.create_task(ask(client.with_options(max_retries=0))) for _ in range(8)]
        await client.models.list()
        await client.close()
        assert len(await asyncio.wait_for(asyncio.gather(*asking), 60)) == 8

    asyncio.run(main())


def test_files_go_in_and_out() -> None:
    async def main() -> None:
        async with local() as client:
            content = bytes(3 << 20)
            uploaded = await client.files.create(file=("large.bin", content), purpose="user_data")
            assert await (await client.files.content(uploaded.id)).aread() == content
            container = await client.containers.create(name="c")
            made = await client.containers.files.create(container.id, file=("a.txt", b"A"))
            assert await client.container_files.content(container_id=container.id, file_id=made.id) == b"A"

    asyncio.run(main())


def test_a_client_serves_one_loop_after_another() -> None:
    client = local()
    for _ in range(2):
        assert asyncio.run(_first(client)) == "belljar"
    asyncio.run(client.close())


async def _first(client: AsyncOpenAI) -> str:
    return (await client.models.list()).data[0].id
