"""A gateway with a model behind it that speaks Anthropic's wire: code runs in our sandbox, or in the vendor's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import InternalServerError, OpenAI
from tests.gateway.houses import CODE, OUTPUTS, House, Scene

from belljar.testing import Reply, call

RECORDINGS = Path(__file__).parents[1] / "recordings" / "anthropic"
MODEL = "claude-sonnet-5"
KEY = "sk-ant-0123456789"
CHART = bytes(range(256)) * 40
PROVIDER = {"belljar": {"executor": "provider"}}


@pytest.fixture(scope="module")
def _scene() -> Iterator[Scene]:
    scene = Scene()
    scene.server.models = [MODEL]
    scene.server.files = {"file_011chart": ("chart.png", CHART)}
    with scene.server:
        yield scene


@pytest.fixture(scope="module")
def house(_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    home = tmp_path_factory.mktemp("anthropic")
    settings = home / "config.toml"
    settings.write_text(
        f'[upstreams.lab]\nbase_url = "{_scene.server.base_url}"\ndialect = "anthropic"\napi_key = "{KEY}"\n'
    )
    with House(home / "state", "--config", str(settings)) as house:
        yield house


@pytest.fixture
def scene(_scene: Scene) -> Scene:
    _scene.play()
    return _scene


@pytest.fixture
def client(house: House) -> Iterator[OpenAI]:
    with OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        yield client


def asked(client: OpenAI, stream: bool, **more: Any) -> Any:
    """The response, as it came in one piece or at the end of its stream."""
    wanted = {"model": MODEL, "input": "6 * 7?", "tools": CODE, "include": OUTPUTS, **more}
    if not stream:
        return client.responses.create(**wanted)
    *_, last = client.responses.create(stream=True, **wanted)
    assert last.type == "response.completed", last
    return last.response


def of_type(response: Any, kind: str) -> list[Any]:
    return [item for item in response.output if item.type == kind]


def frames(*events: dict[str, Any]) -> bytes:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def ran(*files: str, pause: bool = False) -> bytes:
    """A recorded turn in which the vendor ran code, with files that it is said to have made."""
    name = "anthropic-code-execution-20260120-prompt-cache.1.chunks.txt"
    events = [json.loads(line) for line in (RECORDINGS / name).read_text(encoding="utf-8").splitlines()]
    for event in events:
        block = event.get("content_block", {})
        if event.get("index") == 3 and block:
            block["content"]["content"] = [{"type": "bash_code_execution_output", "file_id": id} for id in files]
        if pause and event["type"] == "message_delta":
            event["delta"]["stop_reason"] = "pause_turn"
    return frames(*events)


def thought(signature: str) -> bytes:
    start = {"type": "thinking", "thinking": "", "signature": ""}
    return frames(
        {"type": "content_block_start", "index": 90, "content_block": start},
        {"type": "content_block_delta", "index": 90, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
        {"type": "content_block_delta", "index": 90, "delta": {"type": "signature_delta", "signature": signature}},
        {"type": "content_block_stop", "index": 90},
    )


# -- our sandbox ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_turn_with_code(client: OpenAI, scene: Scene, stream: bool) -> None:
    scene.play(["Let me see. ", call("code_interpreter", code="print(6 * 7)")], ["It is 42."])
    response = asked(client, stream)
    assert [item.type for item in response.output] == ["message", "code_interpreter_call", "message"]
    (cell,) = of_type(response, "code_interpreter_call")
    assert (cell.code, cell.status, cell.outputs[0].logs) == ("print(6 * 7)", "completed", "42\n")
    assert response.output[-1].content[0].text == "It is 42."
    assert response.usage.total_tokens > 2
    first, second = scene.asked
    assert first.path == "/v1/messages"
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.headers["anthropic-version"] == "2026-10-21"
    _, said, result = second.json["messages"]
    assert [block["type"] for block in said["content"]] == ["text", "tool_use"]
    (told,) = result["content"]
    assert told["tool_use_id"] == said["content"][1]["id"]
    assert "42" in told["content"][0]["text"]


def test_the_model_sees_its_pictures(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="from PIL import Image\nImage.new('RGB', (2, 2))")], ["White."])
    asked(client, False)
    (told,) = scene.asked[1].json["messages"][-1]["content"]
    assert [block["type"] for block in told["content"]] == ["text", "image"]
    assert told["content"][1]["source"]["media_type"] == "image/png"


def test_a_function_of_the_callers(client: OpenAI, scene: Scene) -> None:
    scene.play([call("weather", city="Oslo")], ["It rains."])
    tools = [{"type": "function", "name": "weather", "parameters": {"type": "object"}}]
    first = asked(client, False, tools=tools)
    (made,) = of_type(first, "function_call")
    assert json.loads(made.arguments) == {"city": "Oslo"}
    output = {"type": "function_call_output", "call_id": made.call_id, "output": "rain"}
    then = asked(client, False, tools=tools, input=[output], previous_response_id=first.id)
    assert then.output_text == "It rains."
    (told,) = scene.asked[1].json["messages"][-1]["content"]
    assert told == {
        "type": "tool_result",
        "tool_use_id": made.call_id,
        "content": [{"type": "text", "text": "rain"}],
    }


@pytest.mark.parametrize("kept", [True, False])
def test_thoughts_go_back_with_their_signature(client: OpenAI, scene: Scene, kept: bool) -> None:
    scene.play([thought("S1"), "Yes."], ["Still."])
    first = asked(client, True, store=kept, include=["reasoning.encrypted_content"], tools=[])
    (reasoning,) = of_type(first, "reasoning")
    assert reasoning.summary[0].text == "Hm."
    if kept:
        asked(client, False, tools=[], previous_response_id=first.id, input="Sure?")
    else:
        before = [{"role": "user", "content": "6 * 7?"}, *(item.to_dict() for item in first.output)]
        asked(client, False, tools=[], store=False, input=[*before, {"role": "user", "content": "Sure?"}])
    said = scene.asked[1].json["messages"][1]["content"]
    assert said[0] == {"type": "thinking", "thinking": "Hm.", "signature": "S1"}


def test_a_key_that_is_refused(client: OpenAI, scene: Scene) -> None:
    error = {"type": "error", "error": {"type": "authentication_error", "message": f"invalid x-api-key {KEY}"}}
    scene.play(Reply(status=401, body=json.dumps(error).encode()))
    with pytest.raises(InternalServerError, match="lab refused the key") as caught:
        asked(client, False)
    assert KEY not in str(caught.value)


# -- the vendor's -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_file_that_the_vendors_code_made_is_ours(client: OpenAI, scene: Scene, stream: bool) -> None:
    scene.play([ran("file_011chart")], ["Again."])
    response = asked(client, stream, extra_body=PROVIDER)
    assert scene.asked[0].json["tools"] == [{"type": "code_execution_20260521", "name": "code_execution"}]
    first, second = of_type(response, "code_interpreter_call")
    assert second.code.startswith("sum=0; for n in")
    assert second.outputs[0].logs == "Sum: 650\n"
    assert first.container_id == second.container_id
    assert first.container_id.startswith("cntr_")
    (citation,) = response.output[-1].content[0].annotations
    assert (citation.filename, citation.container_id) == ("chart.png", first.container_id)
    content = client.containers.files.content.retrieve(citation.file_id, container_id=citation.container_id)
    assert content.read() == CHART
    (file,) = client.containers.files.list(citation.container_id)
    assert (file.path, file.source) == ("/mnt/data/chart.png", "assistant")

    then = asked(client, stream, extra_body=PROVIDER, previous_response_id=response.id, input="Again?")
    assert then.output_text == "Again."
    blocks = scene.asked[-1].json["messages"][1]["content"]
    kinds = ["server_tool_use", "bash_code_execution_tool_result"]
    assert [block["type"] for block in blocks] == [*kinds, *kinds, "text"]
    assert blocks[3]["content"]["stdout"] == "Sum: 650\n"


def test_code_of_ours_goes_on_with_the_vendors_files(client: OpenAI, scene: Scene) -> None:
    scene.play(
        [ran("file_011chart")], [call("code_interpreter", code="import os; os.path.getsize('chart.png')")], ["Ok."]
    )
    first = asked(client, False, extra_body=PROVIDER)
    then = asked(client, False, previous_response_id=first.id, input="How large?")
    (cell,) = of_type(then, "code_interpreter_call")
    assert cell.outputs[0].logs.strip() == str(len(CHART))


def test_a_file_that_is_lost_is_told(client: OpenAI, scene: Scene) -> None:
    scene.play([ran("file_gone")])
    response = asked(client, True, extra_body=PROVIDER)
    _, second = of_type(response, "code_interpreter_call")
    assert second.outputs[0].logs == "Sum: 650\n"
    assert second.outputs[1].logs.startswith("[The file file_gone could not be kept: lab: there is no such path")
    assert response.output[-1].content[0].annotations == []


@pytest.mark.parametrize("stream", [False, True])
def test_a_turn_that_the_vendor_paused(client: OpenAI, scene: Scene, stream: bool) -> None:
    scene.play([ran(pause=True)], [" That is all."])
    response = asked(client, stream, extra_body=PROVIDER)
    assert [item.type for item in response.output] == ["code_interpreter_call", "code_interpreter_call", "message"]
    text = response.output_text
    assert text.startswith("The sum of the squares")
    assert text.endswith("**650**. That is all.")
    first, second = scene.asked
    assert second.json["container"] == "container_01Qh1LG5zm6onKQjYrHnhrvi"
    assert second.json["messages"][:-1] == first.json["messages"]
    said = second.json["messages"][-1]
    assert said["role"] == "assistant"
    assert [block["type"] for block in said["content"]].count("server_tool_use") == 2
    assert response.usage.input_tokens == 9632 + 1
