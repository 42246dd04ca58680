"""A turn as a chat body: what each item, tool and option becomes, and what a server's quirks change of it."""

import json
import re
from typing import Any

import pytest

from belljar.errors import InvalidRequest
from belljar.vendors.chat.dialect import ChatDialect
from belljar.vendors.registry import KINDS
from belljar.vendors.request import ModelRequest
from belljar.wire.items import (
    CodeInterpreterCall,
    Compaction,
    CompactionTrigger,
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
    ItemReference,
    Logs,
    Message,
    OtherItem,
    OutputText,
    Reasoning,
    ReasoningText,
    Refusal,
    SummaryText,
)
from belljar.wire.responses import Reasoner, TextConfig, TextFormat
from belljar.wire.tools import (
    AllowedTools,
    AutoContainer,
    Choice,
    CodeInterpreterTool,
    CustomTool,
    FunctionTool,
    HostedTool,
    ToolChoice,
)

PNG = "data:image/png;base64,AAAA"


def body(*items: InputItem, quirks: str = "generic", **more: Any) -> dict[str, Any]:
    found = json.loads(ChatDialect(KINDS[quirks]).encode(ModelRequest(model="m", items=items, **more)))
    assert isinstance(found, dict)
    return found


def messages(*items: InputItem, **more: Any) -> Any:
    return body(*items, **more)["messages"]


def user(text: str) -> Message:
    return Message(role="user", content=text)


def assistant(text: str) -> Message:
    return Message(role="assistant", content=(OutputText(text=text),), id="msg_1", status="completed")


def function_call(call_id: str, arguments: str = "{}") -> FunctionCall:
    return FunctionCall(call_id=call_id, name="f", arguments=arguments, id=f"fc_{call_id}", status="completed")


def result(call_id: str, output: Any = "done") -> FunctionCallOutput:
    return FunctionCallOutput(call_id=call_id, output=output)


def cell(id: str, code: str | None = "1", outputs: Any = None) -> CodeInterpreterCall:
    return CodeInterpreterCall(id=id, status="completed", code=code, container_id="cntr_1", outputs=outputs)


