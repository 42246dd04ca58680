"""A turn as a body of the Responses API: items as they are, but for what only we could know."""

import json
import re
from typing import Any

import pytest
from msgspec import structs

from belljar.vendors.openai.dialect import OpenAIDialect
from belljar.vendors.registry import KINDS
from belljar.vendors.request import Asked, AttachedFiles, HostedFile, ModelRequest, VendorFile, VendorTool, Verbatim
from belljar.wire import ids
from belljar.wire.items import (
    CellEnd,
    CodeInterpreterCall,
    Compaction,
    CompactionTrigger,
    ContainerFileCitation,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
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
HOSTED = CodeInterpreterTool(container=AutoContainer(memory_limit="4g"))
RUN = FunctionTool(name="code_interpreter", parameters={"type": "object"}, strict=False)


def body(*items: Asked, quirks: str = "openai", **more: Any) -> dict[str, Any]:
    found = json.loads(OpenAIDialect(KINDS[quirks]).encode(ModelRequest(model="m", items=items, **more)))
    assert isinstance(found, dict)
    return found


def test_the_least() -> None:
    assert body() == {"model": "m", "input": [], "stream": True, "store": False}


CITED = OutputText(
    text="a",
    annotations=(ContainerFileCitation(container_id="c", file_id="f", filename="a.csv", start_index=0, end_index=1),),
    logprobs=({"token": "a"},),
)
PLAIN = {"type": "output_text", "text": "a", "annotations": [], "logprobs": []}


@pytest.mark.parametrize(
    ("item", "sent"),
    [
        (Message(role="user", content="hi"), {"type": "message", "role": "user", "content": "hi"}),
        (
            Message(role="assistant", content=(CITED, Refusal(refusal="b")), id="msg_1", status="completed"),
            {"type": "message", "role": "assistant", "content": [PLAIN, {"type": "refusal", "refusal": "b"}]},
        ),
        (
            Message(role="assistant", content=(OutputText(text="a"),), id="msg_1", phase="commentary"),
            {"type": "message", "role": "assistant", "content": [PLAIN], "phase": "commentary"},
        ),
        (
            Message(role="user", content=(InputText(text="a"), InputImage(image_url=PNG, detail="low"))),
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "a"},
                    {"type": "input_image", "detail": "low", "image_url": PNG, "file_id": None},
                ],
            },
        ),
        (
            Message(
                role="user", content=(InputFile(file_data="data:,", filename="a"), InputAudio(input_audio={"a": 1}))
            ),
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_file", "file_data": "data:,", "filename": "a"},
                    {"type": "input_audio", "input_audio": {"a": 1}},
                ],
            },
        ),
        (
            FunctionCall(call_id="c", name="f", arguments="{}", id="fc_1", status="completed", namespace="n"),
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "namespace": "n"},
        ),
        (
            FunctionCallOutput(call_id="c", output=(InputText(text="a"),)),
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "a"}]},
        ),
        (
            CustomToolCall(call_id="c", name="f", input="x", id="ctc_1"),
            {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"},
        ),
        (
            CustomToolCallOutput(call_id="c", output="y"),
            {"type": "custom_tool_call_output", "call_id": "c", "output": "y"},
        ),
        (
            Reasoning(id="rs_1", summary=(SummaryText(text="s"),), encrypted_content="gAAA"),
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "s"}],
                "encrypted_content": "gAAA",
            },
        ),
        (
            Compaction(encrypted_content="gAAA", id="cmp_1"),
            {"type": "compaction", "encrypted_content": "gAAA", "id": "cmp_1"},
        ),
        (CompactionTrigger(), {"type": "compaction_trigger"}),
        (ItemReference(id="msg_1"), {"type": "item_reference", "id": "msg_1"}),
        (
            OtherItem({"type": "web_search_call", "id": "ws_1", "x": [1]}),
            {"type": "web_search_call", "id": "ws_1", "x": [1]},
        ),
    ],
)
def test_items(item: InputItem, sent: dict[str, Any]) -> None:
    assert body(item)["input"] == [sent]


