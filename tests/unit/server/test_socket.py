"""WebSocket /v1/responses: turns in order, errors as messages, a memory of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from tests.unit.server.conftest import PATIENCE, Gateway, Opened
from tests.unit.server.fakes import saying
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from belljar.errors import InvalidRequest
from belljar.gateway.engine.caller import Caller
from belljar.gateway.server.options import Quota
from belljar.gateway.server.routes import socket as module
from belljar.gateway.store.base import ResponseRecord
from belljar.wire.requests import CreateResponse

CREATE = {"type": "response.create", "model": "m", "input": "hi"}


@contextmanager
def opened_socket(gateway: Gateway, path: str = "/v1/responses", **headers: str) -> Iterator[Connection]:
    address = f"ws://127.0.0.1:{gateway.host.port}{path}"
    with connect(address, additional_headers=headers, open_timeout=PATIENCE, max_size=None) as socket:
        yield socket


def heard(socket: Connection) -> Any:
    return json.loads(socket.recv(PATIENCE))


def turn(socket: Connection, **body: Any) -> list[Any]:
    """Sends a create and hears its events, up to the last."""
    socket.send(json.dumps({**CREATE, **body}))
    events = [heard(socket)]
    while events[-1]["type"] not in ("response.completed", "response.failed", "error"):
        events.append(heard(socket))
    return events


def remembering(gateway: Gateway) -> None:
    """The engine keeps what is not stored in the socket's memory, and continues only what it finds."""

    async def play(request: CreateResponse, caller: Caller, memory: dict[str, ResponseRecord] | None) -> Any:
        assert memory is not None
        previous = request.previous_response_id
        if previous is not None and previous not in memory:
            raise InvalidRequest(
                f"Previous response with id '{previous}' not found.",
                param="previous_response_id",
                fault="previous_response_not_found",
            )
        if request.metadata.get("fail") == "early":
            raise InvalidRequest("No tool call found for function call output with call_id x.", param="input")
        id = f"resp_{len(memory)}"
        memory[id] = ResponseRecord(id=id, owner=caller.owner, created_at=1, status="completed", body=b"x" * 10)
        for batch in saying(request, "ok", id=id):
            yield batch

    gateway.rooms.engine.play = play


def test_a_turn_has_the_events_of_a_stream(gateway: Gateway) -> None:
    with opened_socket(gateway) as socket:
        events = turn(socket)
        assert [event["sequence_number"] for event in events] == list(range(10))
        assert events[0]["type"] == "response.created"
        assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Hello there"
        assert turn(socket)[-1]["type"] == "response.completed"
    assert gateway.rooms.engine.asked[0].stream
    assert len({caller.request_id for caller in gateway.rooms.engine.callers}) == 2


def test_the_sdk_connects(gateway: Gateway) -> None:
    with gateway.client() as client, client.responses.connect() as connection:
        connection.response.create(model="m", input="hi", store=False)
        seen = []
        for event in connection:
            seen.append(event.type)
            if event.type == "response.completed":
                break
    assert seen[0] == "response.created"
    assert len(seen) == 10


def test_stream_means_nothing_and_background_is_refused(gateway: Gateway) -> None:
    with opened_socket(gateway) as socket:
        assert (
            turn(socket, stream=False, stream_options={"include_obfuscation": False}, background=False)[-1]["type"]
            == "response.completed"
        )
        (refused,) = turn(socket, background=True)
    assert refused["status"] == 400
    assert refused["error"]["param"] == "background"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("nonsense", None),
        ("[]", None),
        ("{}", "type"),
        (json.dumps({"type": "response.steer", "input": "x"}), "type"),
        (json.dumps({"type": 5}), "type"),
        (json.dumps({"type": "response.create", "input": "hi"}), "model"),
        (json.dumps({**CREATE, "nonsense": 1}), "nonsense"),
        (json.dumps({**CREATE, "stream_id": 5}), "stream_id"),
        (json.dumps({**CREATE, "generate": False}), "generate"),
        (b"\x00\x01", None),
    ],
)
def test_a_bad_message_is_answered_and_the_socket_stays(
    gateway: Gateway, message: str | bytes, param: str | None
) -> None:
    with opened_socket(gateway) as socket:
        socket.send(message)
        told = heard(socket)
        assert (told["type"], told["status"]) == ("error", 400)
        assert told["error"].keys() == {"type", "code", "message", "param"}
        assert told["error"]["param"] == param
        assert turn(socket)[-1]["type"] == "response.completed"


