"""A turn as Anthropic's wire has it: checked by table, and against the types of the vendor's own client."""

import base64
import json
import re
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from belljar.errors import InvalidRequest
from belljar.vendors import vendor_tag
from belljar.vendors.anthropic.dialect import AnthropicDialect
from belljar.vendors.anthropic.models import FAMILIES, family
from belljar.vendors.deltas import HostedEnd, ThoughtEnd
from belljar.vendors.registry import KINDS, WIRES
from belljar.vendors.request import Asked, AttachedFiles, HostedFile, ModelRequest, VendorFile, VendorTool, Verbatim
from belljar.vendors.vendor import GENERIC, Vendor
from belljar.wire.items import (
    CellEnd,
    CodeInterpreterCall,
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputAudio,
    InputFile,
    InputImage,
    InputItem,
    InputText,
    Logs,
    Message,
    OtherItem,
    OutputText,
    Reasoning,
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
)

CURRENT, OLD = KINDS["anthropic"], KINDS["anthropic-2023-06-01"]
PARAMS: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsStreaming)
HOSTED = CodeInterpreterTool(container=AutoContainer())
OURS = FunctionTool(name="code_interpreter", parameters={"type": "object"}, strict=False)
WEATHER = FunctionTool(name="weather", description="By city.", parameters={"type": "object", "properties": {}})
PNG = "data:image/png;base64,iVBORw0KGgo="


def user(text: str) -> Message:
    return Message(role="user", content=(InputText(text=text),))


def plain(value: Any) -> Any:
    """All of it read: the types of the client are lazy about lists."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    return [plain(one) for one in value]


def encoded(*items: Asked, quirks: Vendor = CURRENT, **more: Any) -> dict[str, Any]:
    """The body, of which the vendor's own types know every member."""
    request = ModelRequest(**{"model": "claude-sonnet-5", "items": items or (user("hi"),), **more})
    body: dict[str, Any] = json.loads(AnthropicDialect(quirks).encode(request))
    known = {name: value for name, value in body.items() if name not in ("temperature", "top_p")}
    assert plain(PARAMS.validate_python(known)) == known
    return body