def called(call_id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def told(call_id: str, content: Any = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def test_the_least() -> None:
    assert body(user("hi")) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ("hi", "hi"),
        ((InputText(text="hi"),), "hi"),
        ((InputText(text="a"), InputText(text="b")), "a\nb"),
        ((), ""),
        (
            (InputText(text="see"), InputImage(image_url=PNG)),
            [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": PNG}}],
        ),
        (
            (InputImage(image_url=PNG, detail="low"),),
            [{"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}],
        ),
        ((InputImage(image_url=PNG, detail="original"),), [{"type": "image_url", "image_url": {"url": PNG}}]),
        ((InputImage(file_id="file-1"),), "[attached image: file-1]"),
        ((InputText(text="sum"), InputFile(file_id="file-1", filename="a.csv")), "sum\n[attached file: a.csv]"),
        ((InputText(text="sum"), InputFile(file_id="file-1")), "sum"),
        (
            (InputAudio(input_audio={"data": "AA", "format": "wav"}),),
            [{"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}],
        ),
    ],
)
def test_a_users_message(content: Any, sent: Any) -> None:
    assert messages(Message(role="user", content=content)) == [{"role": "user", "content": sent}]


def test_an_assistants_message() -> None:
    parts = (OutputText(text="yes"), Refusal(refusal="no"))
    assert messages(Message(role="assistant", content=parts), Message(role="assistant", content="and")) == [
        {"role": "assistant", "content": "yes\nno"},
        {"role": "assistant", "content": "and"},
    ]
    assert messages(Message(role="assistant", content=""), user("hi")) == [{"role": "user", "content": "hi"}]


def test_instructions_come_first_and_become_one() -> None:
    system = Message(role="system", content="b")
    developer = Message(role="developer", content=(InputText(text="c"),))
    late = Message(role="system", content="d")
    assert messages(system, developer, user("hi"), late, instructions="a") == [
        {"role": "system", "content": "a\n\nb\n\nc"},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "d"},
    ]
    assert messages(system, developer, user("hi"), instructions="a", quirks="openai") == [
        {"role": "developer", "content": "a"},
        {"role": "system", "content": "b"},
        {"role": "developer", "content": "c"},
        {"role": "user", "content": "hi"},
    ]


# -- calls and their results -------------------------------------------------------------------------------------------


def test_calls_of_one_turn_are_one_message_with_the_text_before_them() -> None:
    assert messages(
        user("go"), assistant("both"), function_call("a"), function_call("b"), result("b", "B"), result("a", "A")
    ) == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "both", "tool_calls": [called("a"), called("b")]},
        told("a", "A"),
        told("b", "B"),
    ]


def test_turns_stay_apart() -> None:
    assert messages(function_call("a"), result("a"), function_call("b"), result("b"), assistant("so")) == [
        {"role": "assistant", "content": "", "tool_calls": [called("a")]},
        told("a"),
        {"role": "assistant", "content": "", "tool_calls": [called("b")]},
        told("b"),
        {"role": "assistant", "content": "so"},
    ]


def test_text_between_a_call_and_its_result_belongs_to_the_turn() -> None:
    assert messages(
        assistant("x"), function_call("a"), assistant("y"), function_call("b"), result("a"), result("b")
    ) == [
        {"role": "assistant", "content": "x\n\ny", "tool_calls": [called("a"), called("b")]},
        told("a"),
        told("b"),
    ]


def test_the_same_id_in_two_turns_becomes_two() -> None:
    found = messages(function_call("0"), result("0", "A"), function_call("0"), result("0", "B"))
    [again] = found[2]["tool_calls"]
    assert again["id"] != "0"
    assert found == [
        {"role": "assistant", "content": "", "tool_calls": [called("0")]},
        told("0", "A"),
        {"role": "assistant", "content": "", "tool_calls": [called(again["id"])]},
        told(again["id"], "B"),
    ]


@pytest.mark.parametrize(
    ("quirks", "model", "id", "fits"),
    [
        ("generic", "m", "functions.f:0", True),
        ("generic", "m", "x" * 40, True),
        ("generic", "m", "x" * 41, False),
        ("generic", "m", "a b", False),
        ("generic", "m", "", False),
        ("openai", "gpt-5", "call_" + "x" * 24, True),
        ("openai", "gpt-5", "ci_" + "0" * 52, False),
        ("mistral", "m", "abcDEF123", True),
        ("mistral", "m", "call_1234", False),
        ("vllm", "mistral-nemo", "abcDEF123", True),
        ("vllm", "mistral-nemo", "chatcmpl-tool-1", False),
    ],
)
def test_ids_that_the_server_takes(quirks: str, model: str, id: str, fits: bool) -> None:
    request = ModelRequest(model=model, items=(function_call(id), result(id), cell("ci_" + "0" * 52, "1")))
    ours, theirs = json.loads(ChatDialect(KINDS[quirks]).encode(request))["messages"][::2]
    [ours], [theirs] = ours["tool_calls"], theirs["tool_calls"]
    assert (ours["id"] == id) is fits
    for sent in (theirs["id"],) if fits else (ours["id"], theirs["id"]):
        assert re.fullmatch("[a-z0-9]{9}", sent)


def test_where_the_order_matters_the_assistant_answers_a_tool_and_orders_go_first() -> None:
    shown = InputImage(image_url=PNG)
    items = (user("go"), function_call("abcdefghi"), result("abcdefghi", (shown,)), user("well?"), assistant("Yes."))
    later = (Message(role="developer", content="Be brief."), user("and?"))
    heard = {"role": "assistant", "content": "I have the results."}
    image = {"type": "image_url", "image_url": {"url": PNG}}
    found = messages(*items, *later, Message(role="system", content="Be kind."), user("so?"), quirks="mistral")
    assert found == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [called("abcdefghi")]},
        told("abcdefghi", ""),
        heard,
        {"role": "user", "content": [{"type": "text", "text": "The images among the results:"}, image]},
        {"role": "user", "content": "well?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "and?"},
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "so?"},
    ]
    again = messages(*items, *later, quirks="mistral", instructions="Be.")
    assert again[0] == {"role": "system", "content": "Be.\n\nBe brief."}
    roles = [one["role"] for one in messages(*items, *later)]
    assert roles == ["user", "assistant", "tool", "user", "user", "assistant", "system", "user"]