def test_lanes_are_echoed(gateway: Gateway) -> None:
    with opened_socket(gateway) as socket:
        assert {event["stream_id"] for event in turn(socket, stream_id='a "lane"')} == {'a "lane"'}
        assert turn(socket, stream_id="b", model="absent")[0]["stream_id"] == "b"
        assert "stream_id" not in turn(socket)[0]


def test_what_is_not_stored_goes_on_over_the_same_socket_only(gateway: Gateway) -> None:
    remembering(gateway)
    with opened_socket(gateway) as socket:
        id = turn(socket, store=False)[-1]["response"]["id"]
        assert turn(socket, store=False, previous_response_id=id)[-1]["type"] == "response.completed"
    with opened_socket(gateway) as socket:
        (refused,) = turn(socket, previous_response_id=id)
        assert refused["error"]["code"] == "previous_response_not_found"
        assert refused["error"]["param"] == "previous_response_id"
        assert turn(socket)[-1]["type"] == "response.completed"


def test_a_continuation_that_fails_is_forgotten(gateway: Gateway) -> None:
    remembering(gateway)
    with opened_socket(gateway) as socket:
        id = turn(socket, store=False)[-1]["response"]["id"]
        (failed,) = turn(socket, previous_response_id=id, metadata={"fail": "early"})
        assert failed["error"]["param"] == "input"
        (refused,) = turn(socket, previous_response_id=id)
        assert refused["error"]["code"] == "previous_response_not_found"


