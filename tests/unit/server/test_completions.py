"""Chat completions: bodies become requests, events become chunks, and refusals speak of the caller's own parameters."""

from __future__ import annotations

from typing import Any

import msgspec
import openai
import pytest
from msgspec import structs
from tests.unit.server.conftest import Gateway
from tests.unit.server.fakes import saying

from belljar.errors import InvalidRequest
from belljar.gateway.server.completions import Chunks, completion, read
from belljar.wire import events
from belljar.wire.events import Event
from belljar.wire.items import (
    ContainerFileCitation,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputFile,
    InputImage,
    InputText,
    Message,
    OutputText,
    Refusal,
)
from belljar.wire.requests import CreateResponse
from belljar.wire.responses import IncompleteDetails, Response, ResponseError
from belljar.wire.tools import AllowedTools, Choice, CodeInterpreterTool, CustomTool, FunctionTool

USER: dict[str, Any] = {"role": "user", "content": "hi"}
ASK: dict[str, Any] = {"model": "m", "messages": [USER]}


def request(**further: Any) -> CreateResponse:
    return read({**ASK, **further}).request


def items(*messages: dict[str, Any]) -> tuple[Any, ...]:
    return read({"model": "m", "messages": list(messages)}).request.input


# -- the request ------------------------------------------------------------------------------------------------------


def test_messages_become_items() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    custom = {"id": "call_2", "type": "custom", "custom": {"name": "g", "input": "x"}}
    assert items(
        {"role": "system", "content": "be brief"},
        {"role": "developer", "content": [{"type": "text", "text": "really"}]},
        USER,
        {"role": "assistant", "content": "well", "tool_calls": [call, custom]},
        {"role": "tool", "tool_call_id": "call_1", "content": "42"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "43"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "assistant", "refusal": "no", "content": None},
    ) == (
        Message(role="system", content="be brief"),
        Message(role="developer", content=(InputText(text="really"),)),
        Message(role="user", content="hi"),
        Message(role="assistant", content="well"),
        FunctionCall(call_id="call_1", name="f", arguments="{}"),
        CustomToolCall(call_id="call_2", name="g", input="x"),
        FunctionCallOutput(call_id="call_1", output="42"),
        CustomToolCallOutput(call_id="call_2", output=(InputText(text="43"),)),
        FunctionCall(call_id="call_1", name="f", arguments="{}"),
        Message(role="assistant", content=(Refusal(refusal="no"),)),
    )


def test_parts_become_parts() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}
    file = {"type": "file", "file": {"file_id": "file-1", "filename": None}}
    (message,) = items({"role": "user", "content": [{"type": "text", "text": "look"}, image, file]})
    assert message.content == (
        InputText(text="look"),
        InputImage(image_url="data:image/png;base64,AA==", detail="low"),
        InputFile(file_id="file-1"),
    )
    (said,) = items(
        {"role": "assistant", "content": [{"type": "text", "text": "ok"}, {"type": "refusal", "refusal": "no"}]}
    )
    assert said.content == (OutputText(text="ok"), Refusal(refusal="no"))


def test_parameters_become_parameters() -> None:
    asked = request(
        max_completion_tokens=9,
        reasoning_effort="low",
        verbosity="high",
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
        },
        temperature=0.5,
        logprobs=True,
        top_logprobs=3,
        parallel_tool_calls=False,
        metadata={"a": "b"},
        stream=True,
    )
    assert asked.store is False
    assert asked.max_output_tokens == 9
    assert asked.reasoning is not None
    assert asked.reasoning.effort == "low"
    assert (asked.text.verbosity, asked.text.format.type, asked.text.format.name) == ("high", "json_schema", "n")
    assert (asked.temperature, asked.top_logprobs, asked.parallel_tool_calls) == (0.5, 3, False)
    assert asked.include == ("message.output_text.logprobs",)
    assert (asked.metadata, asked.stream) == ({"a": "b"}, True)
    assert request(max_tokens=5).max_output_tokens == 5
    assert request(response_format={"type": "json_object"}).text.format.type == "json_object"


