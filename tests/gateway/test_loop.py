"""The loop over a chat model: what it is asked, what is run, what the caller gets."""

from __future__ import annotations

import json
import threading
from typing import Any, cast

import openai
import pytest
from openai import OpenAI
from openai.types.responses import Response
from tests.gateway.houses import CODE, OUTPUTS, House, Scene
from tests.gateway.test_first_minute import cell, logs, said

from belljar.testing import call

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def ask(client: OpenAI, words: str = "go", **more: Any) -> Response:
    given = {"model": "sim", "tools": CODE, "include": OUTPUTS, "input": words, **more}
    return cast(Response, client.responses.create(**given))


def messages(scene: Scene, turn: int = -1) -> list[dict[str, Any]]:
    return cast(list[dict[str, Any]], scene.asked[turn].json["messages"])


def test_the_code_runs_and_the_model_is_told(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="print(6 * 7)")], "It is 42.")
    response = ask(client, "What is six times seven?")
    assert logs(response) == "42\n"
    assert response.output_text == "It is 42."
    first, second = scene.asked
    [tool] = first.json["tools"]
    assert tool["function"]["name"] == "code_interpreter"
    assert set(tool["function"]["parameters"]["properties"]) == {"code", "requirements"}
    assert tool["function"]["parameters"]["required"] == ["code"]
    for truth in ("60 seconds", "/mnt/data", "no network", "pandas"):
        assert truth in tool["function"]["description"]
    *_, called, answered = second.json["messages"]
    assert json.loads(called["tool_calls"][0]["function"]["arguments"]) == {"code": "print(6 * 7)"}
    assert (answered["role"], answered["tool_call_id"]) == ("tool", called["tool_calls"][0]["id"])
    assert "42" in answered["content"]


def test_usage_is_the_sum_of_all_turns(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="1")], "one")
    both = ask(client).usage
    scene.play("one")
    last = ask(client).usage
    assert both is not None
    assert last is not None
    assert both.total_tokens == both.input_tokens + both.output_tokens
    assert both.input_tokens > last.input_tokens
    assert both.input_tokens_details.cached_tokens == 0


def test_code_streams_as_the_model_writes_it_and_output_as_it_is_printed(client: OpenAI, scene: Scene) -> None:
    wait = "while not os.path.exists('go'): time.sleep(0.01)"
    code = f"import os, time\nprint('fïrst', flush=True)\n{wait}\nprint('last')"
    scene.play([call("code_interpreter", code=code)], "done")
    container = client.containers.create(name="live")
    tools = [{"type": "code_interpreter", "container": container.id}]
    printed = []
    written = ""
    kinds: list[str] = []
    with client.responses.stream(model="sim", tools=cast(Any, tools), input="go") as stream:
        for event in stream:
            kinds.append(event.type)
            if event.type == "response.code_interpreter_call_code.delta":
                written += event.delta
            elif cast(str, event.type) == "belljar:code_interpreter_call.output.delta":
                printed.append(cast(Any, event).delta)
                if len(printed) == 1:  # the code goes on once this has been seen
                    client.containers.files.create(container.id, file=("go", b""))
    assert written == code
    assert kinds.count("response.code_interpreter_call_code.delta") > 5
    assert printed == ["fïrst\n", "last\n"]
    assert kinds.index("response.code_interpreter_call.interpreting") < kinds.index(
        "belljar:code_interpreter_call.output.delta"
    )


def test_variables_live_on_along_the_chain_and_history_is_sent(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="x = 41")], "set", [call("code_interpreter", code="x + 1")], "42")
    first = ask(client, "remember")
    second = ask(client, "recall", previous_response_id=first.id, instructions="Be brief.")
    assert logs(second) == "42"
    assert cell(first).container_id == cell(second).container_id
    roles = [one["role"] for one in messages(scene, 2)]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    scene.play("and so on")
    ask(client, "and now", previous_response_id=second.id, tools=[])
    assert "Be brief." not in json.dumps(messages(scene))
    assert "tools" not in scene.asked[0].json


def test_an_exception_is_completed_with_the_traceback_and_the_model_goes_on(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="1 / 0")], [call("code_interpreter", code="'again'")], "ok")
    response = ask(client)
    assert cell(response).status == "completed"
    assert "ZeroDivisionError" in logs(response)
    assert "ZeroDivisionError" in json.dumps(messages(scene, 1))
    assert logs(response, 1) == "'again'"