def test_reasoning_that_the_provider_could_not_find_is_left_out() -> None:
    assert body(Reasoning(id="rs_1"), Reasoning(id="rs_2", encrypted_content=None))["input"] == []


CELL = CodeInterpreterCall(
    id="ci_1",
    status="completed",
    code="x",
    container_id="cntr_1",
    outputs=(Logs(logs="out"),),
    belljar=CellEnd(exit="ok"),
)


def ran(output: Any) -> list[dict[str, Any]]:
    return [
        {"type": "function_call", "call_id": "ci_1", "name": "code_interpreter", "arguments": '{"code":"x"}'},
        {"type": "function_call_output", "call_id": "ci_1", "output": output},
    ]


def test_a_cell_that_we_ran_is_a_call_of_a_function() -> None:
    assert body(CELL, tools=(RUN,))["input"] == ran("out")
    assert body(CELL, tools=(RUN,), call_outputs={"ci_1": "told"})["input"] == ran("told")
    assert body(CELL, call_outputs={"ci_1": ""})["input"] == ran("(no output)")
    assert body(CELL, call_images={"ci_1": (PNG,)})["input"] == ran(
        [
            {"type": "input_text", "text": "out"},
            {"type": "input_image", "detail": "auto", "image_url": PNG, "file_id": None},
        ]
    )


def test_a_cell_that_the_provider_ran_is_itself_in_the_container_that_it_goes_on_in() -> None:
    found = body(CELL, tools=(CodeInterpreterTool(container="cntr_theirs"),))
    assert found["input"] == [
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "status": "completed",
            "code": "x",
            "container_id": "cntr_theirs",
            "outputs": [{"type": "logs", "logs": "out"}],
        }
    ]
    assert found["include"] == ["code_interpreter_call.outputs"]


def test_a_cell_of_another_container_or_of_ours_is_a_call_of_a_function() -> None:
    assert body(CELL, tools=(HOSTED,))["input"] == ran("out")
    ours = structs.replace(CELL, id=f"ci_{'0' * 52}")
    (call, _) = body(ours, tools=(CodeInterpreterTool(container="cntr_theirs"),))["input"]
    assert call["type"] == "function_call"


@pytest.mark.parametrize("id", ["fc_1", "ci_" + "0" * 62, "ci_ü", "ci_"])
def test_a_cell_with_an_id_that_openai_never_gave_is_a_call_of_a_function(id: str) -> None:
    theirs = CodeInterpreterTool(container="cntr_theirs")
    called, came = body(structs.replace(CELL, id=id), tools=(theirs,))["input"]
    assert (called["type"], came["type"]) == ("function_call", "function_call_output")
    assert called["call_id"] == came["call_id"]
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", called["call_id"])


def test_calls_and_outputs_have_the_ids_that_the_wire_takes() -> None:
    long, twice = "x" * 65, "call_0"
    items: list[InputItem] = [
        FunctionCall(call_id=long, name="f", arguments="{}"),
        CustomToolCall(call_id=twice, name="g", input="a"),
        FunctionCallOutput(call_id=long, output="1", id="fc_1"),
        CustomToolCallOutput(call_id=twice, output="2", id="ctc_1"),
        FunctionCall(call_id=twice, name="f", arguments="{}"),
        structs.replace(CELL, id=twice),
        FunctionCallOutput(call_id=twice, output="3"),
        FunctionCallOutput(call_id="call_9", output="of no call"),
    ]
    sent = body(*items)["input"]
    assert not any("id" in one for one in sent)
    found = [one["call_id"] for one in sent]
    made, first, again, cell = found[0], found[1], found[4], found[5]
    assert found == [made, twice, made, first, again, cell, cell, again, "call_9"]
    assert len({made, first, again, cell}) == 4
    assert len(made) == 9