def messages(*items: InputItem, **more: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    found = [(message["role"], message["content"]) for message in encoded(*items, **more)["messages"]]
    assert [role for role, _ in found] == [("user", "assistant")[at % 2] for at in range(len(found))]
    return found


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_the_least() -> None:
    assert encoded() == {
        "model": "claude-sonnet-5",
        "max_tokens": 128_000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "stream": True,
    }


def test_instructions_and_orders_go_first() -> None:
    orders = (
        Message(role="developer", content="Be brief."),
        Message(role="system", content=(InputText(text="Be kind."),)),
    )
    body = encoded(orders[0], user("hi"), orders[1], instructions="Be right.")
    assert body["system"] == "Be right.\n\nBe brief.\n\nBe kind."
    assert len(body["messages"]) == 1


def test_roles_take_turns() -> None:
    answer = Message(role="assistant", content=(OutputText(text="Hello."), Refusal(refusal="No.")))
    assert messages(user("a"), user("b"), answer, Message(role="assistant", content="Yes."), user("c")) == [
        ("user", [said("a"), said("b")]),
        ("assistant", [said("Hello."), said("No."), said("Yes.")]),
        ("user", [said("c")]),
    ]


def test_a_conversation_begins_with_the_user() -> None:
    assert messages(Message(role="assistant", content="Hello."), user("hi"))[0][0] == "user"
    assert messages(Message(role="developer", content="Begin."))[0][0] == "user"


@pytest.mark.parametrize("empty", ["", "  \n"])
def test_empty_texts_are_left_out(empty: str) -> None:
    content = (InputText(text=empty), InputText(text="hi"))
    found = messages(Message(role="user", content=content), Message(role="assistant", content=empty), user("so"))
    assert found == [("user", [said("hi"), said("so")])]


@pytest.mark.parametrize(
    ("url", "source"),
    [
        (PNG, {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}),
        ("data:image/jpg;base64,QQ==", {"type": "base64", "media_type": "image/jpeg", "data": "QQ=="}),
        ("data:image/gif,GIF%38", {"type": "base64", "media_type": "image/gif", "data": "R0lGOA=="}),
        ("https://x.test/a.png", {"type": "url", "url": "https://x.test/a.png"}),
    ],
)
def test_images(url: str, source: dict[str, str]) -> None:
    ((_, blocks),) = messages(Message(role="user", content=(InputText(text="see"), InputImage(image_url=url))))
    assert blocks == [said("see"), {"type": "image", "source": source}]


def test_files() -> None:
    data = base64.b64encode(b"a,b\n").decode()
    parts = (
        InputFile(file_data="data:application/pdf;base64,JVBERg==", filename="a.pdf"),
        InputFile(file_data=f"data:text/csv;base64,{data}", filename="a.csv"),
        InputFile(file_url="https://x.test/a.pdf"),
        InputFile(file_data="data:application/zip;base64,UEs=", filename="a.zip"),
        InputImage(file_id="file-1"),
        InputFile(file_id="file-2", filename="b.csv"),
        InputFile(file_id="file-3"),
    )
    ((_, blocks),) = messages(Message(role="user", content=parts))
    assert [block.get("source", block) for block in blocks] == [
        {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
        {"type": "text", "media_type": "text/plain", "data": "a,b\n"},
        {"type": "url", "url": "https://x.test/a.pdf"},
        said("[attached file: a.zip]"),
        said("[attached image: file-1]"),
        said("[attached file: b.csv]"),
        said("[attached file: file]"),
    ]


@pytest.mark.parametrize(
    "item",
    [
        Message(role="user", content=(InputAudio(input_audio={"data": "", "format": "wav"}),)),
        Compaction(encrypted_content="x"),
    ],
)
def test_what_cannot_be_said(item: InputItem) -> None:
    with pytest.raises(InvalidRequest, match="claude-sonnet-5"):
        encoded(item)


# -- calls ------------------------------------------------------------------------------------------------------------


def use(id: str, name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def came(id: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": list(blocks)}


def called(id: str, arguments: str = '{"x":1}') -> FunctionCall:
    return FunctionCall(call_id=id, name="f", arguments=arguments)


def gave(id: str, output: Any = "ok") -> FunctionCallOutput:
    return FunctionCallOutput(call_id=id, output=output)


def cell(id: str, code: str = "1", **more: Any) -> CodeInterpreterCall:
    fields: dict[str, Any] = {"status": "completed", "container_id": "cntr_1", "outputs": (Logs(logs="1\n"),), **more}
    return CodeInterpreterCall(id=id, code=code, **fields)


def test_calls_and_their_results() -> None:
    items = (
        user("a"),
        called("c1"),
        called("c2"),
        gave("c1"),
        gave("c2", (InputText(text="2"), InputImage(image_url=PNG))),
    )
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    assert messages(*items, user("b"), tools=(WEATHER,)) == [
        ("user", [said("a")]),
        ("assistant", [use("c1", "f", x=1), use("c2", "f", x=1)]),
        ("user", [came("c1", said("ok")), came("c2", said("2"), image), said("b")]),
    ]


def test_one_call_after_another() -> None:
    assert messages(user("a"), called("c1"), gave("c1"), called("c2"), gave("c2"), tools=(WEATHER,)) == [
        ("user", [said("a")]),
        ("assistant", [use("c1", "f", x=1)]),
        ("user", [came("c1", said("ok"))]),
        ("assistant", [use("c2", "f", x=1)]),
        ("user", [came("c2", said("ok"))]),
    ]


def test_a_result_whose_call_is_not_there_is_left_out() -> None:
    assert messages(gave("c1"), user("a"), gave("c2")) == [("user", [said("a")])]


def test_cells_of_ours_in_the_same_turn_as_a_call() -> None:
    items = user("a"), called("c1"), cell("ci_1"), cell("ci_2"), gave("c1"), user("b")
    ran = [use(id, "code_interpreter", code="1") for id in ("ci_1", "ci_2")]
    assert messages(*items, tools=(OURS,)) == [
        ("user", [said("a")]),
        ("assistant", [use("c1", "f", x=1), *ran]),
        ("user", [came("c1", said("ok")), came("ci_1", said("1\n")), came("ci_2", said("1\n")), said("b")]),
    ]


def test_a_cell_of_ours_with_what_the_model_is_told() -> None:
    found = messages(
        user("a"), cell("ci_1"), call_outputs={"ci_1": "told"}, call_images={"ci_1": (PNG,)}, tools=(OURS,)
    )
    result = found[2][1][0]
    assert [block["type"] for block in result["content"]] == ["text", "image"]
    assert result["content"][0] == said("told")


@pytest.mark.parametrize(
    ("arguments", "given"),
    [("", {}), ("{}", {}), ("[1]", {"arguments": "[1]"}), ('{"x":', {"arguments": '{"x":'}), ('{"x":1}', {"x": 1})],
)
def test_arguments_are_an_object(arguments: str, given: dict[str, Any]) -> None:
    _, (_, blocks), _ = messages(user("a"), called("c1", arguments), gave("c1"), tools=(WEATHER,))
    assert blocks[0]["input"] == given


@given(st.text(min_size=1))
@settings(max_examples=50)
def test_ids_that_the_wire_takes(id: str) -> None:
    request = ModelRequest(model="claude-sonnet-5", items=(called(id), gave(id)))
    written = json.loads(AnthropicDialect().encode(request))["messages"]
    (block,), (result,) = written[1]["content"], written[2]["content"]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["id"])
    assert block["id"] == result["tool_use_id"]
    assert block["id"] == id or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", id)


def test_an_id_that_comes_again_becomes_another() -> None:
    written = messages(user("a"), called("c1"), gave("c1", "A"), called("c1"), gave("c1", "B"), tools=(WEATHER,))
    (first,), (one,), (second,), (other,) = (blocks for _, blocks in written[1:])
    assert (first["id"], one["tool_use_id"]) == ("c1", "c1")
    assert second["id"] == other["tool_use_id"] != "c1"
    assert (one["content"], other["content"]) == ([{"type": "text", "text": "A"}], [{"type": "text", "text": "B"}])


@pytest.mark.parametrize("id", ["ci_bash_srvtoolu_", "ci_bash_srvtoolu_ü", "ci_bash_srvtoolu_1 2", "ci_bash_toolu_1"])
def test_a_cell_with_an_id_that_anthropic_never_gave_is_a_call(id: str) -> None:
    _, (_, (block,)), _ = messages(user("a"), cell(id, "ls"), tools=(HOSTED,))
    assert (block["type"], block["name"]) == ("tool_use", "code_interpreter")


@pytest.mark.parametrize("format", [{"type": "text"}, None])
def test_a_custom_tool_without_a_grammar_has_its_description_alone(format: Any) -> None:
    (declared,) = encoded(tools=(CustomTool(name="note", description="Notes.", format=format),))["tools"]
    assert declared["description"] == "Notes."


def test_custom_tools_take_one_text() -> None:
    tool = CustomTool(
        name="note", description="Notes.", format={"type": "grammar", "syntax": "lark", "definition": "x"}
    )
    items = CustomToolCall(call_id="c1", name="note", input="a"), CustomToolCallOutput(call_id="c1", output="b")
    body = encoded(user("hi"), *items, tools=(tool,))
    assert body["messages"][1]["content"] == [use("c1", "note", input="a")]
    (declared,) = body["tools"]
    assert declared["description"] == "Notes.\n\nThe input must fit this lark grammar:\nx"
    assert declared["input_schema"]["required"] == ["input"]


def test_a_conversation_with_calls_has_tools_even_if_none_may_be_called() -> None:
    body = encoded(user("a"), called("c1"), gave("c1"), cell("ci_1"))
    assert [tool["name"] for tool in body["tools"]] == ["f", "code_interpreter"]
    assert body["tool_choice"] == {"type": "none"}
    assert "tools" not in encoded(user("a"))


# -- reasoning --------------------------------------------------------------------------------------------------------


def thought(block: dict[str, Any], vendor: str = "anthropic") -> Reasoning:
    sealed = vendor_tag.tag(vendor, json.dumps(block))
    return Reasoning(id="rs_1", summary=(SummaryText(text="as shown"),), encrypted_content=sealed)


SIGNED = {"type": "thinking", "thinking": "hm", "signature": "S"}


def test_thoughts_go_back_as_they_came() -> None:
    sealed = {"type": "redacted_thinking", "data": "x"}
    _, (role, blocks), _ = messages(user("a"), thought(sealed), thought(SIGNED), cell("ci_1"), tools=(OURS,))
    assert role == "assistant"
    assert blocks[:2] == [sealed, SIGNED]


@pytest.mark.parametrize(
    "foreign",
    [
        thought(SIGNED, "gemini"),
        Reasoning(encrypted_content="gAAAAABn"),
        Reasoning(encrypted_content="anthropic:{"),
        Reasoning(encrypted_content='anthropic:{"type":"tool_use"}'),
        Reasoning(encrypted_content="anthropic:[]"),
        Reasoning(summary=(SummaryText(text="x"),)),
    ],
)
def test_thoughts_of_others_do_not(foreign: Reasoning) -> None:
    assert messages(user("a"), foreign, Message(role="assistant", content="b"), user("c"))[1] == (
        "assistant",
        [said("b")],
    )


@pytest.mark.parametrize("wire", ["chat", "gemini", "openai", "xai"])
def test_no_other_vendor_is_sent_them(wire: str) -> None:
    secret = thought({"type": "thinking", "thinking": "hm", "signature": "Sig0123"})
    items = (user("a"), secret, Message(role="assistant", content="b"), user("c"))
    assert b"Sig0123" not in GENERIC.dialect("acme", WIRES[wire]).encode(ModelRequest(model="m", items=items))


def test_a_thought_that_was_cut_off_is_left_out() -> None:
    assert messages(user("a"), thought(SIGNED), user("b")) == [("user", [said("a"), said("b")])]


@pytest.mark.parametrize(
    ("model", "reasoner", "thinking", "effort"),
    [
        ("claude-sonnet-5", None, None, None),
        ("claude-sonnet-5", Reasoner(), None, None),
        ("claude-sonnet-5", Reasoner(effort="high"), {"type": "adaptive"}, "high"),
        ("claude-sonnet-5", Reasoner(effort="minimal"), {"type": "adaptive"}, "low"),
        ("claude-sonnet-5", Reasoner(effort="xhigh"), {"type": "adaptive"}, "xhigh"),
        ("claude-sonnet-5", Reasoner(effort="none"), {"type": "disabled"}, None),
        ("claude-sonnet-5", Reasoner(summary="auto"), {"type": "adaptive", "display": "summarized"}, None),
        ("claude-fable-5", Reasoner(effort="none"), None, "low"),
        ("claude-opus-4-6", Reasoner(effort="xhigh"), {"type": "adaptive"}, "high"),
        ("claude-opus-4-6", Reasoner(effort="max"), {"type": "adaptive"}, "max"),
        ("claude-sonnet-4-6", Reasoner(effort="max"), {"type": "adaptive"}, "high"),
        ("claude-opus-4-5", Reasoner(effort="max"), None, "high"),
        ("claude-haiku-4-5", Reasoner(effort="high"), None, None),
        ("kimi-k3", Reasoner(effort="high", summary="auto"), None, None),
    ],
)
def test_effort(model: str, reasoner: Reasoner | None, thinking: Any, effort: str | None) -> None:
    body = encoded(model=model, reasoning=reasoner)
    assert body.get("thinking") == thinking
    assert body.get("output_config", {}).get("effort") == effort


def test_a_tool_that_is_forced_leaves_no_room_for_thought() -> None:
    body = encoded(reasoning=Reasoner(effort="high"), tools=(WEATHER,), tool_choice="required")
    assert "thinking" not in body
    assert body["output_config"] == {"effort": "high"}


@pytest.mark.parametrize(
    ("model", "most"),
    [
        ("claude-3-haiku-20240307", 4_096),
        ("claude-3-5-sonnet-latest", 8_192),
        ("claude-3-7-sonnet-20250219", 64_000),
        ("claude-opus-4-20250514", 32_000),
        ("claude-opus-4-1-20250805", 32_000),
        ("claude-sonnet-4-5@20250929", 64_000),
        ("us.anthropic.claude-opus-4-6-v1", 128_000),
        ("anthropic/claude-haiku-4-5", 64_000),
        ("claude-opus-6", 128_000),
        ("deepseek-chat", 8_192),
    ],
)
def test_a_limit_is_always_sent(model: str, most: int) -> None:
    assert encoded(model=model)["max_tokens"] == most
    assert encoded(model=model, max_output_tokens=7)["max_tokens"] == 7


def test_no_row_hides_another() -> None:
    assert all(family(beginning) is found for beginning, found in FAMILIES)


# -- tools ------------------------------------------------------------------------------------------------------------


def test_functions() -> None:
    strict = FunctionTool(name="s", parameters={"type": "object", "properties": {"a": {"type": "object"}}}, strict=True)
    bare = FunctionTool(name="b")
    vague = FunctionTool(name="v", parameters={"properties": {}})
    assert encoded(tools=(WEATHER, strict, bare, vague))["tools"] == [
        {"name": "weather", "description": "By city.", "input_schema": {"type": "object", "properties": {}}},
        {
            "name": "s",
            "input_schema": {
                "type": "object",
                "properties": {"a": {"type": "object", "additionalProperties": False}},
                "additionalProperties": False,
            },
            "strict": True,
        },
        {"name": "b", "input_schema": {"type": "object", "properties": {}}},
        {"name": "v", "input_schema": {"type": "object", "properties": {}}},
    ]
    for quirks, model in ((OLD, "claude-sonnet-5"), (CURRENT, "claude-sonnet-4-0")):
        (tool,) = encoded(tools=(strict,), quirks=quirks, model=model)["tools"]
        assert "strict" not in tool


def test_code_comes_as_it_is_written_where_that_can_be_had() -> None:
    assert encoded(tools=(OURS,))["tools"][0]["eager_input_streaming"] is True
    assert "eager_input_streaming" not in encoded(tools=(OURS,), quirks=GENERIC)["tools"][0]


@pytest.mark.parametrize(
    ("choice", "parallel", "written"),
    [
        ("auto", True, None),
        ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", True, {"type": "any"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        (Choice(type="function", name="weather"), True, {"type": "tool", "name": "weather"}),
        (Choice(type="code_interpreter"), True, {"type": "tool", "name": "code_interpreter"}),
        (Choice(type="web_search"), True, {"type": "any"}),
    ],
)
def test_which_tool(choice: Any, parallel: bool, written: Any) -> None:
    body = encoded(tools=(WEATHER, OURS), tool_choice=choice, parallel_tool_calls=parallel)
    assert len(body["tools"]) == 2
    assert body.get("tool_choice") == written


def test_only_allowed_tools_are_sent() -> None:
    allowed = AllowedTools(mode="required", tools=(Choice(type="function", name="weather"),))
    body = encoded(tools=(WEATHER, OURS), tool_choice=allowed)
    assert [tool["name"] for tool in body["tools"]] == ["weather"]
    assert body["tool_choice"] == {"type": "any"}


def test_tools_of_other_vendors_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="web_search"):
        encoded(tools=(HostedTool({"type": "web_search"}),))


# -- what the vendor runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "quirks", "version"),
    [
        ("claude-sonnet-5-5", CURRENT, "20260521"),
        ("claude-haiku-5-5", CURRENT, "20260521"),
        ("claude-nova-7", CURRENT, "20260521"),
        ("claude-opus-4-8", CURRENT, "20260120"),
        ("claude-sonnet-4-6", CURRENT, "20260120"),
        ("claude-sonnet-4-5-20250929", CURRENT, "20260120"),
        ("claude-haiku-4-5", CURRENT, "20250825"),
        ("claude-opus-4-1", CURRENT, "20250825"),
        ("somebody-else", CURRENT, "20250825"),
        ("claude-sonnet-5-5", OLD, "20250825"),
    ],
)
def test_code_execution_of_the_vendors_own(model: str, quirks: Vendor, version: str) -> None:
    """The newest that both the model and the server take."""
    body = encoded(model=model, tools=(HOSTED,), tool_choice=Choice(type="code_interpreter"), quirks=quirks)
    assert body["tools"] == [{"type": f"code_execution_{version}", "name": "code_execution"}]
    assert body["tool_choice"] == {"type": "tool", "name": "code_execution"}


RAN = [
    cell("ci_bash_srvtoolu_1", "ls"),
    cell("ci_bash_srvtoolu_2", "ls x", belljar=CellEnd(exit="raised", text="2")),
    cell("ci_bash_srvtoolu_3", "sleep 9", status="failed", belljar=CellEnd(exit="timed_out", reason="unavailable")),
    cell("ci_code_srvtoolu_4", "print(1)"),
    cell("ci_edit_srvtoolu_5", '{"command":"create","path":"a","file_text":"b"}', outputs=()),
    cell("ci_edit_srvtoolu_6", '{"command":"view","path":"a"}', outputs=(Logs(logs="b"),)),
    cell("ci_edit_srvtoolu_7", '{"command":"str_replace","path":"a"}', outputs=(Logs(logs="-a\n+b"),)),
]


@pytest.mark.parametrize("item", RAN, ids=[item.id for item in RAN])
def test_cells_that_the_vendor_ran_go_back_as_its_own(item: CodeInterpreterCall) -> None:
    _, (_, blocks), _ = messages(user("a"), item, Message(role="assistant", content="b"), user("c"), tools=(HOSTED,))
    asked, result, _ = blocks
    assert item.id.endswith(asked["id"])
    assert result["tool_use_id"] == asked["id"]
    assert result["type"] == f"{asked['name']}_tool_result"
    message = {"type": "message", "content": [asked, result], "stop_reason": "end_turn"}
    decoder = AnthropicDialect(CURRENT, "acme").decoder(ModelRequest(model="m", items=()))
    again = [*decoder.feed(json.dumps(message).encode()), *decoder.close()]
    (read,) = [delta.item for delta in again if isinstance(delta, HostedEnd)]
    assert (read.id, read.code, read.status) == (item.id, item.code, item.status)
    assert read.outputs == item.outputs or item.status == "failed"


@pytest.mark.parametrize("code", ["", "[1]", '{"command":'])
def test_an_edit_that_cannot_be_read_goes_back_without_input(code: str) -> None:
    _, (_, (asked, result)) = messages(user("a"), cell("ci_edit_srvtoolu_1", code), tools=(HOSTED,))
    assert (asked["id"], asked["input"]) == ("srvtoolu_1", {})
    assert result["content"] == {"type": "text_editor_code_execution_str_replace_result", "lines": ["1", ""]}


def test_cells_of_ours_stay_ours_when_the_vendor_runs_the_next() -> None:
    found = messages(user("a"), cell("ci_1"), user("b"), tools=(HOSTED,))
    assert found[1] == ("assistant", [use("ci_1", "code_interpreter", code="1")])


def test_cells_of_the_vendors_become_ours_when_we_run_the_next() -> None:
    found = messages(user("a"), cell("ci_bash_srvtoolu_1", "ls"), user("b"), tools=(OURS,))
    assert found[1] == ("assistant", [use("ci_bash_srvtoolu_1", "code_interpreter", code="ls")])


def test_what_is_decoded_is_written_again() -> None:
    """Whatever the vendor thought comes back to it byte for byte."""
    message = {"type": "message", "content": [SIGNED, said("b")], "stop_reason": "end_turn"}
    decoder = AnthropicDialect(CURRENT, "acme").decoder(ModelRequest(model="m", items=()))
    deltas = [*decoder.feed(json.dumps(message).encode()), *decoder.close()]
    (end,) = [delta.item for delta in deltas if isinstance(delta, ThoughtEnd)]
    assert messages(user("a"), end, Message(role="assistant", content="b"), user("c"))[1][1][0] == SIGNED


# -- the rest ---------------------------------------------------------------------------------------------------------


FORM = TextFormat(
    type="json_schema",
    name="sum",
    schema={"type": "object", "properties": {"items": {"type": "array", "items": {"type": "object"}}}},
)


def test_a_form_of_the_answer() -> None:
    body = encoded(text=TextConfig(format=FORM, verbosity="low"), reasoning=Reasoner(effort="low"))
    closed = {"type": "object", "additionalProperties": False}
    assert body["output_config"] == {
        "effort": "low",
        "format": {
            "type": "json_schema",
            "schema": {**closed, "properties": {"items": {"type": "array", "items": closed}}},
        },
    }
    assert "tools" not in body


def test_a_form_is_closed_in_every_alternative() -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"type": "object"}, {"type": "null"}]}}}
    body = encoded(text=TextConfig(format=TextFormat(type="json_schema", name="a", schema=schema)))
    closed = {"type": "object", "additionalProperties": False}
    assert body["output_config"]["format"]["schema"]["properties"]["a"] == {"anyOf": [closed, {"type": "null"}]}


