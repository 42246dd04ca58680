"""Output items that can be read like the JSON they came from, and stay what the SDK made them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from openai.types.responses import Response, ResponseCodeInterpreterToolCall, ResponseOutputMessage

from belljar.openai.items import readable

CITED = {"type": "container_file_citation", "container_id": "cntr_1", "file_id": "cfile_1", "filename": "a.txt"}
WIRE: Any = {
    "id": "resp_1",
    "output": [
        {"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "belljar": {"exit": "ok"}},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "one", "annotations": [CITED]},
                {"type": "refusal", "refusal": "no"},
                {"type": "output_text", "text": "two", "annotations": [{**CITED, "file_id": "cfile_2"}]},
            ],
        },
    ],
}


@pytest.fixture
def output() -> list[Any]:
    response = Response.construct(**WIRE)
    readable(response)
    return [*response.output]


def test_keys_are_the_wires(output: list[Any]) -> None:
    call, message = output
    assert (call["type"], call["id"], call["belljar"]) == ("code_interpreter_call", "ci_1", {"exit": "ok"})
    assert message["content"][0]["text"] == "one"
    assert message.get("nothing") is None
    assert message.get("nothing", 1) == 1
    assert "role" in message
    assert "nothing" not in message
    assert {"id", "status", "type", "belljar"} <= {*call.keys()}
    with pytest.raises(KeyError):
        message["nothing"]


def test_a_message_has_the_annotations_of_its_parts(output: list[Any]) -> None:
    call, message = output
    assert call.get("annotations", []) == []
    assert [(one["filename"], one["file_id"]) for one in message.get("annotations", [])] == [
        ("a.txt", "cfile_1"),
        ("a.txt", "cfile_2"),
    ]


def test_they_stay_what_they_were(output: list[Any]) -> None:
    call, message = output
    assert [isinstance(call, ResponseCodeInterpreterToolCall), isinstance(message, ResponseOutputMessage)] == [True] * 2
    assert message.content[0].annotations[0].filename == "a.txt"
    assert message.to_dict()["content"][1] == {"type": "refusal", "refusal": "no"}
    assert repr(message).startswith("ResponseOutputMessage(")


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_have_keys_too(output: list[Any], again: Any) -> None:
    message = again(output[1])
    assert message == output[1]
    assert message.get("annotations")[1]["file_id"] == "cfile_2"
