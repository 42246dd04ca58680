"""A chat body becomes the request that our own API would have been sent, or a complaint in the caller's own terms."""

from typing import Any

import pytest

from belljar.errors import InvalidRequest
from belljar.gateway.chat_completions.reading import read_chat
from belljar.wire.extras import RequestExtras
from belljar.wire.items import (
    CodeInterpreterCall,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Image,
    InputAudio,
    InputFile,
    InputImage,
    InputItem,
    InputText,
    Logs,
    Message,
    OutputText,
    Refusal,
)
from belljar.wire.requests import CreateResponse
from belljar.wire.responses import Reasoner, TextConfig, TextFormat
from belljar.wire.tools import AllowedTools, AutoContainer, Choice, CodeInterpreterTool, CustomTool, FunctionTool

PNG = "data:image/png;base64,iVBORw0KGgo="
HI = {"role": "user", "content": "hi"}
LEAST = CreateResponse(model="m", input=(Message(role="user", content="hi"),), store=False)


def read(*messages: Any, **more: Any) -> CreateResponse:
    return read_chat({"model": "m", "messages": [*messages] or [HI], **more}).request


def test_the_least() -> None:
    assert read() == LEAST


def test_nulls_mean_nothing() -> None:
    names = [
        *("tools", "tool_choice", "parallel_tool_calls", "response_format", "max_tokens", "temperature", "top_p"),
        *("logprobs", "top_logprobs", "reasoning_effort", "stream", "stream_options", "store", "metadata", "n", "stop"),
        *("frequency_penalty", "presence_penalty", "logit_bias", "modalities", "audio", "functions", "user", "seed"),
    ]
    assert read(**dict.fromkeys(names)) == LEAST


# -- messages ----------------------------------------------------------------------------------------------------------


def call(id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


CELL = {
    "index": 0,
    "type": "code_interpreter_call",
    "id": "ci_1",
    "container_id": "cntr_1",
    "code": "plot()",
    "status": "completed",
    "outputs": [{"type": "logs", "logs": "ok"}, {"type": "image", "url": PNG}],
}
RAN = CodeInterpreterCall(
    id="ci_1",
    status="completed",
    code="plot()",
    container_id="cntr_1",
    outputs=(Logs(logs="ok"), Image(url=PNG)),
)


@pytest.mark.parametrize(
    ("message", "items"),
    [
        ({"role": "system", "content": "be kind"}, [Message(role="system", content="be kind")]),
        (
            {"role": "developer", "content": [{"type": "text", "text": "a"}], "name": "x"},
            [Message(role="developer", content=(InputText(text="a"),))],
        ),
        (
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image_url", "image_url": {"url": PNG}},
                    {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
                    {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
                    {"type": "file", "file": {"file_id": "file-1"}},
                    {"type": "file", "file": {"file_data": "data:,", "filename": "a.csv"}},
                ],
            },
            [
                Message(
                    role="user",
                    content=(
                        InputText(text="see"),
                        InputImage(image_url=PNG, detail="auto"),
                        InputImage(image_url=PNG, detail="low"),
                        InputAudio(input_audio={"data": "AA", "format": "wav"}),
                        InputFile(file_id="file-1"),
                        InputFile(file_data="data:,", filename="a.csv"),
                    ),
                )
            ],
        ),
        (
            {"role": "assistant", "content": "yes", "refusal": None, "annotations": [], "audio": None},
            [Message(role="assistant", content=(OutputText(text="yes"),))],
        ),
        (
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
                "refusal": "c",
                "reasoning_content": "let go",
            },
            [Message(role="assistant", content=(OutputText(text="a"), Refusal(refusal="b"), Refusal(refusal="c")))],
        ),
        ({"role": "assistant", "content": None, "tool_calls": None}, []),
        ({"role": "assistant", "content": ""}, []),
        (
            {"role": "assistant", "content": "both", "tool_calls": [call("a"), call("b", "g", '{"x":1}')]},
            [
                Message(role="assistant", content=(OutputText(text="both"),)),
                FunctionCall(call_id="a", name="f", arguments="{}"),
                FunctionCall(call_id="b", name="g", arguments='{"x":1}'),
            ],
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]},
            [FunctionCall(call_id="a", name="f", arguments="{}")],
        ),
        (
            {
                "role": "assistant",
                "content": "plotted",
                "belljar": {"cells": [CELL], "live": [{"index": 0, "code": "plot()"}]},
            },
            [RAN, Message(role="assistant", content=(OutputText(text="plotted"),))],
        ),
    ],
)
def test_messages(message: dict[str, Any], items: list[InputItem]) -> None:
    assert read(message).input == tuple(items)