@pytest.mark.parametrize(("quirks", "model"), [(OLD, "claude-sonnet-5"), (CURRENT, "claude-3-7-sonnet")])
def test_a_form_of_the_answer_in_the_older_way(quirks: Vendor, model: str) -> None:
    body = encoded(text=TextConfig(format=FORM), tools=(WEATHER,), quirks=quirks, model=model)
    assert [tool["name"] for tool in body["tools"]] == ["weather", "json"]
    assert body["tools"][1]["input_schema"] == FORM.schema
    assert body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert "output_config" not in body
    clash = FunctionTool(name="json")
    names = [tool["name"] for tool in encoded(text=TextConfig(format=FORM), tools=(clash,), quirks=OLD)["tools"]]
    assert names == ["json", "json_"]
    alone = encoded(text=TextConfig(format=FORM), tools=(WEATHER,), tool_choice="none", quirks=quirks, model=model)
    assert [tool["name"] for tool in alone["tools"]] == ["json"]
    assert alone["tool_choice"] == body["tool_choice"]


def test_any_json_is_asked_for_in_words() -> None:
    body = encoded(text=TextConfig(format=TextFormat(type="json_object")), instructions="Be brief.")
    assert body["system"].startswith("Be brief.\n\nAnswer with one JSON object")
    assert "output_config" not in body