def test_a_result_that_comes_late_is_told_in_its_place() -> None:
    assert messages(function_call("a"), user("well?"), result("a")) == [
        {"role": "assistant", "content": "", "tool_calls": [called("a")]},
        told("a"),
        {"role": "user", "content": "well?"},
    ]


def test_a_call_without_a_result_has_an_empty_one() -> None:
    assert messages(function_call("a"), user("never mind"))[1] == told("a", "")


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [('{"a": 1}', '{"a": 1}'), ("", "{}"), ('{"a": ', '{"arguments":"{\\"a\\": "}')],
)
def test_arguments_are_json(arguments: str, sent: str) -> None:
    assert messages(function_call("a", arguments))[0]["tool_calls"] == [called("a", arguments=sent)]


def test_a_result_of_parts() -> None:
    output = (InputText(text="one"), InputImage(image_url=PNG), InputFile(filename="a.csv", file_data="data:,"))
    assert messages(function_call("a"), result("a", output))[1:] == [
        told("a", "one\n[attached file: a.csv]"),
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "The images among the results:"},
                {"type": "image_url", "image_url": {"url": PNG}},
            ],
        },
    ]


def test_a_custom_call() -> None:
    items = (CustomToolCall(call_id="a", name="sh", input='say "hi"'), CustomToolCallOutput(call_id="a", output="hi"))
    assert messages(*items) == [
        {"role": "assistant", "content": "", "tool_calls": [called("a", "sh", '{"input":"say \\"hi\\""}')]},
        told("a", "hi"),
    ]


# -- cells -------------------------------------------------------------------------------------------------------------


def code(id: str, source: str = "1") -> dict[str, Any]:
    return called(id, "code_interpreter", json.dumps({"code": source}, separators=(",", ":")))


def test_cells_are_calls_of_a_function_one_after_the_other() -> None:
    logs = (Logs(logs="a\n"), Image(url=PNG), Logs(logs="b"))
    assert messages(
        user("go"),
        assistant("let me see"),
        cell("ci_1", "x"),
        cell("ci_2", None, logs),
        cell("ci_3", "y", ()),
        assistant("so"),
        call_outputs={"ci_1": "told"},
    ) == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "let me see", "tool_calls": [code("ci_1", "x")]},
        told("ci_1", "told"),
        {"role": "assistant", "content": "", "tool_calls": [code("ci_2", "")]},
        told("ci_2", "a\nb"),
        {"role": "assistant", "content": "", "tool_calls": [code("ci_3", "y")]},
        told("ci_3", "(no output)"),
        {"role": "assistant", "content": "so"},
    ]


def test_a_cell_beside_a_call_that_waits_is_of_its_turn() -> None:
    assert messages(function_call("a"), cell("ci_1"), cell("ci_2"), result("a"), call_outputs={"ci_1": "1"}) == [
        {"role": "assistant", "content": "", "tool_calls": [called("a"), code("ci_1"), code("ci_2")]},
        told("a"),
        told("ci_1", "1"),
        told("ci_2", "(no output)"),
    ]


def test_images_of_a_cell() -> None:
    more: dict[str, Any] = {"call_outputs": {"ci_1": "plotted"}, "call_images": {"ci_1": (PNG, PNG)}}
    image = {"type": "image_url", "image_url": {"url": PNG}}
    assert messages(cell("ci_1"), **more)[1:] == [
        told("ci_1", "plotted"),
        {"role": "user", "content": [{"type": "text", "text": "The images among the results:"}, image, image]},
    ]
    assert messages(cell("ci_1"), quirks="llama_cpp", **more)[1:] == [
        told("ci_1", [{"type": "text", "text": "plotted"}, image, image])
    ]


# -- reasoning and the rest --------------------------------------------------------------------------------------------


