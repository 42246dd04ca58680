"""A model that does not speak the protocol of calls: its own words go back to it, and results in the user's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs
from tests.unit.vendors.chat.test_request import PNG, assistant, body, cell, function_call, messages, result, user

from belljar.errors import InvalidRequest
from belljar.vendors.chat import tools_in_prompt
from belljar.wire.items import CellEnd, CustomToolCall, CustomToolCallOutput, InputItem, Logs
from belljar.wire.tools import AllowedTools, Choice, CustomTool, FunctionTool, HostedTool, ToolChoice

WRITTEN = '```json\n{"name": "code_interpreter", "arguments": {"code": "1"}}\n```'


def wrote(id: str, written: str | None, code: str = "1", logs: str = "1", **end: Any) -> InputItem:
    belljar = CellEnd(exit="ok", repaired="wrote the call into its answer", written=written, **end)
    return structs.replace(cell(id, code, (Logs(logs=logs),)), belljar=belljar)


def told(text: str) -> dict[str, Any]:
    return {"role": "user", "content": tools_in_prompt.write_results([text])}


def test_a_call_that_was_written_goes_back_as_it_was() -> None:
    assert messages(user("go"), wrote("ci_1", WRITTEN)) == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": WRITTEN},
        told("1"),
    ]


def test_words_before_it_and_after_it_stay_where_they_were() -> None:
    items: list[InputItem] = [
        user("go"),
        assistant("Well.\n"),
        wrote("ci_1", WRITTEN),
        assistant("It is 1."),
        user("Sure?"),
    ]
    assert messages(*items) == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": f"Well.\n{WRITTEN}"},
        told("1"),
        {"role": "assistant", "content": "It is 1."},
        {"role": "user", "content": "Sure?"},
    ]
    block = "```python\n1\n```"
    assert messages(assistant(block), wrote("ci_1", "")) == [{"role": "assistant", "content": block}, told("1")]
    assert messages(wrote("ci_1", ""))[0]["content"] == tools_in_prompt.write_call("code_interpreter", '{"code":"1"}')


def test_calls_that_were_written_together_are_answered_together() -> None:
    both = f"{WRITTEN}\n{WRITTEN}"
    first, second = wrote("ci_1", both, more=True), wrote("ci_2", "", logs="2")
    assert messages(user("go"), first, second)[1:] == [
        {"role": "assistant", "content": both},
        {"role": "user", "content": tools_in_prompt.write_results(["1", "2"])},
    ]


def test_the_newest_call_tells_how_the_model_is_spoken_to() -> None:
    made, written = cell("ci_1", "1", (Logs(logs="1"),)), wrote("ci_2", WRITTEN)
    plain = messages(user("go"), made, written)
    assert [one["role"] for one in plain] == ["user", "assistant", "user", "assistant", "user"]
    assert plain[1]["content"] == tools_in_prompt.write_call("code_interpreter", '{"code":"1"}')
    by_protocol = messages(user("go"), written, made)
    assert [one["role"] for one in by_protocol] == ["user", "assistant", "tool", "assistant", "tool"]
    assert json.loads(by_protocol[1]["tool_calls"][0]["function"]["arguments"]) == {"code": "1"}


def test_a_function_that_was_called_in_writing_is_told_by_its_id() -> None:
    items: list[InputItem] = [
        user("go"),
        function_call("call_written_1", '{"a":1}'),
        result("call_written_1"),
        user("And?"),
    ]
    assert messages(*items) == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": '```json\n{"name": "f", "arguments": {"a":1}}\n```'},
        {"role": "user", "content": f"{tools_in_prompt.write_results(['done'])}\n\nAnd?"},
    ]
    custom = CustomToolCall(call_id="call_written_2", name="p", input="x")
    assert messages(custom, CustomToolCallOutput(call_id="call_written_2", output="y"))[1:] == [told("y")]


def test_pictures_come_with_the_results_and_the_users_next_words() -> None:
    items: list[InputItem] = [wrote("ci_1", WRITTEN), user("Nice?")]
    [_, shown] = messages(*items, call_images={"ci_1": (PNG,)})
    assert shown == {
        "role": "user",
        "content": [
            {"type": "text", "text": tools_in_prompt.write_results(["1"])},
            {"type": "image_url", "image_url": {"url": PNG}},
            {"type": "text", "text": "Nice?"},
        ],
    }


def test_tools_can_be_told_in_words() -> None:
    code = FunctionTool(name="code_interpreter", parameters={}, description="Has pandas.")
    weather = FunctionTool(name="get_weather", parameters={"type": "object"}, description="The weather.")
    tools = (code, weather, CustomTool(name="patch"), FunctionTool(name="now"))
    sent = body(user("go"), in_words=True, tools=tools, instructions="Be brief.")
    assert "tools" not in sent
    assert "tool_choice" not in sent
    system, asked = sent["messages"]
    assert system["role"] == "system"
    for words in ("Be brief.", "```python", "Has pandas.", 'get_weather: The weather.\nArguments: {"type":"object"}'):
        assert words in system["content"]
    assert asked == {"role": "user", "content": "go"}
    assert tools_in_prompt._MUST not in system["content"]
    assert messages(user("go"), in_words=True, tools=tools, tool_choice="none") == [asked]
    assert messages(user("go"), in_words=True) == [asked]
    only = messages(user("go"), in_words=True, tools=(code,))[0]["content"]
    assert "functions" not in only
    now = (Choice(type="function", name="now"),)
    choices: list[ToolChoice] = ["required", *now, AllowedTools(mode="required", tools=now)]
    for choice in choices:
        assert (
            tools_in_prompt._MUST in messages(user("go"), in_words=True, tools=tools, tool_choice=choice)[0]["content"]
        )
    free = messages(user("go"), in_words=True, tools=tools, tool_choice=AllowedTools(mode="auto", tools=now))[0][
        "content"
    ]
    assert tools_in_prompt._MUST not in free
    assert "get_weather" not in free
    with pytest.raises(InvalidRequest, match="cannot run 'web_search'"):
        body(user("go"), in_words=True, tools=(HostedTool({"type": "web_search"}),))


def test_what_a_model_without_tools_called_is_told_in_words() -> None:
    sent = messages(user("go"), cell("ci_1", "1", (Logs(logs="1"),)), in_words=True)
    assert [one["role"] for one in sent] == ["user", "assistant", "user"]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b'{"error":{"message":"registry.ollama.ai/library/smollm:135m does not support tools"}}'),
        (
            400,
            b'{"message":"\\"auto\\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"}',
        ),
        (500, b'{"error":{"code":500,"message":"tools param requires --jinja flag"}}'),
        (404, b'{"error":{"message":"No endpoints found that support tool use."}}'),
        (400, b'{"error":{"message":"`tool calling` is not supported with this model"}}'),
    ],
)
def test_a_server_that_gives_a_model_no_tools_is_understood(status: int, body: bytes) -> None:
    assert tools_in_prompt.refuses_tools(status, body)
    assert not tools_in_prompt.refuses_tools(429, body)


@pytest.mark.parametrize("body", [b"", b"\xff", b'{"error":{"message":"messages: too many tools"}}', b"unknown tool"])
def test_other_refusals_are_no_such(body: bytes) -> None:
    assert not tools_in_prompt.refuses_tools(400, body)


def test_a_trial_is_short_and_differs_by_the_tool_alone() -> None:
    without, with_one = tools_in_prompt.make_trials("m")
    assert structs.replace(with_one, tools=()) == without
    assert without.max_output_tokens == 1
    assert len(with_one.tools) == 1
