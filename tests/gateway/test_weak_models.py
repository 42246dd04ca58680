"""Models that write their calls into the answer: the code runs, nobody sees the JSON, and an answer comes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from openai import OpenAI
from tests.gateway.houses import CODE, House, Scene
from tests.gateway.test_first_minute import cell, logs
from tests.gateway.test_loop import WEATHER, ask, messages
from tests.unit.test_packages import wheel

from belljar.testing import Reply, call

RECORDINGS_HERE = Path(__file__).parents[1] / "recordings" / "chat"
RECORDED: list[dict[str, Any]] = json.loads((RECORDINGS_HERE / "written-calls.json").read_text())
RECORDINGS = pytest.mark.parametrize("recorded", RECORDED, ids=[f"{one['model']}: {one['form']}" for one in RECORDED])


def fenced(code: str, **more: Any) -> str:
    return f"```json\n{json.dumps({'name': 'code_interpreter', 'arguments': {'code': code, **more}}, indent=2)}\n```"


def roles(scene: Scene, turn: int = -1) -> list[str]:
    return [message["role"] for message in messages(scene, turn) if message["role"] != "system"]


def no_protocol(scene: Scene) -> bool:
    return not any("tool_calls" in one or one["role"] == "tool" for one in messages(scene))


@pytest.fixture(scope="module")
def short(_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """A gateway that asks a model five times at most, and has one package to install."""
    home = tmp_path_factory.mktemp("short")
    (home / "links").mkdir()
    wheel(home / "links", "handy")
    given = {
        "BELLJAR_FIND_LINKS": str(home / "links"),
        "BELLJAR_OFFLINE": "true",
        "BELLJAR_CACHE_DIR": str(home / "cache"),
        "BELLJAR_MAX_TURNS": "5",
    }
    with (
        House(home / "state", "--upstream", f"loop={_scene.server.base_url}", environment=given) as house,
        OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client,
    ):
        yield client


@RECORDINGS
@pytest.mark.parametrize("stream", [False, True])
def test_a_written_call_becomes_an_answer(client: OpenAI, scene: Scene, recorded: dict[str, Any], stream: bool) -> None:
    wrote, answer = recorded["turns"]
    scene.play(wrote, answer)
    asked: Any = ask(client, recorded["question"], stream=stream)
    if stream:
        events = list(asked)
        said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert said == answer
        asked = events[-1].response
    assert asked.status == "completed"
    assert asked.output_text == answer
    assert [item.type for item in asked.output] == ["code_interpreter_call", "message"]
    assert logs(asked) == recorded["prints"]
    assert cast(Any, cell(asked)).belljar["repaired"].startswith("wrote ")
    user, assistant, told = [one for one in messages(scene) if one["role"] != "system"]
    assert user["content"] == recorded["question"]
    assert assistant == {"role": "assistant", "content": wrote}
    assert told["role"] == "user"
    assert recorded["prints"].strip() in told["content"]


def test_it_goes_on_without_protocol_in_every_turn(client: OpenAI, scene: Scene) -> None:
    scene.play(f"Let me load it.\n{fenced('a = 40')}", fenced("print(a + 2)"), "```python\nprint(a)\n```", "It is 42.")
    response = ask(client)
    assert response.output_text == "Let me load it.\n```python\nprint(a)\n```It is 42."
    assert [logs(response, n) for n in (1, 2)] == ["42\n", "40\n"]
    assert roles(scene) == ["user", "assistant"] * 3 + ["user"]
    assert messages(scene)[-6]["content"] == f"Let me load it.\n{fenced('a = 40')}"
    assert no_protocol(scene)
    assert all(one.json["tools"] for one in scene.asked)
    scene.play(fenced("print(a + 3)"), "And 43.")
    later = ask(client, "And one more?", previous_response_id=response.id)
    assert (logs(later), later.output_text) == ("43\n", "And 43.")
    assert no_protocol(scene)
    assert roles(scene) == [*["user", "assistant"] * 5, "user"]


def test_a_model_that_makes_a_call_is_spoken_to_by_protocol_again(client: OpenAI, scene: Scene) -> None:
    scene.play(fenced("a = 1"), [call("code_interpreter", code="a + 1")], "two")
    response = ask(client)
    assert logs(response, 1) == "2"
    assert roles(scene) == ["user", "assistant", "tool", "assistant", "tool"]
    assert "written" not in cast(Any, cell(response, 1)).belljar


def test_a_caller_who_keeps_the_conversation_can_send_it_back(client: OpenAI, scene: Scene) -> None:
    scene.play(fenced("print(6 * 7)"), "It is 42.", "As I said.")
    first = ask(client, "How much?", store=False)
    kept: Any = [item.to_dict() for item in first.output]
    ask(client, cast(Any, [{"role": "user", "content": "How much?"}, *kept, {"role": "user", "content": "Sure?"}]))
    assert no_protocol(scene)
    assert roles(scene) == ["user", "assistant", "user", "assistant", "user"]
    assert messages(scene)[-4]["content"] == fenced("print(6 * 7)")
    assert "42" in messages(scene)[-3]["content"]


def test_the_requirements_of_a_written_call_are_installed(short: OpenAI, scene: Scene) -> None:
    scene.play(fenced("import handy\nprint(handy.__name__)", requirements=["handy"]), "It is there.")
    response = ask(short)
    assert logs(response) == "handy\n"


@pytest.mark.parametrize("stateless", [False, True])
def test_functions_of_the_callers_are_called_too(client: OpenAI, scene: Scene, stateless: bool) -> None:
    scene.play('```json\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n```', "Mild.")
    first = ask(client, "Warm in Rome?", tools=[*CODE, WEATHER])
    [made] = cast(Any, first.output)
    assert (made.type, made.name, json.loads(made.arguments)) == ("function_call", "get_weather", {"city": "Rome"})
    output = {"type": "function_call_output", "call_id": made.call_id, "output": "25 degrees"}
    if stateless:
        items = [{"role": "user", "content": "Warm in Rome?"}, made.to_dict(), output]
        last = ask(client, cast(Any, items), tools=[WEATHER])
    else:
        last = ask(client, cast(Any, [output]), tools=[WEATHER], previous_response_id=first.id)
    assert last.output_text == "Mild."
    assert no_protocol(scene)
    *_, assistant, told = messages(scene)
    assert json.loads(assistant["content"].strip("`json\n")) == {"name": "get_weather", "arguments": {"city": "Rome"}}
    assert (told["role"], "25 degrees" in told["content"]) == ("user", True)


def test_chat_completions_get_the_call_as_one(client: OpenAI, scene: Scene) -> None:
    tools: Any = [{"type": "function", "function": {key: WEATHER[key] for key in ("name", "parameters")}}]
    asked: Any = [{"role": "user", "content": "Warm in Rome?"}]
    scene.play('<tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>', "Mild.")
    [choice] = client.chat.completions.create(model="sim", messages=asked, tools=tools).choices
    assert choice.finish_reason == "tool_calls"
    assert not choice.message.content
    [made] = cast(Any, choice.message.tool_calls)
    result = {"role": "tool", "tool_call_id": made.id, "content": "25 degrees"}
    asked += [choice.message.to_dict(), result]
    again = client.chat.completions.create(model="sim", messages=asked, tools=tools)
    assert again.choices[0].message.content == "Mild."
    assert no_protocol(scene)


# -- models that are not given tools ----------------------------------------------------------------------------------

REFUSED = b'{"error":{"message":"registry.ollama.ai/library/tiny does not support tools"}}'


@pytest.fixture(scope="module")
def llama(_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """A gateway that takes the scripted model for one on llama.cpp, which drops tools without a word."""
    flags = ("--upstream", f"llamacpp={_scene.server.base_url}")
    with (
        House(tmp_path_factory.mktemp("llama") / "state", *flags) as house,
        OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client,
    ):
        yield client


def counted(tokens: int) -> Reply:
    said = {"choices": [{"message": {"content": "x"}, "finish_reason": "length"}], "usage": {"prompt_tokens": tokens}}
    return Reply(body=json.dumps(said).encode())


def in_words(scene: Scene, turn: int = -1) -> bool:
    """The model was told of the interpreter, and not by protocol."""
    system = messages(scene, turn)[0]
    told = system["role"] == "system" and "```python" in system["content"] and "/mnt/data" in system["content"]
    assert told != bool(scene.asked[turn].json.get("tools"))
    return told


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_its_server_gives_no_tools_is_told_in_the_prompt(
    client: OpenAI, scene: Scene, stream: bool
) -> None:
    name = f"loop/tiny-{stream}"
    scene.play(
        Reply(status=400, body=REFUSED), "I compute it.\n```python\nprint(6 * 7)\n```", "It is 42.", "You are welcome."
    )
    asked: Any = ask(client, "How much?", model=name, stream=stream)
    response = list(asked)[-1].response if stream else asked
    assert logs(response) == "42\n"
    assert response.output_text.endswith("It is 42.")
    assert [in_words(scene, n) for n in range(3)] == [False, True, True]
    assert no_protocol(scene)
    ask(client, "Thanks.", model=name)
    assert in_words(scene)
    assert not scene.left


@pytest.mark.parametrize(("lengths", "deaf"), [((30, 30), True), ((30, 95), False), ((0, 0), False), ((1, 1), False)])
def test_where_tools_may_be_dropped_that_is_tried_out_once(
    llama: OpenAI, scene: Scene, lengths: tuple[int, int], deaf: bool
) -> None:
    name = f"llamacpp/model-{lengths[1]}"
    scene.play(*map(counted, lengths), "Hello.", "Hello again.")
    assert ask(llama, "Hi", model=name).output_text == "Hello."
    without, with_one, asked = scene.asked
    assert "tools" not in without.json
    assert len(with_one.json["tools"]) == without.json["max_tokens"] == with_one.json["max_tokens"] == 1
    assert in_words(scene) == deaf
    ask(llama, "Hi", model=name)
    assert len(scene.asked) == 4
    assert messages(scene) == asked.json["messages"]


def test_without_tools_nothing_is_tried(llama: OpenAI, scene: Scene) -> None:
    scene.play("Hello.")
    assert ask(llama, "Hi", model="llamacpp/plain", tools=[]).output_text == "Hello."


def test_a_trial_that_fails_is_made_again_and_one_that_is_refused_tells(llama: OpenAI, scene: Scene) -> None:
    name = "llamacpp/late"
    scene.play(Reply(status=400, body=b'{"error":{"message":"not now"}}'), "Hello.")
    assert ask(llama, "Hi", model=name).output_text == "Hello."
    assert not in_words(scene)
    scene.play(counted(30), Reply(status=400, body=REFUSED), "Hello.")
    assert ask(llama, "Hi", model=name).output_text == "Hello."
    assert in_words(scene)


def test_a_real_one_that_only_writes_code_has_it_run_until_it_repeats_itself(client: OpenAI, scene: Scene) -> None:
    recorded = json.loads((RECORDINGS_HERE / "smollm2-135m.json").read_text())
    scene.play(Reply(status=400, body=REFUSED), *recorded["turns"])
    response = ask(client, recorded["question"], model="loop/smollm2", tool_choice="required")
    assert response.status == "completed"
    assert [item.type for item in response.output] == ["message", "code_interpreter_call"] * 2 + ["message"]
    assert [logs(response, n) for n in (0, 1)] == recorded["prints"]
    assert all("1024" in one["content"] for one in messages(scene)[3::2])
    assert roles(scene) == ["user", "assistant", "user", "assistant", "user"]


def test_functions_of_the_callers_are_told_in_the_prompt_too(client: OpenAI, scene: Scene) -> None:
    name = "loop/tiny-functions"
    wrote = '```json\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n```'
    scene.play(Reply(status=400, body=REFUSED), wrote, "Mild.")
    first = ask(client, "Warm in Rome?", model=name, tools=[WEATHER], tool_choice="required")
    [made] = cast(Any, first.output)
    assert "get_weather: The weather in a city." in messages(scene)[0]["content"]
    output: Any = {"type": "function_call_output", "call_id": made.call_id, "output": "25 degrees"}
    last = ask(client, cast(Any, [output]), model=name, tools=[WEATHER], previous_response_id=first.id)
    assert last.output_text == "Mild."
    assert no_protocol(scene)


# -- what is no call --------------------------------------------------------------------------------------------------


def test_only_what_the_model_says_is_a_call(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code=f"print({fenced('print(1)')!r})")], "I see.")
    response = ask(client, fenced("raise SystemExit"), instructions=fenced("raise SystemExit"))
    assert [item.type for item in response.output] == ["code_interpreter_call", "message"]
    assert len(scene.asked) == 2


@pytest.mark.parametrize(
    "answer",
    [
        "Use this:\n\n```python\nprint(1)\n```\n\nIt prints 1.",
        '{"name": "Ada", "arguments": {"born": 1815}}',
        '```json\n{"name": "get_time", "arguments": {}}\n```',
        f"{'That is how a call looks. ' * 30}\n{fenced('print(1)')}",
    ],
)
def test_an_answer_stays_one(client: OpenAI, scene: Scene, answer: str) -> None:
    scene.play(answer)
    events = list(cast(Any, ask(client, stream=True)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == answer
    assert [item.type for item in events[-1].response.output] == ["message"]


def test_json_that_was_asked_for_is_an_answer(client: OpenAI, scene: Scene) -> None:
    answer = '{"name": "code_interpreter", "arguments": {"code": "print(1)"}}'
    scene.play(answer)
    response = ask(client, text={"format": {"type": "json_object"}})
    assert response.output_text == answer


def test_what_is_cut_is_no_call(client: OpenAI, scene: Scene) -> None:
    cut = {"choices": [{"message": {"content": fenced("print(1)")[:60]}, "finish_reason": "length"}]}
    scene.play(Reply(body=json.dumps(cut).encode()))
    response = ask(client)
    assert response.status == "incomplete"
    assert response.output_text == fenced("print(1)")[:60]


# -- what never ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["", "I will run it:\n"])
def test_a_call_that_is_repeated_for_ever_ends_incomplete(short: OpenAI, scene: Scene, words: str) -> None:
    scene.play(*[words + fenced("print(1)")] * 9)
    response = ask(short)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert cast(str, response.incomplete_details.reason) == "max_messages"
    assert len(scene.asked) == 5
    assert "code_interpreter" not in response.output_text


def test_calls_beyond_the_most_are_not_shown_either(client: OpenAI, scene: Scene) -> None:
    scene.play(fenced("print(1)"), fenced("print(1)"))
    response = ask(client, max_tool_calls=1)
    assert response.status == "incomplete"
    assert [item.type for item in response.output] == ["code_interpreter_call"]