def test_sampling_is_for_the_older_version() -> None:
    both: dict[str, Any] = {"temperature": 1.5, "top_p": 0.5}
    assert not {"temperature", "top_p"} & set(encoded(model="claude-sonnet-4-5", **both))
    old = encoded(model="claude-sonnet-4-5", quirks=OLD, **both)
    assert (old["temperature"], old.get("top_p")) == (1.0, None)
    assert encoded(model="claude-sonnet-4-5", quirks=OLD, top_p=0.5)["top_p"] == 0.5
    assert "temperature" not in encoded(model="claude-opus-5", quirks=OLD, **both)
    assert "temperature" not in encoded(model="claude-sonnet-4-6", quirks=OLD, reasoning=Reasoner(effort="low"), **both)


def test_who_asks() -> None:
    assert encoded(safety_identifier="u1")["metadata"] == {"user_id": "u1"}


def test_what_only_others_take_is_left_out() -> None:
    more: dict[str, Any] = {"prompt_cache_key": "k", "service_tier": "flex", "top_logprobs": 3, "truncation": "auto"}
    assert encoded(OtherItem({"type": "web_search_call", "id": "ws_1"}), user("hi"), **more) == encoded()


def test_headers() -> None:
    assert AnthropicDialect(CURRENT).headers("k") == {
        "anthropic-version": "2026-10-21",
        "authorization": "Bearer k",
    }
    assert AnthropicDialect(OLD).headers("k") == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
    assert AnthropicDialect(CURRENT).headers(None) == {"anthropic-version": "2026-10-21"}