def test_tools_become_tools() -> None:
    asked = request(
        tools=[
            {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
            {"type": "custom", "custom": {"name": "g"}},
            {"type": "code_interpreter", "container": {"type": "auto"}},
        ],
        tool_choice={"type": "function", "function": {"name": "f"}},
    )
    first, second, third = asked.tools
    assert isinstance(first, FunctionTool)
    assert first.name == "f"
    assert isinstance(second, CustomTool)
    assert isinstance(third, CodeInterpreterTool)
    assert asked.tool_choice == Choice(type="function", name="f")
    allowed = request(
        tools=[{"type": "function", "function": {"name": "f"}}],
        tool_choice={
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
        },
    ).tool_choice
    assert allowed == AllowedTools(mode="required", tools=(Choice(type="function", name="f"),))
    assert request(tool_choice="none").tool_choice == "none"


def test_what_asks_for_nothing_is_taken() -> None:
    request(n=1, stop=None, presence_penalty=0, frequency_penalty=0.0, logit_bias={}, seed=7, store=True, user="u")
    assert read({**ASK, "stream": True, "stream_options": {"include_usage": True}}).usage
    assert not read(ASK).usage


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"model": "m"}, "messages", "missing_required_parameter"),
        ({"messages": [USER]}, "model", "missing_required_parameter"),
        ({"model": "m", "messages": "hi"}, "messages", "invalid_type"),
        ({"model": "m", "messages": []}, "messages", "empty_array"),
        ({"model": "m", "messages": [5]}, "messages[0]", "invalid_type"),
        ({"model": "m", "messages": [{"content": "x"}]}, "messages[0].role", "missing_required_parameter"),
        ({"model": "m", "messages": [USER, {"role": "robot"}]}, "messages[1].role", "invalid_value"),
        ({"model": "m", "messages": [{"role": "user"}]}, "messages[0].content", "missing_required_parameter"),
        ({"model": "m", "messages": [{"role": "user", "content": 5}]}, "messages[0].content", "invalid_type"),
        (
            {"model": "m", "messages": [{"role": "user", "content": [{"type": "smell"}]}]},
            "messages[0].content[0].type",
            "invalid_value",
        ),
        (
            {"model": "m", "messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages[0].content[0].text",
            "missing_required_parameter",
        ),
        (
            {
                "model": "m",
                "messages": [USER, {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}]}],
            },
            "messages[1].tool_calls[0].arguments",
            "missing_required_parameter",
        ),
        (
            {"model": "m", "messages": [{"role": "tool", "content": "x"}]},
            "messages[0].tool_call_id",
            "missing_required_parameter",
        ),
        ({**ASK, "nonsense": 1}, "nonsense", "unknown_parameter"),
        ({**ASK, "n": 2}, "n", "unsupported_parameter"),
        ({**ASK, "stop": ["x"]}, "stop", "unsupported_parameter"),
        ({**ASK, "temperature": 9}, "temperature", "decimal_above_max_value"),
        ({**ASK, "max_tokens": 0}, "max_tokens", "integer_below_min_value"),
        ({**ASK, "max_completion_tokens": "x"}, "max_completion_tokens", "invalid_type"),
        ({**ASK, "reasoning_effort": "much"}, "reasoning_effort", "invalid_value"),
        ({**ASK, "verbosity": "much"}, "verbosity", "invalid_value"),
        ({**ASK, "stream_options": 5}, "stream_options", "invalid_type"),
        ({**ASK, "response_format": {"type": "xml"}}, "response_format.type", "invalid_value"),
        (
            {**ASK, "response_format": {"type": "json_schema"}},
            "response_format.json_schema",
            "missing_required_parameter",
        ),
        (
            {**ASK, "response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
            "response_format.json_schema.name",
            "missing_required_parameter",
        ),
        ({**ASK, "tools": [{"type": "function"}]}, "tools[0].function", "missing_required_parameter"),
        (
            {**ASK, "tools": [{"type": "function", "function": {}}]},
            "tools[0].function.name",
            "missing_required_parameter",
        ),
        ({**ASK, "tools": [{"type": "code_interpreter"}]}, "tools[0].container", "missing_required_parameter"),
    ],
)
def test_refusals_name_what_the_caller_wrote(body: dict[str, Any], param: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(body)
    assert (caught.value.param, caught.value.fault) == (param, code)
    assert "'input" not in str(caught.value).replace("'input_audio'", "")


# -- the answer -------------------------------------------------------------------------------------------------------

RESPONSE = Response(id="resp_1", created_at=5, status="completed", model="m")
CALL = FunctionCall(id="fc_1", call_id="call_1", name="f", arguments='{"a":1}')
CUSTOM = CustomToolCall(id="ctc_1", call_id="call_2", name="g", input="x")


def message(*parts: OutputText | Refusal) -> Message:
    return Message(id="msg_1", role="assistant", status="completed", content=parts)


def told(response: Response) -> Any:
    return msgspec.json.decode(completion(response))


def chunks(*fed: Event, usage: bool = False) -> list[Any]:
    reader = Chunks(usage=usage)
    frames = b"".join(reader.feed(event) for event in fed).decode().split("\n\n")
    assert frames.pop() == ""
    return [msgspec.json.decode(frame.removeprefix("data: ")) for frame in frames]


def test_a_finished_response_is_a_completion() -> None:
    note = ContainerFileCitation(container_id="c", file_id="cfile_1", filename="a.csv", start_index=0, end_index=1)
    output = (message(OutputText(text="a")), message(OutputText(text="b", annotations=(note,))))
    made = told(structs.replace(RESPONSE, output=output))
    assert made["id"] == "chatcmpl-1"
    assert made["object"] == "chat.completion"
    (choice,) = made["choices"]
    assert choice["message"]["content"] == "a\n\nb"
    assert choice["message"]["annotations"][0]["file_id"] == "cfile_1"
    assert choice["finish_reason"] == "stop"
    assert made["usage"]["total_tokens"] == 0


def test_calls_and_refusals_and_cuts() -> None:
    called = told(structs.replace(RESPONSE, output=(CALL, CUSTOM)))["choices"][0]
    assert called["finish_reason"] == "tool_calls"
    assert called["message"]["content"] is None
    assert called["message"]["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": "call_2", "type": "custom", "custom": {"name": "g", "input": "x"}},
    ]
    refused = told(structs.replace(RESPONSE, output=(message(Refusal(refusal="no")),)))["choices"][0]
    assert (refused["message"]["refusal"], refused["message"]["content"]) == ("no", None)
    for reason, finish in (("max_output_tokens", "length"), ("content_filter", "content_filter")):
        cut = structs.replace(RESPONSE, incomplete_details=msgspec.convert({"reason": reason}, IncompleteDetails))
        assert told(cut)["choices"][0]["finish_reason"] == finish