def test_memory_has_a_bound(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST_MEMORY", 30)
    seen: list[list[str]] = []

    async def play(request: CreateResponse, caller: Caller, memory: dict[str, ResponseRecord] | None) -> Any:
        assert memory is not None
        seen.append(list(memory))
        id = f"resp_{len(seen)}"
        memory[id] = ResponseRecord(id=id, owner="", created_at=1, status="", input=b"", output=b"", body=b"x" * 10)
        for batch in saying(request, "ok"):
            yield batch

    gateway.rooms.engine.play = play
    with opened_socket(gateway) as socket:
        for _ in range(5):
            turn(socket)
    assert seen[-1] == ["resp_2", "resp_3", "resp_4"]


def test_messages_during_a_turn_wait_for_it(gateway: Gateway) -> None:
    go, waits = asyncio.Event(), threading.Event()

    async def slowly(request: CreateResponse, *rest: object) -> Any:
        waits.set()
        await go.wait()
        for batch in saying(request, request.metadata["word"]):
            yield batch

    gateway.rooms.engine.play = slowly
    with opened_socket(gateway) as socket:
        for word in ("one", "two", "three"):
            socket.send(json.dumps({**CREATE, "metadata": {"word": word}}))
        assert waits.wait(PATIENCE)
        gateway.host.do(go.set)
        said: list[str] = []
        while len(said) < 3:
            event = heard(socket)
            if event["type"] == "response.output_text.done":
                said.append(event["text"])
    assert said == ["one", "two", "three"]


def test_not_too_many_wait(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_WAITING", 2)
    go = asyncio.Event()

    async def slowly(request: CreateResponse, *rest: object) -> Any:
        await go.wait()
        for batch in saying(request, "x"):
            yield batch

    gateway.rooms.engine.play = slowly
    with opened_socket(gateway) as socket:
        for _ in range(6):
            socket.send(json.dumps(CREATE))
        told = heard(socket)
        assert (told["type"], told["status"]) == ("error", 429)
        gateway.host.do(go.set)


def test_a_client_that_goes_stops_its_turn(gateway: Gateway) -> None:
    waits = threading.Event()

    async def forever(request: CreateResponse, *rest: object) -> Any:
        yield saying(request, "x")[0]
        waits.set()
        await asyncio.Event().wait()

    gateway.rooms.engine.play = forever
    with opened_socket(gateway) as socket:
        socket.send(json.dumps(CREATE))
        assert waits.wait(PATIENCE)
    while gateway.rooms.engine.stopped != ["cancelled"]:
        gateway.ask("GET", "/healthz")
    while "belljar_websockets_open 0\n" not in gateway.ask("GET", "/metrics").body.decode():
        pass
    assert 'method="WS",route="/v1/responses",status="499"' in gateway.ask("GET", "/metrics").body.decode()


@pytest.mark.parametrize("after", [0, 1])
def test_a_turn_that_breaks_says_so(gateway: Gateway, after: int, caplog: pytest.LogCaptureFixture) -> None:
    async def breaking(request: CreateResponse, *rest: object) -> Any:
        for batch in saying(request, "x")[:after]:
            yield batch
        raise ZeroDivisionError("secret")

    gateway.rooms.engine.play = breaking
    with opened_socket(gateway) as socket:
        last = turn(socket)[-1]
        assert (last["type"], last["status"], last["error"]["type"]) == ("error", 500, "server_error")
        assert last.get("sequence_number") == (4 if after else None)
        assert "secret" not in json.dumps(last)
    assert "ZeroDivisionError" in caplog.text


def test_a_connection_has_an_end(opened: Opened) -> None:
    gateway = opened(socket_life=0.05)
    with opened_socket(gateway) as socket:
        told = heard(socket)
        assert told["error"]["code"] == "websocket_connection_limit_reached"
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(PATIENCE)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000


def test_a_turn_is_finished_before_the_end(opened: Opened) -> None:
    gateway = opened(socket_life=1.0)  # enough to begin a turn on a busy machine
    go, waits = asyncio.Event(), threading.Event()

    async def slowly(request: CreateResponse, *rest: object) -> Any:
        waits.set()
        await go.wait()
        for batch in saying(request, "x"):
            yield batch

    gateway.rooms.engine.play = slowly
    with opened_socket(gateway) as first:
        first.send(json.dumps(CREATE))
        assert waits.wait(PATIENCE)
        with opened_socket(gateway) as second:
            assert heard(second)["type"] == "error"  # So long has the first one been open too.
        gateway.host.do(go.set)
        while heard(first)["type"] != "response.completed":
            pass
        assert heard(first)["error"]["code"] == "websocket_connection_limit_reached"


def end(gateway: Gateway) -> None:
    """As uvicorn does when it is told to stop."""
    state = gateway.host.server.server_state
    gateway.host.do(lambda: [connection.shutdown() for connection in list(state.connections)])


def closed_as(socket: Connection) -> int:
    with pytest.raises(ConnectionClosed) as closed:
        socket.recv(PATIENCE)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def test_a_server_that_ends_hangs_up(gateway: Gateway) -> None:
    with opened_socket(gateway) as socket:
        turn(socket)
        end(gateway)
        assert closed_as(socket) == 1012


def test_a_server_that_ends_lets_the_turn_finish_and_begins_no_other(gateway: Gateway) -> None:
    go, waits = asyncio.Event(), threading.Event()

    async def slowly(request: CreateResponse, *rest: object) -> Any:
        first, *others = saying(request, "x")
        yield first
        waits.set()
        await go.wait()
        for batch in others:
            yield batch

    gateway.rooms.engine.play = slowly
    with opened_socket(gateway) as socket:
        socket.send(json.dumps(CREATE))
        socket.send(json.dumps(CREATE))
        assert waits.wait(PATIENCE)
        end(gateway)
        gateway.host.do(go.set)
        while heard(socket)["type"] != "response.completed":
            pass
        assert closed_as(socket) == 1012
    assert len(gateway.rooms.engine.callers) == 1


def test_a_turn_that_takes_too_long_to_finish_is_told(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    waits = threading.Event()

    async def forever(request: CreateResponse, *rest: object) -> Any:
        yield saying(request, "x")[0]
        waits.set()
        await asyncio.Event().wait()

    gateway.rooms.engine.play = forever
    with opened_socket(gateway) as socket:
        socket.send(json.dumps(CREATE))
        assert waits.wait(PATIENCE)
        end(gateway)
        gateway.ask("GET", "/healthz")  # by now it has heard
        gateway.host.do(lambda: [task.cancel() for task in gateway.host.server.server_state.tasks])
        while (told := heard(socket))["type"] != "error":
            last = told
        assert (told["status"], told["error"]["code"]) == (503, "shutting_down")
        assert told["sequence_number"] == last["sequence_number"] + 1
        assert closed_as(socket) == 1012
    assert gateway.rooms.engine.stopped == ["cancelled"]
    assert not caplog.records


def test_quotas_hold_for_turns(opened: Opened) -> None:
    gateway = opened(quota=Quota(requests=2))
    with opened_socket(gateway) as socket:
        assert [turn(socket)[-1]["type"] for _ in range(3)] == ["response.completed", "response.completed", "error"]


@pytest.mark.parametrize(
    ("prepare", "path", "headers", "status", "code"),
    [
        (lambda opened: opened(keys=True), "/v1/responses", {}, 401, "invalid_api_key"),
        (lambda opened: opened(keys=True), "/v1/responses", {"authorization": "Bearer x"}, 401, "invalid_api_key"),
        (lambda opened: opened(), "/v1/other", {}, 404, "unknown_url"),
        (lambda opened: opened(), "/v1/responses", {"origin": "https://evil.example"}, 403, None),
    ],
)
def test_a_handshake_is_refused_like_a_request(
    opened: Opened,
    prepare: Callable[[Opened], Gateway],
    path: str,
    headers: dict[str, str],
    status: int,
    code: str | None,
) -> None:
    gateway = prepare(opened)
    with pytest.raises(InvalidStatus) as refused, opened_socket(gateway, path, **headers):
        pass
    response = refused.value.response
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"].startswith("req_")
    error = json.loads(response.body)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["code"] == code


def test_a_key_at_the_handshake_is_the_owner_of_its_turns(opened: Opened) -> None:
    gateway = opened(keys=True)
    with opened_socket(gateway, "/v1/responses/", authorization="Bearer bj-good") as socket:
        turn(socket)
    assert gateway.rooms.engine.callers[0].owner == "key_1"


def test_a_key_that_was_revoked_meanwhile_has_no_further_turn(opened: Opened) -> None:
    gateway = opened(keys=True)
    with opened_socket(gateway, authorization="Bearer bj-good") as socket:
        assert turn(socket)[-1]["type"] == "response.completed"
        gateway.rooms.keys.owners.clear()
        [told] = turn(socket)
    assert (told["status"], told["error"]["code"]) == (401, "invalid_api_key")
    assert len(gateway.rooms.engine.callers) == 1


def test_a_message_that_is_too_large_ends_the_connection(gateway: Gateway) -> None:
    with opened_socket(gateway) as socket:
        message = json.dumps({**CREATE, "input": "x" * (1 << 20)})
        with suppress(ConnectionClosed):  # it may be told while it sends
            socket.send([message[: 1 << 20], message[1 << 20 :]])
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(PATIENCE)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


def told_at_the_end(socket: Connection) -> tuple[str, int, str]:
    """The last error, and the code and the reason with which the connection is closed."""
    said = heard(socket)
    with pytest.raises(ConnectionClosed) as ended:
        socket.recv(PATIENCE)
    assert ended.value.rcvd is not None
    return said["error"]["code"], ended.value.rcvd.code, ended.value.rcvd.reason


def test_an_owner_has_only_so_many_connections(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_OPEN", 1)
    with opened_socket(gateway) as first:
        with opened_socket(gateway) as second:
            why = "1 connections are open already, the most for one key."
            assert told_at_the_end(second) == ("rate_limit_exceeded", 1013, why)
        assert turn(first)[-1]["type"] == "response.completed"


def test_messages_that_wait_have_only_so_many_bytes(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all connections of an owner together; what waited on one that is closed counts no more."""
    monkeypatch.setattr(module, "_MOST_BYTES", 1000)
    go, begun = asyncio.Event(), threading.Event()

    async def play(request: CreateResponse, *rest: object) -> Any:
        begun.set()
        await go.wait()
        for batch in saying(request, "ok"):
            yield batch

    gateway.rooms.engine.play = play
    with opened_socket(gateway) as first:
        first.send(json.dumps({**CREATE, "input": "x" * 5000}))  # alone, it may be larger
        assert begun.wait(PATIENCE)
        with opened_socket(gateway) as second:
            second.send(json.dumps(CREATE))
            code, number, why = told_at_the_end(second)
            assert (code, number) == ("rate_limit_exceeded", 1008)
            assert why.startswith("More than 1000 bytes wait")
        gateway.host.do(go.set)
        while heard(first)["type"] != "response.completed":
            pass
        assert turn(first)[-1]["type"] == "response.completed"
