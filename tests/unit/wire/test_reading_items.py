"""Items as callers send them, replay them and as we keep them."""

import json
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, response_input_item_param

from belljar.errors import InvalidRequest
from belljar.wire import codec, reading
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
    Image,
    InputAudio,
    InputFile,
    InputImage,
    InputItem,
    InputText,
    ItemReference,
    ItemTypes,
    Logs,
    Message,
    OtherItem,
    OutputText,
    Reasoning,
    ReasoningText,
    Refusal,
    SummaryText,
)

RECORDING = Path(__file__).parents[2] / "recordings/openai/openai-code-interpreter-tool.1.json"
ITEMS: tuple[InputItem, ...] = (
    Message(role="user", content="hi"),
    Message(
        role="user",
        content=(
            InputText(text="see"),
            InputImage(image_url="data:image/png;base64,iVBORw0KGgo=", detail="low"),
            InputImage(file_id="file-1", detail=None),
            InputFile(file_data="data:text/csv;base64,AAAA", filename="a.csv"),
            InputFile(file_id="file-1"),
            InputAudio(input_audio={"data": "", "format": "wav"}),
        ),
    ),
    Message(
        id="msg_1",
        role="assistant",
        status="completed",
        phase="final_answer",
        content=(
            OutputText(
                text="done: sandbox:/mnt/data/a.csv",
                annotations=(
                    ContainerFileCitation(
                        container_id="cntr_1", file_id="cfile_1", filename="a.csv", start_index=6, end_index=29
                    ),
                ),
            ),
            Refusal(refusal="no"),
        ),
    ),
    Reasoning(
        id="rs_1",
        summary=(SummaryText(text="thought"),),
        content=(ReasoningText(text="raw"),),
        encrypted_content="gAAAA",
    ),
    FunctionCall(id="fc_1", call_id="call_1", name="f", arguments="{}", status="completed"),
    FunctionCallOutput(call_id="call_1", output="42"),
    FunctionCallOutput(call_id="call_1", output=(InputText(text="42"),)),
    CustomToolCall(id="ctc_1", call_id="call_2", name="g", input="go"),
    CustomToolCallOutput(call_id="call_2", output="gone"),
    CodeInterpreterCall(
        id="ci_1",
        status="failed",
        code="1/0",
        container_id="cntr_1",
        outputs=(Logs(logs="ZeroDivisionError"), Image(url="data:image/png;base64,AAAA")),
        belljar=CellEnd(exit="raised", seconds=0.5),
    ),
    CodeInterpreterCall(id="ci_2", status="completed", code=None, container_id="cntr_1"),
    Compaction(id="cmp_1", encrypted_content="gAAAA"),
    ItemReference(id="msg_1"),
    OtherItem({"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "sources": None}}),
)

Wrong = Callable[..., tuple[str | None, str | None, str]]


def read(*items: object) -> tuple[InputItem, ...]:
    return reading.read_response({"model": "m", "input": list(items)}).input


# -- accepted ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "item"),
    [
        ({"role": "user", "content": "hi"}, Message(role="user", content="hi")),
        ({"type": None, "role": "developer", "content": "x"}, Message(role="developer", content="x")),
        ({"id": "msg_1"}, ItemReference(id="msg_1")),
        ({"id": "msg_1", "type": None}, ItemReference(id="msg_1")),
        (
            {
                "role": "assistant",
                "content": [{"type": "output_text", "text": "x", "annotations": None, "logprobs": None}],
            },
            Message(role="assistant", content=(OutputText(text="x"),)),
        ),
        (
            {
                "role": "user",
                "content": [{"type": "input_file", "file_id": "file-1", "file_data": None, "filename": None}],
            },
            Message(role="user", content=(InputFile(file_id="file-1"),)),
        ),
        (
            {"type": "function_call", "id": None, "call_id": "c", "name": "f", "arguments": "", "status": None},
            FunctionCall(call_id="c", name="f", arguments=""),
        ),
        (
            {
                "type": "code_interpreter_call",
                "id": "ci_1",
                "status": "completed",
                "code": None,
                "container_id": "cntr_1",
                "outputs": [{"type": "logs", "logs": "", "extra": None}],
                "belljar": None,
                "caller": None,
                "internal_chat_message_metadata_passthrough": {"turn_id": "1"},
            },
            CodeInterpreterCall(
                id="ci_1", status="completed", code=None, container_id="cntr_1", outputs=(Logs(logs=""),)
            ),
        ),
        ({"type": "reasoning", "summary": None, "content": None}, Reasoning(content=None)),
        ({"type": "compaction_trigger", "id": None}, CompactionTrigger()),
        ({"type": "shell_call", "anything": [None]}, OtherItem({"type": "shell_call", "anything": [None]})),
    ],
)
def test_lax_forms(sent: dict[str, Any], item: InputItem) -> None:
    assert read(sent) == (item,)


def test_our_own_items_come_back_as_they_were() -> None:
    assert read(*json.loads(codec.encode(ITEMS))) == ITEMS


def test_real_output_comes_back_as_it_is_and_as_the_sdk_dumps_it() -> None:
    recorded = json.loads(RECORDING.read_text())
    output, dumped = recorded["output"], Response.construct(**recorded).model_dump()["output"]
    assert [type(item) for item in read(*output)] == [Reasoning, CodeInterpreterCall] * 3 + [Reasoning, Message]
    assert json.loads(codec.encode(read(*dumped)[1])) == output[1]
    assert read(*dumped)[-1] == msgspec.structs.replace(typing.cast(Message, read(*output)[-1]), phase=None)


def test_output_of_ours_goes_through_the_sdk_and_back() -> None:
    output = [item for item in ITEMS if isinstance(item, Reasoning | FunctionCall | CustomToolCall)]
    response = Response.construct(output=json.loads(codec.encode(output)))
    again = read(*response.model_dump()["output"])
    assert [_said(item) for item in again] == [_said(item) for item in output]


def _said(item: InputItem) -> object:
    """Without the nulls that the SDK fills in."""
    return {key: value for key, value in msgspec.to_builtins(item).items() if value is not None}


def test_every_item_that_the_sdk_can_send_is_known() -> None:
    kinds: set[str] = set()
    for variant in typing.get_args(response_input_item_param.ResponseInputItemParam):
        hint = typing.get_type_hints(variant).get("type")
        kinds |= {kind for kind in _literals(hint) if isinstance(kind, str)}
    assert len(kinds) > 25
    assert kinds <= ItemTypes.ITEMS.keys() | ItemTypes.OTHER


def _literals(hint: Any) -> set[Any]:
    if typing.get_origin(hint) is typing.Literal:
        return set(typing.get_args(hint))
    return {value for argument in typing.get_args(hint) for value in _literals(argument)}


# -- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "param", "code", "message"),
    [
        (
            "hi",
            "input[1]",
            "invalid_type",
            "Invalid type for 'input[1]': expected an object, but got a string instead.",
        ),
        ({}, "input[1].type", "missing_required_parameter", "Missing required parameter: 'input[1].type'."),
        (
            {"role": "user", "content": "hi", "id": "msg_\0"},
            "input[1].id",
            "invalid_value",
            "Invalid 'input[1].id': a NUL character is not text.",
        ),
        (
            {"id": "x", "status": "completed"},
            "input[1].type",
            "missing_required_parameter",
            "Missing required parameter: 'input[1].type'.",
        ),
        (
            {"type": ["message"]},
            "input[1].type",
            "invalid_type",
            "Invalid type for 'input[1].type': expected a string, but got an array instead.",
        ),
        (
            {"type": "function_call", "call_id": "c", "name": "f"},
            "input[1].arguments",
            "missing_required_parameter",
            "Missing required parameter: 'input[1].arguments'.",
        ),
        (
            {"role": "tool", "content": "x"},
            "input[1].role",
            "invalid_value",
            "Invalid value: 'tool'. Supported values are: 'assistant', 'developer', 'system', and 'user'.",
        ),
        (
            {"role": "user"},
            "input[1].content",
            "missing_required_parameter",
            "Missing required parameter: 'input[1].content'.",
        ),
        (
            {"role": "user", "content": {}},
            "input[1].content",
            "invalid_type",
            "Invalid type for 'input[1].content': expected one of a string or array of objects,"
            " but got an object instead.",
        ),
        (
            {"role": "user", "content": None},
            "input[1].content",
            "invalid_type",
            "Invalid type for 'input[1].content': expected one of a string or array of objects, but got null instead.",
        ),
        (
            {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": 1}]},
            "input[1].content[1].text",
            "invalid_type",
            "Invalid type for 'input[1].content[1].text': expected a string, but got an integer instead.",
        ),
        (
            {"role": "user", "content": [{"text": "a"}]},
            "input[1].content[0].type",
            "missing_required_parameter",
            "Missing required parameter: 'input[1].content[0].type'.",
        ),
        (
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            "input[1].content[0].type",
            "invalid_value",
            "Invalid value: 'text'. Supported values are: 'input_text', 'input_image', 'input_file', 'input_audio',"
            " 'output_text', and 'refusal'.",
        ),
        (
            {"role": "user", "content": [{"type": 1}]},
            "input[1].content[0].type",
            "invalid_type",
            "Invalid type for 'input[1].content[0].type': expected a string, but got an integer instead.",
        ),
        (
            {"role": "user", "content": [{"type": "input_image", "image_url": {"url": "x"}}]},
            "input[1].content[0].image_url",
            "invalid_type",
            "Invalid type for 'input[1].content[0].image_url': expected a string, but got an object instead.",
        ),
        (
            {"role": "user", "content": [{"type": "input_image"}]},
            "input[1].content[0].image_url",
            "missing_required_parameter",
            "Missing required parameter: 'input[1].content[0].image_url'. An image needs 'image_url' or 'file_id'.",
        ),
        (
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_file", "filename": "a"}]},
            "input[1].output[0].file_id",
            "missing_required_parameter",
            "Missing required parameter: 'input[1].output[0].file_id'."
            " A file needs 'file_id', 'file_data' or 'file_url'.",
        ),
        (
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "output_text", "text": "a"}]},
            "input[1].output[0].type",
            "invalid_value",
            "Invalid value: 'output_text'. Supported values are: 'input_text', 'input_image', and 'input_file'.",
        ),
        (
            {
                "type": "code_interpreter_call",
                "id": "ci_1",
                "status": "completed",
                "code": "",
                "container_id": "cntr_1",
                "belljar": {"exit": "ok", "seconds": 10**400},
            },
            "input[1].belljar.seconds",
            "decimal_above_max_value",
            "Invalid 'input[1].belljar.seconds': decimal above maximum value."
            f" Expected a value <= 1.79769e+308, but got 1{'0' * 99}… instead.",
        ),
        (
            {
                "type": "code_interpreter_call",
                "id": "ci_1",
                "status": "completed",
                "code": "",
                "container_id": "cntr_1",
                "belljar": {"exit": "ok", "seconds": -(10**400)},
            },
            "input[1].belljar.seconds",
            "decimal_below_min_value",
            "Invalid 'input[1].belljar.seconds': decimal below minimum value."
            f" Expected a value >= -1.79769e+308, but got -1{'0' * 98}… instead.",
        ),
    ],
)
def test_what_is_wrong_with_an_item(wrong: Wrong, item: object, param: str, code: str | None, message: str) -> None:
    assert wrong(input=[{"role": "user", "content": "hi"}, item]) == (param, code, message)


