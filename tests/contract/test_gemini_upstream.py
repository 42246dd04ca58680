"""A Gemini model behind the gateway: its calls are run in our sandbox, its own runs are told in the same shape."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import openai
import pytest
import yaml
from openai import OpenAI
from openai.types.responses import Response
from tests.contract.upstream_house import ask_for_code, cells, logs, serve_vendor
from tests.gateway.houses import CODE, Scene

from belljar.testing import Reply, call
from belljar.testing.gemini_wire import signature

RECORDINGS = Path(__file__).parents[1] / "recordings" / "gemini"
MODEL = "gemini-3-flash-preview"
KEY = "AIza-not-a-real-key"
WEATHER = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
    "strict": True,
}


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    scene = Scene()
    scene.server.models = [MODEL]
    with scene.server:
        yield scene


@pytest.fixture(scope="module")
def client(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    directory = tmp_path_factory.mktemp("gemini")
    with serve_vendor(directory, scene, name="google", dialect="gemini", key=KEY) as client:
        yield client


def ask(client: OpenAI, **more: Any) -> Response:
    return ask_for_code(client, **{"model": MODEL, **more})


def parts(scene: Scene, turn: int = -1) -> list[dict[str, Any]]:
    return [part for content in scene.asked[turn].json["contents"] for part in content["parts"]]


def frame(*said: dict[str, Any], reason: str | None = None) -> bytes:
    candidate: dict[str, Any] = {"content": {"parts": list(said), "role": "model"}}
    return f"data: {json.dumps({'candidates': [{**candidate, 'finishReason': reason}]})}\r\n\r\n".encode()


def test_its_models_are_listed(client: OpenAI, scene: Scene) -> None:
    scene.play()
    assert [model.id for model in client.models.list()] == ["belljar", MODEL]


def test_a_turn_in_our_sandbox(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="print(6 * 7)")], "It is 42.")
    response = ask(client)
    (cell,) = cells(response)
    assert (cell.code, logs(cell)) == ("print(6 * 7)", "42\n")
    assert response.output_text == "It is 42."
    assert response.output[-1].type == "message"
    first, second = scene.asked
    assert first.path == f"/v1/models/{MODEL}:streamGenerateContent?alt=sse"
    assert first.headers["x-goog-api-key"] == KEY
    assert "authorization" not in first.headers
    (tool,) = first.json["tools"]
    assert [one["name"] for one in tool["functionDeclarations"]] == ["code_interpreter"]
    made, told = parts(scene)[-2:]
    assert made["functionCall"]["args"] == {"code": "print(6 * 7)"}
    assert made["thoughtSignature"].startswith("c2lnbmF0dXJl")
    assert "42" in told["functionResponse"]["response"]["output"]
    assert made["functionCall"]["id"] == told["functionResponse"]["id"]
    assert second.json["contents"][-1]["role"] == "user"


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
    assert kinds.count("response.code_interpreter_call_code.delta") > 2
    assert "belljar:code_interpreter_call.output.delta" in kinds
    assert (response.status, response.output_text) == ("completed", "Three numbers.")


def test_a_call_that_comes_whole(client: OpenAI, scene: Scene) -> None:
    made = {"functionCall": {"name": "code_interpreter", "args": {"code": "print(1)"}}, "thoughtSignature": "c2ln"}
    scene.play(Reply(steps=[frame(made, reason="STOP")]), "One.")
    response = ask(client)
    assert logs(cells(response)[0]) == "1\n"
    assert parts(scene)[-2]["thoughtSignature"] == "c2ln"


def test_what_it_signed_goes_back_along_a_chain(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="print(1)")], "One.", "Two.")
    first = ask(client)
    assert "sealed" not in first.to_json()
    ask(client, input="And then?", previous_response_id=first.id)
    signed = [part["thoughtSignature"] for part in parts(scene) if "thoughtSignature" in part]
    assert len(signed) == 2
    assert all(one.startswith(signature(0)[:12]) for one in signed)
    kinds = [next(iter(part)) for part in parts(scene)]
    assert kinds == ["text", "functionCall", "functionResponse", "text", "text", "text"]


def test_without_what_was_signed_there_is_a_stand_in(client: OpenAI, scene: Scene) -> None:
    scene.play("Sunny.")
    given = [
        {"role": "user", "content": "Weather?"},
        {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "sun"},
    ]
    response = ask(client, tools=[WEATHER], input=given, store=False)
    assert response.output_text == "Sunny."
    assert parts(scene)[1]["thoughtSignature"] == "skip_thought_signature_validator"
    assert scene.asked[0].json["toolConfig"]["functionCallingConfig"]["mode"] == "VALIDATED"


def test_pictures_go_back_with_the_result(client: OpenAI, scene: Scene) -> None:
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    scene.play([call("code_interpreter", code=code)], "A line.")
    ask(client)
    (image,) = parts(scene)[-1]["functionResponse"]["parts"]
    assert image["inlineData"]["mimeType"] == "image/png"


def test_recorded_calls_of_the_callers_functions(client: OpenAI, scene: Scene) -> None:
    lines = (RECORDINGS / "google-tool-call-gemini3.chunks.txt").read_text().splitlines()
    scene.play(Reply(body="".join(f"data: {line}\r\n\r\n" for line in lines).encode()))
    response = ask(client, tools=[WEATHER])
    (made,) = (item for item in response.output if item.type == "function_call")
    assert json.loads(made.arguments) == {"location": "San Francisco"}


def test_code_that_gemini_ran_itself(client: OpenAI, scene: Scene) -> None:
    (exchange,) = yaml.safe_load((RECORDINGS / "test_code_execution_stream.yaml").read_text())["interactions"]
    scene.play(Reply(body=exchange["response"]["body"]["string"].encode()))
    response = ask(client, extra_body={"belljar": {"executor": "provider"}})
    assert scene.asked[0].json["tools"] == [{"codeExecution": {}}]
    (cell,) = cells(response)
    assert (cell.status, logs(cell)) == ("completed", "-428330955.97745\n")
    assert "-428,330,955.97745" in response.output_text
    assert response.usage is not None
    assert response.usage.total_tokens == 783


def test_a_limit_is_told_with_its_pause(client: OpenAI, scene: Scene) -> None:
    body = (RECORDINGS / "google-429-retry-info.json").read_bytes()
    scene.play(*[Reply(status=429, body=body, headers={"retry-after": "60"})] * 3)
    with pytest.raises(openai.RateLimitError) as caught:
        ask(client)
    assert "You exceeded your current quota" in caught.value.message
    assert caught.value.response.headers["retry-after"] == "35"


def test_a_refused_conversation(client: OpenAI, scene: Scene) -> None:
    scene.play(Reply(body=b'{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}'))
    with pytest.raises(openai.BadRequestError, match="PROHIBITED_CONTENT"):
        ask(client)


def test_what_its_code_made_is_a_file_of_ours(client: OpenAI, scene: Scene) -> None:
    table = {"mimeType": "text/csv", "data": "YSxiCg==", "displayName": "table.csv"}
    said: list[dict[str, Any]] = [
        {"executableCode": {"language": "PYTHON", "code": "save()", "id": "a1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "saved\n", "id": "a1"}},
        {"inlineData": table},
        {"text": "Here it is."},
    ]
    scene.play(Reply(body=frame(*said, reason="STOP")))
    response = ask(client, extra_body={"belljar": {"executor": "provider"}})
    (cell,) = cells(response)
    message = response.output[-1]
    assert message.type == "message"
    (cited,) = cast(Any, message.content[0]).annotations
    assert (cited.type, cited.filename) == ("container_file_citation", "table.csv")
    content = client.containers.files.content.retrieve(cited.file_id, container_id=cited.container_id)
    assert content.read() == b"a,b\n"
    assert cell.container_id == cited.container_id