def test_a_stream_of_text() -> None:
    made = chunks(*[event for batch in saying(request(), "Hello ", "there", id="resp_9") for event in batch])
    assert {chunk["id"] for chunk in made} == {"chatcmpl-9"}
    deltas = [chunk["choices"][0]["delta"] for chunk in made]
    assert deltas[0] == {"role": "assistant", "content": "", "refusal": None}
    assert [delta.get("content") for delta in deltas[1:]] == ["Hello ", "there", None]
    assert [chunk["choices"][0]["finish_reason"] for chunk in made] == [None, None, None, "stop"]
    assert "usage" not in made[0]


def test_usage_comes_last_where_it_is_wanted() -> None:
    made = chunks(*[event for batch in saying(request(), "a") for event in batch], usage=True)
    assert [chunk["usage"] for chunk in made[:-1]] == [None, None, None]
    assert made[-1]["choices"] == []
    assert made[-1]["usage"]["total_tokens"] == 4


def test_a_stream_of_calls() -> None:
    at = {"sequence_number": 0, "output_index": 0}
    made = chunks(
        events.Created(sequence_number=0, response=RESPONSE),
        events.ItemAdded(item=structs.replace(CALL, arguments=""), **at),
        events.ArgumentsDelta(item_id="fc_1", delta='{"a":', **at),
        events.ArgumentsDelta(item_id="fc_1", delta="1}", **at),
        events.ItemAdded(item=structs.replace(CUSTOM, input=""), **at),
        events.CustomInputDelta(item_id="ctc_1", delta="x", **at),
        events.Completed(sequence_number=0, response=structs.replace(RESPONSE, output=(CALL, CUSTOM))),
    )
    calls = [chunk["choices"][0]["delta"]["tool_calls"][0] for chunk in made[1:-1]]
    assert calls == [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"a":'}},
        {"index": 0, "function": {"arguments": "1}"}},
        {"index": 1, "id": "call_2", "type": "custom", "custom": {"name": "g", "input": ""}},
        {"index": 1, "custom": {"input": "x"}},
    ]
    assert made[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_second_message_begins_a_paragraph() -> None:
    at: dict[str, Any] = {"sequence_number": 0, "output_index": 0, "content_index": 0}
    made = chunks(
        events.Created(sequence_number=0, response=RESPONSE),
        events.TextDelta(item_id="msg_1", delta="a", **at),
        events.CodeStarted(item_id="ci_1", sequence_number=0, output_index=1),
        events.TextDelta(item_id="msg_2", delta="b", logprobs=({"token": "b", "logprob": -1.0},), **at),
        events.RefusalDelta(item_id="msg_2", delta="no", **at),
    )
    assert [chunk["choices"][0]["delta"].get("content") for chunk in made] == ["", "a", "\n\nb", None]
    assert made[2]["choices"][0]["logprobs"]["content"] == [{"token": "b", "logprob": -1.0}]
    assert made[3]["choices"][0]["delta"] == {"refusal": "no"}


def test_a_failure_is_told_once() -> None:
    failed = structs.replace(RESPONSE, status="failed", error=ResponseError(code="server_error", message="boom"))
    detail = events.ErrorDetail(type="server_error", code="unreachable", message="gone")
    both = chunks(
        events.Created(sequence_number=0, response=RESPONSE),
        events.ErrorEvent(sequence_number=1, error=detail),
        events.Failed(sequence_number=2, response=failed),
    )
    assert both[1:] == [{"error": {"message": "gone", "type": "server_error", "param": None, "code": "unreachable"}}]
    alone = chunks(
        events.Created(sequence_number=0, response=RESPONSE), events.Failed(sequence_number=1, response=failed)
    )
    assert alone[1]["error"]["message"] == "boom"


# -- over HTTP --------------------------------------------------------------------------------------------------------


def test_the_sdk_completes(gateway: Gateway) -> None:
    with gateway.client() as client:
        made = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        assert made.choices[0].message.content == "Hello there"
        streamed = client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        seen = list(streamed)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in seen if chunk.choices) == "Hello there"
    assert seen[-1].usage is not None