def test_a_call_of_a_function_goes_back_to_the_caller(client: OpenAI, scene: Scene) -> None:
    scene.play([call("get_weather", city="Rome")], "Sunny.")
    first = ask(client, tools=[WEATHER])
    [item] = first.output
    assert item.type == "function_call"
    assert json.loads(item.arguments) == {"city": "Rome"}
    output: Any = {"type": "function_call_output", "call_id": item.call_id, "output": "25 degrees"}
    second = ask(client, cast(Any, [output]), previous_response_id=first.id, tools=[WEATHER])
    assert second.output_text == "Sunny."
    assert messages(scene)[-1]["content"] == "25 degrees"


def test_a_mixed_turn_runs_the_code_and_hands_back_the_function(client: OpenAI, scene: Scene) -> None:
    scene.play(
        [call("code_interpreter", code="y = 5; y"), call("get_weather", city="Oslo")],
        [call("code_interpreter", code="y + 1")],
        "six",
    )
    first = ask(client, tools=[*CODE, WEATHER])
    assert [item.type for item in first.output] == ["code_interpreter_call", "function_call"]
    assert logs(first) == "5"
    handed = first.output[1]
    assert handed.type == "function_call"
    output: Any = {"type": "function_call_output", "call_id": handed.call_id, "output": "cold"}
    second = ask(client, cast(Any, [output]), previous_response_id=first.id, tools=[*CODE, WEATHER])
    assert logs(second) == "6"
    replayed = messages(scene, 1)
    assert [one["role"] for one in replayed] == ["user", "assistant", "tool", "tool"]
    assert [one["content"] for one in replayed[2:]] == ["5", "cold"]


@pytest.mark.parametrize("name", ["code_interpreter", "get_weather"])
def test_one_call_at_a_time_where_that_was_asked_for(client: OpenAI, scene: Scene, name: str) -> None:
    given = {"code": "1 + 1"} if name == "code_interpreter" else {"city": "Rome"}
    scene.play([call(name, **given), call("code_interpreter", code="2 + 2")], "done")
    response = ask(client, parallel_tool_calls=False, tools=[*CODE, WEATHER])
    kinds = [item.type for item in response.output]
    if name == "get_weather":
        assert kinds == ["function_call"]
    else:
        assert kinds == ["code_interpreter_call", "message"]
        assert logs(response) == "2"
        [called] = [message for message in messages(scene) if message.get("tool_calls")]
        assert len(called["tool_calls"]) == 1


def test_parallel_calls_run_one_after_the_other_in_one_container(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="a = 1"), call("code_interpreter", code="a + 1")], "two")
    response = ask(client)
    assert logs(response, 1) == "2"
    assert cell(response).container_id == cell(response, 1).container_id


@pytest.mark.parametrize(
    "choice",
    ["required", {"type": "code_interpreter"}, {"type": "allowed_tools", "mode": "required", "tools": CODE}],
)
def test_a_forced_tool_is_released_after_the_first_call(client: OpenAI, scene: Scene, choice: Any) -> None:
    if isinstance(choice, dict) and "tools" in choice:
        choice = {**choice, "tools": [{"type": "code_interpreter"}]}
    scene.play([call("code_interpreter", code="1")], "done")
    response = ask(client, tool_choice=choice)
    assert response.output_text == "done"
    first, second = (one.json.get("tool_choice", "auto") for one in scene.asked)
    assert first != "auto"
    assert second == "auto"


def test_tool_choice_none_offers_no_call(client: OpenAI, scene: Scene) -> None:
    scene.play("```python\nprint(1)\n```")
    response = ask(client, tool_choice="none")
    assert [item.type for item in response.output] == ["message"]
    assert scene.asked[0].json.get("tool_choice", "none") == "none"


def test_allowed_tools_are_the_only_ones_sent(client: OpenAI, scene: Scene) -> None:
    scene.play("hm")
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_weather"}]}
    ask(client, tools=[*CODE, WEATHER], tool_choice=choice)
    assert [tool["function"]["name"] for tool in scene.asked[0].json["tools"]] == ["get_weather"]


