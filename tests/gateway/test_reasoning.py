"""Reasoning of open models: summed up for those who ask, and handed to those who keep the conversation themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import Response
from pydantic_ai import Agent, ThinkingPart
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider
from tests.gateway.houses import CODE, House, Scene
from tests.gateway.test_schemas import checked
from tests.gateway.wiretap import Wire, thought

from belljar.testing import call

SEALED = ["reasoning.encrypted_content"]
SUMMED: Any = {"summary": "auto"}
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}


@pytest.fixture(scope="module")
def thinker() -> Iterator[Scene]:
    scene = Scene()
    with scene.server:
        yield scene


@pytest.fixture(scope="module")
def thinking(thinker: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """`vllm` takes a model's reasoning back."""
    state = tmp_path_factory.mktemp("thinking") / "state"
    with House(state, "--upstream", f"vllm={thinker.server.base_url}") as house:
        yield house


@pytest.fixture
def client(thinking: House) -> Iterator[OpenAI]:
    with OpenAI(base_url=thinking.base_url, api_key="none", max_retries=0) as client:
        yield client


def items(response: Response, *drop: str) -> list[dict[str, Any]]:
    """What a client that keeps the conversation sends back, but for members that it does not."""
    return [
        {name: value for name, value in item.to_dict().items() if name not in drop or item.type != "reasoning"}
        for item in response.output
    ]


def called(thinker: Scene, number: int = -1) -> dict[str, Any]:
    [turn] = [one for one in thinker.asked[number].json["messages"] if one.get("tool_calls")]
    found: dict[str, Any] = turn
    return found


def test_a_summary_is_there_for_those_who_ask(client: OpenAI, thinking: House, thinker: Scene) -> None:
    thinker.play(*[[*thought("First ", "this."), "Done."]] * 3)
    events = Wire(thinking.base_url).stream({"model": "sim", "input": "go", "reasoning": SUMMED})
    final = checked(events, code=False)
    deltas = [one["delta"] for one in events if one["type"] == "response.reasoning_summary_text.delta"]
    assert deltas == ["First ", "this."]
    kinds = [one["type"].removeprefix("response.") for one in events if one.get("output_index") == 0]
    assert kinds[1:3] == ["content_part.added", "reasoning_text.delta"]
    assert kinds[-5:-3] == ["reasoning_summary_text.done", "reasoning_summary_part.done"]
    assert final["output"][0]["summary"] == [{"type": "summary_text", "text": "First this."}]
    assert final["output"][0]["content"] == [{"type": "reasoning_text", "text": "First this."}]
    for asked in (None, {"effort": "low"}):
        bare = client.responses.create(model="sim", input="go", reasoning=asked)  # type: ignore[arg-type]
        assert bare.output[0].to_dict()["summary"] == []


@pytest.mark.parametrize("drop", [(), ("content",), ("content", "summary")])
def test_a_stateless_caller_brings_it_back_sealed(client: OpenAI, thinker: Scene, drop: tuple[str, ...]) -> None:
    thinker.play([*thought("Ask ", "them."), call("get_weather", city="Rome")], "Sunny.")
    asked: Any = {"model": "sim", "store": False, "include": SEALED, "tools": [WEATHER]}
    first = client.responses.create(input="go", **asked)
    reasoning, made = items(first, *drop)
    assert "Ask" not in reasoning["encrypted_content"]
    result = {"type": "function_call_output", "call_id": made["call_id"], "output": "25 degrees"}
    again: Any = [{"role": "user", "content": "go"}, {"summary": [], **reasoning}, made, result]
    assert client.responses.create(input=again, **asked).output_text == "Sunny."
    assert called(thinker)["reasoning"] == "Ask them."


def test_the_model_has_it_in_the_next_turn_of_the_same_response(client: OpenAI, thinker: Scene) -> None:
    thinker.play([*thought("Compute."), call("code_interpreter", code="6 * 7")], "42")
    asked: Any = {"model": "sim", "store": False, "include": SEALED, "tools": CODE}
    assert client.responses.create(input="go", **asked).output_text == "42"
    assert called(thinker)["reasoning"] == "Compute."


def test_a_chain_goes_on_with_it(client: OpenAI, thinker: Scene) -> None:
    thinker.play([*thought("Ask them."), call("get_weather", city="Rome")], "Sunny.")
    asked: Any = {"model": "sim", "include": SEALED, "tools": [WEATHER]}
    first = client.responses.create(input="go", **asked)
    result: Any = {"type": "function_call_output", "call_id": items(first)[1]["call_id"], "output": "25 degrees"}
    client.responses.create(input=[result], previous_response_id=first.id, **asked)
    assert called(thinker)["reasoning"] == "Ask them."
    kept = client.responses.retrieve(first.id)
    assert "encrypted_content" not in kept.output[0].to_dict()
    kept = client.responses.retrieve(first.id, include=["reasoning.encrypted_content"])
    assert kept.output[0] == first.output[0]


@pytest.mark.parametrize("changed", ["{0}AAAA", "belljar:x", "belljar:"])
def test_what_was_changed_on_the_way_is_refused(client: OpenAI, thinker: Scene, changed: str) -> None:
    thinker.play([*thought("Hm."), "Yes."])
    first = client.responses.create(model="sim", input="go", store=False, include=["reasoning.encrypted_content"])
    reasoning, message = items(first)
    reasoning["encrypted_content"] = changed.format(reasoning["encrypted_content"][:-4])
    again: Any = [reasoning, message, {"role": "user", "content": "go on"}]
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="sim", input=again)
    assert (caught.value.code, caught.value.param) == ("invalid_encrypted_content", "input[0].encrypted_content")
    assert "leave it out" in str(caught.value)


def test_a_seal_of_one_kind_is_none_of_the_other(client: OpenAI, thinker: Scene) -> None:
    thinker.play([*thought("Hm."), "Yes."])
    first = client.responses.create(model="sim", input="go", store=False, include=["reasoning.encrypted_content"])
    sealed = items(first)[0]["encrypted_content"]
    for swapped in (sealed, *(mark + sealed.removeprefix("belljar:") for mark in ("bj1.", "bj2."))):
        given: Any = [{"type": "compaction", "encrypted_content": swapped}]
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model="sim", input=given)


def test_pydantic_ai_replays_it(thinking: House, thinker: Scene) -> None:
    thinker.play([*thought("Ask them."), call("get_weather", city="Rome")], "Sunny.", "Still sunny.")

    async def run() -> list[str]:
        async with AsyncOpenAI(base_url=thinking.base_url, api_key="none", max_retries=0) as connection:
            settings = OpenAIResponsesModelSettings(openai_reasoning_summary="auto", openai_store=False)
            model = OpenAIResponsesModel("sim", provider=OpenAIProvider(openai_client=connection), settings=settings)
            agent: Agent[None, str] = Agent(model)

            @agent.tool_plain
            def get_weather(city: str) -> str:
                return f"25 degrees in {city}"

            first = await agent.run("go")
            await agent.run("and now?", message_history=first.all_messages())
            return [
                part.content for one in first.all_messages() for part in one.parts if isinstance(part, ThinkingPart)
            ]

    assert asyncio.run(run()) == ["Ask them."]
    for number in (1, 2):
        assert called(thinker, number)["reasoning"] == "Ask them."
