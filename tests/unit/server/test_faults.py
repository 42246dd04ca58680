"""Whatever is wrong with a request, the answer has OpenAI's shape, its headers and the right status."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from tests.unit.server.conftest import Gateway, Opened
from tests.unit.server.fakes import Play

from belljar.errors import ContextTooLong, NoneFree, OverQuota, RateLimited, Unreachable
from belljar.gateway.server.options import Quota
from belljar.http_server import content_encoding

OK = {"model": "m", "input": "hi"}


def failing(error: Exception) -> Play:
    """A run that raises before it says anything."""

    async def fail(*asked: object) -> Any:
        for nothing in list[Any]():
            yield nothing
        raise error

    return fail


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        (b"", None, None),
        (b"{", None, None),
        (b"[]", None, None),
        (b"\xff\xfe", None, None),
        (b'"text"', None, None),
        (b"[" * 2000, None, None),
        ({"input": "hi"}, "model", "missing_required_parameter"),
        ({"model": 5, "input": "hi"}, "model", "invalid_type"),
        ({**OK, "nonsense": 1}, "nonsense", "unknown_parameter"),
        ({**OK, "temperature": -1}, "temperature", "decimal_below_min_value"),
        ({**OK, "truncation": "never"}, "truncation", "invalid_value"),
        ({**OK, "tools": [{"type": "code_interpreter"}]}, "tools[0].container", "missing_required_parameter"),
        (
            {**OK, "tools": [{"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "8g"}}]},
            "tools[0].container.memory_limit",
            "invalid_value",
        ),
        ({**OK, "tool_choice": {"type": "code_interpreter"}}, "tool_choice", None),
        ({**OK, "previous_response_id": "a", "conversation": "b"}, "conversation", "mutually_exclusive_parameters"),
        ({"model": "absent", "input": "hi"}, "model", "model_not_found"),
    ],
)
def test_a_bad_body_is_the_callers_fault(gateway: Gateway, body: Any, param: str | None, code: str | None) -> None:
    answer = gateway.ask("POST", "/v1/responses", body)
    assert answer.status == 400
    error = answer.error
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, code)


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/compact", "/v1/containers", "/v1/chat/completions"])
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_json_must_be_called_json(gateway: Gateway, path: str, kind: str) -> None:
    answer = gateway.ask("POST", path, b"{}", {"content-type": kind})
    assert answer.status == 400
    assert "application/json" in answer.error["message"]


@pytest.mark.parametrize(
    "kind", ["application/json", "application/json; charset=utf-8", "application/vnd.x+json", None]
)
def test_ways_to_call_it_json(gateway: Gateway, kind: str | None) -> None:
    headers = {"content-type": kind} if kind else {}
    answer = gateway.ask("POST", "/v1/responses", b'{"model":"m","input":"hi"}', headers)
    assert answer.status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/nothing"),
        ("POST", "/"),
        ("GET", "/v1/files/x/y/z"),
        ("PUT", "/v1/responses"),
        ("DELETE", "/v1/files"),
        ("GET", "/v1/responses"),
        ("PATCH", "/v1/containers/c"),
        ("TRACE", "/healthz"),
    ],
)
def test_paths_and_methods_that_are_not_there(gateway: Gateway, method: str, path: str) -> None:
    answer = gateway.ask(method, path)
    missing = path in ("/v1/nothing", "/v1/files/x/y/z")
    assert answer.status == (404 if missing else 405)
    assert path in answer.error["message"]
    assert method in answer.error["message"]
    assert ("allow" in answer.headers) is not missing


@pytest.mark.parametrize(
    ("method", "path", "message", "param"),
    [
        ("GET", "/v1/responses/resp_x", "Response with id 'resp_x' not found.", None),
        ("DELETE", "/v1/responses/resp_x", "Response with id 'resp_x' not found.", None),
        ("POST", "/v1/responses/resp_x/cancel", "Response with id 'resp_x' not found.", None),
        ("GET", "/v1/responses/resp_x/input_items", "Response with id 'resp_x' not found.", None),
        ("GET", "/v1/responses/resp_x?stream=true", "Response with id 'resp_x' not found.", None),
        ("GET", "/v1/files/file-abc123", "No such File object: file-abc123", "id"),
        ("DELETE", "/v1/files/file-abc123", "No such File object: file-abc123", "id"),
        ("GET", "/v1/files/file-abc123/content", "No such File object: file-abc123", "id"),
        ("GET", "/v1/containers/cntr_x", "Container with id 'cntr_x' not found.", None),
        ("DELETE", "/v1/containers/cntr_x", "Container with id 'cntr_x' not found.", None),
        ("POST", "/v1/containers/cntr_x/files", "Container with id 'cntr_x' not found.", None),
        ("GET", "/v1/conversations/conv_x", "Conversation with id 'conv_x' not found.", None),
    ],
)
def test_things_that_are_not_there(gateway: Gateway, method: str, path: str, message: str, param: str | None) -> None:
    answer = gateway.ask(method, path)
    assert answer.status == 404
    assert answer.error == {"message": message, "type": "invalid_request_error", "param": param, "code": None}


@pytest.mark.parametrize(
    ("path", "param"),
    [
        ("/v1/responses/resp_1?stream=maybe", "stream"),
        ("/v1/responses/resp_1?stream=true&starting_after=x", "starting_after"),
        ("/v1/responses/resp_1?starting_after=-1", "starting_after"),
        ("/v1/responses/resp_1?include[]=all", "include[0]"),
        ("/v1/responses/resp_1/input_items?limit=0", "limit"),
        ("/v1/responses/resp_1/input_items?order=down", "order"),
        ("/v1/files?limit=10001", "limit"),
        ("/v1/containers?limit=101", "limit"),
        ("/v1/containers?after=%00", "after"),
    ],
)
def test_a_bad_query_names_its_parameter(gateway: Gateway, path: str, param: str) -> None:
    answer = gateway.ask("GET", path)
    assert (answer.status, answer.error["param"]) == (400, param)


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", *(["zstd"] if "zstd" not in content_encoding.KNOWN else [])])
def test_a_body_packed_in_a_way_that_is_not_known_is_refused_by_name(gateway: Gateway, encoding: str) -> None:
    answer = gateway.ask("POST", "/v1/responses", b"x", {"content-encoding": encoding})
    assert answer.status == 415
    assert f"'{encoding}'. Send the body as it is, or packed as 'gzip'" in answer.error["message"]
    assert answer.headers["accept-encoding"].startswith("gzip")
    assert gateway.ask("POST", "/v1/responses", OK, {"content-encoding": "identity"}).status == 200


def test_every_answer_has_an_id_of_its_own(gateway: Gateway) -> None:
    answers = [
        gateway.ask("POST", "/v1/responses", OK),
        gateway.ask("POST", "/v1/responses", {**OK, "stream": True}),
        gateway.ask("POST", "/v1/responses", b"{"),
        gateway.ask("GET", "/v1/nothing"),
        gateway.ask("OPTIONS", "/v1/files"),
        gateway.ask("GET", "/healthz"),
    ]
    ids = {answer.headers["x-request-id"] for answer in answers}
    assert len(ids) == len(answers)
    assert all(id.startswith("req_") for id in ids)
    for answer in answers:
        assert answer.headers["openai-version"] == "2020-10-01"
        assert int(answer.headers["openai-processing-ms"]) >= 0
        assert "server" not in answer.headers


def test_a_body_over_the_limit_is_refused_before_it_is_read(opened: Opened) -> None:
    gateway = opened(largest_body=1000)
    with gateway.wire() as wire:
        wire.send(b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000000\r\n\r\n")
        answer = wire.answer()
    assert answer.status == 413
    assert "1000 bytes" in answer.error["message"]
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("size", [1001, 200_000])
def test_a_chunked_body_over_the_limit_is_refused_while_it_is_read(opened: Opened, size: int) -> None:
    gateway = opened(largest_body=1000)
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (size, b" " * size)
    answer = gateway.ask("POST", "/v1/responses", body, {"transfer-encoding": "chunked"})
    assert answer.status == 413
    assert answer.error["type"] == "invalid_request_error"


def test_a_body_at_the_limit_is_read(opened: Opened) -> None:
    body = b'{"model":"m","input":"hi"}'
    gateway = opened(largest_body=len(body))
    assert gateway.ask("POST", "/v1/responses", body).status == 200
    assert gateway.ask("POST", "/v1/responses", body + b" ").status == 413


def test_keys(opened: Opened) -> None:
    gateway = opened(keys=True)
    for headers in (
        {},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": "Basic bj-good"},
        {"authorization": "bj-good"},
        {"authorization": "Bearer bj-bad"},
        {"authorization": "Bearer \xff"},
    ):
        answer = gateway.ask("POST", "/v1/responses", OK, headers)
        assert answer.status == 401
        assert (answer.error["type"], answer.error["code"]) == ("invalid_request_error", "invalid_api_key")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert gateway.rooms.engine.asked == []
    for scheme in ("Bearer", "bearer"):
        assert gateway.ask("POST", "/v1/responses", OK, {"authorization": f"{scheme} bj-good"}).status == 200
    assert {caller.owner for caller in gateway.rooms.engine.callers} == {"key_1"}


def test_what_needs_no_key(opened: Opened) -> None:
    gateway = opened(keys=True)
    for path in ("/healthz", "/readyz", "/metrics", "/"):
        assert gateway.ask("GET", path).status == 200
    assert gateway.ask("GET", "/v1/models").status == 401


def test_without_keys_everybody_is_local(gateway: Gateway) -> None:
    gateway.ask("POST", "/v1/responses", OK, {"authorization": "Bearer whatever"})
    assert gateway.rooms.engine.callers[0].owner == "local"


def test_owners_do_not_see_each_other(opened: Opened) -> None:
    gateway = opened(keys=True)
    with gateway.client("bj-good") as mine, gateway.client("bj-other") as theirs:
        file = mine.files.create(file=("a.txt", b"a"), purpose="user_data")
        container = mine.containers.create(name="c")
        assert list(theirs.files.list()) == []
        assert list(theirs.containers.list()) == []
        with pytest.raises(openai.NotFoundError):
            theirs.files.content(file.id)
        with pytest.raises(openai.NotFoundError):
            theirs.containers.files.create(container.id, file=("a.txt", b"a"))
        with pytest.raises(openai.BadRequestError) as caught:
            theirs.containers.create(name="d", file_ids=[file.id])
        assert caught.value.param == "file_ids[0]"


def test_pages_of_strangers_may_not_call(gateway: Gateway) -> None:
    answer = gateway.ask("POST", "/v1/responses", OK, {"origin": "https://evil.example"})
    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers
    assert "evil.example" in answer.error["message"]
    assert gateway.ask("GET", "/v1/files", None, {"host": "evil.example"}).status == 403
    assert gateway.rooms.engine.asked == []


def test_pages_that_are_named_may(opened: Opened) -> None:
    gateway = opened(origins=frozenset({"https://app.example"}))
    page = {"origin": "https://app.example"}
    asked = {**page, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    before = gateway.ask("OPTIONS", "/v1/responses", None, asked)
    assert before.status == 204
    assert "POST" in before.headers["access-control-allow-methods"]
    for answer in (
        before,
        gateway.ask("POST", "/v1/responses", OK, page),
        gateway.ask("POST", "/v1/responses", b"", page),
    ):
        assert answer.headers["access-control-allow-origin"] == "https://app.example"


def test_options_tells_what_is_allowed_and_nothing_of_other_pages(gateway: Gateway) -> None:
    answer = gateway.ask("OPTIONS", "/v1/files/x")
    assert answer.status == 204
    assert answer.headers["allow"] == "DELETE, GET, HEAD, OPTIONS"
    assert not any(name.startswith("access-control") for name in answer.headers)
    assert gateway.ask("OPTIONS", "/v1/nothing").status == 404


def test_requests_a_minute(opened: Opened) -> None:
    gateway = opened(keys=True, quota=Quota(requests=2))
    mine, theirs = {"authorization": "Bearer bj-good"}, {"authorization": "Bearer bj-other"}
    assert [gateway.ask("GET", "/v1/models", None, mine).status for _ in range(3)] == [200, 200, 429]
    refused = gateway.ask("GET", "/v1/models", None, mine)
    assert refused.error["code"] == "rate_limit_exceeded"
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    assert gateway.ask("GET", "/v1/models", None, theirs).status == 200
    assert gateway.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize(
    ("error", "status", "kind", "code", "headers"),
    [
        (NoneFree("All 4 sandboxes are in use."), 503, "server_error", "none_free", {"retry-after": "5"}),
        (OverQuota("Enough.", after=2.2), 429, "rate_limit_error", "rate_limit_exceeded", {"retry-after": "3"}),
        (RateLimited("Slow down."), 429, "rate_limit_error", "rate_limit_exceeded", {}),
        (Unreachable("No connection."), 502, "server_error", "unreachable", {}),
        (
            ContextTooLong("Too long."),
            400,
            "invalid_request_error",
            "context_length_exceeded",
            {"x-should-retry": "false"},
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
@pytest.mark.parametrize("stream", [True, False])
def test_faults_of_the_rooms_below_have_a_status_before_anything_is_said(
    gateway: Gateway, error: Exception, status: int, kind: str, code: str, headers: dict[str, str], stream: bool
) -> None:
    gateway.rooms.engine.play = failing(error)
    answer = gateway.ask("POST", "/v1/responses", {**OK, "stream": stream})
    assert answer.status == status
    assert (answer.error["type"], answer.error["code"]) == (kind, code)
    assert {name: answer.headers.get(name) for name in headers} == headers


@pytest.mark.parametrize("stream", [True, False])
def test_a_bug_is_a_500_that_tells_nothing(gateway: Gateway, stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    gateway.rooms.engine.play = failing(ZeroDivisionError("secret detail"))
    answer = gateway.ask("POST", "/v1/responses", {**OK, "stream": stream})
    assert answer.status == 500
    assert answer.error["type"] == "server_error"
    assert "secret" not in answer.body.decode()
    assert answer.headers["x-request-id"] in answer.error["message"]
    assert "ZeroDivisionError: secret detail" in caplog.text
    assert answer.headers["x-request-id"] in caplog.text


def test_a_run_without_an_end_is_a_bug(gateway: Gateway) -> None:
    async def fall_silent(*asked: object) -> Any:
        for nothing in list[Any]():
            yield nothing

    gateway.rooms.engine.play = fall_silent
    assert gateway.ask("POST", "/v1/responses", OK).status == 500


def test_the_sdk_reads_our_faults(opened: Opened) -> None:
    gateway = opened(keys=True)
    with gateway.client("bj-bad") as stranger, gateway.client("bj-good") as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            stranger.models.list()
        assert refused.value.code == "invalid_api_key"
        with pytest.raises(openai.BadRequestError) as bad:
            client.responses.create(model="absent", input="hi")
        assert (bad.value.param, bad.value.code, bad.value.type) == (
            "model",
            "model_not_found",
            "invalid_request_error",
        )
        assert bad.value.request_id is not None
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve("resp_x")
