"""xAI's Responses API: OpenAI's wire but for what it refuses, and for the cells that it ran."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from tests.unit.vendors.conftest import RECORDINGS, chunks, cuts_of, joined, outline, play, stream

from belljar.vendors.deltas import (
    Begun,
    CallEnd,
    Finish,
    HostedCode,
    HostedEnd,
    Ran,
    Text,
    Thought,
    ThoughtEnd,
    UsageDelta,
)
from belljar.vendors.openai.dialect import OpenAIDialect
from belljar.vendors.request import Asked, AttachedFiles, HostedFile, ModelRequest, VendorFile, VendorTool, Verbatim
from belljar.vendors.xai.dialect import XaiDialect
from belljar.vendors.xai.stream import XaiDecoder
from belljar.wire.items import (
    CellEnd,
    CodeInterpreterCall,
    FunctionCall,
    InputText,
    Logs,
    Message,
    Reasoning,
    SummaryText,
)
from belljar.wire.responses import Reasoner, TextConfig, TextFormat
from belljar.wire.tools import AutoContainer, CodeInterpreterTool, FunctionTool

CODE = "xai/xai-code-execution-tool.1.json"
STREAMS = [
    "xai/xai-text-streaming.1.chunks.txt",
    "xai/xai-text-with-reasoning-streaming.1.chunks.txt",
    "xai/xai-text-with-reasoning-streaming-store-false.1.chunks.txt",
]
SEALED = STREAMS[2]
HOSTED = CodeInterpreterTool(container=AutoContainer(memory_limit="4g"))
RUN = FunctionTool(name="code_interpreter", parameters={"type": "object"})
HI = Message(role="user", content="Hi")


def make() -> XaiDecoder:
    return XaiDecoder("acme")


def body(*items: Asked, model: str = "grok-4.3", **more: Any) -> dict[str, Any]:
    found = json.loads(XaiDialect().encode(ModelRequest(model=model, items=items, **more)))
    assert isinstance(found, dict)
    return found


def last(name: str) -> dict[str, Any]:
    found = json.loads(chunks(name)[-1])["response"]
    assert isinstance(found, dict)
    return found


# -- answered ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STREAMS)
def test_recorded_streams(name: str) -> None:
    deltas = play(make, stream(chunks(name), done=False))
    assert outline(deltas) == ["Thought", "ThoughtEnd", "Text", "Finish", "UsageDelta"]
    thought, message = last(name)["output"]
    assert joined(deltas, Text) == message["content"][0]["text"]
    assert joined(deltas, Thought) == thought["summary"][0]["text"]
    (end,) = (delta.item for delta in deltas if isinstance(delta, ThoughtEnd))
    if "encrypted_content" in thought:
        assert end.encrypted_content == f"xai:{thought['id']}:{thought['encrypted_content']}"
    usage = last(name)["usage"]
    assert isinstance(deltas[-1], UsageDelta)
    assert deltas[-1].usage.total_tokens == usage["total_tokens"]
    assert deltas[-1].usage.output_tokens_details.reasoning_tokens == usage["output_tokens_details"]["reasoning_tokens"]


def test_the_recorded_seal_is_there() -> None:
    assert "encrypted_content" in last(SEALED)["output"][0]


def test_a_recorded_run_of_its_code_execution() -> None:
    answer = json.loads((RECORDINGS / CODE).read_bytes())
    deltas = play(make, (RECORDINGS / CODE).read_bytes())
    code = json.loads(answer["output"][0]["arguments"])["code"]
    id = answer["output"][0]["id"]
    assert deltas[:-1] == [
        HostedCode(0, id, "", ""),
        HostedCode(0, id, "", code),
        HostedEnd(0, CodeInterpreterCall(id=id, status="completed", code=code, container_id="", outputs=None)),
        Text("55"),
        Finish("stop"),
    ]
    assert isinstance(deltas[-1], UsageDelta)
    assert deltas[-1].usage.input_tokens_details.cached_tokens == 1235


def event(kind: str, **fields: Any) -> str:
    return json.dumps({"type": f"response.{kind}", **fields})


def record() -> str:
    """What a run said, as xAI itself puts it down."""
    found = yaml.safe_load((RECORDINGS / "xai/test_xai_builtin_code_execution_tool.xai.yaml").read_text())
    return str(found["interactions"][0]["response_sample"]["json"]["outputs"][1]["message"]["content"])


@pytest.mark.parametrize("kind", ["code_interpreter_call", "code_execution_call"])
@pytest.mark.parametrize(
    ("more", "outputs", "end"),
    [
        ({}, None, UNSET),
        ({"outputs": []}, None, UNSET),
        ({"outputs": [{"type": "logs", "logs": "42"}, {"type": "new"}], "end": 5}, (Logs(logs="42"),), UNSET),
        (
            {"outputs": record()},
            (Logs(logs="-428330955.97745\n"),),
            CellEnd(exit="ok", stdout="-428330955.97745\n", stderr=""),
        ),
        (
            {"output": {"stdout": "a", "stderr": "b", "error": "", "ret": 1}},
            (Logs(logs="ab"),),
            CellEnd(exit="ok", stdout="a", stderr="b"),
        ),
        (
            {"output": {"stdout": "a", "stderr": "", "error": "no"}},
            (Logs(logs="ano"),),
            CellEnd(exit="raised", stdout="a", stderr=""),
        ),
        ({"output": '{"stdout": ""}'}, (), CellEnd(exit="ok", stdout="")),
        ({"output": "plain"}, (Logs(logs="plain"),), CellEnd(exit="ok", stdout="plain")),
    ],
)
def test_cells_in_all_their_forms(kind: str, more: dict[str, Any], outputs: Any, end: Any) -> None:
    item = {"type": kind, "id": "fc_1", "call_id": "", "name": "code_execution", "status": "completed"}
    payloads = [
        event("output_item.added", output_index=0, item={**item, "arguments": "", "status": "in_progress"}),
        event(f"{kind}.in_progress", output_index=0, item_id="fc_1"),
        event(f"{kind}.executing", output_index=0, item_id="fc_1", delta={"odd": True}),
        event(f"{kind}.completed", output_index=0, item_id="fc_1"),
        event("output_item.done", output_index=0, item={**item, "arguments": '{"code":"6*7"}', **more}),
        event("completed", response={"status": "completed"}),
    ]
    found = play(make, stream(payloads, done=False))
    assert found == [
        HostedCode(0, "fc_1", "", ""),
        HostedCode(0, "fc_1", "", "6*7"),
        HostedEnd(
            0,
            CodeInterpreterCall(
                id="fc_1", status="completed", code="6*7", container_id="", outputs=outputs, belljar=end
            ),
            ran=None if end is UNSET else Ran(code="6*7", stdout=end.stdout, stderr=end.stderr or ""),
        ),
        Finish("stop"),
    ]


def test_functions_are_called_as_on_openais_wire() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": '{"a":1}'}
    payloads = [event("output_item.done", output_index=0, item=call), event("completed", response={})]
    found = play(make, stream(payloads, done=False))
    assert CallEnd(0, '{"a":1}') in found


@pytest.mark.parametrize("name", [SEALED])
def test_piece_by_piece(name: str) -> None:
    data = stream(chunks(name), done=False)
    assert play(make, data, range(0, len(data), 7)) == play(make, data)


@settings(max_examples=25)
@given(st.data())
def test_any_cut_gives_the_same(data: st.DataObject) -> None:
    body = stream(chunks(SEALED)[:12] + chunks(SEALED)[-3:], done=False)
    assert play(make, body, data.draw(cuts_of(len(body)))) == play(make, body)


def test_the_decoder_is_made_for_a_request() -> None:
    assert isinstance(XaiDialect().decoder(ModelRequest(model="m", items=())), XaiDecoder)


# -- asked ------------------------------------------------------------------------------------------------------------


def test_the_least() -> None:
    assert body(HI) == {
        "model": "grok-4.3",
        "input": [{"type": "message", "role": "user", "content": "Hi"}],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    assert (XaiDialect.list_path, XaiDialect.path) == ("/models", "/responses")
    assert XaiDialect().headers("k") == {"authorization": "Bearer k"}


def test_orders_are_its_first_messages() -> None:
    found = body(Message(role="developer", content="b"), HI, instructions="a")
    assert "instructions" not in found
    assert [(item["role"], item["content"]) for item in found["input"]] == [
        ("system", "a"),
        ("system", "b"),
        ("user", "Hi"),
    ]


def test_what_it_refuses_is_left_out() -> None:
    found = body(
        HI,
        text=TextConfig(verbosity="low"),
        truncation="auto",
        service_tier="flex",
        safety_identifier="x",
        top_logprobs=3,
        temperature=0.5,
    )
    assert {"text", "truncation", "service_tier", "safety_identifier"}.isdisjoint(found)
    assert found["include"] == ["reasoning.encrypted_content"]
    assert (found["logprobs"], found["top_logprobs"], found["temperature"]) == (True, 3, 0.5)
    form = TextFormat(type="json_schema", name="n", schema={"type": "object"}, strict=True)
    assert body(HI, text=TextConfig(format=form, verbosity="low"))["text"]["verbosity"] == "medium"


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("grok-4.3", "none", "none"),
        ("grok-4.3", "xhigh", "high"),
        ("grok-4.6", "none", "low"),
        ("grok-4.5-latest", "medium", "medium"),
        ("grok-code-fast-1", "high", None),
        ("grok-4.20-0309", "high", None),
        ("grok-99", "max", "max"),
    ],
)
def test_how_hard_it_thinks(model: str, effort: Any, sent: str | None) -> None:
    found = body(HI, model=model, reasoning=Reasoner(effort=effort, summary="auto"))
    assert found.get("reasoning") == (None if sent is None else {"effort": sent, "summary": None})


def test_its_own_seal_goes_back_and_no_other() -> None:
    own = Reasoning(id="rs_1", encrypted_content="xai:rs_there:abc", summary=(SummaryText(text="Hm"),))
    others = (Reasoning(encrypted_content="gAAAA"), Reasoning(encrypted_content="gemini:{}"), Reasoning())
    found = body(HI, own, *others)["input"]
    assert [(item.get("id"), item.get("encrypted_content")) for item in found] == [(None, None), ("rs_there", "abc")]


def test_openai_gets_no_other_vendors_seal() -> None:
    items = (Reasoning(encrypted_content="xai:abc"), Reasoning(id="rs_1", encrypted_content="gAAAA_-="))
    found = json.loads(OpenAIDialect().encode(ModelRequest(model="m", items=items)))
    assert [item["encrypted_content"] for item in found["input"]] == ["gAAAA_-="]


def cell(**more: Any) -> CodeInterpreterCall:
    return CodeInterpreterCall(
        id="ci_1", status="completed", code="6*7", container_id="c", outputs=(Logs(logs="42"),), **more
    )


def test_cells_that_we_ran_are_calls_of_a_function() -> None:
    found = body(HI, cell(), tools=(RUN,), call_outputs={"ci_1": "It printed 42."})
    assert [item["type"] for item in found["input"]] == ["message", "function_call", "function_call_output"]
    assert found["tools"][0]["name"] == "code_interpreter"


def test_its_own_code_execution() -> None:
    call = FunctionCall(call_id="a", name="f", arguments="{}")
    found = body(HI, cell(), call, tools=(HOSTED, FunctionTool(name="f")))
    assert found["tools"][0] == {"type": "code_interpreter"}
    assert found["tools"][1]["name"] == "f"
    assert found["include"] == ["reasoning.encrypted_content", "code_interpreter_call.outputs"]
    assert found["input"][1] == {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "call_id": "",
        "name": "code_execution",
        "arguments": '{"code":"6*7"}',
        "status": "completed",
        "outputs": [{"type": "logs", "logs": "42"}],
    }


@pytest.mark.parametrize("content", ["Hi", (InputText(text="Hi"),)])
def test_files_for_its_code_stand_in_the_first_message(content: Any) -> None:
    files = (HostedFile(name="a", type="", id="file_1"),)
    items = (Message(role="assistant", content="Yes?"), Message(role="user", content=content), HI)
    found = body(*items, tools=(HOSTED,), files=files)["input"]
    assert found[1]["content"] == [
        {"type": "input_text", "text": "Hi"},
        {"type": "input_file", "file_id": "file_1"},
    ]
    assert found[2]["content"] == "Hi"


def test_a_cell_of_ours_is_a_call_of_a_function() -> None:
    ours = CodeInterpreterCall(id=f"ci_{'0' * 52}", status="completed", code="1", container_id="", outputs=())
    kinds = [item["type"] for item in body(HI, ours, tools=(HOSTED,))["input"]]
    assert kinds[1:] == ["function_call", "function_call_output"]


@pytest.mark.parametrize(
    ("told", "files"),
    [
        ({"output_files": [{"file_id": "f1", "name": "a.csv"}]}, [("f1", "a.csv")]),
        ({"output": json.dumps({"stdout": "", "output_files": {"a.csv": "f1"}})}, [("f1", "a.csv")]),
        ({"output": json.dumps({"output_files": {"a.csv": {"file_id": "f1"}, "b": None}})}, [("f1", "a.csv")]),
        ({"output_files": [{"id": "f1"}, {"name": "no id"}, "?"]}, [("f1", None)]),
        ({"output_files": "?"}, []),
        ({"output": "text"}, []),
    ],
)
def test_files_that_its_code_made(told: dict[str, Any], files: list[tuple[str, str | None]]) -> None:
    item = {"type": "code_execution_call", "id": "fc_1", "status": "completed", "code": "1", **told}
    answer = {"status": "completed", "output": [item]}
    deltas = play(make, json.dumps(answer).encode())
    (end,) = (delta for delta in deltas if isinstance(delta, HostedEnd))
    assert [(file.id, file.name) for file in end.files] == files


# -- what only the library has -----------------------------------------------------------------------------------------


def test_files_stand_in_the_message_that_they_belong_to_also_those_for_code() -> None:
    picture, table = VendorFile(id="file_1", name="a.png"), VendorFile(id="file_2", name="a.csv")
    items = (AttachedFiles((picture,)), HI, AttachedFiles((table,), for_code=True), HI, HI)
    one, two, three = (item["content"] for item in body(*items, tools=(HOSTED,))["input"])
    words = {"type": "input_text", "text": "Hi"}
    assert one == [{"type": "input_file", "file_id": "file_1"}, words]
    assert two == [{"type": "input_file", "file_id": "file_2"}, words]
    assert three == "Hi"


def test_a_picture_that_is_given_whole_is_seen() -> None:
    picture = VendorFile(id="", name="a.png", data=b"\x89PNG")
    (said,) = body(AttachedFiles((picture,)), HI)["input"]
    shown = said["content"][0]
    assert (shown["type"], shown["image_url"]) == ("input_image", "data:image/png;base64,iVBORw==")


def test_it_goes_on_from_a_response_that_it_keeps() -> None:
    found = body(HI, previous="r_1", store=True)
    assert (found["previous_response_id"], found["store"]) == ("r_1", True)
    assert "include" not in found


def test_its_own_blocks_and_tools_go_back_and_those_of_others_do_not() -> None:
    theirs = Verbatim("openai", ({"type": "message"},))
    own = ({"type": "reasoning", "id": "rs_1", "encrypted_content": "abc"}, {"type": "web_search_call", "id": "ws_1"})
    tools = (VendorTool("openai", {"type": "file_search"}), VendorTool("xai", {"type": "x_search"}))
    found = body(theirs, Verbatim("xai", own), HI, tools=tools)
    assert found["input"][:-1] == list(own)
    assert found["tools"] == [{"type": "x_search"}]


def test_an_answer_is_kept_as_it_came() -> None:
    data = (RECORDINGS / CODE).read_bytes()
    decoding = XaiDialect().decoder(ModelRequest(model="m", items=()), keep=True)
    assert decoding.feed(data) + decoding.close() == [Begun(json.loads(data)["id"]), *play(make, data)]
    assert decoding.verbatim() == Verbatim("xai", tuple(json.loads(data)["output"]))
