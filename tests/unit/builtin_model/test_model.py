"""The built-in model: what it does is the same every time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.upstream.conftest import answer, calls_of, text_of

from belljar.gateway.builtin_model.model import SUMMARISE, TRAITS, BuiltIn
from belljar.vendors.deltas import CallBegun, CallEnd, CallPiece, Delta, Finish, Text, UsageDelta
from belljar.vendors.request import ModelRequest
from belljar.wire.items import (
    CellEnd,
    CodeInterpreterCall,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Image,
    InputImage,
    InputItem,
    InputText,
    Logs,
    Message,
    OutputText,
)
from belljar.wire.responses import TextConfig, TextFormat
from belljar.wire.tools import Choice, CustomTool, FunctionTool, ToolChoice

CODE = FunctionTool(name="code_interpreter", parameters={"type": "object"})
LOCATION = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}
WEATHER = FunctionTool(name="get_weather", parameters=LOCATION)


def user(text: str) -> Message:
    return Message(role="user", content=(InputText(text=text),))


def ran(logs: str = "", *files: str, exit: Any = "ok", text: str = "", images: int = 0, id: str = "ci_1") -> InputItem:
    outputs = (*((Logs(logs=logs),) if logs else ()), *[Image(url="data:image/png;base64,")] * images)
    end = CellEnd(exit=exit, text=text, files=files)
    return CodeInterpreterCall(id=id, status="completed", code="…", container_id="cntr_1", outputs=outputs, belljar=end)


def ask(
    *items: InputItem | str, tools: tuple[Any, ...] = (CODE,), choice: ToolChoice = "auto", **fields: Any
) -> list[Delta]:
    given = tuple(user(item) if isinstance(item, str) else item for item in items)
    request = ModelRequest(model="belljar", items=given, tools=tools, tool_choice=choice, **fields)
    return asyncio.run(answer(BuiltIn(), request))


def code_of(deltas: list[Delta]) -> str:
    ((name, arguments),) = calls_of(deltas)
    assert name == "code_interpreter"
    return str(json.loads(arguments)["code"])


# -- code -------------------------------------------------------------------------------------------------------------


def test_it_runs_the_python_of_a_message() -> None:
    assert code_of(ask("please:\n```python\nprint('å')\nx = 1\n```")) == "print('å')\nx = 1\n"
    assert code_of(ask("6 * 7")) == "6 * 7"
    assert code_of(ask("  x = 1\n  y = 2")) == "x = 1\ny = 2"
    assert code_of(ask("1 + 1", Message(role="assistant", content="2"), "2 + 2")) == "2 + 2"
    assert code_of(ask(Message(role="user", content="6 * 7"))) == "6 * 7"


def test_it_runs_the_python_beside_a_note_on_a_file() -> None:
    note, code = (
        InputText(text="[The file 'd.csv' is in /mnt/data/d.csv]"),
        InputText(text="print(open('d.csv').read())"),
    )
    assert code_of(ask(Message(role="user", content=(note, code)))) == code.text
    assert code_of(ask(Message(role="user", content=(code, note)))) == code.text
    assert not calls_of(ask(Message(role="user", content=(note, InputText(text="what is in it?")))))


def test_a_call_comes_in_pieces() -> None:
    deltas = ask("```python\na = 1\nb = 2\nc = 3\n```")
    begun, *pieces, end, finish, spent = deltas
    assert isinstance(begun, CallBegun)
    assert len(pieces) > 2
    assert isinstance(end, CallEnd)
    assert "".join(piece.text for piece in pieces if isinstance(piece, CallPiece)) == end.arguments
    assert finish == Finish("calls")
    assert isinstance(spent, UsageDelta)


def test_calls_have_ids_of_their_own() -> None:
    ids = {delta.call_id for _ in range(3) for delta in ask("1 + 1") if isinstance(delta, CallBegun)}
    assert len(ids) == 3


def test_blocks_run_in_order_until_one_fails() -> None:
    message = "```python\na\n```\n```py\nb\n```\n```\nc\n```"
    assert code_of(ask(message)) == "a\n"
    assert code_of(ask(message, ran("1"))) == "b\n"
    assert code_of(ask(message, ran("1"), ran("2"))) == "c\n"
    done = ask(message, ran("1"), ran("2"), ran("3"))
    assert not calls_of(done)
    assert text_of(done).count("The code ran:") == 3
    failed = ask(message, ran("1"), ran("oops", exit="raised", text="NameError"))
    assert not calls_of(failed)
    assert "Not run: the last 1 of 3 blocks." in text_of(failed)


def test_it_tells_what_happened() -> None:
    assert text_of(ask("6 * 7", ran("42\n"))) == "The code ran:\n\n```\n42\n```"
    assert text_of(ask("x = 1", ran())) == "The code ran and showed nothing."
    assert text_of(ask("p()", ran(images=1))) == "The code ran and made 1 image."
    assert text_of(ask("p()", ran("a", images=2))) == "The code ran and made 2 images:\n\n```\na\n```"
    assert Finish("stop") in ask("6 * 7", ran("42\n"))


def test_it_links_files() -> None:
    cells = ran("ok", "a.csv", "sub/報告 1.xlsx"), ran("ok", "a.csv", id="ci_2")
    assert text_of(ask("```python\na\n```\n```python\nb\n```", *cells)).endswith(
        "\n\nFiles: [a.csv](sandbox:/mnt/data/a.csv), [sub/報告 1.xlsx](sandbox:/mnt/data/sub/報告 1.xlsx)"
    )


def test_it_explains_what_went_wrong() -> None:
    raised = ran("Traceback …\nNameError: x", exit="raised", text="NameError: x")
    assert text_of(ask("x.y", raised)) == "The code failed:\n\n```\nTraceback …\nNameError: x\n```"
    slow = ran("so far", exit="timed_out", text="It took longer than 60 s; ask for less.")
    assert text_of(ask("f()", slow)).endswith("```\n\nIt took longer than 60 s; ask for less.")
    killed = ran(exit="killed", text="It used more than 1g of memory.")
    assert text_of(ask("f()", killed)) == "The code failed.\n\nIt used more than 1g of memory."
    assert "It ended with: killed." in text_of(ask("f()", ran(exit="killed")))


def test_outputs_that_are_not_in_the_item_are_taken_from_what_was_told() -> None:
    bare = CodeInterpreterCall(id="ci_1", status="completed", code="6 * 7", container_id="cntr_1")
    assert text_of(ask("6 * 7", bare, call_outputs={"ci_1": "42"})) == "The code ran:\n\n```\n42\n```"


def test_a_long_output_is_cut_and_a_fence_cannot_be_closed_from_inside() -> None:
    told = text_of(ask("f()", ran("a" * 9000 + "end")))
    assert len(told) < 4200
    assert "characters left out" in told
    assert "end\n```" in told
    assert text_of(ask("f()", ran("```\nx\n````"))) == "The code ran:\n\n`````\n```\nx\n````\n`````"


def test_without_the_tool_it_says_so() -> None:
    assert '"type": "code_interpreter"' in text_of(ask("6 * 7", tools=()))
    assert not calls_of(ask("6 * 7", choice="none"))
    limited = text_of(ask("```python\na\n```\n```python\nb\n```", ran("1"), tools=()))
    assert limited.startswith("The code ran:")
    assert "Not run: the last 1 of 2 blocks." in limited


@pytest.mark.parametrize("message", ["hello", "What is the capital of France?", "", "thanks", "Say hello in 3 words."])
def test_to_anything_else_it_says_what_it_is(message: str) -> None:
    told = text_of(ask(message))
    for word in ("built-in", "LM Studio", "Ollama", "OPENAI_API_KEY", "/v1/models"):
        assert word in told
    assert told == text_of(ask(message))


def test_images_and_no_messages_at_all_are_no_trouble() -> None:
    picture = Message(role="user", content=(InputText(text="look"), InputImage(image_url="data:,")))
    assert "built-in" in text_of(ask(picture))
    assert "built-in" in text_of(ask())
    assert "built-in" in text_of(ask(Message(role="system", content="6 * 7")))
    assert not TRAITS.sees


# -- functions --------------------------------------------------------------------------------------------------------


def test_a_function_that_the_message_is_about_is_called() -> None:
    asked = "What's the weather like in San Francisco?"
    ((name, arguments),) = calls_of(ask(asked, tools=(WEATHER,)))
    assert (name, json.loads(arguments)) == ("get_weather", {"location": asked})
    camel = FunctionTool(name="getWeather")
    assert calls_of(ask(asked, tools=(CODE, camel))) == [("getWeather", "{}")]
    assert not calls_of(ask("hello", tools=(WEATHER,)))
    assert code_of(ask("weather = 1", tools=(WEATHER, CODE))) == "weather = 1"


def test_a_call_may_be_spelled_out() -> None:
    spelled = 'Do {"x": 1} and {"name": "get_weather", "arguments": {"location": "Rome"}} now'
    assert calls_of(ask(spelled, tools=(WEATHER,))) == [("get_weather", '{"location": "Rome"}')]
    text = '{"name": "get_weather", "arguments": "{\\"location\\": \\"Oslo\\"}"}'
    assert calls_of(ask(text, tools=(CODE, WEATHER))) == [("get_weather", '{"location": "Oslo"}')]
    assert calls_of(ask('{"name": "get_weather"}', tools=(WEATHER,))) == [("get_weather", "{}")]
    other = ask('{"name": "launch", "arguments": {}}', tools=(FunctionTool(name="get_it"),))
    assert not calls_of(other)


def test_a_forced_call_is_made() -> None:
    other = FunctionTool(name="noop", parameters={"type": "object"})
    assert calls_of(ask("hello", tools=(other, WEATHER), choice="required")) == [("noop", "{}")]
    named = Choice(type="function", name="get_weather")
    assert calls_of(ask("hello", tools=(other, WEATHER), choice=named)) == [("get_weather", '{"location": "hello"}')]
    assert code_of(ask("hello", tools=(CODE,), choice="required")) == "'hello'"
    assert code_of(ask("6 * 7", tools=(WEATHER, CODE), choice="required")) == "6 * 7"
    assert code_of(ask("hello", choice=Choice(type="function", name="code_interpreter"))) == "'hello'"
    assert code_of(ask("6 * 7", choice=Choice(type="code_interpreter"))) == "6 * 7"
    assert calls_of(ask("6 * 7", tools=(WEATHER,), choice="required")) == [("get_weather", '{"location": "6 * 7"}')]
    assert not calls_of(ask("hello", ran("x"), tools=(CODE,), choice="required"))


def test_a_tool_that_takes_free_text_gets_the_message() -> None:
    deltas = ask("select all", tools=(CustomTool(name="select_rows"),))
    assert calls_of(deltas) == [("select_rows", "select all")]
    assert any(isinstance(delta, CallBegun) and delta.custom for delta in deltas)


def test_a_result_is_told_and_nothing_called_again() -> None:
    called = FunctionCall(call_id="c1", name="get_weather", arguments="{}")
    gave = FunctionCallOutput(call_id="c1", output="sunny")
    deltas = ask("how is the weather?", called, gave, tools=(WEATHER,), choice="required")
    assert text_of(deltas) == "get_weather gave:\n\n```\nsunny\n```"
    custom = CustomToolCall(call_id="c2", name="rows", input="x")
    several = CustomToolCallOutput(call_id="c2", output=(InputText(text="1"), InputText(text="2")))
    assert text_of(ask("rows", called, gave, custom, several)).endswith("rows gave:\n\n```\n1\n2\n```")


# -- form -------------------------------------------------------------------------------------------------------------


def test_a_schema_for_the_answer_is_kept_to() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "t": {"type": "string"}},
        "required": ["n", "t"],
    }
    wanted = TextConfig(format=TextFormat(type="json_schema", name="x", schema=schema))
    made = json.loads(text_of(ask("hello", text=wanted)))
    jsonschema.validate(made, schema)
    assert "42" in json.loads(text_of(ask("6 * 7", ran("42"), text=wanted)))["t"]
    assert code_of(ask("6 * 7", text=wanted)) == "6 * 7"
    any_json = TextConfig(format=TextFormat(type="json_object"))
    assert "built-in" in json.loads(text_of(ask("hello", text=any_json)))["answer"]


def test_a_limit_on_tokens_is_kept() -> None:
    deltas = ask("hello", max_output_tokens=5)
    assert len(text_of(deltas)) == 20
    assert Finish("length") in deltas
    (spent,) = [delta.usage for delta in deltas if isinstance(delta, UsageDelta)]
    assert spent.output_tokens == 5


def test_tokens_are_counted() -> None:
    (spent,) = [delta.usage for delta in ask("x" * 41, instructions="y" * 40) if isinstance(delta, UsageDelta)]
    assert spent.input_tokens == 21
    assert spent.total_tokens == spent.input_tokens + spent.output_tokens
    assert spent.output_tokens > 50


def test_a_summary_is_a_digest() -> None:
    conversation = (
        Message(role="developer", content="be kind"),
        "load the data",
        ran("3 rows", "out.csv"),
        Message(role="assistant", content=(OutputText(text="Done.\n\nAll of it."),)),
        FunctionCall(call_id="c", name="f", arguments='{"a": 1}'),
        FunctionCallOutput(call_id="c", output="y" * 1000),
        "Write the summary now.",
    )
    told = text_of(ask(*conversation, tools=(), instructions=SUMMARISE))
    assert told.split("\n")[:5] == [
        "developer: be kind",
        "user: load the data",
        "code: … -> 3 rows; files: out.csv",
        "assistant: Done. All of it.",
        'call: f({"a": 1})',
    ]
    assert len(told) < 600
    assert "Write the summary" not in told
    assert text_of(ask("now", instructions=SUMMARISE)) == "Nothing has been said."


@given(st.text(), st.sampled_from(["auto", "none", "required"]))
def test_any_message_has_an_answer(message: str, choice: Any) -> None:
    deltas = ask(message, tools=(CODE, WEATHER), choice=choice)
    assert any(isinstance(delta, Text | CallEnd) for delta in deltas)
    assert isinstance(deltas[-2], Finish)
    assert isinstance(deltas[-1], UsageDelta)
    assert bool(calls_of(deltas)) == (deltas[-2] == Finish("calls"))
