"""A client's life: closed by its owner, used by one at a time, given tools as objects, and why its answers end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from openai import OpenAI
from tests.library.providers.replay import Replay, Reply
from tests.library.providers.wires import chunks, claude, gemini, message, responded, said, streamed

from belljar import Tool, ToolContext, ToolResult
from belljar.errors import InvalidRequest
from belljar.providers import BaseClient, create_client
from belljar.tools import OpenAICodeInterpreterTool

Make = Callable[..., Any]

# -- closing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "xai", "ollama", "belljar"])
def test_a_client_closes_what_it_made(provider: str) -> None:
    with create_client(provider, api_key="k", base_url="http://127.0.0.1:9") as client:
        assert isinstance(client, BaseClient)
    client.close()
    with pytest.raises(InvalidRequest, match="was closed; make another"):
        client.send_message("x")
    with pytest.raises(InvalidRequest, match="was closed"):
        client.clear_history()


def test_its_connections_are_closed(server: Replay) -> None:
    server.play(responded("resp_1", message("Hi.")))
    with create_client("openai", api_key="k", base_url=f"{server.url}/v1") as client:
        assert client.send_message("x").text == "Hi."
        assert not client.client.is_closed()
    assert client.client.is_closed()


def test_a_client_of_the_sdk_that_the_caller_brought_stays_open(server: Replay, make: Make, openai_sdk: OpenAI) -> None:
    with make("openai"):
        pass
    assert not openai_sdk.is_closed()


# -- one at a time ----------------------------------------------------------------------------------------------------


def test_a_second_thread_is_refused_while_the_first_is_answered(server: Replay, make: Make) -> None:
    client = make("openai")
    server.play(streamed("resp_1", "Hel", "lo"), responded("resp_2", message("second")))
    refused: list[BaseException] = []

    def other() -> None:
        for act in (lambda: client.send_message("y"), client.clear_history, lambda: client.send_tool_results([])):
            try:
                act()
            except InvalidRequest as error:
                refused.append(error)

    def hear(text: str) -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    assert client.send_message("x", on_text=hear).text == "Hello"
    assert len(refused) == 6
    assert "busy with another message" in str(refused[0])
    assert [one["content"] for one in client.context.recent] == ["x", "Hello"]
    assert client.send_message("z").text == "second"


def test_a_message_from_within_on_text_is_refused_too(server: Replay, make: Make) -> None:
    client = make("openai")
    server.play(streamed("resp_1", "Hel", "lo"), responded("resp_2", message("again")))
    with pytest.raises(InvalidRequest, match="from its own on_text"):
        client.send_message("x", on_text=client.send_message)
    assert client.context.message_count == 0
    assert client.send_message("x").text == "again"


@pytest.mark.parametrize("given", [None, 3, ["a", "b"], [{"type": "text", "text": "x"}], b"x"])
def test_a_message_is_text(given: Any, make: Make) -> None:
    with pytest.raises(InvalidRequest, match=f"user_input: is a {type(given).__name__}; say it as text"):
        make("openai").send_message(given)


# -- tools as objects -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Query:
    sql: str
    limit: int = 10


@dataclass(frozen=True)
class Rows:
    rows: int


def run_query(params: Query, *, context: ToolContext) -> ToolResult[Rows]:
    raise NotImplementedError


QUERY = Tool[Query, Rows](name="run_query", description="Asks the database.", handler=run_query)


def test_tools_of_the_library_are_taken(server: Replay, make: Make) -> None:
    server.play(responded("resp_1", message("Hi.")))
    make("openai", tools=[QUERY, {"name": "now"}]).send_message("x")
    first, second = server.asked[0].json["tools"]
    assert (first["name"], first["description"], first["strict"]) == ("run_query", "Asks the database.", True)
    assert first["parameters"]["required"] == ["sql", "limit"]
    assert second["name"] == "now"


def test_tools_may_be_set_later_and_come_from_anything(make: Make) -> None:
    client = make("anthropic", tools=(one for one in [QUERY]))
    client.tools = (QUERY, *client.tools)
    assert [tool["name"] for tool in client.tools] == ["run_query", "run_query"]


PYTHON = OpenAICodeInterpreterTool(name="python", container={"type": "auto"})
NO_TOOLS: dict[str, tuple[Any, str]] = {
    "one": (QUERY, r"tools: a Tool\[Query, Rows\] is not a list of tools; use \[tool\]"),
    "a dict": ({"name": "x"}, "tools: a dict is not a list"),
    "a text": ("x", "tools: a str is not a list"),
    "a function": ([run_query], r"tools\[0\]: a function is no tool; use Tool\[Params, Result\]"),
    "no name": ([QUERY, {"description": "x"}], r"tools\[1\]: has no name"),
    "no schema": ([{"name": "x", "input_schema": "{}"}], r"tools\[0\].input_schema: is no JSON schema"),
    "hosted": ([PYTHON], r"tools\[0\]: 'python' is run by its provider.*code_execution=True"),
}


@pytest.mark.parametrize(("given", "told"), NO_TOOLS.values(), ids=NO_TOOLS)
def test_what_is_no_tool_is_named(given: Any, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told) as caught:
        create_client("openai", api_key="k", tools=given)
    assert caught.value.param == "tools"


# -- models that end --------------------------------------------------------------------------------------------------


def test_a_model_that_ends_is_warned_of(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    client = make("openai", model="gpt-5.2")
    assert caplog.text == ""
    client.set_model("gpt-5-nano")
    assert "gpt-5-nano is shut down by its vendor on 2026-12-11; use gpt-6-luna" in caplog.text
    make("anthropic", model="claude-sonnet-4-5-20250929")
    assert "on 2026-11-30; use claude-sonnet-5-5" in caplog.text


# -- why an answer ends -----------------------------------------------------------------------------------------------


def cut(reason: str) -> Reply:
    return responded("resp_1", message("Once"), status="incomplete", incomplete_details={"reason": reason})


CALL = {"type": "tool_use", "id": "t", "name": "run_command", "input": {}}
GEMINI_CALL = {"functionCall": {"name": "run_command", "args": {}}}
ENDS: list[tuple[str, Reply, str]] = [
    ("openai", responded("resp_1", message("Once")), "stop"),
    ("openai", cut("max_output_tokens"), "length"),
    ("openai", cut("content_filter"), "content_filter"),
    ("anthropic", Reply(claude(said("Once"))), "stop"),
    ("anthropic", Reply(claude(said("Once"), stop_reason="max_tokens")), "length"),
    ("anthropic", Reply(claude(said("Once"), stop_reason="model_context_window_exceeded")), "length"),
    ("anthropic", Reply(claude(said("Once"), stop_reason="refusal")), "content_filter"),
    ("anthropic", Reply(claude(said("Once"), CALL, stop_reason="tool_use")), "tool_calls"),
    ("anthropic", Reply(claude(said("Once"), stop_reason="something_new")), "other"),
    ("gemini", Reply(gemini({"text": "Once"})), "stop"),
    ("gemini", Reply(gemini({"text": "Once"}, reason="MAX_TOKENS")), "length"),
    ("gemini", Reply(gemini({"text": "Once"}, reason="SAFETY")), "content_filter"),
    ("gemini", Reply(gemini({"text": "Once"}, GEMINI_CALL)), "tool_calls"),
    ("vllm", chunks("Once"), "stop"),
    ("vllm", chunks("Once", reason="length"), "length"),
    ("vllm", chunks("Once", reason="content_filter"), "content_filter"),
    ("vllm", chunks("Once", calls=(("c", "run_command", {}),)), "tool_calls"),
]


@pytest.mark.parametrize(("provider", "answer", "reason"), ENDS, ids=range(len(ENDS)))
def test_a_filter_and_a_limit_are_told_apart(
    provider: str, answer: Reply, reason: str, server: Replay, make: Make
) -> None:
    server.play(answer)
    reply = make(provider, model="m" if provider == "vllm" else None).send_message("x")
    assert (reply.text, reply.finish_reason) == ("Once", reason)
    assert (reply.is_complete, reply.requires_action) == (reason == "stop", reason == "tool_calls")