def test_a_number_that_we_gave_an_item_of_the_vendors_stays_here() -> None:
    numbered = ids.within("item", ids.new("resp"), 0x8000)
    sent = body(OtherItem({"type": "shell_call", "id": numbered, "x": 1}), OtherItem({"type": "shell_call", "x": 2}))
    assert sent["input"] == [{"type": "shell_call", "x": 1}, {"type": "shell_call", "x": 2}]


def test_files_go_into_a_new_container() -> None:
    files = (HostedFile(name="a", type="", id="file_1"), HostedFile(name="b", type="", id="file_2"))
    (tool,) = body(tools=(HOSTED,), files=files)["tools"]
    assert tool["container"] == {"type": "auto", "memory_limit": "4g", "file_ids": ["file_1", "file_2"]}
    (tool,) = body(tools=(CodeInterpreterTool(container="cntr_theirs"),), files=files)["tools"]
    assert tool["container"] == "cntr_theirs"


def test_tools_pass() -> None:
    tools = (RUN, CustomTool(name="sh"), HOSTED, HostedTool({"type": "web_search", "filters": {"a": 1}}))
    assert body(tools=tools)["tools"] == [
        {
            "type": "function",
            "name": "code_interpreter",
            "description": None,
            "parameters": {"type": "object"},
            "strict": False,
        },
        {"type": "custom", "name": "sh"},
        {"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "4g"}},
        {"type": "web_search", "filters": {"a": 1}},
    ]


OURS = {"type": "function", "name": "code_interpreter"}


@pytest.mark.parametrize(
    ("choice", "ours", "hosted"),
    [
        ("auto", None, None),
        ("required", "required", "required"),
        (Choice(type="function", name="f"), {"type": "function", "name": "f"}, {"type": "function", "name": "f"}),
        (Choice(type="code_interpreter"), OURS, {"type": "code_interpreter"}),
        (
            AllowedTools(mode="auto", tools=(Choice(type="code_interpreter"), Choice(type="function", name="f"))),
            {"type": "allowed_tools", "mode": "auto", "tools": [OURS, {"type": "function", "name": "f"}]},
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "code_interpreter"}, {"type": "function", "name": "f"}],
            },
        ),
    ],
)
def test_tool_choice(choice: ToolChoice, ours: Any, hosted: Any) -> None:
    assert body(tools=(RUN,), tool_choice=choice).get("tool_choice") == ours
    assert body(tools=(HOSTED,), tool_choice=choice).get("tool_choice") == hosted
    assert "tool_choice" not in body(tool_choice=choice)


FULL: dict[str, Any] = {
    "instructions": "be kind",
    "tools": (RUN,),
    "parallel_tool_calls": False,
    "max_output_tokens": 9,
    "temperature": 0.0,
    "top_p": 0.5,
    "top_logprobs": 2,
    "text": TextConfig(format=TextFormat(type="json_schema", name="n", schema={}), verbosity="low"),
    "reasoning": Reasoner(effort="low", summary="auto"),
    "encrypted_reasoning": True,
    "prompt_cache_key": "k",
    "service_tier": "flex",
    "safety_identifier": "s",
    "user": "u",
    "truncation": "auto",
}


def test_every_option() -> None:
    found = body(**FULL)
    del found["tools"]
    assert found == {
        "model": "m",
        "input": [],
        "stream": True,
        "store": False,
        "instructions": "be kind",
        "parallel_tool_calls": False,
        "max_output_tokens": 16,
        "temperature": 0.0,
        "top_p": 0.5,
        "top_logprobs": 2,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}, "verbosity": "low"},
        "reasoning": {"effort": "low", "summary": "auto"},
        "truncation": "auto",
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        "prompt_cache_key": "k",
        "service_tier": "flex",
        "safety_identifier": "s",
        "user": "u",
    }


def test_others_are_not_sent_what_is_only_openais() -> None:
    assert not body(quirks="vllm", **FULL).keys() & {"prompt_cache_key", "service_tier", "safety_identifier"}


