"""The same in asyncio: by a client of its own, or by the blocking one in a thread; nothing blocks the loop."""

from __future__ import annotations

import asyncio
import ssl
import threading
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI
from tests.gateway.houses import Scene
from tests.library.adapters.evaluation.conftest import MakeAdapter
from tests.library.adapters.evaluation.replies import (
    QUERY,
    QueryParams,
    QueryResult,
    calls,
    prompt,
    refuses,
    says,
    whole,
)

from belljar.errors import Declined, PromptEvaluationError
from belljar.prompt import PromptResponse, Tool, ToolContext, ToolResult
from belljar.runtime import PromptExecuted, Session, ToolInvoked
from belljar.testing import BREAK, Reply


@pytest.fixture(params=["async client", "thread"])
def evaluate(request: pytest.FixtureRequest, scene: Scene, make: MakeAdapter, plain: ssl.SSLContext) -> Any:
    """`evaluate(prompt, session, …)` as a coroutine, either way."""

    async def evaluated(asked: Any, session: Session, **more: Any) -> PromptResponse[Any]:
        if request.param == "thread":
            return await make().evaluate_async(asked, session=session, **more)
        async with AsyncOpenAI(
            base_url=scene.server.base_url, api_key="k", http_client=httpx2.AsyncClient(verify=plain)
        ) as client:
            return await make(async_client=client).evaluate_async(asked, session=session, **more)

    return evaluated


def test_a_whole_evaluation(evaluate: Any, scene: Scene, session: Session) -> None:
    scene.play(whole(calls("run_query", sql="x")), refuses(429, retry_after_ms="1"), says("done"))
    assert asyncio.run(evaluate(prompt(QUERY), session)).text == "done"
    assert [one.name for one in session[ToolInvoked].all()] == ["run_query"]
    assert len(session[PromptExecuted].all()) == 1
    assert len(scene.asked) == 3


def test_text_as_it_comes(evaluate: Any, scene: Scene, session: Session) -> None:
    heard: list[str] = []
    scene.play(Reply(steps=[BREAK]), "Hello there, you.")
    answer = asyncio.run(evaluate(prompt(), session, on_text=heard.append))
    assert "".join(heard) == answer.text == "Hello there, you."
    assert len(heard) > 1


def test_errors_are_the_same(evaluate: Any, scene: Scene, session: Session) -> None:
    scene.play(refuses(400))
    with pytest.raises(Declined) as caught:
        asyncio.run(evaluate(prompt(), session))
    assert isinstance(caught.value, PromptEvaluationError)


def test_a_listener_s_failure_is_its_own(evaluate: Any, scene: Scene, session: Session) -> None:
    def hear(text: str) -> None:
        raise KeyError("listener")

    scene.play("Hello.")
    with pytest.raises(KeyError, match="listener"):
        asyncio.run(evaluate(prompt(), session, on_text=hear))