def test_max_tool_calls_bounds_the_calls(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="1"), call("code_interpreter", code="2")], "enough")
    response = ask(client, max_tool_calls=1)
    assert [item.type for item in response.output] == ["code_interpreter_call", "message"]
    assert "tools" not in scene.asked[1].json


def test_a_weak_model_is_helped_and_that_is_marked(client: OpenAI, scene: Scene) -> None:
    scene.play("I will compute it.\n\n```python\nprint(21 * 2)\n```", "42")
    response = ask(client)
    assert logs(response) == "42\n"
    assert cast(Any, cell(response)).belljar["repaired"]
    scene.play([call("python", script="print('renamed')")], "ok")
    response = ask(client)
    assert logs(response) == "renamed\n"
    assert cast(Any, cell(response)).belljar["repaired"]


@pytest.mark.parametrize("name", ["code", "python3", "execute_python", "run_python"])
def test_a_guess_at_the_interpreters_name_is_taken_for_it(client: OpenAI, scene: Scene, name: str) -> None:
    scene.play([call(name, code="print(6 * 7)")], "ok")
    response = ask(client, tools=[*CODE, WEATHER])
    assert logs(response) == "42\n"
    assert cast(Any, cell(response)).belljar["repaired"] == f"called {name}"


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_of_a_tool_that_nobody_declared_is_answered_and_not_handed_on(
    client: OpenAI, scene: Scene, stream: bool
) -> None:
    script: Any = ([call("browser.search", q="Rome")], [call("get_weather", city="Rome")])
    scene.play(*script)
    asked: Any = ask(client, tools=[*CODE, WEATHER], stream=stream, tool_choice="required")
    if stream:
        events = list(asked)
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert "browser" not in "".join(event.to_json() for event in events)
        asked = events[-1].response
    [handed] = asked.output
    assert (handed.type, handed.name) == ("function_call", "get_weather")
    *_, called, answered = messages(scene, 1)
    [stray] = called["tool_calls"]
    assert stray["function"] == {"name": "browser_search_b4eaea", "arguments": '{"q": "Rome"}'}
    assert (answered["role"], answered["tool_call_id"]) == ("tool", stray["id"])
    assert answered["content"] == "There is no tool 'browser.search'. The tools are: code_interpreter, get_weather."
    assert [one.json["tool_choice"] for one in scene.asked] == ["required"] * 2
    scene.play(script[1])
    once = ask(client, tools=[*CODE, WEATHER]).usage
    assert asked.usage is not None
    assert once is not None
    assert asked.usage.output_tokens > once.output_tokens
    assert asked.usage.input_tokens > once.input_tokens
    scene.play("Mild.")
    output: Any = {"type": "function_call_output", "call_id": handed.call_id, "output": "25 degrees"}
    last = ask(client, cast(Any, [output]), previous_response_id=asked.id, tools=[WEATHER])
    assert last.output_text == "Mild."
    assert "browser" not in json.dumps(messages(scene))


def test_beside_calls_that_can_be_made_the_one_that_cannot_is_left_out(client: OpenAI, scene: Scene) -> None:
    scene.play(
        ["Let me see.", call("lookup", x=1), call("code_interpreter", code="6 * 7"), call("lookup", x=2)],
        [call("lookup", x=3), call("get_weather", city="Oslo")],
    )
    response = ask(client, tools=[*CODE, WEATHER])
    assert [item.type for item in response.output] == ["message", "code_interpreter_call", "function_call"]
    assert logs(response) == "42"
    told = messages(scene, 1)
    outputs = {one["tool_call_id"]: one["content"] for one in told if one["role"] == "tool"}
    calls = [one for message in told for one in message.get("tool_calls", ())]
    assert [one["function"]["name"] for one in calls] == ["lookup", "code_interpreter", "lookup"]
    assert ["no tool 'lookup'" in outputs[one["id"]] for one in calls] == [True, False, True]


def test_without_any_tool_a_call_is_answered_too(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="1")], "In words, then.")
    assert ask(client, tools=[]).output_text == "In words, then."
    assert "no tools here" in messages(scene)[-1]["content"]
    scene.play([call("get_weather", city="Rome")], "I cannot know.")
    said_so = client.chat.completions.create(model="sim", messages=[{"role": "user", "content": "Warm in Rome?"}])
    [choice] = said_so.choices
    assert (choice.finish_reason, choice.message.content) == ("stop", "I cannot know.")
    assert not choice.message.tool_calls