def test_a_container_is_gone_on_with_and_gets_files() -> None:
    tool = CodeInterpreterTool(container="container_1")
    files = (HostedFile(name="a", type="", id="file_1"),)
    body = encoded(user("a"), Message(role="assistant", content="b"), user("c"), tools=(tool,), files=files)
    assert body["container"] == "container_1"
    upload = {"type": "container_upload", "file_id": "file_1"}
    assert body["messages"][-1]["content"] == [{"type": "text", "text": "c"}, upload]
    assert upload not in body["messages"][0]["content"]
    assert "container" not in encoded(user("a"), tools=(HOSTED,))


# -- what only the library's conversations hold ------------------------------------------------------------------------

CALL = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Ulm"}}
RUN = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "bash_code_execution", "input": {"command": "ls"}}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_2", "name": "web_search", "input": {"query": "a"}}


def test_an_answer_goes_back_as_it_came() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    given = (
        user("a"),
        Verbatim("anthropic", (thought, CALL)),
        FunctionCallOutput(call_id="toolu_1", output="sun"),
        Verbatim("anthropic", ({"type": "text", "text": "Sun."},)),
        user("b"),
    )
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "sun"}]}
    assert encoded(*given, tools=(WEATHER,))["messages"][1:] == [
        {"role": "assistant", "content": [thought, CALL]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [{"type": "text", "text": "Sun."}]},
        {"role": "user", "content": [{"type": "text", "text": "b"}]},
    ]


