"""Gemini: requests asserted whole, answers as they were recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.library.providers.conftest import TOOLS
from tests.library.providers.replay import Replay, Reply, recorded
from tests.library.providers.wires import gemini, gemini_refused, gemini_streamed

from belljar.config import ApiSettings
from belljar.errors import InvalidRequest
from belljar.providers import FileReference, GeminiClient, GeminiError, VertexClient
from belljar.wire.responses import Usage

Make = Callable[..., Any]
MODEL = "gemini-3-flash-preview"


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def test_a_recorded_call_and_its_result(server: Replay, make: Make) -> None:
    weather = [{"name": "weather", "description": "Weather", "input_schema": {"type": "object", "properties": {}}}]
    answered = recorded("gemini/google-tool-call-gemini3.json")
    client = make("gemini", model=MODEL, tools=weather, system="Be brief.", max_tokens=100)
    server.play(Reply(answered), Reply(gemini({"text": "Sunny."})))
    reply = client.send_message("How is it?")
    [call] = reply.tool_calls
    assert (call["name"], call["input"], reply.requires_action) == ("weather", {"location": "San Francisco"}, True)
    assert client.send_tool_results([{"tool_use_id": call["id"], "content": "sun"}]).text == "Sunny."
    first, second = server.asked
    assert (first.method, first.path) == ("POST", f"/v1/models/{MODEL}:streamGenerateContent?alt=sse")
    shared = {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {"maxOutputTokens": 100},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "weather",
                        "description": "Weather",
                        "parametersJsonSchema": {"type": "object", "properties": {}},
                    }
                ]
            }
        ],
    }
    assert first.meaning == {**shared, "contents": [user({"text": "How is it?"})]}
    model, answer = second.meaning["contents"][1:]
    [part] = answered["candidates"][0]["content"]["parts"]
    assert model == {"role": "model", "parts": [part]}
    assert answer == user({"functionResponse": {"name": "weather", "response": {"output": "sun"}}})


def test_an_id_of_geminis_own_goes_back(server: Replay, make: Make) -> None:
    calls = [
        {"functionCall": {"id": id, "name": "run_command", "args": {"command": "ls", "requires_confirmation": None}}}
        for id in ("a", "b")
    ]
    client = make("gemini", model=MODEL, tools=TOOLS)
    server.play(Reply(gemini(*calls)), Reply(gemini({"text": "ok"})))
    made = client.send_message("x").tool_calls
    assert [(call["id"], call["input"]["requires_confirmation"]) for call in made] == [("a", False), ("b", False)]
    client.send_tool_results([{"tool_use_id": id, "content": "no", "is_error": True} for id in ("a", "b")])
    assert server.asked[1].meaning["contents"][-1] == user(
        *({"functionResponse": {"id": id, "name": "run_command", "response": {"error": "no"}}} for id in ("a", "b"))
    )


def test_streaming(server: Replay, make: Make) -> None:
    client = make("gemini", model=MODEL)
    server.play(gemini_streamed("Hel", "lo"), Reply(gemini({"text": "b"})))
    pieces: list[str] = []
    assert client.send_message("Hi", on_text=pieces.append).text == "Hello"
    assert pieces == ["Hel", "lo"]
    assert server.asked[0].path == f"/v1/models/{MODEL}:streamGenerateContent?alt=sse"
    client.send_message("more")
    assert server.asked[1].meaning["contents"][1] == {"role": "model", "parts": [{"text": "Hello"}]}


def test_a_recorded_stream_gives_what_its_pieces_say(server: Replay, make: Make) -> None:
    server.play(Reply(events=recorded("gemini/google-reasoning.chunks.txt")))
    pieces: list[str] = []
    reply = make("gemini", model=MODEL).send_message("Hi", on_text=pieces.append)
    assert reply.text == "".join(pieces) != ""


@pytest.mark.parametrize(
    ("model", "thinking"),
    [(MODEL, {"thinkingLevel": "LOW"}), ("gemini-2.5-flash", {"thinkingBudget": 2048}), ("gemini-2.0-flash", None)],
)
def test_effort(server: Replay, make: Make, model: str, thinking: dict[str, Any] | None) -> None:
    client = make("gemini", model=model)
    client.set_reasoning_effort("low")
    server.play(Reply(gemini({"text": "a"})))
    client.send_message("x")
    assert server.asked[0].meaning["generationConfig"].get("thinkingConfig") == thinking


def test_an_answer_that_was_cut_off_says_so(server: Replay, make: Make) -> None:
    server.play(Reply(gemini({"text": "Once"}, reason="MAX_TOKENS")))
    assert make("gemini").send_message("x").is_complete is False


def test_an_answer_that_broke_off_is_an_error_as_it_is_at_the_gateway(server: Replay, make: Make) -> None:
    server.play(Reply(gemini({"text": "Once"}, reason="OTHER")))
    client = make("gemini")
    with pytest.raises(GeminiError, match="broke off its answer") as caught:
        client.send_message("x")
    assert caught.value.error_code == "API_ERROR"
    assert client.context.message_count == 0


@pytest.mark.parametrize("streaming", [False, True])
def test_too_long_is_summarised_and_sent_again(server: Replay, make: Make, streaming: bool) -> None:
    client = make("gemini", model=MODEL, min_recent_messages=2)
    for n in range(3):
        server.play(Reply(gemini({"text": f"answer {n}"})))
        client.send_message(f"question {n}")
    server.asked.clear()
    server.play(
        gemini_refused(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens (8)."),
        Reply(gemini({"text": "They counted."})),
        gemini_streamed("o", "k") if streaming else Reply(gemini({"text": "ok"})),
    )
    assert client.send_message("question 3", on_text=print if streaming else None).text == "ok"
    assert server.asked[2].meaning["contents"] == [
        user({"text": "[CONVERSATION SUMMARY]\nThey counted.\n[END SUMMARY]"}),
        {"role": "model", "parts": [{"text": "answer 2"}]},
        user({"text": "question 3"}),
    ]


# -- code execution ---------------------------------------------------------------------------------------------------


def test_recorded_code_execution(server: Replay, make: Make) -> None:
    exchange = recorded("gemini/test_code_execution.yaml")["interactions"][0]
    body = exchange["response"]["parsed_body"]
    server.play(Reply(body))
    client = make("gemini", model=MODEL)
    reply = client.send_message("What day is today in Utrecht?", code_execution=True)
    assert server.asked[0].meaning == {
        "contents": [user({"text": "What day is today in Utrecht?"})],
        "generationConfig": {"maxOutputTokens": 4096},
        "tools": [{"codeExecution": {}}],
    }
    parts = body["candidates"][0]["content"]["parts"]
    code = [part["executableCode"]["code"] for part in parts if "executableCode" in part]
    output = [part["codeExecutionResult"]["output"] for part in parts if "codeExecutionResult" in part]
    assert [one.code for one in reply.code_executions] == code
    assert [one.stdout for one in reply.code_executions] == output
    assert {one.outcome for one in reply.code_executions} == {"OUTCOME_OK"}
    assert reply.text == "".join(part.get("text", "") for part in parts)


@pytest.mark.parametrize("outcome", ["OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"])
def test_outcomes_and_files(server: Replay, make: Make, tmp_path: Path, outcome: str) -> None:
    server.play(
        Reply(
            gemini(
                {"executableCode": {"language": "PYTHON", "code": "plot()", "id": "a"}},
                {"codeExecutionResult": {"id": "a", "outcome": outcome, "output": "text"}},
                {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}},
                {"text": "Done"},
            )
        )
    )
    reply = make("gemini", model=MODEL).send_message("x", code_execution=True)
    [execution] = reply.code_executions
    ok = outcome == "OUTCOME_OK"
    assert (execution.outcome, execution.stdout, execution.stderr) == (
        outcome,
        "text" if ok else "",
        "" if ok else "text",
    )
    [file] = reply.output_files
    assert execution.output_files == (file,)
    assert (file.filename, file.size, file.mime_type) == ("output-1.png", 4, "image/png")
    assert file.save(tmp_path / "plot.png").read_bytes() == b"\x89PNG"


def test_files_are_uploaded_and_waited_for(server: Replay, make: Make, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,b\n")
    file = {"name": "files/abc", "uri": "https://x/files/abc", "mimeType": "text/csv", "state": "ACTIVE"}
    server.play(
        Reply({}, headers={"x-goog-upload-url": f"{server.url}/upload/here"}),
        Reply({"file": {**file, "state": "PROCESSING"}}, headers={"x-goog-upload-status": "final"}),
        Reply(file),
        Reply(gemini({"text": "ok"})),
    )
    make("gemini", model=MODEL).send_message("Sum", files=[path], code_execution=True)
    assert server.asked[1].body == b"a,b\n"
    assert server.asked[2].path == "/v1/files/abc"
    assert server.asked[3].meaning["contents"] == [
        user({"fileData": {"fileUri": "https://x/files/abc", "mimeType": "text/csv"}}, {"text": "Sum"})
    ]


def test_a_model_that_cannot_do_both_runs_code(server: Replay, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    server.play(Reply(gemini({"text": "ok"})))
    make("gemini", model="gemini-2.5-flash", tools=TOOLS).send_message("x", code_execution=True)
    assert server.asked[0].meaning["tools"] == [{"codeExecution": {}}]
    assert "runs code or calls tools, not both" in caplog.messages[0]


def test_vertex_takes_what_is_in_cloud_storage(server: Replay, gemini_sdk: Any, tmp_path: Path) -> None:
    client = VertexClient(client=gemini_sdk, model=MODEL, settings=ApiSettings())
    path = tmp_path / "data.csv"
    path.write_text("a")
    with pytest.raises(InvalidRequest, match=r"put data\.csv into Cloud Storage"):
        client.send_message("x", files=[path])
    server.play(Reply(gemini({"text": "ok"})))
    kept = FileReference(id="", filename="data.csv", mime_type="text/csv", uri="gs://b/data.csv")
    client.send_message("x", files=[kept], code_execution=True)
    assert server.asked[0].meaning["contents"][0]["parts"][0] == {
        "fileData": {"fileUri": "gs://b/data.csv", "mimeType": "text/csv"}
    }


@pytest.mark.parametrize("streaming", [False, True])
def test_vertex_answers_as_ai_studio_does(server: Replay, gemini_sdk: Any, vertex_sdk: Any, streaming: bool) -> None:
    """The same request but for its address and what only one of them takes, the same answer with files and usage."""
    answer = gemini(
        {"executableCode": {"language": "PYTHON", "code": "plot()", "id": "a"}},
        {"codeExecutionResult": {"id": "a", "outcome": "OUTCOME_OK", "output": "text"}},
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}},
        {"text": "Done"},
        usageMetadata={"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7},
    )
    replies = []
    for kind, sdk in ((GeminiClient, gemini_sdk), (VertexClient, vertex_sdk)):
        server.play(Reply(events=[answer]) if streaming else Reply(answer))
        client = kind(client=sdk, model=MODEL, settings=ApiSettings(), tools=TOOLS, system="Be brief.")
        client.set_reasoning_effort("low")
        reply = client.send_message("x", code_execution=True, on_text=(lambda text: None) if streaming else None)
        [file] = reply.output_files
        replies.append((reply.text, reply.code_executions[0].code, file.read(), reply.usage))
    studio, vertex = server.asked
    assert studio.path.startswith(f"/v1/models/{MODEL}:")
    assert vertex.path.startswith(f"/v1/projects/p/locations/l/publishers/google/models/{MODEL}:")
    there, here = studio.meaning, vertex.meaning
    assert there.pop("toolConfig") == {"includeServerSideToolInvocations": True}
    assert here.pop("toolConfig") == {"functionCallingConfig": {"streamFunctionCallArguments": True}}
    assert there == here
    assert replies[0] == replies[1]
    assert replies[0][2] == b"\x89PNG"
    assert replies[0][3] == Usage(input_tokens=5, output_tokens=2, total_tokens=7)


def test_a_picture_that_the_model_drew_is_a_file(server: Replay, make: Make) -> None:
    server.play(Reply(gemini({"text": "Here."}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}})))
    [file] = make("gemini", model=MODEL).send_message("Draw").output_files
    assert (file.filename, file.read()) == ("output-1.png", b"\x89PNG")