def test_an_unknown_item_is_told_which_there_are(wrong: Wrong) -> None:
    param, code, message = wrong(input=[{"type": "telegram"}])
    assert (param, code) == ("input[0].type", "invalid_value")
    assert message.startswith("Invalid value: 'telegram'. Supported values are: 'additional_tools', ")
    assert all(f"'{kind}'" in message for kind in ItemTypes.ITEMS.keys() | ItemTypes.OTHER)


def test_compaction_is_asked_for_at_the_end(wrong: Wrong) -> None:
    asked = {"type": "compaction_trigger"}
    assert read({"role": "user", "content": "hi"}, asked)[-1] == CompactionTrigger()
    assert wrong(input=[asked, {"role": "user", "content": "hi"}]) == (
        "input",
        "invalid_value",
        "Invalid value for 'input': compaction_trigger must be the last input item.",
    )


def test_items_of_a_conversation_are_named_by_their_own_path() -> None:
    assert reading.read_items([], "items") == ()
    with pytest.raises(InvalidRequest) as caught:
        reading.read_items([{"role": "user", "content": 1}], "items")
    assert caught.value.param == "items[0].content"
    with pytest.raises(InvalidRequest) as caught:
        reading.read_items("hi", "items")
    assert str(caught.value) == "Invalid type for 'items': expected an array of objects, but got a string instead."


# -- stored -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([*ITEMS, CompactionTrigger()])))
def test_stored_items_are_read_as_they_were_written(items: list[InputItem]) -> None:
    assert reading.read_stored_items(codec.encode(items)) == items