def test_a_tool_that_blocks_does_not_block_the_loop(evaluate: Any, scene: Scene, session: Session) -> None:
    go = threading.Event()

    async def evaluated() -> PromptResponse[Any]:
        loop = asyncio.get_running_loop()

        def handle(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
            loop.call_soon_threadsafe(go.set)
            assert go.wait(60)
            return ToolResult("ok", None)

        tool = Tool[QueryParams, QueryResult](name="wait", description="d", handler=handle)
        answer: PromptResponse[Any] = await evaluate(prompt(tool), session)
        return answer

    scene.play(whole(calls("wait", sql="")), says("done"))
    assert asyncio.run(evaluated()).text == "done"


def coroutine_tool(*homes: object) -> Tool[QueryParams, QueryResult]:
    """Works only in one of these loops; any where none is given."""

    async def handle(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
        context.session.dispatch(QueryResult(1))
        await asyncio.sleep(0)
        assert not homes or asyncio.get_running_loop() in homes
        assert params.sql != "bad"
        return ToolResult("ok", None)

    return Tool[QueryParams, QueryResult](name="later", description="d", handler=handle)


def test_a_tool_that_is_a_coroutine_is_awaited_in_the_caller_s_loop(
    evaluate: Any, scene: Scene, session: Session
) -> None:
    async def evaluated() -> PromptResponse[Any]:
        answer: PromptResponse[Any] = await evaluate(prompt(coroutine_tool(asyncio.get_running_loop())), session)
        return answer

    scene.play(whole(calls("later", sql=""), calls("later", "call_2", sql="bad")), says("done"))
    assert asyncio.run(evaluated()).text == "done"
    assert [one.result.success for one in session[ToolInvoked].all()] == [True, False]
    assert session[QueryResult].all() == (QueryResult(1),)  # what failed was undone


def test_blocking_awaits_it_too(make: MakeAdapter, scene: Scene, session: Session) -> None:
    scene.play(whole(calls("later", sql=""), calls("later", "call_2", sql="")), says("done"))
    assert make().evaluate(prompt(coroutine_tool()), session=session).text == "done"
    assert [one.result.success for one in session[ToolInvoked].all()] == [True, True]


def test_a_coroutine_may_evaluate_blocking(evaluate: Any, make: MakeAdapter, scene: Scene, session: Session) -> None:
    """It should not, since it holds up its loop; but it comes to an end."""

    async def handle(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
        inner = make().evaluate(prompt(coroutine_tool()), session=session)
        return ToolResult(inner.text or "", None)

    outer = Tool[QueryParams, QueryResult](name="outer", description="d", handler=handle)
    scene.play(whole(calls("outer", sql="")), whole(calls("later", sql="")), says("inside"), says("done"))
    assert asyncio.run(evaluate(prompt(outer), session)).text == "done"
    told: list[Any] = [one.result for one in session[ToolInvoked].all()]
    assert [one.message for one in told] == ["ok", "inside"]


def test_a_coroutine_whose_loop_ended_holds_up_nobody(make: MakeAdapter, scene: Scene, session: Session) -> None:
    begun, told = threading.Event(), threading.Event()

    async def handle(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def evaluated() -> None:
        task = asyncio.create_task(make().evaluate_async(prompt(tool), session=session))
        assert await asyncio.to_thread(begun.wait, 60)
        task.cancel()

    session.observe(ToolInvoked, lambda old, new: told.set())
    tool = Tool[QueryParams, QueryResult](name="never", description="d", handler=handle)
    scene.play(whole(calls("never", sql="")))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(evaluated())
    assert told.wait(60)
    [result] = [one.result for one in session[ToolInvoked].all()]
    assert result == ToolResult.error("Tool 'never' execution failed: it was cancelled")
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_whoever_is_not_waited_for_is_no_coroutine(make: MakeAdapter, session: Session) -> None:
    async def hear(*given: object, **more: object) -> Any:
        raise NotImplementedError

    class Listener:
        __call__ = hear

    given: Any
    for given in (hear, Listener()):
        with pytest.raises(TypeError, match=r"on_text: .* is a coroutine function, and nothing here awaits it"):
            make().evaluate(prompt(), session=session, on_text=given)
        with pytest.raises(TypeError, match=r"subscribe\(ToolInvoked"):
            session.dispatcher.subscribe(ToolInvoked, given)
        with pytest.raises(TypeError, match=r"observe\(ToolInvoked"):
            session.observe(ToolInvoked, given)
        with pytest.raises(TypeError, match=r"register\(QueryResult"):
            session[QueryResult].register(QueryResult, given)


class Waiting(threading.Event):
    """Is never set, and tells when it is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()

    def is_set(self) -> bool:
        self.begun.set()
        return False


def test_cancelling_hangs_up(scene: Scene, make: MakeAdapter, session: Session, plain: ssl.SSLContext) -> None:
    never = Waiting()

    async def cancelled() -> None:
        async with AsyncOpenAI(
            base_url=scene.server.base_url, api_key="k", http_client=httpx2.AsyncClient(verify=plain)
        ) as client:
            task = asyncio.create_task(make(async_client=client).evaluate_async(prompt(), session=session))
            assert await asyncio.to_thread(never.begun.wait, 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    scene.play(Reply(steps=["late"], before=never))
    asyncio.run(cancelled())
    assert scene.server.abandoned.wait(30)
    assert session[PromptExecuted].all() == ()