def test_a_failing_model_before_the_stream_has_its_status(client: OpenAI, scene: Scene) -> None:
    from belljar.testing import Reply

    busy = Reply(status=429, headers={"x-should-retry": "false"}, body=b'{"error":{"message":"slow down"}}')
    scene.play(busy, busy, busy, busy)
    with pytest.raises(openai.RateLimitError):
        ask(client)
    with pytest.raises(openai.RateLimitError):
        ask(client, stream=True)


def test_a_model_that_breaks_in_the_stream_is_an_error_then_failed(client: OpenAI, scene: Scene) -> None:
    from belljar.testing import BREAK

    scene.play(["half an ", "answer", BREAK])
    events = iter(cast(Any, ask(client, stream=True)))
    kinds: list[str] = []
    with pytest.raises(openai.APIError) as caught:
        kinds.extend(event.type for event in events)
    assert kinds[0] == "response.created"
    assert "response.output_text.delta" in kinds
    assert caught.value.code


def test_a_caller_who_hangs_up_stops_the_code_and_the_model(client: OpenAI, scene: Scene, house: House) -> None:
    scene.play([call("code_interpreter", code="import time\nprint('on', flush=True)\ntime.sleep(600)")], "never")
    container = client.containers.create(name="hang-up")
    tools: Any = [{"type": "code_interpreter", "container": container.id}]
    with client.responses.create(model="sim", tools=tools, input="go", stream=True) as stream:
        for event in stream:
            if cast(str, event.type) == "belljar:code_interpreter_call.output.delta":
                break
    scene.play([call("code_interpreter", code="'free again'")], "ok")
    response = ask(client, tools=tools)
    assert logs(response) == "'free again'"


def test_pictures_go_back_to_the_model(client: OpenAI, scene: Scene) -> None:
    plot = "import matplotlib.pyplot as plt\nfor i in range(4):\n    plt.figure(); plt.plot([i, 1])"
    scene.play([call("code_interpreter", code=plot)], "four lines")
    response = ask(client, model="llava")
    images = [one for one in cell(response).outputs or [] if one.type == "image"]
    assert len(images) == 4
    assert json.dumps(messages(scene)).count("data:image/png;base64,") == 4
    assert len([one for one in said(response).annotations if one.type == "container_file_citation"]) == 4


def test_a_slow_model_does_not_hold_up_the_first_event(client: OpenAI, scene: Scene) -> None:
    from belljar.testing import Reply

    gate = threading.Event()
    scene.play(Reply(steps=["late"], before=gate))
    stream = ask(client, stream=True)
    events = iter(cast(Any, stream))
    assert next(events).type == "response.created"
    gate.set()
    assert [event.type for event in events][-1] == "response.completed"


def test_structured_output_and_code_go_together(client: OpenAI, scene: Scene) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    scene.play([call("code_interpreter", code="6 * 7")], '{"n": 42}')
    shape = {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}}
    response = ask(client, text=shape)
    assert json.loads(response.output_text) == {"n": 42}
    for one in scene.asked:
        assert one.json["response_format"]["json_schema"]["schema"] == schema


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({}, True),
        ({"x-stainless-lang": "js"}, False),
        ({"x-stainless-lang": "go"}, False),
        ({"x-stainless-lang": "js", "belljar-live-output": "true"}, True),
        ({"belljar-live-output": "False"}, False),
    ],
)
def test_live_output_is_told_to_those_who_can_read_it(
    client: OpenAI, scene: Scene, headers: dict[str, str], told: bool
) -> None:
    scene.play([call("code_interpreter", code="print(1)")], "done")
    stream = client.responses.create(model="sim", tools=cast(Any, CODE), input="go", stream=True, extra_headers=headers)
    events = list(stream)
    assert ("belljar:code_interpreter_call.output.delta" in [event.type for event in events]) is told
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_a_word_for_live_output_that_is_neither_yes_nor_no(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="live-output: 'maybe'"):
        client.models.list(extra_headers={"belljar-live-output": "maybe"})
