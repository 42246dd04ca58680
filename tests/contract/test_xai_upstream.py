"""A Grok model behind the gateway: its calls are run in our sandbox, its own runs are told in the same shape."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from openai import OpenAI
from openai.types.responses import Response
from tests.contract.upstream_house import ask_for_code, cells, logs, serve_vendor
from tests.gateway.houses import CODE, Scene

from belljar.testing import Reply, call

RECORDINGS = Path(__file__).parents[1] / "recordings" / "xai"
MODEL = "grok-4.3"
KEY = "xai-not-a-real-key"


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    scene = Scene()
    scene.server.models = [MODEL]
    with scene.server:
        yield scene


@pytest.fixture(scope="module")
def client(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    directory = tmp_path_factory.mktemp("xai")
    with serve_vendor(directory, scene, name="grok", dialect="xai", key=KEY) as client:
        yield client


def ask(client: OpenAI, **more: Any) -> Response:
    return ask_for_code(client, **{"model": MODEL, **more})


def recorded(name: str) -> Reply:
    lines = (RECORDINGS / name).read_text().splitlines()
    return Reply(body="".join(f"data: {line}\n\n" for line in lines).encode())


def test_a_turn_in_our_sandbox(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="print(6 * 7)")], "It is 42.")
    response = ask(client, instructions="Be brief.", reasoning={"effort": "low"})
    (cell,) = cells(response)
    assert (cell.code, logs(cell)) == ("print(6 * 7)", "42\n")
    assert response.output_text == "It is 42."
    first, second = scene.asked
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert first.json["input"][0] == {"type": "message", "role": "system", "content": "Be brief."}
    assert first.json["store"] is False
    assert first.json["reasoning"]["effort"] == "low"
    assert "instructions" not in first.json
    made, told = second.json["input"][-2:]
    assert (made["type"], told["type"]) == ("function_call", "function_call_output")
    assert "42" in told["output"]


def test_the_same_streamed(client: OpenAI, scene: Scene) -> None:
    code = "for n in range(3):\n    print(n, flush=True)"
    scene.play([call("code_interpreter", code=code)], "Three numbers.")
    kinds: list[str] = []
    written = ""
    with client.responses.stream(model=MODEL, tools=cast(Any, CODE), input="go") as stream:
        for event in stream:
            kinds.append(event.type)
            if event.type == "response.code_interpreter_call_code.delta":
                written += event.delta
        response = stream.get_final_response()
    assert written == code
    assert "belljar:code_interpreter_call.output.delta" in kinds
    assert (response.status, response.output_text) == ("completed", "Three numbers.")


def test_its_sealed_reasoning_goes_back_along_a_chain(client: OpenAI, scene: Scene) -> None:
    name = "xai-text-with-reasoning-streaming-store-false.1.chunks.txt"
    sealed = json.loads((RECORDINGS / name).read_text().splitlines()[-1])["response"]["output"][0]["encrypted_content"]
    scene.play(recorded(name), "Indeed.")
    first = ask(client)
    assert first.output_text.startswith("### Overview of Sonoran Cuisine")
    ask(client, input="Really?", previous_response_id=first.id)
    kept = [item["encrypted_content"] for item in scene.asked[-1].json["input"] if item["type"] == "reasoning"]
    assert kept == [sealed]


def test_code_that_xai_ran_itself(client: OpenAI, scene: Scene) -> None:
    scene.play(Reply(body=(RECORDINGS / "xai-code-execution-tool.1.json").read_bytes()), "Fine.")
    response = ask(client, extra_body={"belljar": {"executor": "provider"}})
    assert scene.asked[0].json["tools"] == [{"type": "code_interpreter"}]
    (cell,) = cells(response)
    assert cell.status == "completed"
    assert cell.code is not None
    assert cell.code.startswith("def fibonacci")
    assert response.output_text == "55"
    ask(client, extra_body={"belljar": {"executor": "provider"}}, previous_response_id=response.id)
    again = scene.asked[-1].json["input"][1]
    assert (again["type"], again["name"]) == ("code_interpreter_call", "code_execution")
    assert json.loads(again["arguments"])["code"] == cell.code