def test_results_are_of_the_kind_of_their_call() -> None:
    custom = {"id": "b", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    assert read(
        {"role": "assistant", "tool_calls": [call("a"), custom]},
        {"role": "tool", "tool_call_id": "a", "content": "A"},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "B"}]},
    ).input == (
        FunctionCall(call_id="a", name="f", arguments="{}"),
        CustomToolCall(call_id="b", name="sh", input="ls"),
        FunctionCallOutput(call_id="a", output="A"),
        CustomToolCallOutput(call_id="b", output=(InputText(text="B"),)),
    )


# -- tools -------------------------------------------------------------------------------------------------------------


def function(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


def test_tools() -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: X"}}
    found = read(
        tools=[
            function("f", description="does", parameters={"type": "object"}, strict=True),
            function("g"),
            {"type": "custom", "custom": {"name": "sh", "description": "runs", "format": grammar}},
            {"type": "custom", "custom": {"name": "zsh"}},
            {"type": "code_interpreter"},
        ]
    )
    assert found.tools == (
        FunctionTool(name="f", description="does", parameters={"type": "object"}, strict=True),
        FunctionTool(name="g"),
        CustomTool(
            name="sh", description="runs", format={"type": "grammar", "syntax": "lark", "definition": "start: X"}
        ),
        CustomTool(name="zsh"),
        CodeInterpreterTool(container=AutoContainer()),
    )
    assert found.include == ("code_interpreter_call.outputs",)


@pytest.mark.parametrize(
    ("container", "read_as"),
    [
        (None, AutoContainer()),
        ("cntr_1", "cntr_1"),
        ({"type": "auto"}, AutoContainer()),
        (
            {"type": "auto", "memory_limit": "4g", "file_ids": ["file-1"]},
            AutoContainer(memory_limit="4g", file_ids=("file-1",)),
        ),
    ],
)
def test_containers(container: Any, read_as: Any) -> None:
    assert read(tools=[{"type": "code_interpreter", "container": container}]).tools == (
        CodeInterpreterTool(container=read_as),
    )


@pytest.mark.parametrize(
    ("choice", "read_as"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (function("f"), Choice(type="function", name="f")),
        ({"type": "custom", "custom": {"name": "sh"}}, Choice(type="custom", name="sh")),
        ({"type": "code_interpreter"}, Choice(type="code_interpreter")),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [function("f"), {"type": "code_interpreter"}]},
            },
            AllowedTools(mode="required", tools=(Choice(type="function", name="f"), Choice(type="code_interpreter"))),
        ),
    ],
)
def test_tool_choice(choice: Any, read_as: Any) -> None:
    tools = [function("f"), {"type": "custom", "custom": {"name": "sh"}}, {"type": "code_interpreter"}]
    assert read(tools=tools, tool_choice=choice).tool_choice == read_as


# -- options -----------------------------------------------------------------------------------------------------------