def test_a_call_in_it_that_nobody_answered_has_a_result() -> None:
    """Such as that of the tool by which a form was asked for."""
    messages = encoded(user("a"), Verbatim("anthropic", (CALL,)), Verbatim("anthropic", (CALL,)), user("b"))["messages"]
    results = [block for message in messages for block in message["content"] if block["type"] == "tool_result"]
    assert results == [{"type": "tool_result", "tool_use_id": "toolu_1", "content": []}] * 2
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2 + ["user"]


def test_an_answer_that_was_paused_is_one_message() -> None:
    said = {"type": "text", "text": "So."}
    messages = encoded(user("a"), Verbatim("anthropic", (RUN,)), Verbatim("anthropic", (said,)), tools=(HOSTED,))
    assert messages["messages"][1:] == [{"role": "assistant", "content": [RUN, said]}]


def test_who_reads_only_items_of_openais_wire_is_given_those() -> None:
    only = (user("a"), user("b"))
    given = (only[0], Verbatim("anthropic", (RUN,)), AttachedFiles((), for_code=True), only[1])
    assert ModelRequest(model="claude-sonnet-5", items=given).plain_items == only


def test_an_answer_of_another_vendors_is_passed_over() -> None:
    assert encoded(user("a"), Verbatim("gemini", ({"text": "x"},)), user("b")) == encoded(user("a"), user("b"))


