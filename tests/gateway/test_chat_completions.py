"""Chat completions with the code interpreter, by the official client: every answer has the SDK's own strict types."""

from __future__ import annotations

from typing import Any

import pytest
from openai import OpenAI
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage
from tests.gateway.houses import CODE, House, Scene

from belljar.testing import call

TOOLS: Any = CODE


def ask(client: OpenAI, messages: Any, *, stream: bool, **more: Any) -> ChatCompletionMessage:
    """The answer's message, from a whole completion or from chunks that the SDK put together; both checked strictly."""
    if not stream:
        whole: ChatCompletion = client.chat.completions.create(model="sim", messages=messages, **more)
        ChatCompletion.model_validate(whole.to_dict(), strict=True)
        return whole.choices[0].message
    state: Any = ChatCompletionStreamState()
    for chunk in client.chat.completions.create(model="sim", messages=messages, stream=True, **more):
        ChatCompletionChunk.model_validate(chunk.to_dict(), strict=True)
        state.handle_chunk(chunk)
    built: ChatCompletionMessage = state.get_final_completion().choices[0].message
    return built


def cells(message: ChatCompletionMessage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = message.to_dict()["belljar"]["cells"]  # type: ignore[index]
    return found


@pytest.mark.parametrize("stream", [False, True])
def test_files_in_and_out_and_a_follow_up_in_the_same_container(
    house: House, client: OpenAI, scene: Scene, stream: bool
) -> None:
    data = client.files.create(file=("data.csv", b"a,b\n1,2\n3,4\n"), purpose="user_data")
    scene.play(
        [
            call(
                "code_interpreter", code="n = len(open('data.csv').readlines()); open('made.txt', 'w').write(str(n)); n"
            )
        ],
        "See [it](sandbox:/mnt/data/made.txt).",
        [call("code_interpreter", code="n + 1")],
        "Four.",
    )
    parts = [{"type": "text", "text": "count"}, {"type": "file", "file": {"file_id": data.id}}]
    messages: list[Any] = [{"role": "user", "content": parts}]
    first = ask(client, messages, stream=stream, tools=TOOLS)
    assert first.content == "See [it](sandbox:/mnt/data/made.txt)."
    [cell] = cells(first)
    assert cell["outputs"] == [{"type": "logs", "logs": "3"}]
    [citation] = [one.to_dict() for one in first.annotations or []]
    where: Any = citation["url_citation"]
    assert first.content[where["start_index"] : where["end_index"]] == "sandbox:/mnt/data/made.txt"
    assert where["url"].startswith(house.url)
    assert client.get(where["url"], cast_to=str) == "3"
    messages += [first, {"role": "user", "content": "one more"}]
    second = ask(client, messages, stream=stream, tools=TOOLS)
    [again] = cells(second)
    assert again["outputs"] == [{"type": "logs", "logs": "4"}]
    assert again["container_id"] == cell["container_id"]
    assert second.content == "Four."


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_keeps_only_the_text_names_the_container(client: OpenAI, scene: Scene, stream: bool) -> None:
    """As LangChain's, which lets go of every key that it does not know."""
    container = client.containers.create(name="mine")
    tools: Any = [{"type": "code_interpreter", "container": container.id}]
    scene.play([call("code_interpreter", code="n = 1")], "Kept.", [call("code_interpreter", code="n + 1")], "Two.")
    messages: list[Any] = [{"role": "user", "content": "keep 1"}]
    first = ask(client, messages, stream=stream, tools=tools)
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": "one more"}]
    [cell] = cells(ask(client, messages, stream=stream, tools=tools))
    assert (cell["outputs"], cell["container_id"]) == ([{"type": "logs", "logs": "2"}], container.id)


@pytest.mark.parametrize("stream", [False, True])
def test_calls_of_the_callers_own_functions(client: OpenAI, scene: Scene, stream: bool) -> None:
    tools: Any = [{"type": "function", "function": {"name": "warm", "parameters": {"type": "object"}}}]
    scene.play([call("warm", city="Rome")], "Warm.")
    messages: list[Any] = [{"role": "user", "content": "warm in Rome?"}]
    first = ask(client, messages, stream=stream, tools=tools)
    assert first.content is None or first.content == ""
    [called] = first.tool_calls or []
    messages += [first, {"role": "tool", "tool_call_id": called.id, "content": "yes"}]
    assert ask(client, messages, stream=stream, tools=tools).content == "Warm."


def test_what_code_prints_comes_as_it_runs(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="print(6 * 7)")], "Done.")
    asked: list[Any] = [{"role": "user", "content": "go"}]
    stream = client.chat.completions.create(model="sim", messages=asked, tools=TOOLS, stream=True)
    told = [chunk.choices[0].delta.to_dict().get("belljar", {}) for chunk in stream if chunk.choices]
    live: list[dict[str, Any]] = [piece for one in told for piece in one.get("live", [])]  # type: ignore[attr-defined]
    assert "".join(piece.get("code", "") for piece in live) == "print(6 * 7)"
    assert "".join(piece.get("stdout", "") for piece in live) == "42\n"