def test_every_option() -> None:
    found = read(
        parallel_tool_calls=False,
        response_format={"type": "json_object"},
        verbosity="low",
        max_completion_tokens=9,
        temperature=0,
        top_p=0.5,
        logprobs=True,
        top_logprobs=3,
        reasoning_effort="high",
        stream=True,
        stream_options={"include_usage": True},
        store=True,
        metadata={"a": "b"},
        service_tier="flex",
        prompt_cache_key="k",
        prompt_cache_options={"mode": "implicit"},
        prompt_cache_retention="24h",
        safety_identifier="s",
        user="u",
        seed=7,
        moderation={"model": "x"},
        n=1,
        stop=["a"],
        frequency_penalty=1,
        presence_penalty=-0.5,
        logit_bias={"5": -100},
        top_k=40,
        min_p=0.1,
        repetition_penalty=1.1,
        chat_template_kwargs={"enable_thinking": False},
        modalities=["text"],
        belljar={"executor": "belljar"},
    )
    assert found == CreateResponse(
        model="m",
        input=LEAST.input,
        parallel_tool_calls=False,
        text=TextConfig(format=TextFormat(type="json_object"), verbosity="low"),
        max_output_tokens=9,
        temperature=0.0,
        top_p=0.5,
        include=("message.output_text.logprobs",),
        top_logprobs=3,
        reasoning=Reasoner(effort="high"),
        stream=True,
        store=True,
        metadata={"a": "b"},
        service_tier="flex",
        prompt_cache_key="k",
        prompt_cache_options={"mode": "implicit"},
        prompt_cache_retention="24h",
        safety_identifier="s",
        user="u",
        seed=7,
        stop=("a",),
        frequency_penalty=1,
        presence_penalty=-0.5,
        logit_bias={"5": -100},
        top_k=40,
        min_p=0.1,
        repetition_penalty=1.1,
        chat_template_kwargs={"enable_thinking": False},
        belljar=RequestExtras(executor="belljar"),
    )
    assert read(stop="END").stop == "END"
    assert read(max_tokens=5).max_output_tokens == 5
    assert read(max_tokens=5, max_completion_tokens=7).max_output_tokens == 7


@pytest.mark.parametrize(
    ("given", "read_as"),
    [
        ({"type": "text"}, TextFormat()),
        (
            {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True, "description": "d"},
            },
            TextFormat(type="json_schema", name="n", schema={"type": "object"}, strict=True, description="d"),
        ),
        ({"type": "json_schema", "json_schema": {"name": "n"}}, TextFormat(type="json_schema", name="n", schema={})),
    ],
)
def test_the_form_of_the_answer(given: Any, read_as: TextFormat) -> None:
    assert read(response_format=given).text == TextConfig(format=read_as)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [(None, False), ({}, False), ({"include_usage": False}, False), ({"include_usage": True}, True)],
)
def test_whether_usage_is_wanted(options: Any, wanted: bool) -> None:
    assert read_chat({"model": "m", "messages": [HI], "stream": True, "stream_options": options}).usage is wanted


def test_a_prediction_is_told_as_without_effect() -> None:
    content = {"type": "content", "content": "x"}
    [told] = read_chat({"model": "m", "messages": [HI], "prediction": content}).ignored
    assert told.param == "prediction"
    assert read_chat({"model": "m", "messages": [HI]}).ignored == ()