# -- what only the library has -----------------------------------------------------------------------------------------

HI = Message(role="user", content="Hi")
PICTURE, PAPER = VendorFile(id="file_1", name="a.png"), VendorFile(id="file_2", name="a.pdf")


def test_it_goes_on_from_a_response_that_is_kept() -> None:
    found = body(HI, previous="resp_1", store=True)
    assert (found["previous_response_id"], found["store"]) == ("resp_1", True)


@pytest.mark.parametrize("content", ["Hi", (InputText(text="Hi"),)])
def test_a_picture_is_looked_at_and_a_document_read(content: Any) -> None:
    items = (HI, AttachedFiles((PICTURE, PAPER)), Message(role="user", content=content), HI)
    first, second, third = (item["content"] for item in body(*items)["input"])
    assert second == [
        {"type": "input_image", "detail": "auto", "image_url": None, "file_id": "file_1"},
        {"type": "input_file", "file_id": "file_2"},
        {"type": "input_text", "text": "Hi"},
    ]
    assert first == third == "Hi"


def test_files_for_code_are_put_where_it_runs() -> None:
    found = body(
        AttachedFiles((PICTURE,), for_code=True), HI, AttachedFiles((PAPER,), for_code=True), HI, tools=(HOSTED,)
    )
    assert found["tools"][0]["container"]["file_ids"] == ["file_1", "file_2"]
    assert [item["content"] for item in found["input"]] == ["Hi", "Hi"]


def test_its_own_blocks_go_back_as_they_came_and_those_of_others_do_not() -> None:
    own = ({"type": "reasoning", "id": "rs_1", "summary": [], "odd": 1}, {"type": "function_call", "call_id": "c"})
    found = body(HI, CELL, Verbatim("openai", own), FunctionCallOutput(call_id="c", output="1"), Verbatim("xai", own))
    assert found["input"][1:] == [*ran("out"), *own, {"type": "function_call_output", "call_id": "c", "output": "1"}]


def test_the_output_of_a_call_among_them_has_the_same_id_however_that_looks() -> None:
    own = tuple({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"} for id in ("f:0", "f:0", "b"))
    outputs = [FunctionCallOutput(call_id=id, output="1") for id in ("f:0", "b", "f:0")]
    found = body(HI, Verbatim("openai", own), *outputs)
    assert [item["call_id"] for item in found["input"][1:]] == ["f:0", "f:0", "b", "f:0", "b", "f:0"]


@pytest.mark.parametrize(("store", "told"), [(None, {}), (True, {"store": True}), (False, {"store": False})])
def test_whether_it_is_kept_may_be_left_to_the_vendor(store: bool | None, told: dict[str, bool]) -> None:
    found = body(HI, store=store)
    assert {name: one for name, one in found.items() if name == "store"} == told


def test_its_own_tools_are_offered_in_its_own_words() -> None:
    search, code = {"type": "file_search", "vector_store_ids": ["vs"]}, {"type": "code_interpreter", "container": "c"}
    tools = (VendorTool("openai", search), VendorTool("xai", {"type": "x_search"}))
    assert body(HI, tools=tools)["tools"] == [search]
    assert not {"tools", "tool_choice"} & body(HI, tools=tools[1:], tool_choice="required").keys()
    found = body(HI, tools=(VendorTool("openai", code),), tool_choice=Choice(type="code_interpreter"))
    assert (found["tools"], found["include"]) == ([code], ["code_interpreter_call.outputs"])
    assert found["tool_choice"] == {"type": "code_interpreter"}


def test_a_function_that_failed_says_so_in_its_output() -> None:
    items = [FunctionCallOutput(call_id=id, output="no") for id in ("a", "b")]
    seen = FunctionCallOutput(call_id="c", output=(InputText(text="see"),))
    sent = body(*items, seen, failed_calls=frozenset(["a", "c"]))["input"]
    assert [one["output"] for one in sent] == ["Error: no", "no", [{"type": "input_text", "text": "see"}]]
