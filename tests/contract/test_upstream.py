"""The suite of the port `AnsweringModel`: every test here runs over every kind of model that the gateway can ask."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import TypeAlias

import pytest

from belljar.config import Upstream
from belljar.gateway.builtin_model.model import BuiltIn
from belljar.gateway.upstream.transport import Transport
from belljar.gateway.upstream.upstream_model import DialectModel
from belljar.testing import LoopbackUpstream, ReplyStep, ScriptedModel, call
from belljar.vendors.deltas import (
    AnsweringModel,
    Begun,
    CallBegun,
    CallEnd,
    CallPiece,
    Delta,
    Finish,
    Text,
    ThoughtEnd,
    UsageDelta,
    VendorState,
)
from belljar.vendors.request import ModelRequest
from belljar.wire.items import InputText, Message
from belljar.wire.tools import FunctionTool

CODE = "a = 6\nb = 7\nprint('å', a * b)\n"
INTERPRETER = FunctionTool(name="code_interpreter", parameters={"type": "object"})
TURNS = 64

Making: TypeAlias = Callable[[str], AbstractAsyncContextManager[AnsweringModel]]
"""A model that says something, or calls the interpreter with `CODE`, each time it is asked."""


@asynccontextmanager
async def scripted(does: str) -> AsyncIterator[AnsweringModel]:
    turn = [call("code_interpreter", code=CODE)] if does == "call" else ["Hello there, how are you?"]
    yield ScriptedModel([turn] * TURNS)


@asynccontextmanager
async def built_in(does: str) -> AsyncIterator[AnsweringModel]:
    yield BuiltIn()


def served(dialect: str, host: str) -> Making:
    @asynccontextmanager
    async def make(does: str) -> AsyncIterator[AnsweringModel]:
        said: list[ReplyStep] = ["Hello there, ", 0.001, "how are you?"]
        turn = [call("code_interpreter", code=CODE)] if does == "call" else said
        transport = Transport()
        with LoopbackUpstream([turn] * TURNS) as server:
            base_url = server.base_url.replace("127.0.0.1", host)
            yield DialectModel(Upstream(name="lab", base_url=base_url, dialect=dialect), transport)
            await transport.close()

    return make


MODELS: dict[str, Making] = {
    "scripted": scripted,
    "built-in": built_in,
    "chat, small client": served("chat", "127.0.0.1"),
    "chat, full client": served("chat", "0.0.0.0"),
    "openai, small client": served("openai", "127.0.0.1"),
    "openai, full client": served("openai", "0.0.0.0"),
    "gemini, small client": served("gemini", "127.0.0.1"),
    "gemini, full client": served("gemini", "0.0.0.0"),
    "xai, small client": served("xai", "127.0.0.1"),
    "anthropic, small client": served("anthropic", "127.0.0.1"),
    "anthropic, full client": served("anthropic", "0.0.0.0"),
}


@pytest.fixture(params=list(MODELS))
def making(request: pytest.FixtureRequest) -> Making:
    return MODELS[request.param]


def asking(does: str) -> ModelRequest:
    text = f"```python\n{CODE}```" if does == "call" else "hello"
    items = (Message(role="user", content=(InputText(text=text),)),)
    return ModelRequest(model="sim", items=items, tools=(INTERPRETER,))


_UNSAID = (Begun, VendorState, ThoughtEnd)


async def all_of(stream: AsyncGenerator[list[Delta], None]) -> list[Delta]:
    """What is said and done; what goes back to the vendor unread is each dialect's own affair."""
    return [delta async for batch in stream for delta in batch if not isinstance(delta, _UNSAID)]


async def test_an_answer_in_words(making: Making) -> None:
    async with making("say") as model:
        deltas = await all_of(model.ask(asking("say")))
    *words, finish, spent = deltas
    assert len(words) > 1
    assert all(isinstance(delta, Text) and delta.text for delta in words)
    assert finish == Finish("stop")
    assert isinstance(spent, UsageDelta)
    assert spent.usage.output_tokens > 0
    assert spent.usage.total_tokens == spent.usage.input_tokens + spent.usage.output_tokens


async def test_a_call(making: Making) -> None:
    async with making("call") as model:
        begun, *pieces, end, finish, spent = await all_of(model.ask(asking("call")))
    assert isinstance(begun, CallBegun)
    assert begun.name == "code_interpreter"
    assert begun.call_id
    assert isinstance(end, CallEnd)
    assert json.loads(end.arguments) == {"code": CODE}
    texts = [piece.text for piece in pieces if isinstance(piece, CallPiece) and piece.index == begun.index == end.index]
    assert len(texts) == len(pieces) > 1
    assert "".join(texts) == end.arguments
    assert finish == Finish("calls")
    assert isinstance(spent, UsageDelta)


async def test_no_list_is_empty(making: Making) -> None:
    async with making("say") as model, aclosing(model.ask(asking("say"))) as stream:
        async for batch in stream:
            assert batch


async def test_many_at_once(making: Making) -> None:
    async with making("call") as model:
        answers = await asyncio.gather(*(all_of(model.ask(asking("call"))) for _ in range(TURNS)))
    begun = [delta for deltas in answers for delta in deltas if isinstance(delta, CallBegun)]
    assert len(begun) == TURNS
    assert len({delta.call_id for delta in begun}) == TURNS


async def test_one_after_another(making: Making) -> None:
    async with making("say") as model:
        first = await all_of(model.ask(asking("say")))
        assert [await all_of(model.ask(asking("say"))) for _ in range(3)] == [first] * 3


@pytest.mark.parametrize("batches", [0, 1])
async def test_leaving_early_leaves_nothing(making: Making, batches: int) -> None:
    before = asyncio.all_tasks()
    async with making("say") as model:
        for _ in range(5):
            async with aclosing(model.ask(asking("say"))) as stream:
                for _ in range(batches):
                    await anext(stream)
        assert await all_of(model.ask(asking("say")))
    assert asyncio.all_tasks() <= before