# -- complaints --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "param", "fault"),
    [
        ({"model": None}, "model", "invalid_type"),
        ({"model": ""}, "model", "empty_string"),
        ({"messages": None}, "messages", "invalid_type"),
        ({"messages": []}, "messages", "empty_array"),
        ({"messages": "hi"}, "messages", "invalid_type"),
        ({"messages": ["hi"]}, "messages[0]", "invalid_type"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role", "missing_required_parameter"),
        ({"messages": [{"role": "function", "content": "x", "name": "f"}]}, "messages[0].role", "invalid_value"),
        ({"messages": [HI, {"role": "user"}]}, "messages[1].content", "missing_required_parameter"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content", "invalid_type"),
        ({"messages": [{"role": "user", "content": [{"type": "x"}]}]}, "messages[0].content[0].type", "invalid_value"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0].content[0].image_url.url",
            "missing_required_parameter",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "file", "file": {"filename": "a"}}]}]},
            "messages[0].content[0].file.file_id",
            "missing_required_parameter",
        ),
        (
            {"messages": [{"role": "system", "content": [{"type": "image_url", "image_url": {"url": PNG}}]}]},
            "messages[0].content[0].type",
            "invalid_value",
        ),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id", "missing_required_parameter"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "type": "function"}]}]},
            "messages[0].tool_calls[0].function",
            "missing_required_parameter",
        ),
        (
            {"messages": [{"role": "assistant", "belljar": {"cells": [{"id": "ci_1"}]}}]},
            "messages[0].belljar.cells[0].status",
            "missing_required_parameter",
        ),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "invalid_value"),
        ({"tools": [{"type": "function", "name": "f"}]}, "tools[0].function", "missing_required_parameter"),
        ({"tools": [function("")]}, "tools[0].function.name", "empty_string"),
        ({"tools": [function("f"), function("f")]}, "tools[1].name", "invalid_value"),
        (
            {"tools": [{"type": "code_interpreter", "container": {"type": "auto", "x": 1}}]},
            "tools[0].container.x",
            "unknown_parameter",
        ),
        (
            {"tools": [{"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "8g"}}]},
            "tools[0].container.memory_limit",
            "invalid_value",
        ),
        ({"tools": [{"type": "code_interpreter", "host": 1}]}, "tools[0].host", "unknown_parameter"),
        ({"tool_choice": "any"}, "tool_choice", "invalid_value"),
        ({"tool_choice": function("f")}, "tool_choice", None),
        ({"tool_choice": 7}, "tool_choice", "invalid_type"),
        ({"response_format": {"type": "xml"}}, "response_format.type", "invalid_value"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "missing_required_parameter"),
        ({"temperature": -1}, "temperature", "decimal_below_min_value"),
        ({"top_p": 2}, "top_p", "decimal_above_max_value"),
        ({"max_tokens": 0}, "max_tokens", "integer_below_min_value"),
        ({"reasoning_effort": "huge"}, "reasoning_effort", "invalid_value"),
        ({"metadata": {"a": 1}}, "metadata.a", "invalid_type"),
        ({"system": "x"}, "system", "unknown_parameter"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:;base64,aGk="}}]}
                ]
            },
            "messages[0].content[0].image_url.url",
            "invalid_image_format",
        ),
        (
            {"stream": True, "stream_options": {"include_obfuscation": True}},
            "stream_options.include_obfuscation",
            "unsupported_parameter",
        ),
        ({"n": 2}, "n", "unsupported_parameter"),
        ({"stop": [""]}, "stop[0]", "empty_string"),
        ({"stop": 7}, "stop", "invalid_type"),
        ({"stop": ["a"] * 17}, "stop", "array_above_max_length"),
        ({"frequency_penalty": 2.5}, "frequency_penalty", "decimal_above_max_value"),
        ({"presence_penalty": "much"}, "presence_penalty", "invalid_type"),
        ({"logit_bias": {"50256": -101}}, "logit_bias.50256", "decimal_below_min_value"),
        ({"seed": "x"}, "seed", "invalid_type"),
        ({"seed": 2**70}, "seed", "integer_above_max_value"),
        ({"logprobs": 5}, "logprobs", "invalid_type"),
        ({"store": "yes"}, "store", "invalid_type"),
        ({"top_k": -2}, "top_k", "integer_below_min_value"),
        ({"min_p": 1.5}, "min_p", "decimal_above_max_value"),
        ({"repetition_penalty": -1}, "repetition_penalty", "decimal_below_min_value"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs", "invalid_type"),
        ({"metadata": []}, "metadata", "invalid_type"),
        ({"stream_options": {"x": 1}}, "stream_options.x", "unknown_parameter"),
        ({"belljar": {"x": 1}}, "belljar.x", "unknown_parameter"),
        ({"modalities": ["text", "audio"]}, "modalities", "unsupported_parameter"),
        ({"audio": {"voice": "x"}}, "audio", "unsupported_parameter"),
        ({"prediction": "x"}, "prediction", "invalid_type"),
        ({"web_search_options": {}}, "web_search_options", "unsupported_parameter"),
        ({"functions": [{"name": "f"}]}, "functions", "unsupported_parameter"),
        ({"function_call": {"name": "f"}}, "function_call", "unsupported_parameter"),
    ],
)
def test_complaints(change: dict[str, Any], param: str, fault: str | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_chat({"model": "m", "messages": [HI], **change})
    assert (caught.value.param, caught.value.fault) == (param, fault)