def test_reasoning_goes_back_only_where_it_is_wanted_and_led_to_calls() -> None:
    items = (
        Reasoning(content=(ReasoningText(text="r1"),)),
        assistant("hello"),
        user("go"),
        Reasoning(summary=(SummaryText(text="r2"), SummaryText(text="r3"))),
        assistant("both"),
        function_call("a"),
        result("a"),
        Reasoning(content=(ReasoningText(text="r4"),)),
        user("stop"),
        cell("ci_1"),
    )
    for quirks, key in (("deepseek", "reasoning_content"), ("ollama", "reasoning"), ("openai", None)):
        sent = messages(*items, quirks=quirks)
        assert [message.get(key) for message in sent if message["role"] == "assistant"] == [
            None,
            "r2\n\nr3" if key else None,
            None,
        ]
        assert all(set(message) <= {"role", "content", "tool_calls", "tool_call_id", key} for message in sent)


def test_what_chat_cannot_say_is_left_out() -> None:
    other = OtherItem({"type": "web_search_call", "id": "ws_1"})
    assert messages(other, user("hi"), CompactionTrigger()) == [{"role": "user", "content": "hi"}]
    assert messages(result("unknown"), user("hi")) == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("item", "named"),
    [(Compaction(encrypted_content="x"), "compaction"), (ItemReference(id="msg_1"), "item_reference")],
)
def test_what_holds_the_conversation_is_not(item: InputItem, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named) as caught:
        ChatDialect().encode(ModelRequest(model="m", items=(item,)))
    assert caught.value.param == "input"


# -- tools -------------------------------------------------------------------------------------------------------------

F = FunctionTool(name="f", description="does", parameters={"type": "object"}, strict=True)
G = FunctionTool(name="g")
RUN = FunctionTool(name="code_interpreter", parameters={"type": "object"})
SH = CustomTool(name="sh")


def names(found: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in found.get("tools", [])]


def test_functions() -> None:
    bare = {"name": "g", "description": "", "parameters": {"type": "object", "properties": {}}}
    full = {"name": "f", "description": "does", "parameters": {"type": "object"}}
    assert body(tools=(F, G))["tools"] == [
        {"type": "function", "function": full},
        {"type": "function", "function": bare},
    ]
    strict = body(tools=(F, G), quirks="openai")["tools"]
    assert strict == [
        {"type": "function", "function": {**full, "strict": True}},
        {"type": "function", "function": bare},
    ]


def test_custom_tools_are_functions_of_one_text() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: WORD"}
    tool = CustomTool(name="sh", description="runs", format=grammar)
    function = body(tools=(tool,))["tools"][0]["function"]
    assert function["name"] == "sh"
    assert function["description"] == "runs\n\nThe input must fit this lark grammar:\nstart: WORD"
    assert function["parameters"]["properties"] == {"input": {"type": "string"}}
    assert function["parameters"]["required"] == ["input"]
    plain = body(tools=(CustomTool(name="sh", format={"type": "text"}),))["tools"][0]["function"]
    assert plain["description"] == ""


@pytest.mark.parametrize("tool", [CodeInterpreterTool(container=AutoContainer()), HostedTool({"type": "web_search"})])
def test_hosted_tools_are_refused(tool: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"code_interpreter|web_search") as caught:
        body(tools=(tool,))
    assert caught.value.param == "tools"


