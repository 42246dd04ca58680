"""Models on one's own machine: the whole conversation each time, in the words that each server takes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from tests.library.providers.conftest import TOOLS
from tests.library.providers.replay import Replay, Reply, recorded
from tests.library.providers.wires import chunks

from belljar.config import ApiSettings
from belljar.errors import ContextTooLong, InvalidRequest
from belljar.providers import LMStudioError, create_client
from belljar.testing import LoopbackUpstream, ReplyStep, call

Make = Callable[..., Any]
CHAT_TOOL = {
    "type": "function",
    "function": {
        "name": "run_command",
        "description": "Execute a shell command",
        "parameters": TOOLS[0]["input_schema"],
    },
}


def test_the_whole_conversation_each_time(server: Replay, make: Make) -> None:
    client = make("lm_studio", model="qwen", tools=TOOLS, system="Be brief.", max_tokens=100)
    server.play(
        chunks("Let me look.", calls=(("a", "run_command", {"command": "ls", "requires_confirmation": None}),)),
        chunks("Two", " files."),
    )
    reply = client.send_message("List files", "It is Monday.")
    assert (reply.text, reply.requires_action) == ("Let me look.", True)
    assert reply.tool_calls == [
        {"id": "a", "name": "run_command", "input": {"command": "ls", "requires_confirmation": False}}
    ]
    pieces: list[str] = []
    assert (
        client.send_tool_results([{"tool_use_id": "a", "content": "x y"}], on_text=pieces.append).text == "Two files."
    )
    assert pieces == ["Two", " files."]
    first, second = server.asked
    assert (first.method, first.path) == ("POST", "/v1/chat/completions")
    shared = {
        "model": "qwen",
        "max_tokens": 100,
        "tools": [CHAT_TOOL],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    asked = [
        {"role": "system", "content": "Be brief.\n\nIt is Monday."},
        {"role": "user", "content": "List files"},
    ]
    assert first.json == {**shared, "messages": asked}
    called = {
        "id": "a",
        "type": "function",
        "function": {"name": "run_command", "arguments": '{"command": "ls", "requires_confirmation": false}'},
    }
    assert second.json == {
        **shared,
        "messages": [
            *asked,
            {"role": "assistant", "content": "Let me look.", "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "a", "content": "x y"},
        ],
    }


def test_parallel_calls(server: Replay, make: Make) -> None:
    server.play(chunks(calls=(("a", "run_command", {"command": "ls"}), ("b", "run_command", {"command": "pwd"}))))
    reply = make("vllm", model="m", tools=TOOLS).send_message("x")
    assert [(one["id"], one["input"]["command"]) for one in reply.tool_calls] == [("a", "ls"), ("b", "pwd")]


def test_without_a_name_the_servers_first_model_is_asked(server: Replay, make: Make) -> None:
    listed = {"object": "list", "data": [{"id": "qwen", "object": "model", "created": 1, "owned_by": "me"}]}
    server.play(Reply(listed), chunks("a"), chunks("b"))
    client = make("ollama")
    client.send_message("x")
    client.send_message("y")
    assert [one.path for one in server.asked] == ["/v1/models", "/v1/chat/completions", "/v1/chat/completions"]
    assert server.asked[1].json["model"] == "qwen"
    assert client.get_model() == "qwen"


def test_a_server_without_a_model_says_so(server: Replay, make: Make) -> None:
    server.play(Reply({"object": "list", "data": []}))
    with pytest.raises(LMStudioError, match="it has no model loaded") as caught:
        make("lm_studio").send_message("x")
    assert caught.value.error_code == "INVALID_MODEL"


def test_thoughts_are_not_text(server: Replay, make: Make) -> None:
    server.play(chunks("<think>hm", "m</think>", "Yes"))
    pieces: list[str] = []
    assert make("ollama", model="m").send_message("x", on_text=pieces.append).text == "Yes"
    assert "".join(pieces) == "Yes"


def test_effort_goes_where_it_is_taken(server: Replay, make: Make) -> None:
    for provider, effort in {"ollama": "high", "vllm": "high", "lm_studio": None}.items():
        client = make(provider, model="m")
        client.set_reasoning_effort("high")
        server.play(chunks("a"))
        client.send_message("x")
        assert server.asked[-1].json.get("reasoning_effort") == effort


@pytest.mark.parametrize("streaming", [False, True])
def test_too_long_is_summarised_into_the_system_prompt_and_sent_again(
    server: Replay, make: Make, streaming: bool
) -> None:
    client = make("lm_studio", model="m", min_recent_messages=2)
    assert client.context.context_budget == 32_000
    for n in range(3):
        server.play(chunks(f"answer {n}"))
        client.send_message(f"question {n}")
    server.asked.clear()
    too_long = Reply({"error": "This is greater than the context length of the model"}, status=400)
    server.play(too_long, chunks("They counted."), chunks("ok"))
    assert client.send_message("question 3", on_text=print if streaming else None).text == "ok"
    assert server.asked[2].json["messages"] == [
        {"role": "system", "content": "[CONVERSATION SUMMARY]\nThey counted.\n[END SUMMARY]"},
        {"role": "assistant", "content": "answer 2"},
        {"role": "user", "content": "question 3"},
    ]


def test_a_stream_that_fails_inside(server: Replay, make: Make) -> None:
    server.play(Reply(events=[{"error": {"message": "maximum context length is 4096 tokens"}}]))
    with pytest.raises(ContextTooLong):
        make("lm_studio", model="m").send_message("x")


def test_an_answer_that_was_cut_off_says_so(server: Replay, make: Make) -> None:
    server.play(chunks("Once", reason="length"))
    assert make("vllm", model="m").send_message("x").is_complete is False


def test_recorded_calls(server: Replay, make: Make) -> None:
    server.play(Reply(events=recorded("chat/groq-tool-call.chunks.txt")))
    [made] = make("vllm", model="m").send_message("x").tool_calls
    assert made["name"]
    assert "invalid" not in made


def test_files_and_code_are_the_gateways(make: Make, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a")
    client = make("lm_studio", model="m")
    with pytest.raises(InvalidRequest, match="lm_studio takes no files; start `belljar serve`"):
        client.send_message("x", files=[tmp_path / "a.csv"])
    with pytest.raises(InvalidRequest, match="lm_studio runs no code; start `belljar serve`"):
        client.send_message("x", code_execution=True)
    assert client.context.message_count == 0


@pytest.mark.parametrize("provider", ["lm_studio", "openai"])
def test_with_the_public_double(provider: str, http: Any) -> None:
    with LoopbackUpstream([call("run_command", command="ls"), "Two files."]) as upstream:
        sdk = OpenAI(base_url=upstream.base_url, api_key="k", max_retries=0, http_client=http)
        client = create_client(provider, client=sdk, model="sim", tools=TOOLS, settings=ApiSettings())
        pieces: list[str] = []
        [made] = client.send_message("List files", on_text=pieces.append).tool_calls
        assert made["input"] == {"command": "ls"}
        reply = client.send_tool_results([{"tool_use_id": made["id"], "content": "a b"}], on_text=pieces.append)
        assert reply.text == "".join(pieces) == "Two files."


def test_a_model_of_mistral_on_this_machine_gets_ids_and_names_as_it_takes_them(http: Any) -> None:
    name = "mcp__files__" + "x" * 60
    tool = {**TOOLS[0], "name": name}
    sent = f"{name[:57]}_{hashlib.sha256(name.encode()).hexdigest()[:6]}"
    script: list[ReplyStep] = [call(sent, command="ls"), call(sent, command="ls x"), "Two files."]
    with LoopbackUpstream(script, vendor="mistral model") as upstream:
        sdk = OpenAI(base_url=upstream.base_url, api_key="k", max_retries=0, http_client=http)
        client = create_client("vllm", client=sdk, model="mistral-nemo", tools=[tool], settings=ApiSettings())
        reply = client.send_message("List files")
        while reply.tool_calls:
            [asked] = reply.tool_calls
            assert asked["name"] == name
            reply = client.send_tool_results([{"tool_use_id": asked["id"], "content": "x y"}])
    assert reply.text == "Two files."
