"""What a request says is served or refused by name; what a stream says, a client of OpenAI's types can read."""

from __future__ import annotations

import gzip
import json
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest
from openai import BadRequestError, OpenAI
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter
from tests.gateway.houses import CODE, House, Scene

from belljar.testing import Reply, call

LIVE = "belljar:code_interpreter_call.output.delta"
ASKED: dict[str, Any] = {"model": "belljar", "input": "hi"}


def shown(url: str) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]}


@pytest.mark.parametrize(
    ("given", "param", "code"),
    [
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, None, "unsupported_parameter"),
        ({"stream": True, "stream_options": {"padding": True}}, "stream_options.padding", "unknown_parameter"),
        ({"text": {"tone": "kind"}}, "text.tone", "unknown_parameter"),
        ({"text": {"format": {"type": "json_schema", "json_schema": {}}}}, "text.format.json_schema", None),
        ({"reasoning": {"efort": "low"}}, "reasoning.efort", "unknown_parameter"),
        ({"metadata": []}, "metadata", "invalid_type"),
        ({"max_output_tokens": 15}, "max_output_tokens", "integer_below_min_value"),
        ({"conversation": "mine"}, "conversation", "invalid_value"),
        ({"conversation": {"id": "conv_/../x"}}, "conversation.id", "invalid_value"),
        (shown("data:image/png;base64,!!"), "input[0].content[0].image_url", "invalid_base64_image"),
        (shown("data:image/png;base64,aGVsbG8="), "input[0].content[0].image_url", "invalid_image_format"),
    ],
)
def test_nothing_is_passed_over(client: OpenAI, given: dict[str, Any], param: str | None, code: str | None) -> None:
    with pytest.raises(BadRequestError) as caught:
        client.responses.create(**{**ASKED, **given})
    assert caught.value.param == (param or "stream_options.include_obfuscation")
    assert code is None or caught.value.code == code


@pytest.mark.parametrize("metadata", [[], "", 0])
def test_a_conversations_metadata_are_an_object(client: OpenAI, metadata: Any) -> None:
    with pytest.raises(BadRequestError) as caught:
        client.conversations.create(metadata=metadata)
    assert caught.value.param == "metadata"


def test_a_file_and_an_id_at_once_are_not_missing(client: OpenAI) -> None:
    container = client.containers.create(name="lab")
    with pytest.raises(BadRequestError, match="'file' and 'file_id'") as caught:
        client.containers.files.create(container.id, file=("a.txt", b"a"), file_id="file-x")
    assert caught.value.code == "mutually_exclusive_parameters"


def post(house: House, body: bytes, **headers: str) -> bytes:
    request = urllib.request.Request(
        f"{house.base_url}/responses",
        data=body,
        headers={"content-type": "application/json"} | {name.replace("_", "-"): one for name, one in headers.items()},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        data: bytes = answer.read()
    return data


def test_half_a_character_is_told_as_that(house: House) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(house, b'{"model": "belljar", "input": "\\ud83d"}')
    assert caught.value.code == 400
    assert "half of a surrogate pair" in caught.value.read().decode()


def test_a_packed_body_is_read(house: House) -> None:
    told = json.loads(post(house, gzip.compress(json.dumps(ASKED).encode()), content_encoding="gzip"))
    assert told["status"] == "completed"


@pytest.mark.parametrize(
    ("headers", "asked", "live"),
    [
        ({}, {}, False),
        ({"belljar_live_output": "true"}, {}, True),
        ({}, {"live": True}, True),
        ({"belljar_live_output": "true"}, {"live": False}, False),
        ({"x_stainless_lang": "python"}, {}, True),
        ({"x_stainless_lang": "python"}, {"live": False}, False),
    ],
)
def test_events_of_ours_come_to_those_who_ask_or_are_known_to_take_them(
    house: House, scene: Scene, headers: dict[str, str], asked: dict[str, Any], live: bool
) -> None:
    scene.play([call("code_interpreter", code="print(1)")], "done")
    body = {"model": "sim", "input": "go", "stream": True, "tools": CODE, "belljar": asked}
    events = [
        line[7:] for line in post(house, json.dumps(body).encode(), **headers).decode().split("\n") if "event: " in line
    ]
    assert (LIVE in events) is live
    assert events[-1] == "response.completed"


def test_a_cancelled_stream_ends_with_an_event_that_every_client_knows(client: OpenAI, scene: Scene) -> None:
    hold = threading.Event()
    scene.play(Reply(steps=["Once upon ", hold, "a time."]))
    stream = client.responses.create(model="sim", input="tell", background=True, stream=True)
    kinds: list[str] = []
    id = ""
    last: Any = None
    try:
        for event in stream:
            TypeAdapter[Any](ResponseStreamEvent).validate_python(event.to_dict())
            if event.type == "response.output_text.delta":
                client.responses.cancel(id)
            if event.type == "response.created":
                id = event.response.id
            kinds.append(event.type)
            last = event
    finally:
        hold.set()
    assert kinds[-1] == "response.incomplete"
    assert last.response.status == "cancelled"
    assert last.response.output_text == "Once upon "
    assert client.responses.retrieve(id).status == "cancelled"
    again = [event.type for event in client.responses.retrieve(id, stream=True)]
    assert again == kinds
    assert [event.type for event in client.responses.retrieve(id, stream=True, starting_after=len(kinds) - 2)] == [
        "response.incomplete"
    ]