@pytest.mark.parametrize("stream", [True, False])
def test_a_model_that_is_not_there_is_404_here(gateway: Gateway, stream: bool) -> None:
    answer = gateway.ask("POST", "/v1/chat/completions", {**ASK, "model": "absent", "stream": stream})
    assert (answer.status, answer.error["code"], answer.error["param"]) == (404, "model_not_found", "model")


@pytest.mark.parametrize("stream", [True, False])
def test_a_failed_response_is_an_error(gateway: Gateway, stream: bool) -> None:
    async def failing(request: CreateResponse, *rest: object) -> Any:
        first, *_ = saying(request, "a")
        yield first
        error = ResponseError(code="server_error", message="boom")
        yield [events.Failed(sequence_number=4, response=structs.replace(RESPONSE, status="failed", error=error))]

    gateway.rooms.engine.play = failing
    with gateway.client() as client, pytest.raises(openai.APIError, match="boom"):
        list(client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=stream))


def test_a_stream_that_breaks_is_an_error(gateway: Gateway) -> None:
    async def breaking(request: CreateResponse, *rest: object) -> Any:
        first, *_ = saying(request, "a")
        yield first
        raise ZeroDivisionError

    gateway.rooms.engine.play = breaking
    with gateway.client() as client, pytest.raises(openai.APIError, match="Internal error"):
        list(client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True))
