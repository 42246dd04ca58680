"""The public doubles: what they play is what the script says."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import urllib.error
import urllib.request
from contextlib import aclosing, suppress

import pytest
from openai import OpenAI

from belljar.errors import RateLimited
from belljar.testing import FakeClock, LoopbackUpstream, Reply, ReplyStep, ScriptedModel, Step, call
from belljar.vendors.deltas import CallBegun, Finish, Text, Thought, UsageDelta
from belljar.wire.responses import Usage

from .conftest import PATIENCE, answer, asking, calls_of, text_of


def test_a_scripted_model_plays_turn_by_turn() -> None:
    async def main() -> None:
        model = ScriptedModel([["Let me see. ", call("f", a=1), call("g")], ["It is 42."]])
        first, second = asking("one"), asking("two")
        deltas = await answer(model, first)
        assert text_of(deltas) == "Let me see. "
        assert calls_of(deltas) == [("f", '{"a": 1}'), ("g", "{}")]
        assert deltas[-2] == Finish("calls")
        deltas = await answer(model, second)
        assert [delta.text for delta in deltas if isinstance(delta, Text)] == ["It", " is", " 42."]
        assert deltas[-2] == Finish("stop")
        assert isinstance(deltas[-1], UsageDelta)
        assert model.requests == [first, second]
        assert model.abandoned == 0
        with pytest.raises(AssertionError, match="no turn 3"):
            await answer(model)

    asyncio.run(main())


def test_a_script_may_say_everything_itself() -> None:
    async def main() -> None:
        turn: list[Step] = [Thought("hm"), "cut", Finish("length"), UsageDelta(Usage(total_tokens=7))]
        deltas = await answer(ScriptedModel([turn]))
        assert deltas == [Thought("hm"), Text("cut"), Finish("length"), UsageDelta(Usage(total_tokens=7))]

    asyncio.run(main())


def test_a_script_may_fail_wait_and_be_left() -> None:
    async def main() -> None:
        go = asyncio.Event()
        model = ScriptedModel([[RateLimited("slow down")], ["a", go, "b"], ["a", "b"], [go]])
        with pytest.raises(RateLimited):
            await answer(model)
        waiting = asyncio.create_task(answer(model))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        go.set()
        assert text_of(await waiting) == "ab"
        async with aclosing(model.ask(asking())) as stream:
            assert await anext(stream) == [Text("a")]
        assert model.abandoned == 1
        go.clear()
        waiting = asyncio.create_task(answer(model))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert model.abandoned == 2

    asyncio.run(main())


def test_call_ids_are_never_used_twice() -> None:
    async def main() -> list[str]:
        model = ScriptedModel([[call("f"), call("f")], [call("f")]])
        deltas = [*await answer(model), *await answer(model)]
        return [delta.call_id for delta in deltas if isinstance(delta, CallBegun)]

    assert len(set(asyncio.run(main()))) == 3


def test_a_clock_stands_until_it_is_moved() -> None:
    clock = FakeClock(100.0)
    assert clock() == 100.0
    clock.advance(5)
    asyncio.run(clock.sleep(2.5))
    assert clock() == 107.5
    assert clock.slept == [2.5]


def test_the_official_client_understands_the_server() -> None:
    tool_turn: list[ReplyStep] = ["Well, ", call("f", city="Rome")]
    with (
        LoopbackUpstream([tool_turn, tool_turn], models=["a", "b"]) as server,
        OpenAI(base_url=server.base_url, api_key="k", max_retries=0) as client,
    ):
        assert [model.id for model in client.models.list()] == ["a", "b"]
        with client.chat.completions.stream(model="a", messages=[{"role": "user", "content": "hi"}]) as chat:
            message = chat.get_final_completion().choices[0]
        with client.responses.stream(model="a", input="hi") as responses:
            response = responses.get_final_response()
    assert message.message.content == "Well, "
    assert message.finish_reason == "tool_calls"
    assert message.message.tool_calls is not None
    assert json.loads(str(message.message.tool_calls[0].function.arguments)) == {"city": "Rome"}
    assert response.output_text == "Well, "
    assert response.output[1].type == "function_call"
    assert json.loads(response.output[1].arguments) == {"city": "Rome"}
    assert [received.path for received in server.requests] == ["/v1/models", "/v1/chat/completions", "/v1/responses"]
    assert server.requests[1].headers["authorization"] == "Bearer k"


def test_the_server_says_when_its_script_is_over() -> None:
    with LoopbackUpstream([Reply(status=402, body=b'{"pay": "first"}')]) as server:
        for expected in (b'{"pay": "first"}', b"no further reply"):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(f"{server.base_url}/responses", data=b"{}")
            assert expected in caught.value.read()
            caught.value.close()


def test_the_server_stops_with_replies_under_way() -> None:
    before = {*threading.enumerate()}
    with socket.socket() as client:
        with LoopbackUpstream([["begun", threading.Event()]]) as server:
            client.connect(("127.0.0.1", int(server.base_url.split(":")[2].removesuffix("/v1"))))
            client.settimeout(PATIENCE)
            client.sendall(b"POST /v1/responses HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
            got = b""
            while b"begun" not in got:
                got += client.recv(65536)
        with suppress(ConnectionResetError):
            while client.recv(65536):  # would time out if the connection were left open
                pass
    assert {*threading.enumerate()} <= before
