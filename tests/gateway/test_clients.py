"""Agents of others run code with the gateway, streaming and not, and nothing but their address changed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from typing import Any, TypeVar, cast

import agents
import pytest
from agents import CodeInterpreterTool, OpenAIResponsesModel, RunConfig, Runner
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import ResponseCodeInterpreterToolCall
from pydantic_ai import Agent, AgentRunResult, FilePart, NativeToolCallPart, NativeToolReturnPart, PartStartEvent
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.models.openai import OpenAIResponsesModel as PydanticModel
from pydantic_ai.models.openai import OpenAIResponsesModelSettings
from pydantic_ai.native_tools import CodeExecutionTool
from pydantic_ai.providers.openai import OpenAIProvider
from tests.gateway.houses import CODE, House, Scene

from belljar.testing import call

T = TypeVar("T")

MODELS = ["belljar", "sim"]
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint(6 * 7)"


def script(scene: Scene, *cells: str) -> None:
    """What the scripted model does; the built-in one runs what it is sent."""
    turns: list[Any] = []
    for code in cells:
        turns += [[call("code_interpreter", code=code)], "There you are."]
    scene.play(*turns)


# -- openai-agents ----------------------------------------------------------------------------------------------------


def with_agent(house: House, model: str, use: Callable[[agents.Agent[Any]], Awaitable[T]]) -> T:
    async def run() -> T:
        async with AsyncOpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
            tool = CodeInterpreterTool(tool_config=cast(Any, CODE[0]))
            agent = agents.Agent[Any](
                name="helper", model=OpenAIResponsesModel(model=model, openai_client=client), tools=[tool]
            )
            return await use(agent)

    return asyncio.run(run())


QUIET = RunConfig(tracing_disabled=True)


def cell(items: list[Any]) -> ResponseCodeInterpreterToolCall:
    [found] = [item.raw_item for item in items if isinstance(item.raw_item, ResponseCodeInterpreterToolCall)]
    return found


@pytest.mark.parametrize("model", MODELS)
def test_openai_agents_run_and_go_on(house: House, scene: Scene, model: str) -> None:
    async def use(agent: agents.Agent[Any]) -> tuple[agents.RunResult, agents.RunResult]:
        first = await Runner.run(agent, PLOT, run_config=QUIET)
        second = await Runner.run(agent, "6 + 1", previous_response_id=first.last_response_id, run_config=QUIET)
        return first, second

    script(scene, PLOT, "6 + 1")
    first, second = with_agent(house, model, use)
    assert cell(first.new_items).code == PLOT
    assert cell(first.new_items).status == "completed"
    assert first.final_output
    assert cell(second.new_items).container_id == cell(first.new_items).container_id


@pytest.mark.parametrize("model", MODELS)
def test_openai_agents_run_streamed(house: House, scene: Scene, model: str) -> None:
    async def use(agent: agents.Agent[Any]) -> tuple[list[str], agents.RunResultStreaming]:
        result = Runner.run_streamed(agent, PLOT, run_config=QUIET)
        kinds: list[str] = [
            event.data.type if event.type == "raw_response_event" else event.type
            async for event in result.stream_events()
        ]
        return kinds, result

    script(scene, PLOT)
    kinds, result = with_agent(house, model, use)
    assert "response.code_interpreter_call_code.delta" in kinds
    assert "run_item_stream_event" in kinds
    assert cell(result.new_items).code == PLOT
    assert result.final_output


def test_openai_agents_replay_their_own_history(house: House, scene: Scene) -> None:
    """Without previous_response_id, by items: the container goes on, and the model reads what was printed."""

    async def use(agent: agents.Agent[Any]) -> agents.RunResult:
        first = await Runner.run(agent, "go", run_config=QUIET)
        history: Any = [*first.to_input_list(), {"role": "user", "content": "again"}]
        return await Runner.run(agent, history, run_config=QUIET)

    script(scene, "x = 41; print('printed before')", "x + 1")
    with_agent(house, "sim", use)
    told = scene.asked[2].body.decode()
    assert "printed before" in told
    assert "x = 41" in told


def test_openai_agents_keep_their_session_in_a_conversation(house: House, client: OpenAI, scene: Scene) -> None:
    conversation = client.conversations.create()

    async def use(agent: agents.Agent[Any]) -> list[agents.RunResult]:
        asked: Any = {"conversation_id": conversation.id, "run_config": QUIET}
        return [await Runner.run(agent, text, **asked) for text in ("x = 41", "x + 1")]

    first, second = with_agent(house, "belljar", use)
    assert cell(second.new_items).container_id == cell(first.new_items).container_id
    assert "42" in second.final_output


# -- pydantic-ai ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def pydantic_agent(house: House, model: str, **settings: Any) -> AsyncIterator[Agent[None, str]]:
    async with AsyncOpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        asked = cast(OpenAIResponsesModelSettings, {"openai_include_code_execution_outputs": True, **settings})
        made = PydanticModel(model, provider=OpenAIProvider(openai_client=client), settings=asked)
        yield Agent(made, capabilities=[NativeTool(CodeExecutionTool())])


def parts(result: AgentRunResult[str], kind: type[T]) -> list[T]:
    return [part for message in result.new_messages() for part in message.parts if isinstance(part, kind)]


def logs(result: AgentRunResult[str]) -> Any:
    [returned] = parts(result, NativeToolReturnPart)
    return cast(Any, returned.content)["logs"]


def check_turn(result: AgentRunResult[str]) -> None:
    [made] = parts(result, NativeToolCallPart)
    arguments = made.args_as_dict()
    assert arguments["container_id"].startswith("cntr_")
    assert arguments["code"] == PLOT
    [returned] = parts(result, NativeToolReturnPart)
    assert returned.content == {"status": "completed", "logs": ["42\n"]}
    [image] = parts(result, FilePart)
    assert image.content.media_type == "image/png"
    assert result.output


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("settings", [{}, {"openai_background": True}], ids=["foreground", "background"])
def test_pydantic_ai_runs(house: House, scene: Scene, model: str, settings: dict[str, Any]) -> None:
    async def run() -> AgentRunResult[str]:
        async with pydantic_agent(house, model, **settings) as agent:
            return await agent.run(PLOT)

    script(scene, PLOT)
    check_turn(asyncio.run(run()))


@pytest.mark.parametrize("model", MODELS)
def test_pydantic_ai_streams(house: House, scene: Scene, model: str) -> None:
    async def run() -> tuple[str, str]:
        async with pydantic_agent(house, model) as agent, agent.run_stream(PLOT) as result:
            said = [piece async for piece in result.stream_text(delta=True)]
            return "".join(said), await result.get_output()

    script(scene, PLOT)
    said, output = asyncio.run(run())
    assert said == output


@pytest.mark.parametrize("model", MODELS)
def test_pydantic_ai_iterates(house: House, scene: Scene, model: str) -> None:
    async def run() -> tuple[list[str], AgentRunResult[str]]:
        kinds: list[str] = []
        async with pydantic_agent(house, model) as agent, agent.iter(PLOT) as steps:
            async for node in steps:
                if Agent.is_model_request_node(node):
                    async with node.stream(steps.ctx) as stream:
                        kinds += [event.part.part_kind async for event in stream if isinstance(event, PartStartEvent)]
            assert steps.result is not None
            return kinds, steps.result

    script(scene, PLOT)
    kinds, result = asyncio.run(run())
    assert [kind for kind in kinds if kind != "text"] == ["builtin-tool-call", "file", "builtin-tool-return"]
    check_turn(result)


@pytest.mark.parametrize("fate", ["alive", "expired", "deleted"])
def test_pydantic_ai_replays_its_history(house: House, client: OpenAI, scene: Scene, fate: str) -> None:
    """It names the container of an earlier call, and leaves out what that printed: the gateway knows it."""

    async def run() -> tuple[AgentRunResult[str], AgentRunResult[str]]:
        async with pydantic_agent(house, "sim", openai_send_reasoning_ids=True) as agent:
            first = await agent.run("go")
            id = container(first)
            if fate == "expired":
                expire(house, id)
                assert client.containers.retrieve(id).status == "expired"
            elif fate == "deleted":
                client.containers.delete(id)
            return first, await agent.run("again", message_history=first.all_messages())

    script(scene, "open('kept', 'w').close(); print('printed before')", "import os; os.listdir()")
    first, second = asyncio.run(run())
    assert logs(second) == ["[]" if fate == "deleted" else "['kept']"]
    assert (container(first) == container(second)) is (fate != "deleted")
    told = json.dumps(scene.asked[2].json["messages"])
    assert "open('kept', 'w')" in told
    assert "printed before" in told


def container(result: AgentRunResult[str]) -> str:
    [made] = parts(result, NativeToolCallPart)
    return str(made.args_as_dict()["container_id"])


def expire(house: House, id: str) -> None:
    """As if nobody had used it for an hour."""
    rows = sqlite3.connect(house.state / "records.db", timeout=30)
    with closing(rows), rows:
        rows.execute("UPDATE containers SET last_active_at = last_active_at - 3600 WHERE id = ?", [id])


def test_pydantic_ai_goes_on_by_id(house: House, scene: Scene) -> None:
    async def run() -> AgentRunResult[str]:
        async with pydantic_agent(house, "sim", openai_previous_response_id="auto") as agent:
            first = await agent.run("go")
            return await agent.run("again", message_history=first.all_messages())

    script(scene, "x = 41", "x + 1")
    assert logs(asyncio.run(run())) == ["42"]


def test_pydantic_ai_over_a_websocket(house: House, scene: Scene) -> None:
    """A response that is not stored can be gone on from on its own socket, and nowhere else."""

    async def run() -> AgentRunResult[str]:
        async with pydantic_agent(house, "sim", openai_transport="websocket", openai_store=False) as agent, agent:
            first = await agent.run("go")
            return await agent.run("again", message_history=first.all_messages())

    script(scene, "x = 41", "x + 1")
    assert logs(asyncio.run(run())) == ["42"]
