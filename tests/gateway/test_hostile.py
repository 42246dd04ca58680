"""Small requests and small cells that mean harm: each gets a plain answer, and the gateway goes on for everybody."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai import OpenAI
from tests.gateway.houses import CODE, OUTPUTS, Scene

from belljar.testing import Reply, call

LONG = {"type": "string", "minLength": 4_000_000_000}
MANY = {"type": "array", "minItems": 3_000_000}
DOUBLING: dict[str, Any] = {
    "$defs": {
        f"d{n}": {
            "type": "object",
            "properties": {side: {"$ref": f"#/$defs/d{n + 1}"} for side in "ab"},
            "required": ["a", "b"],
            "allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2,
        }
        for n in range(40)
    },
    "$ref": "#/$defs/d0",
}
ENDLESS = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
SCHEMAS = pytest.mark.parametrize(
    ("schema", "why"),
    [(LONG, "'minLength' is 4000000000"), (MANY, "'minItems' is 3000000"), (DOUBLING, "262144"), (ENDLESS, "no end")],
    ids=["long", "many", "doubling", "endless"],
)


def form(schema: dict[str, Any]) -> Any:
    return {"format": {"type": "json_schema", "name": "answer", "schema": schema}}


def check_goes_on(client: OpenAI) -> None:
    assert client.with_options(timeout=30).models.list().data


@SCHEMAS
@pytest.mark.parametrize("stream", [False, True])
def test_a_form_that_no_value_fits_is_refused(client: OpenAI, schema: dict[str, Any], why: str, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError, match=why) as refused:
        client.responses.create(model="belljar", input="hello", text=form(schema), stream=stream)
    assert refused.value.param == "text.format.schema"
    check_goes_on(client)


@SCHEMAS
def test_a_function_that_no_arguments_fit_is_refused(client: OpenAI, schema: dict[str, Any], why: str) -> None:
    parameters = {"type": "object", "properties": {"a": schema}, "required": ["a"], "$defs": schema.get("$defs", {})}
    if "$ref" in str(schema.get("properties")):
        parameters = schema  # refers to itself from the root
    tool: Any = {"type": "function", "name": "weather", "parameters": parameters, "strict": False}
    with pytest.raises(openai.BadRequestError, match=why) as refused:
        client.responses.create(model="belljar", input="the weather, please", tools=[tool])
    assert refused.value.param == "tools"
    assert "weather" in refused.value.message
    check_goes_on(client)


def test_the_same_in_a_chat(client: OpenAI) -> None:
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "answer", "schema": LONG}}
    with pytest.raises(openai.BadRequestError, match="minLength"):
        client.chat.completions.create(
            model="belljar", messages=[{"role": "user", "content": "hello"}], response_format=wanted
        )


def test_what_it_can_write_it_writes(client: OpenAI) -> None:
    said = client.responses.create(model="belljar", input="hello", text=form({"type": "string", "minLength": 100_000}))
    assert len(json.loads(said.output_text)) == 100_000


@pytest.mark.parametrize(
    "text",
    ["```" + "a" * 100_000 + "`", '{"name":' * 20_000, '{"name":{"a":[' + "0," * 30_000, "-" * 60_000 + "1"],
    ids=["fence", "objects", "array", "minus"],
)
def test_a_message_that_is_slow_to_read(client: OpenAI, text: str) -> None:
    tool: Any = {"type": "function", "name": "weather", "parameters": {}, "strict": False}
    assert client.with_options(timeout=30).responses.create(model="belljar", input=text, tools=[tool]).output_text


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("raise ValueError('\\ud800')", "ValueError: \\ud800"),
        ("raise type('E\\udfff', (Exception,), {})('x')", "E\\udfff"),
        ("print('\\ud800')", "\\ud800"),
        ("import sys; print('\\ud800', file=sys.stderr)", "\\ud800"),
        ("import os; os.write(1, b'\\xed\\xa0\\x80\\xff')", "\\xff"),
        ("class A:\n    def __repr__(self): return chr(0xd800)\nA()", "\\ud800"),
        ("'\\ud800'", "\\ud800"),
        ("class A:\n    def _repr_html_(self): return chr(0xd800)\n    def __repr__(self): return 'A'\nA()", "A"),
        ("import warnings; warnings.warn('\\ud800')", "\\ud800"),
        ("import sys; sys.exit('\\ud800')", "\\ud800"),
        ("open(b'/mnt/data/\\xff', 'w').close()", "not UTF-8"),
        ("import os; os.mkdir(b'/mnt/data/\\xff'); open(b'/mnt/data/\\xff/a', 'w').close()", "not UTF-8"),
    ],
)
def test_half_a_character_out_of_a_cell(client: OpenAI, scene: Scene, code: str, shown: str) -> None:
    """However it gets out, in every form of an answer, and on to the model."""
    asked: Any = {"model": "sim", "input": "go", "tools": CODE, "include": OUTPUTS}
    scene.play(call("code_interpreter", code=code), "Done.")
    whole = client.responses.create(**asked)
    assert whole.status == "completed"
    told = json.loads(scene.asked[-1].body)["messages"][-1]["content"]
    assert shown in told
    scene.play(call("code_interpreter", code=code), "Done.")
    events = list(client.responses.create(**asked, stream=True))
    assert events[-1].type == "response.completed"
    assert client.responses.retrieve(events[-1].response.id, include=["code_interpreter_call.outputs"]).output_text == (
        "Done."
    )
    scene.play(call("code_interpreter", code=code), "Done.")
    begun = client.responses.create(**asked, background=True)
    followed = list(client.responses.retrieve(begun.id, stream=True))
    assert followed[-1].type == "response.completed"


@pytest.mark.parametrize("half", ["\\ud83d", "\\udc00", "\\ud83d\\ud83d", "\\\\\\ud83d"])
def test_half_a_character_out_of_a_model(client: OpenAI, scene: Scene, half: str) -> None:
    """Servers that cut an emoji in two between tokens send each half alone."""
    delta = b'data: {"choices":[{"index":0,"delta":{"content":"a%bz"}}]}\n\n' % half.encode()
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    scene.play(Reply(body=delta + end, headers={"content-type": "text/event-stream"}))
    said = client.responses.create(model="sim", input="go").output_text
    assert (said[0], said[-1]) == ("a", "z")
    assert "\ufffd" in said