def test_a_failure_is_told_beside_the_output() -> None:
    called = (FunctionCall(call_id="a", name="weather", arguments="{}"), FunctionCallOutput(call_id="a", output="no"))
    body = encoded(user("a"), *called, tools=(WEATHER,), failed_calls=frozenset({"a"}))
    [result] = body["messages"][-1]["content"]
    assert result["is_error"] is True


def test_files_of_the_vendors_stand_before_the_words() -> None:
    files = (VendorFile(id="file_1", name="a.pdf"), VendorFile(id="file_2", name="b.PNG"))
    assert encoded(AttachedFiles(files), user("Read"))["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
                {"type": "image", "source": {"type": "file", "file_id": "file_2"}},
                {"type": "text", "text": "Read"},
            ],
        }
    ]


def test_files_for_code_are_put_where_it_runs() -> None:
    body = encoded(AttachedFiles((VendorFile(id="file_1", name="a.csv"),), for_code=True), user("Sum"), tools=(HOSTED,))
    assert body["messages"][0]["content"][0] == {"type": "container_upload", "file_id": "file_1"}


@pytest.mark.parametrize(
    ("item", "declared"),
    [
        (AttachedFiles((), for_code=True), ["code_execution"]),
        (Verbatim("anthropic", (RUN,)), ["code_execution"]),
        (Verbatim("anthropic", (SEARCH,)), []),
        (AttachedFiles((VendorFile(id="file_1", name="a.pdf"),)), []),
    ],
    ids=["files", "ran", "searched", "to read"],
)
def test_what_the_history_speaks_of_is_declared(item: AttachedFiles | Verbatim, declared: list[str]) -> None:
    body = encoded(item, user("a"))
    assert [tool["name"] for tool in body.get("tools", ())] == declared
    assert "container" not in body


VENDORS = VendorTool("anthropic", {"type": "code_execution_20250825", "name": "code_execution"}, container="c_1")


def test_a_tool_in_the_vendors_own_words() -> None:
    body = encoded(
        user("a"), Verbatim("anthropic", (RUN,)), user("b"), tools=(VENDORS, VendorTool("gemini", {"x": {}}), WEATHER)
    )
    assert body["tools"][0] == VENDORS.body
    assert [tool["name"] for tool in body["tools"]] == ["code_execution", "weather"]
    assert body["container"] == "c_1"


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        (Choice(type="code_execution"), {"type": "tool", "name": "code_execution"}),
        (Choice(type="code_interpreter"), {"type": "tool", "name": "code_execution"}),
        (Choice(type="function", name="code_execution"), {"type": "any"}),
    ],
    ids=str,
)
def test_a_tool_in_the_vendors_own_words_may_be_chosen(choice: Choice, wire: dict[str, str]) -> None:
    assert encoded(user("a"), tools=(VENDORS, WEATHER), tool_choice=choice)["tool_choice"] == wire