def one_of(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


ALLOWED = AllowedTools(mode="auto", tools=(Choice(type="function", name="g"), Choice(type="code_interpreter")))
NEEDED = AllowedTools(mode="required", tools=(Choice(type="custom", name="sh"),))


@pytest.mark.parametrize(
    ("choice", "quirks", "sent", "chosen"),
    [
        ("auto", "generic", ["f", "g", "code_interpreter", "sh"], None),
        ("none", "generic", ["f", "g", "code_interpreter", "sh"], "none"),
        ("required", "generic", ["f", "g", "code_interpreter", "sh"], "required"),
        ("none", "ollama", [], None),
        ("required", "ollama", ["f", "g", "code_interpreter", "sh"], None),
        ("required", "alibaba", ["f", "g", "code_interpreter", "sh"], None),
        (Choice(type="function", name="g"), "openai", ["f", "g", "code_interpreter", "sh"], one_of("g")),
        (Choice(type="function", name="g"), "lm_studio", ["g"], "required"),
        (Choice(type="function", name="g"), "ollama", ["g"], None),
        (Choice(type="function", name="g"), "llama_cpp", ["g"], "required"),
        (Choice(type="code_interpreter"), "openai", ["f", "g", "code_interpreter", "sh"], one_of("code_interpreter")),
        (Choice(type="code_interpreter"), "lm_studio", ["code_interpreter"], "required"),
        (Choice(type="custom", name="sh"), "openai", ["f", "g", "code_interpreter", "sh"], one_of("sh")),
        (Choice(type="web_search"), "openai", [], None),
        (ALLOWED, "openai", ["g", "code_interpreter"], None),
        (NEEDED, "openai", ["sh"], "required"),
        (NEEDED, "ollama", ["sh"], None),
    ],
)
def test_tool_choice(choice: ToolChoice, quirks: str, sent: list[str], chosen: Any) -> None:
    found = body(tools=(F, G, RUN, SH), tool_choice=choice, quirks=quirks)
    assert (names(found), found.get("tool_choice")) == (sent, chosen)


def test_without_tools_nothing_is_said_of_them() -> None:
    found = body(tool_choice="required", parallel_tool_calls=False, quirks="openai")
    assert not found.keys() & {"tools", "tool_choice", "parallel_tool_calls"}


def test_parallel_calls_are_spoken_of_only_to_forbid_them() -> None:
    assert "parallel_tool_calls" not in body(tools=(F,), quirks="openai")
    assert body(tools=(F,), parallel_tool_calls=False, quirks="openai")["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in body(tools=(F,), parallel_tool_calls=False, quirks="ollama")


# -- options -----------------------------------------------------------------------------------------------------------

SCHEMA = TextFormat(type="json_schema", name="n", schema={"type": "object"}, strict=True, description="d")
JSON = TextFormat(type="json_object")


@pytest.mark.parametrize(
    ("asked", "quirks", "sent"),
    [
        (TextFormat(), "openai", None),
        (JSON, "openai", {"type": "json_object"}),
        (JSON, "lm_studio", {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}),
        (
            SCHEMA,
            "openai",
            {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True, "description": "d"},
            },
        ),
        (
            TextFormat(type="json_schema"),
            "openai",
            {"type": "json_schema", "json_schema": {"name": "answer", "schema": {}}},
        ),
        (SCHEMA, "deepseek", {"type": "json_object"}),
    ],
)
def test_the_form_of_the_answer(asked: TextFormat, quirks: str, sent: Any) -> None:
    found = body(text=TextConfig(format=asked), quirks=quirks)
    assert found.get("response_format") == sent


def test_a_schema_that_cannot_be_sent_is_told() -> None:
    sent = messages(user("hi"), text=TextConfig(format=SCHEMA), instructions="Be kind.", quirks="deepseek")
    assert sent[0]["content"] == (
        'Be kind.\n\nAnswer with one JSON object that fits this JSON schema:\n{"type":"object"}'
    )
    assert messages(user("hi"), text=TextConfig(format=JSON), quirks="deepseek") == [{"role": "user", "content": "hi"}]


FULL: dict[str, Any] = {
    "max_output_tokens": 9,
    "temperature": 0.0,
    "top_p": 0.5,
    "top_logprobs": 2,
    "reasoning": Reasoner(effort="low"),
    "text": TextConfig(verbosity="high"),
    "service_tier": "flex",
    "prompt_cache_key": "k",
    "safety_identifier": "s",
}


def test_every_option() -> None:
    found = body(quirks="openai", **FULL)
    del found["messages"]
    assert found == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 9,
        "temperature": 0.0,
        "top_p": 0.5,
        "logprobs": True,
        "top_logprobs": 2,
        "reasoning_effort": "low",
        "verbosity": "high",
        "service_tier": "flex",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
    }


@pytest.mark.parametrize("quirks", KINDS)
def test_no_server_is_sent_what_it_does_not_take(quirks: str) -> None:
    row = KINDS[quirks].profile
    found = body(quirks=quirks, **FULL)
    common = {"model", "messages", "stream", "temperature", "top_p", row.limit}
    sent = found.keys() - common - ({"top_logprobs"} if "logprobs" in row.members else set())
    assert sent == row.members - {"parallel_tool_calls"}


def test_reasoning_without_an_effort_is_not_spoken_of() -> None:
    assert "reasoning_effort" not in body(quirks="openai", reasoning=Reasoner(summary="auto"))
