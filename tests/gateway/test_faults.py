"""Bad input: a clear error in OpenAI's shape that names the field, the value and the remedy; never a 5xx or a 422."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
import pytest
from openai import OpenAI
from tests.gateway.houses import CODE, House, Scene
from tests.gateway.wiretap import Wire

from belljar.testing import Reply, call

GOOD: dict[str, Any] = {"model": "belljar", "input": "hi"}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Er"
    "kJggg=="
)
RESULT = {"type": "function_call_output", "call_id": "nobody", "output": "x"}

BAD: list[tuple[dict[str, Any], str | None, str | None, str]] = [
    ({"input": "hi"}, "model", "missing_required_parameter", "model"),
    ({"model": 5, "input": "hi"}, "model", "invalid_type", "model"),
    ({"model": "belljar"}, "input", "missing_required_parameter", "input"),
    ({**GOOD, "model": "no-such"}, "model", "model_not_found", "no-such"),
    ({**GOOD, "system": "x"}, "system", "unknown_parameter", "system"),
    ({**GOOD, "temperature": -1}, "temperature", "decimal_below_min_value", "-1"),
    ({**GOOD, "temperature": "hot"}, "temperature", "invalid_type", "temperature"),
    ({**GOOD, "top_p": 2}, "top_p", "decimal_above_max_value", "2"),
    ({**GOOD, "max_output_tokens": 0}, "max_output_tokens", "integer_below_min_value", "0"),
    ({**GOOD, "input": 7}, "input", "invalid_type", "input"),
    ({**GOOD, "input": [{"role": "king", "content": "x"}]}, "input[0].role", "invalid_value", "king"),
    ({**GOOD, "input": [{"type": "magic"}]}, "input[0].type", "invalid_value", "magic"),
    ({**GOOD, "input": [{**CALL, "arguments": 5}]}, "input[0].arguments", "invalid_type", "arguments"),
    ({**GOOD, "input": [RESULT]}, "input", None, "nobody"),
    ({**GOOD, "input": [CALL, {"role": "user", "content": "x"}]}, "input", None, "No tool output found"),
    (
        {**GOOD, "tools": [{"type": "code_interpreter"}]},
        "tools[0].container",
        "missing_required_parameter",
        "container",
    ),
    (
        {**GOOD, "tools": [{"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "8g"}}]},
        "tools[0].container.memory_limit",
        "invalid_value",
        "'1g', '4g', '16g', and '64g'",
    ),
    ({**GOOD, "tools": [{"type": "teleport"}]}, "tools[0].type", "invalid_value", "teleport"),
    (
        {**GOOD, "tools": [{"type": "web_search"}], "tool_choice": "required"},
        "tools[0].type",
        "unsupported_value",
        "web_search",
    ),
    ({**GOOD, "tools": CODE * 2}, "tools[1]", "invalid_value", "one"),
    ({**GOOD, "tool_choice": {"type": "web_search"}}, "tool_choice", None, "web_search"),
    ({**GOOD, "previous_response_id": "resp_x"}, "previous_response_id", "previous_response_not_found", "resp_x"),
    ({**GOOD, "include": ["everything"]}, "include[0]", "invalid_value", "everything"),
    ({**GOOD, "metadata": {"k": 5}}, "metadata.k", "invalid_type", "metadata"),
    (
        {**GOOD, "tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-no"]}}]},
        "tools[0].container.file_ids[0]",
        None,
        "file-no",
    ),
    (
        {**GOOD, "input": [{"type": "compaction", "encrypted_content": "gAAAA"}]},
        "input[0].encrypted_content",
        "invalid_encrypted_content",
        "compaction",
    ),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("body", "param", "code", "word"), BAD, ids=[f"{n}-{row[1]}" for n, row in enumerate(BAD)])
def test_a_bad_request_is_a_400_that_says_why(
    house: House, body: dict[str, Any], param: str | None, code: str | None, word: str, stream: bool
) -> None:
    answer = httpx2.post(f"{house.base_url}/responses", json={**body, "stream": stream}, timeout=30)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, code)
    assert word.lower() in error["message"].lower()
    assert answer.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'"x"', b"null", b'{"model": 1' + b"[" * 5000])
def test_a_body_that_is_no_json_object(house: House, body: bytes) -> None:
    answer = httpx2.post(f"{house.base_url}/responses", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert "truncated" not in answer.text or body


MISSING = [
    ("GET", "/responses/resp_no", "resp_no"),
    ("DELETE", "/responses/resp_no", "resp_no"),
    ("POST", "/responses/resp_no/cancel", "resp_no"),
    ("GET", "/responses/resp_no/input_items", "resp_no"),
    ("GET", "/containers/cntr_no", "Container with id 'cntr_no' not found."),
    ("GET", "/containers/cntr_no/files", "cntr_no"),
    ("GET", "/containers/cntr_no/files/cfile_no/content", "cntr_no"),
    ("DELETE", "/containers/cntr_no", "cntr_no"),
    ("GET", "/files/file-no", "No such File object: file-no"),
    ("GET", "/files/file-no/content", "file-no"),
    ("DELETE", "/files/file-no", "file-no"),
    ("GET", "/conversations/conv_no", "conv_no"),
    ("GET", "/models/no-such", "no-such"),
    ("GET", "/nowhere", "/v1/nowhere"),
    ("PATCH", "/nowhere", "/v1/nowhere"),
]


@pytest.mark.parametrize(("method", "path", "word"), MISSING)
def test_what_is_not_there_is_a_404_that_names_it(house: House, method: str, path: str, word: str) -> None:
    answer = httpx2.request(method, house.base_url + path)
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert word in error["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_container_that_is_not_there_is_named_with_its_place(house: House, stream: bool) -> None:
    tools = [{"type": "function", "name": "f"}, {"type": "code_interpreter", "container": "cntr_no"}]
    answer = httpx2.post(f"{house.base_url}/responses", json={**GOOD, "tools": tools, "stream": stream}, timeout=30)
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert (error["message"], error["param"]) == ("Container with id 'cntr_no' not found.", "tools[1].container")


@pytest.mark.parametrize("name", ["sim", "loop/sim", "loop%2Fsim"])
def test_a_model_is_found_by_each_of_its_names(house: House, name: str) -> None:
    assert httpx2.get(f"{house.base_url}/models/{name}").json()["id"] == "sim"


def test_a_wrong_method_is_a_405_in_the_same_shape(house: House) -> None:
    answer = httpx2.put(f"{house.base_url}/responses", json={})
    assert answer.status_code == 405
    assert "POST" in answer.headers["allow"]
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_the_sdk_raises_the_classes_that_people_catch(client: OpenAI, scene: Scene) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="no-such", input="hi")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert caught.value.request_id
    with pytest.raises(openai.NotFoundError):
        client.containers.files.retrieve("cfile_no", container_id=client.containers.create(name="c").id)
    with pytest.raises(openai.BadRequestError):
        client.containers.create(name="c", memory_limit="8g")  # type: ignore[arg-type]


def raw(house: House, request: bytes) -> bytes:
    where = urlsplit(house.url)
    assert where.hostname is not None
    with socket.create_connection((where.hostname, where.port), 20) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: abc\r\n\r\n",
        b"GET /v1/\xff\xfe HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n\r\n",
        b"GET /v1/responses/%00%ff HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    ],
)
def test_raw_nonsense_gets_a_4xx_and_the_server_lives(house: House, client: OpenAI, request_: bytes) -> None:
    answer = raw(house, request_)
    assert not answer or answer.split(b" ")[1].startswith(b"4"), answer[:200]
    assert client.models.list().data


def test_an_upload_beyond_the_limit_is_refused_before_it_is_sent(house: House) -> None:
    head = (
        b"POST /v1/files HTTP/1.1\r\nhost: localhost\r\ncontent-type: multipart/form-data; boundary=b\r\n"
        b"content-length: 999999999999\r\n\r\n"
    )
    where = urlsplit(house.url)
    assert where.hostname is not None
    with socket.create_connection((where.hostname, where.port), 20) as connection:
        connection.sendall(head)
        answer = b""
        while b"}}" not in answer:  # head and body may come apart
            answer += connection.recv(65536) or b"}}"
    assert answer.startswith(b"HTTP/1.1 413")
    assert set(json.loads(answer.partition(b"\r\n\r\n")[2])["error"]) == {"message", "type", "param", "code"}


LONG = {"message": "the request exceeds the available context size", "code": 400, "type": "exceed_context_size_error"}
"""As llama.cpp says it."""
WORDS = ["exceeds the context window", "context_length_exceeded", "maximum context length"]
"""What clients look for who do not look at the code: LangChain, LiteLLM, CrewAI."""


@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_that_does_not_fit_is_told_before_the_stream(client: OpenAI, scene: Scene, stream: bool) -> None:
    scene.play(Reply(status=400, body=json.dumps({"error": LONG}).encode()))
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="sim", input="go", stream=stream)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "input")
    assert all(word in str(caught.value) for word in WORDS)


def test_a_conversation_that_grows_too_long_fails_with_the_code_that_clients_look_for(
    house: House, scene: Scene
) -> None:
    scene.play([call("code_interpreter", code="1")], Reply(status=400, body=json.dumps({"error": LONG}).encode()))
    *_, error, failed = Wire(house.base_url).stream({"model": "sim", "input": "go", "tools": CODE})
    assert (error["type"], error["error"]["code"]) == ("error", "context_length_exceeded")
    assert failed["type"] == "response.failed"
    assert failed["response"]["error"]["code"] == "context_length_exceeded"
    assert all(word in failed["response"]["error"]["message"] for word in WORDS)


def test_a_model_without_eyes_is_no_fault_of_the_server(client: OpenAI, scene: Scene) -> None:
    words = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
    no = Reply(status=500, body=json.dumps({"error": {"code": 500, "message": words, "type": "server_error"}}).encode())
    scene.play(no, no, no)
    asked: Any = [{"role": "user", "content": [{"type": "input_image", "image_url": PNG}]}]
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="sim", input=asked)
    assert "mmproj" in str(caught.value)
    assert "Send this model no images, or ask one that sees them." in str(caught.value)
    assert caught.value.response.headers["x-should-retry"] == "false"


def test_a_function_needs_no_description(client: OpenAI, scene: Scene) -> None:
    scene.play("Hi.")
    bare: Any = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": False}
    client.responses.create(model="sim", input="go", tools=[bare])
    [tool] = scene.asked[0].json["tools"]
    assert tool["function"]["description"] == ""
