"""Every event and answer of representative runs, by the SDK's own types and by OpenAI's description, strictly."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from openai.types import (
    ContainerCreateResponse,
    ContainerListResponse,
    ContainerRetrieveResponse,
    FileDeleted,
    FileObject,
    Model,
    containers,
)
from openai.types.conversations import Conversation, ConversationDeletedResource, ConversationItemList
from openai.types.responses import (
    CompactedResponse,
    InputTokenCountResponse,
    Response,
    ResponseInputMessageItem,
    ResponseItemList,
)
from tests.gateway.houses import CODE, OUTPUTS, House, Scene
from tests.gateway.shapes import FAILED, OURS, by_openai, by_sdk, event_by_openai, event_by_sdk
from tests.gateway.wiretap import TERMINAL, Wire, begun, ended, said, thought

from belljar.testing import BREAK, Reply, ReplyStep, call

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
NOTE = {"type": "custom", "name": "note", "description": "Takes a note."}
NETWORKED = {
    "type": "code_interpreter",
    "container": {"type": "auto", "network_policy": {"type": "allowlist", "allowed_domains": ["example.org"]}},
}
FILES = """\
import pandas as pd, matplotlib.pyplot as plt
pd.DataFrame({'x': [1, 2]}).to_csv('numbers.csv')
print('made')
plt.plot([1, 2]); plt.show()"""


@pytest.fixture
def wire(house: House) -> Wire:
    return Wire(house.base_url)


@dataclass(frozen=True)
class Run:
    """What a model says, and what it was asked for beside the text."""

    play: Sequence[Reply | ReplyStep | list[ReplyStep]]
    ask: dict[str, Any] = field(default_factory=dict)
    status: str = "completed"
    items: Sequence[str] = ("message",)

    @property
    def body(self) -> dict[str, Any]:
        return {"model": "sim", "input": "go", **self.ask}


RUNS = {
    "text": Run(["Hello, wörld."], {"instructions": "Be kind.", "metadata": {"a": "b"}, "user": "me"}),
    "everything said": Run(
        ["{}"],
        {
            "input": [{"role": "developer", "content": "Answer in JSON."}, {"role": "user", "content": "go"}],
            "text": {
                "format": {"type": "json_schema", "name": "any", "schema": {"type": "object"}},
                "verbosity": "low",
            },
            "reasoning": {"effort": "low", "summary": "auto"},
            "temperature": 0.5,
            "top_p": 0.5,
            "max_output_tokens": 1000,
            "max_tool_calls": 3,
            "parallel_tool_calls": False,
            "prompt_cache_key": "key",
            "safety_identifier": "someone",
            "service_tier": "auto",
            "truncation": "auto",
            "store": False,
            "tools": [WEATHER, NOTE, *CODE],
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "get_weather"}, {"type": "code_interpreter"}],
            },
            "include": [*OUTPUTS, "reasoning.encrypted_content", "message.output_text.logprobs"],
        },
    ),
    "nothing said": Run(
        ["Hello."],
        {
            "tools": [
                {
                    "type": "code_interpreter",
                    "container": {"type": "auto", "memory_limit": None, "network_policy": None},
                }
            ],
            "reasoning": {"effort": None, "summary": None, "mode": None},
            **dict.fromkeys(["instructions", "metadata", "text", "tool_choice", "service_tier", "store", "user"]),
        },
    ),
    "code": Run(
        [["I will.", call("code_interpreter", code=FILES)], "Here: [numbers](sandbox:/mnt/data/numbers.csv)."],
        {"tools": CODE, "include": OUTPUTS},
        items=("message", "code_interpreter_call", "message"),
    ),
    "code, its outputs not asked for": Run(
        [[call("code_interpreter", code="print(1)"), call("code_interpreter", code="1 / 0")], "done"],
        {"tools": CODE, "tool_choice": "required"},
        items=("code_interpreter_call", "code_interpreter_call", "message"),
    ),
    "code that fails": Run(
        [[call("code_interpreter", code="import os; os._exit(4)"), call("code_interpreter", code="1")], "done"],
        {"tools": CODE, "include": OUTPUTS},
        items=("code_interpreter_call", "code_interpreter_call", "message"),
    ),
    "a call of a function": Run([[call("get_weather", city="Rome")]], {"tools": [WEATHER]}, items=("function_call",)),
    "a call of a custom tool": Run(
        [[call("note", input="milk")]], {"tools": [NOTE], "tool_choice": "required"}, items=("custom_tool_call",)
    ),
    "mixed": Run(
        [["Both.", call("code_interpreter", code="5"), call("get_weather", city="Oslo"), call("note", input="cold")]],
        {"tools": [*CODE, WEATHER, NOTE], "include": OUTPUTS},
        items=("message", "code_interpreter_call", "function_call", "custom_tool_call"),
    ),
    "reasoning": Run(
        [
            [*thought("Let ", "me ", "think."), call("code_interpreter", code="2 + 2")],
            [*thought("So ", "four."), "It is 4."],
        ],
        {"tools": CODE, "include": OUTPUTS, "reasoning": {"effort": "high"}},
        items=("reasoning", "code_interpreter_call", "reasoning", "message"),
    ),
    "refusal": Run([[said(refusal="I will "), said(refusal="not."), ended("stop")]]),
    "incomplete": Run([["Once upon a ", ended("length")]], {"max_output_tokens": 16}, "incomplete"),
    "incomplete in a call": Run(
        [[begun("code_interpreter", '{"code": "x'), ended("length")]],
        {"tools": CODE, "include": OUTPUTS, "max_output_tokens": 16},
        "incomplete",
        ("code_interpreter_call",),
    ),
    "incomplete before a call has any code": Run(
        [[begun("code_interpreter", '{"co'), ended("length")]],
        {"tools": CODE},
        "incomplete",
        ("code_interpreter_call",),
    ),
    "incomplete in the last of several calls": Run(
        [
            [
                call("code_interpreter", code="1"),
                call("get_weather", city="Rome"),
                begun("code_interpreter", '{"code": "x = [', 2),
                ended("length"),
            ]
        ],
        {"tools": [*CODE, WEATHER], "include": OUTPUTS},
        "incomplete",
        ("code_interpreter_call", "function_call", "code_interpreter_call"),
    ),
    "filtered": Run([["Well, ", ended("content_filter")]], {}, "incomplete"),
    "mended": Run(
        ["```python\nprint(21 * 2)\n```", "42"],
        {"tools": CODE, "include": OUTPUTS},
        items=("message", "code_interpreter_call", "message"),
    ),
    "the built-in model": Run(
        [],
        {"model": "belljar", "input": "open('ä.txt', 'w').write('ä')", "tools": CODE, "include": OUTPUTS},
        items=("code_interpreter_call", "message"),
    ),
}


def checked(events: list[dict[str, Any]], *, code: bool) -> dict[str, Any]:
    """The response that the stream ends with, after every event was found right."""
    for event in events:
        if event["type"] == OURS:
            assert code
            assert set(event) == {"type", "sequence_number", "output_index", "item_id", "stream", "delta"}
            continue
        if event["type"] == FAILED:
            event = {**event, "type": FAILED.replace("failed", "completed")}
        event_by_sdk(event)
        event_by_openai(event)
    kinds = [event["type"] for event in events]
    assert kinds[:2] in (["response.created", "response.in_progress"], ["response.created", "response.queued"])
    assert [kind for kind in kinds if kind in TERMINAL] == kinds[-1:]
    for event in events:
        if event["type"] in ("response.created", "response.in_progress", "response.queued"):
            assert (event["response"]["output"], event["response"]["usage"]) == ([], None)
    final: dict[str, Any] = events[-1]["response"]
    return final


def response(value: dict[str, Any]) -> dict[str, Any]:
    by_sdk(value, Response)
    by_openai(value, "Response")
    if value["status"] in ("completed", "incomplete"):
        usage = value["usage"]
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    return value


def anonymous(value: dict[str, Any]) -> Any:
    """Without what differs between two runs of the same: ids, times, and how long cells took."""

    def plain(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: plain(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [plain(one) for one in value]
        if key in ("created_at", "completed_at", "seconds") and value is not None:
            return "<time>"
        if isinstance(value, str):
            return re.sub(r"\b(resp|msg|rs|ci|fc|ctc|call|cntr|cfile)_[0-9a-f_]+", r"\1_", value)
        return value

    return plain(value)


@pytest.mark.parametrize("name", RUNS)
def test_every_event_is_right_and_the_answer_is_the_stream_folded(wire: Wire, scene: Scene, name: str) -> None:
    run = RUNS[name]
    scene.play(*run.play)
    events = wire.stream(run.body)
    final = response(checked(events, code=bool(run.ask.get("tools"))))
    assert final["status"] == run.status
    assert [item["type"] for item in final["output"]] == list(run.items)
    ordered(events, final)
    scene.play(*run.play)
    whole = response(wire.post("/responses", run.body))
    assert anonymous(whole) == anonymous(final)
    if final["store"]:
        query = "&".join(f"include[]={one}" for one in run.ask.get("include", ()))
        assert wire.get(f"/responses/{final['id']}?{query}") == final


def ordered(events: list[dict[str, Any]], final: dict[str, Any]) -> None:
    """One item after the other; the events of each in the order of the real wire, in pieces what is whole then."""
    places = [event["output_index"] for event in events if "output_index" in event]
    assert places == sorted(places)
    for index, item in enumerate(final["output"]):
        own = [event for event in events if event.get("output_index") == index]
        kinds = [event["type"].removeprefix("response.") for event in own]
        assert kinds[0] == "output_item.added"
        assert kinds[-1] == "output_item.done"
        assert own[-1]["item"] == item
        assert {event.get("item_id", item["id"]) for event in own} == {item["id"]}
        short = " ".join(dict.fromkeys(kinds[1:-1]))
        whole = item["status"] != "incomplete" if "status" in item else True
        match item["type"]:
            case "code_interpreter_call":
                code, call = "code_interpreter_call_code", "code_interpreter_call"
                if whole:
                    ran = f"{call}.in_progress {code}.delta {code}.done {call}.interpreting {call}.{item['status']}"
                    assert short.replace(f" {OURS}", "") == ran
                    assert set(item) - {"belljar"} == {"id", "type", "status", "code", "container_id", "outputs"}
                assert joined(own, f"{code}.delta") == item["code"]
                assert [event["code"] for event in own if event["type"] == f"response.{code}.done"] == [item["code"]]
                container = own[0]["item"]["container_id"]
                assert container == item["container_id"]
                assert container.startswith("cntr_")
            case "function_call":
                assert short == "function_call_arguments.delta function_call_arguments.done"
                assert joined(own, "function_call_arguments.delta") == item["arguments"]
            case "custom_tool_call":
                assert short == "custom_tool_call_input.delta custom_tool_call_input.done"
                assert joined(own, "custom_tool_call_input.delta") == item["input"]
            case "reasoning":
                assert short == "content_part.added reasoning_text.delta reasoning_text.done content_part.done"
                assert joined(own, "reasoning_text.delta") == item["content"][0]["text"]
            case "message":
                [part] = item["content"]
                kind = {"output_text": "output_text", "refusal": "refusal"}[part["type"]]
                text = part["text" if kind == "output_text" else "refusal"]
                cited = " output_text.annotation.added" if part.get("annotations") else ""
                assert short == f"content_part.added {kind}.delta{cited} {kind}.done content_part.done"
                assert joined(own, f"{kind}.delta") == text
                told = [event["annotation"] for event in own if event["type"].endswith("annotation.added")]
                assert told == part.get("annotations", [])


def joined(events: list[dict[str, Any]], kind: str) -> str:
    return "".join(event["delta"] for event in events if event["type"] == f"response.{kind}")


def test_files_and_plots_are_cited_and_shown(wire: Wire, scene: Scene) -> None:
    run = RUNS["code"]
    scene.play(*run.play)
    made = wire.post("/responses", run.body)
    _, cell, message = made["output"]
    logs, image = cell["outputs"]
    assert logs == {"type": "logs", "logs": "made\n"}
    assert base64.b64decode(image["url"].removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
    [part] = message["content"]
    csv, png = part["annotations"]
    assert part["text"][csv["start_index"] : csv["end_index"]] == "sandbox:/mnt/data/numbers.csv"
    assert (png["start_index"], png["end_index"]) == (0, 0)


BROKEN: dict[str, list[ReplyStep]] = {
    "message": ["half an ", BREAK],
    "reasoning": [*thought("Let ", "me"), BREAK],
    "code_interpreter_call": [begun("code_interpreter", '{"code": "print(1'), BREAK],
    "function_call": [begun("get_weather", '{"city": "Ro'), BREAK],
    "code_interpreter_call function_call": [
        call("code_interpreter", code="print(1)"),
        begun("get_weather", '{"city": "Ro', 1),
        BREAK,
    ],
}


@pytest.mark.parametrize("items", BROKEN)
def test_a_failure_in_the_stream_closes_what_is_open_and_is_an_error_then_failed(
    wire: Wire, scene: Scene, items: str
) -> None:
    scene.play(BROKEN[items])
    *_, error, failed = events = wire.stream({"model": "sim", "input": "go", "tools": [WEATHER, *CODE]})
    final = response(checked(events, code=True))
    assert error["type"] == "error"
    assert failed["type"] == "response.failed"
    assert final["error"]["message"] == error["error"]["message"]
    assert [item["type"] for item in final["output"]] == items.split()
    assert {item.get("status", "incomplete") for item in final["output"]} == {"incomplete"}
    ordered(events, final)
    assert wire.get(f"/responses/{final['id']}") == final


def test_a_response_in_the_background_is_followed_polled_and_cancelled(wire: Wire, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="print(1)")], "one")
    body = {"model": "sim", "input": "go", "tools": CODE, "background": True}
    queued = response(wire.post("/responses", body))
    assert (queued["status"], queued["output"], queued["usage"]) == ("queued", [], None)
    events = wire.replay(queued["id"])
    final = response(checked(events, code=True))
    assert wire.get(f"/responses/{queued['id']}") == final
    assert wire.replay(queued["id"], after=3) == events[4:]
    scene.play([call("code_interpreter", code="import time; time.sleep(600)")])
    long = wire.post("/responses", body)
    cancelled = response(wire.post(f"/responses/{long['id']}/cancel", {}))
    assert cancelled["status"] == "cancelled"
    assert response(wire.get(f"/responses/{long['id']}")) == cancelled
    assert response(wire.post(f"/responses/{long['id']}/cancel", {})) == cancelled


def test_a_background_response_is_streamed_from_the_start(wire: Wire, scene: Scene) -> None:
    scene.play("Hello.")
    events = wire.stream({"model": "sim", "input": "go", "background": True})
    assert [event["type"] for event in events[:3]] == ["response.created", "response.queued", "response.in_progress"]
    response(checked(events, code=False))


def test_input_items_are_listed(wire: Wire, scene: Scene) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"}
    scene.play([call("get_weather", city="Rome")], "Sunny.")
    first = wire.post(
        "/responses",
        {
            "model": "sim",
            "tools": [WEATHER],
            "input": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "input_text", "text": "Where?"}, image]},
                {"role": "assistant", "content": "Rome.", "phase": "final_answer"},
                {"role": "user", "content": "The weather?"},
            ],
        },
    )
    output = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "warm"}
    second = wire.post(
        "/responses", {"model": "sim", "input": [output], "tools": [WEATHER], "previous_response_id": first["id"]}
    )
    listed = wire.get(f"/responses/{first['id']}/input_items")
    for page in (listed, wire.get(f"/responses/{second['id']}/input_items")):
        by_openai(page, "ResponseItemList")
        by_sdk(page, ResponseItemList)
    assert [item["role"] for item in listed["data"]] == ["user", "assistant", "user", "developer"]
    part = wire.get(f"/responses/{first['id']}/input_items?order=asc&limit=1&after={listed['data'][-1]['id']}")
    assert (part["data"], part["has_more"]) == ([listed["data"][2]], True)
    assert wire.delete(f"/responses/{first['id']}") == {"id": first["id"], "object": "response", "deleted": True}


def test_tokens_are_counted(wire: Wire) -> None:
    counted = wire.post("/responses/input_tokens", {"model": "sim", "input": "How long is this?", "tools": [WEATHER]})
    by_openai(counted, "TokenCountsResource")
    by_sdk(counted, InputTokenCountResponse)


def test_a_compacted_conversation_is_right_and_goes_on(wire: Wire, scene: Scene) -> None:
    scene.play("They greeted each other.", "Again.")
    said = [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello to you."},
        {"role": "user", "content": [{"type": "input_text", "text": "How are you?"}]},
    ]
    compacted = wire.post("/responses/compact", {"model": "sim", "input": said})
    by_openai(compacted, "CompactResource")
    *users, _ = compacted["output"]
    for item in users:  # on the real wire too, though the SDK's type of the whole knows only what a model says
        by_sdk(item, ResponseInputMessageItem)
    by_sdk({**compacted, "output": compacted["output"][2:]}, CompactedResponse)
    assert [item["type"] for item in compacted["output"]] == ["message", "message", "compaction"]
    response(
        wire.post("/responses", {"model": "sim", "input": [*compacted["output"], {"role": "user", "content": "?"}]})
    )


def test_a_compaction_within_a_turn_is_right(wire: Wire, scene: Scene) -> None:
    scene.play(["All ", said(content="of it."), _spent(2000)], "A summary.")
    management = [{"type": "compaction", "compact_threshold": 1000}]
    events = wire.stream({"model": "sim", "input": "go", "context_management": management})
    final = response(checked(events, code=False))
    assert [item["type"] for item in final["output"]] == ["message", "compaction"]
    scene.play("A summary.")
    trigger = [{"role": "user", "content": "go"}, {"type": "compaction_trigger"}]
    final = response(checked(wire.stream({"model": "sim", "input": trigger}), code=False))
    assert [item["type"] for item in final["output"]] == ["compaction"]


def _spent(tokens: int) -> bytes:
    told = ended("stop").replace(b'"total_tokens": 12', b'"total_tokens": %d' % tokens)
    return told.replace(b'"prompt_tokens": 7', b'"prompt_tokens": %d' % (tokens - 5))


def test_conversations_are_right(wire: Wire, scene: Scene) -> None:
    hello = {"type": "message", "role": "user", "content": "Hello."}
    made = wire.post("/conversations", {"metadata": {"a": "b"}, "items": [hello]})
    by_sdk(made, Conversation)
    one = f"/conversations/{made['id']}"
    scene.play([call("code_interpreter", code="1")], "One.")
    answered = wire.post("/responses", {"model": "sim", "input": "go", "tools": CODE, "conversation": made["id"]})
    assert response(answered)["conversation"] == {"id": made["id"]}
    items = wire.get(f"{one}/items?order=asc")
    by_sdk(items, ConversationItemList)
    assert [item["type"] for item in items["data"]] == ["message", "message", "code_interpreter_call", "message"]
    by_sdk(wire.post(f"{one}/items", {"items": [hello]}), ConversationItemList)
    item = wire.get(f"{one}/items/{items['first_id']}")
    assert item == items["data"][0]
    by_sdk(wire.post(one, {"metadata": {"c": "d"}}), Conversation)
    by_sdk(wire.delete(f"{one}/items/{items['first_id']}"), Conversation)
    by_sdk(wire.get(one), Conversation)
    by_sdk(wire.delete(one), ConversationDeletedResource)


def test_files_are_right(wire: Wire) -> None:
    made = wire.upload("/files", "a.csv", b"a,b\n", purpose="user_data").json
    mortal = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    other = wire.upload("/files", "b.csv", b"c,d\n", purpose="assistants", **mortal).json
    for file in (made, other, wire.get(f"/files/{made['id']}")):
        by_openai(file, "OpenAIFile")
        by_sdk(file, FileObject)
    assert other["expires_at"] == other["created_at"] + 3600
    listed = wire.get("/files?limit=1&order=desc")
    by_openai(listed, "ListFilesResponse")
    assert (listed["data"], listed["has_more"]) == ([other], True)
    content = wire.send("GET", f"/files/{made['id']}/content")
    assert content.body == b"a,b\n"
    for file in (made, other):
        deleted = wire.delete(f"/files/{file['id']}")
        by_openai(deleted, "DeleteFileResponse")
        by_sdk(deleted, FileDeleted)
    by_openai(wire.get("/files?purpose=evals"), "ListFilesResponse")


def test_containers_and_their_files_are_right(wire: Wire) -> None:
    upload = wire.upload("/files", "in.csv", b"1,2\n", purpose="user_data").json
    made = wire.post(
        "/containers",
        {
            "name": "mine",
            "memory_limit": "4g",
            "expires_after": {"anchor": "last_active_at", "minutes": 5},
            "file_ids": [upload["id"]],
        },
    )
    one = f"/containers/{made['id']}"
    by_sdk(made, ContainerCreateResponse)
    by_openai(made, "ContainerResource")
    found = wire.get(one)
    by_sdk(found, ContainerRetrieveResponse)
    by_openai(found, "ContainerResource")
    listed = wire.get("/containers?name=mine")
    by_openai(listed, "ContainerListResource")
    by_sdk(listed["data"][0], ContainerListResponse)
    by_openai(wire.get("/containers?name=nobody"), "ContainerListResource")
    put = wire.upload(f"{one}/files", "ünï.csv", b"x").json
    placed = wire.post(f"{one}/files", {"file_id": upload["id"]})
    for file in (put, placed, wire.get(f"{one}/files/{put['id']}")):
        by_openai(file, "ContainerFileResource")
        by_sdk(file, containers.FileCreateResponse)
    files = wire.get(f"{one}/files")
    by_openai(files, "ContainerFileListResource")
    for file in files["data"]:
        by_sdk(file, containers.FileListResponse)
    content = wire.send("GET", f"{one}/files/{put['id']}/content")
    assert content.body == b"x"
    assert "filename*=UTF-8''%C3%BCn%C3%AF.csv" in content.headers["content-disposition"]
    assert wire.delete(f"{one}/files/{put['id']}") == {
        "id": put["id"],
        "object": "container.file.deleted",
        "deleted": True,
    }
    assert wire.delete(one) == {"id": made["id"], "object": "container.deleted", "deleted": True}


def test_models_are_right(wire: Wire) -> None:
    listed = wire.get("/models")
    assert listed["object"] == "list"
    for model in listed["data"]:
        by_sdk(model, Model)
        assert wire.get(f"/models/{model['id']}") == model


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/responses", {}, 400),
        ("POST", "/responses", {"model": "sim", "input": "go", "tools": [{"type": "code_interpreter"}]}, 400),
        ("POST", "/responses", {"model": "nobody", "input": "go"}, 400),
        ("POST", "/responses", {"model": "sim", "input": "go", "stream": True, "previous_response_id": "resp_0"}, 400),
        (
            "POST",
            "/responses/compact",
            {"model": "sim", "input": [{"type": "compaction", "encrypted_content": "?"}]},
            400,
        ),
        ("POST", "/responses", {"model": "sim", "input": "go", "service_tier": "first"}, 400),
        ("POST", "/responses", {"model": "sim", "input": "go", "tools": [NETWORKED]}, 400),
        ("POST", "/containers", {"name": "mine", "memory_limit": "8g"}, 400),
        ("GET", "/responses/resp_0", None, 404),
        ("GET", "/responses/resp_0?stream=true", None, 404),
        ("DELETE", "/containers/cntr_0", None, 404),
        ("GET", "/files/file-0/content", None, 404),
        ("GET", "/conversations/conv_0", None, 404),
        ("GET", "/nothing", None, 404),
        ("PUT", "/responses", {}, 405),
    ],
)
def test_every_error_has_the_one_shape(wire: Wire, method: str, path: str, body: object, status: int) -> None:
    answer = wire.send(method, path, body)
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"].startswith("req_")
    by_openai(answer.json, "ErrorResponse")
    assert answer.json["error"]["type"] == "invalid_request_error"


def test_a_response_that_was_not_in_the_background_is_not_streamed_again(wire: Wire, scene: Scene) -> None:
    scene.play("Hello.")
    made = wire.post("/responses", {"model": "sim", "input": "go"})
    for after in ("", "&starting_after=0"):
        answer = wire.send("GET", f"/responses/{made['id']}?stream=true{after}")
        assert (answer.status, answer.json["error"]["param"]) == (400, "stream")


def test_items_that_are_only_carried_get_an_id(wire: Wire, scene: Scene) -> None:
    scene.play("Well.")
    carried = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    made = wire.post("/responses", {"model": "sim", "input": [{"role": "user", "content": "go"}, carried]})
    listed = wire.get(f"/responses/{made['id']}/input_items?order=asc")
    assert listed["data"][1] == {**carried, "id": listed["last_id"]}
