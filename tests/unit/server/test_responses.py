"""Responses over HTTP: whole, streamed, in the background; and what happens when the client goes."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import openai
import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter
from tests.unit.server.conftest import PATIENCE, Gateway, Opened, Wire
from tests.unit.server.fakes import saying

from belljar.errors import Garbled
from belljar.gateway.server.options import Quota
from belljar.wire.codec import encode
from belljar.wire.events import Event
from belljar.wire.requests import CreateResponse

OK = {"model": "m", "input": "hi"}
STREAM = msgspec.json.encode({**OK, "stream": True})
ASK = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%b"


class Gate:
    """An answer that says its first words and then waits to be let on."""

    def __init__(self, gateway: Gateway) -> None:
        self._host = gateway.host
        self._go = asyncio.Event()
        self.waits = threading.Event()
        gateway.rooms.engine.play = self._play

    async def _play(self, request: CreateResponse, *rest: object) -> Any:
        first, *others = saying(request, "Hello ", "there")
        yield first
        self.waits.set()
        await self._go.wait()
        for batch in others:
            yield batch

    def open(self) -> None:
        self._host.do(self._go.set)


def frames(body: bytes) -> list[tuple[str, Any]]:
    """Name and data of each event; everything must be framed with LF, and end with DONE."""
    assert b"\r" not in body
    *events, done, rest = body.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    pairs = [event.split("\n") for event in events if not event.startswith(":")]
    return [(name.removeprefix("event: "), msgspec.json.decode(data.removeprefix("data: "))) for name, data in pairs]


def ended(gateway: Gateway, *how: str) -> None:
    """Waits until a run has ended in one of these ways."""
    while not set(how) & set(gateway.rooms.engine.stopped):
        gateway.ask("GET", "/healthz")


# -- whole ------------------------------------------------------------------------------------------------------------


def test_the_sdk_creates_a_response(gateway: Gateway) -> None:
    with gateway.client() as client:
        response = client.responses.create(model="m", input="hi", metadata={"a": "b"})
    assert response.output_text == "Hello there"
    assert response.status == "completed"
    assert response._request_id == gateway.rooms.engine.callers[0].request_id
    assert gateway.rooms.engine.asked[0].metadata == {"a": "b"}


def test_the_sdk_streams_a_response(gateway: Gateway) -> None:
    with gateway.client() as client, client.responses.stream(model="m", input="hi") as stream:
        seen = [event.type for event in stream]
        assert stream.get_final_response().output_text == "Hello there"
    assert seen[0] == "response.created"
    assert seen[-1] == "response.completed"


def test_no_event_is_split_and_each_is_what_the_sdk_types_say(gateway: Gateway) -> None:
    with gateway.wire() as wire:
        wire.send(ASK % (len(STREAM), STREAM))
        answer = wire.head()
        chunks = []
        while chunk := wire.chunk():
            chunks.append(chunk)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert all(chunk.endswith(b"\n\n") for chunk in chunks)
    events = frames(b"".join(chunks))
    read: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for number, (name, data) in enumerate(events):
        assert (data["type"], data["sequence_number"]) == (name, number)
        read.validate_python(data)


def test_events_go_out_at_once(gateway: Gateway) -> None:
    gate = Gate(gateway)
    with gateway.wire() as wire:
        wire.send(ASK % (len(STREAM), STREAM))
        wire.head()
        first = wire.chunk()
        assert first.startswith(b"event: response.created")
        assert b"event: response.content_part.added" in first
        assert gate.waits.wait(PATIENCE)
        gate.open()
        assert b'"delta":"Hello "' in wire.chunk()


def test_what_comes_together_goes_out_together_in_bounded_pieces_of_whole_events(gateway: Gateway) -> None:
    async def at_once(request: CreateResponse, *rest: object) -> Any:
        yield [event for batch in saying(request, *(f"w{number} " for number in range(500))) for event in batch]

    gateway.rooms.engine.play = at_once
    with gateway.wire() as wire:
        wire.send(ASK % (len(STREAM), STREAM))
        wire.head()
        *chunks, done = list(iter(wire.chunk, b""))
    assert done == b"data: [DONE]\n\n"
    assert all(chunk.endswith(b"\n\n") for chunk in chunks)
    assert 1 < len(chunks) < 20
    assert max(map(len, chunks)) < 20_000
    numbers = [data["sequence_number"] for _, data in frames(b"".join([*chunks, done]))]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > 500


def test_empty_lists_are_no_events(gateway: Gateway) -> None:
    async def haltingly(request: CreateResponse, *rest: object) -> Any:
        for batch in saying(request, "a"):
            yield batch
            yield []

    gateway.rooms.engine.play = haltingly
    assert gateway.ask("POST", "/v1/responses", OK).json["status"] == "completed"
    assert len(frames(gateway.ask("POST", "/v1/responses", {**OK, "stream": True}).body)) == 9


# -- silence ----------------------------------------------------------------------------------------------------------


def test_silence_is_broken_by_comments(opened: Opened) -> None:
    gateway = opened(ping=0.02)
    gate = Gate(gateway)
    with gateway.wire() as wire:
        wire.send(ASK % (len(STREAM), STREAM))
        wire.head()
        chunks = [wire.chunk()]
        for _ in range(3):
            assert wire.chunk() == b": ping\n\n"
        gate.open()
        while chunk := wire.chunk():
            chunks.append(chunk)
    assert [data["sequence_number"] for _, data in frames(b"".join(chunks))] == list(range(10))


def test_there_is_no_comment_before_the_answer_begins(opened: Opened) -> None:
    gateway = opened(ping=0.02)
    go = asyncio.Event()

    async def late(request: CreateResponse, *rest: object) -> Any:
        await go.wait()
        for batch in saying(request, "a"):
            yield batch

    gateway.rooms.engine.play = late
    with gateway.wire() as wire:
        wire.send(ASK % (len(STREAM), STREAM))
        wire.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            wire.head()
        wire.socket.settimeout(PATIENCE)
        gateway.host.do(go.set)
        assert wire.head().status == 200


def test_the_sdk_does_not_mind_comments(opened: Opened) -> None:
    gateway = opened(ping=0.01)
    gate = Gate(gateway)
    threading.Timer(0.2, gate.open).start()
    with gateway.client() as client:
        events = list(client.responses.create(model="m", input="hi", stream=True))
    assert len(events) == 10


# -- the client goes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [STREAM, msgspec.json.encode(OK)], ids=["stream", "json"])
def test_a_client_that_goes_stops_the_run(gateway: Gateway, body: bytes) -> None:
    gate = Gate(gateway)
    with gateway.wire() as wire:
        wire.send(ASK % (len(body), body))
        assert gate.waits.wait(PATIENCE)
    ended(gateway, "cancelled")
    assert "done" not in gateway.rooms.engine.stopped


def test_a_client_that_does_not_read_stops_the_run_when_it_goes(gateway: Gateway) -> None:
    async def endless(request: CreateResponse, *rest: object) -> Any:
        for batch in saying(request, *["x" * 1000] * 20_000):
            yield batch
            await asyncio.sleep(0)

    gateway.rooms.engine.play = endless
    wire = Wire(gateway.host.port)
    wire.send(ASK % (len(STREAM), STREAM))
    wire.head()
    wire.socket.close()
    ended(gateway, "cancelled", "closed")
    assert "done" not in gateway.rooms.engine.stopped


def test_an_sdk_stream_that_is_closed_stops_the_run(gateway: Gateway) -> None:
    gate = Gate(gateway)
    with gateway.client() as client, client.responses.create(model="m", input="hi", stream=True) as stream:
        next(iter(stream))
        assert gate.waits.wait(PATIENCE)
    ended(gateway, "cancelled")


# -- faults in the middle ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [(ZeroDivisionError("secret"), "server_error", None), (Garbled("Not JSON."), "server_error", "garbled")],
)
def test_a_run_that_breaks_in_the_middle_says_so(
    gateway: Gateway, error: Exception, kind: str, code: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaking(request: CreateResponse, *rest: object) -> Any:
        first, *_ = saying(request, "a")
        yield first
        raise error

    gateway.rooms.engine.play = breaking
    with gateway.wire() as wire:
        wire.send(ASK % (len(STREAM), STREAM))
        answer = wire.answer()
    *_, last, rest = answer.body.decode().split("\n\n")
    assert rest == ""
    name, data = last.split("\n")
    assert name == "event: error"
    told = msgspec.json.decode(data.removeprefix("data: "))
    assert told["type"] == "error"
    assert told["sequence_number"] == 4
    assert (told["error"]["type"], told["error"]["code"]) == (kind, code)
    assert "secret" not in last
    assert type(error).__name__ in caplog.text
    with gateway.client() as client, pytest.raises(openai.APIError):
        list(client.responses.create(model="m", input="hi", stream=True))


# -- quota ------------------------------------------------------------------------------------------------------------


def test_responses_at_once(opened: Opened) -> None:
    gateway = opened(quota=Quota(responses=1))
    gate = Gate(gateway)
    with gateway.wire() as wire:
        wire.send(ASK % (len(STREAM), STREAM))
        assert gate.waits.wait(PATIENCE)
        refused = gateway.ask("POST", "/v1/responses", OK)
        assert refused.status == 429
        assert refused.headers["retry-after"] == "1"
        assert (
            gateway.ask(
                "POST", "/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "x"}]}
            ).status
            == 429
        )
        gate.open()
        wire.answer()
    assert gateway.ask("POST", "/v1/responses", OK).status == 200


def test_responses_in_the_background_count_too(opened: Opened) -> None:
    gateway = opened(quota=Quota(responses=1))
    background = {"model": "m", "input": "hi", "background": True}
    for first in (background, {**background, "stream": True}):
        assert gateway.ask("POST", "/v1/responses", first).status == 200
        for body in (OK, background, {**background, "stream": True}):
            assert gateway.ask("POST", "/v1/responses", body).status == 429
        asyncio.run(gateway.rooms.engine.going_on.aclose())
        assert gateway.ask("POST", "/v1/responses", OK).status == 200


# -- kept responses ---------------------------------------------------------------------------------------------------


def test_background_is_begun_and_followed(gateway: Gateway) -> None:
    with gateway.client() as client:
        response = client.responses.create(model="m", input="hi", background=True)
        assert response.status == "queued"
        whole = [event.sequence_number for event in client.responses.retrieve(response.id, stream=True)]
        rest = [
            event.sequence_number for event in client.responses.retrieve(response.id, stream=True, starting_after=4)
        ]
        streamed = [
            event.sequence_number
            for event in client.responses.create(model="m", input="hi", background=True, stream=True)
        ]
    assert whole == streamed == list(range(9))
    assert rest == list(range(5, 9))


def test_following_what_is_over_is_an_empty_stream(gateway: Gateway) -> None:
    with gateway.client() as client:
        response = client.responses.create(model="m", input="hi", background=True)
    answer = gateway.ask("GET", f"/v1/responses/{response.id}?stream=true&starting_after=8")
    assert answer.body == b"data: [DONE]\n\n"


def test_the_sdk_retrieves_cancels_and_deletes(gateway: Gateway) -> None:
    with gateway.client() as client:
        got = client.responses.retrieve("resp_1", include=["code_interpreter_call.outputs"])
        assert got.id == "resp_1"
        assert client.responses.cancel("resp_1").status == "cancelled"
        client.responses.delete("resp_1")
    assert gateway.rooms.engine.includes == [("code_interpreter_call.outputs",)]
    assert gateway.rooms.engine.deleted == ["resp_1"]
    deleted = gateway.ask("DELETE", "/v1/responses/resp_1")
    assert deleted.json == {"id": "resp_1", "object": "response", "deleted": True}


def test_input_items_are_a_page(gateway: Gateway) -> None:
    with gateway.client() as client:
        page = client.responses.input_items.list("resp_1", limit=2, order="asc", after="msg_0")
        assert [item.id for item in page.data] == ["msg_1", "msg_2"]
        assert page.has_next_page()
    asked = gateway.rooms.engine.pages[0]
    assert (asked.limit, asked.order, asked.after) == (2, "asc", "msg_0")
    raw = gateway.ask("GET", "/v1/responses/resp_1/input_items").json
    assert (raw["object"], raw["first_id"], raw["last_id"], raw["has_more"]) == ("list", "msg_1", "msg_2", True)
    empty = gateway.ask("GET", "/v1/responses/resp_empty/input_items").json
    assert empty == {"object": "list", "data": [], "first_id": "", "last_id": "", "has_more": False}


def test_tokens_are_counted_and_conversations_compacted(gateway: Gateway) -> None:
    with gateway.client() as client:
        assert client.responses.input_tokens.count(model="m", input="hi").input_tokens == 42
        assert client.responses.compact(model="m", input="hi").object == "response.compaction"
    missing = gateway.ask("POST", "/v1/responses/compact", {"input": "hi"})
    assert (missing.status, missing.error["param"]) == (400, "model")


def test_requests_are_counted_by_route(gateway: Gateway) -> None:
    gateway.ask("POST", "/v1/responses", OK)
    gateway.ask("GET", "/v1/responses/resp_1")
    gateway.ask("GET", "/v1/responses/resp_2")
    gateway.ask("GET", "/v1/nothing/at/all")
    text = gateway.ask("GET", "/metrics").body.decode()
    count = "belljar_http_requests_total"
    assert f'{count}{{method="POST",route="/v1/responses",status="200"}} 1\n' in text
    assert f'{count}{{method="GET",route="/v1/responses/{{id}}",status="200"}} 1\n' in text
    assert f'{count}{{method="GET",route="/v1/responses/{{id}}",status="404"}} 1\n' in text
    assert f'{count}{{method="GET",route="unmatched",status="404"}} 1\n' in text
    assert "nothing" not in text
    assert 'belljar_http_request_seconds_count{method="POST",route="/v1/responses"} 1\n' in text


def test_events_are_what_the_engine_gave(gateway: Gateway) -> None:
    made: list[list[Event]] = []

    async def remembered(request: CreateResponse, *rest: object) -> Any:
        made.extend(saying(request, "a", "b"))
        for batch in made:
            yield batch

    gateway.rooms.engine.play = remembered
    sent = frames(gateway.ask("POST", "/v1/responses", {**OK, "stream": True}).body)
    assert [data for _, data in sent] == [msgspec.json.decode(encode(event)) for batch in made for event in batch]
