"""The application's life: started, stopped in the middle of answers, and what it writes down."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec
import pytest
import uvicorn
from tests.unit.server.conftest import PATIENCE, Wire
from tests.unit.server.fakes import EngineServices, saying

from belljar.gateway.server.app import GatewayApp
from belljar.gateway.server.log import AnsweredRequest
from belljar.http_server.asgi import Message
from belljar.http_server.run import config
from belljar.wire.requests import CreateResponse

OK = msgspec.json.encode({"model": "m", "input": "hi"})
STREAM = msgspec.json.encode({"model": "m", "input": "hi", "stream": True})


class Life:
    def __init__(self, *, fail: str = "") -> None:
        self.seen: list[str] = []
        self._fail = fail

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        if self._fail == "startup":
            raise RuntimeError("no disk")
        self.seen.append("begun")
        yield
        self.seen.append("ended")
        if self._fail == "shutdown":
            raise RuntimeError("no disk")


def lived(life: Life) -> list[Message]:
    """What the app sends over its life."""

    async def run() -> list[Message]:
        sent: list[Message] = []
        asked = iter(["lifespan.startup", "lifespan.shutdown"])

        async def receive() -> Message:
            return {"type": next(asked)}

        async def send(message: Message) -> None:
            sent.append(message)

        await GatewayApp(EngineServices().services, life=life)({"type": "lifespan"}, receive, send)
        return sent

    return asyncio.run(run())


def test_life_is_entered_and_left() -> None:
    life = Life()
    assert [message["type"] for message in lived(life)] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert life.seen == ["begun", "ended"]


@pytest.mark.parametrize("stage", ["startup", "shutdown"])
def test_a_failure_is_told_to_the_server(stage: str) -> None:
    last = lived(Life(fail=stage))[-1]
    assert last == {"type": f"lifespan.{stage}.failed", "message": "no disk"}


@contextmanager
def served(app: GatewayApp, drain: float = 1.0) -> Iterator[tuple[uvicorn.Server, int]]:
    """A server of the app's own; at the end it is stopped and gone."""
    settings = config(app, app.wording, "127.0.0.1", 0, drain=drain)
    listener = settings.bind_socket()
    listener.listen()
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield server, listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listener.close()
    assert not thread.is_alive()


@pytest.mark.parametrize("body", [OK, STREAM], ids=["json", "stream"])
def test_a_server_that_stops_tells_who_waits(body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    rooms, life, waits = EngineServices(), Life(), threading.Event()

    async def forever(request: CreateResponse, *rest: object) -> Any:
        yield saying(request, "a")[0]
        waits.set()
        await asyncio.Event().wait()

    rooms.engine.play = forever
    head = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
    with served(GatewayApp(rooms.services, life=life)) as (server, port), Wire(port) as wire:
        wire.send(head % len(body) + body)
        assert waits.wait(PATIENCE)
        server.should_exit = True
        answer = wire.answer()
    if body == STREAM:
        last = answer.body.decode().split("\n\n")[-2]
        assert '"code":"shutting_down"' in last
    else:
        assert (answer.status, answer.error["code"]) == (503, "shutting_down")
        assert answer.headers["retry-after"] == "1"
    assert rooms.engine.stopped == ["cancelled"]
    assert life.seen == ["begun", "ended"]
    assert "Traceback" not in caplog.text


def test_a_server_that_stops_lets_answers_finish() -> None:
    rooms, waits = EngineServices(), threading.Event()
    go = asyncio.Event()
    loop: list[asyncio.AbstractEventLoop] = []

    async def slowly(request: CreateResponse, *rest: object) -> Any:
        loop.append(asyncio.get_running_loop())
        waits.set()
        await go.wait()
        for batch in saying(request, "a"):
            yield batch

    rooms.engine.play = slowly
    head = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
    with served(GatewayApp(rooms.services), drain=PATIENCE) as (server, port), Wire(port) as wire:
        wire.send(head % len(OK) + OK)
        assert waits.wait(PATIENCE)
        server.should_exit = True
        loop[0].call_soon_threadsafe(go.set)
        assert wire.answer().status == 200


def test_every_request_is_written_down_without_what_it_said() -> None:
    rooms, lines = EngineServices(keys=True), list[AnsweredRequest]()
    with served(GatewayApp(rooms.services, journal=lines.append)) as (_, port), Wire(port) as wire:
        key = {"authorization": "Bearer bj-good", "x-client-request-id": "mine-7"}
        asked = wire.ask("POST", "/v1/responses", OK, key)
        wire.ask("GET", "/v1/files/secret-name?after=secret", None, key)
        wire.ask("GET", "/v1/secret-path", None, {})
        wire.ask("GET", "/v1/models", None, {"authorization": "Bearer bj-secret"})
    first, second, third, fourth = lines
    assert first.request_id == asked.headers["x-request-id"]
    assert (first.owner, first.method, first.route, first.status) == ("key_1", "POST", "/v1/responses", 200)
    assert first.client_request_id == "mine-7"
    assert first.ms > 0
    assert (second.route, second.status) == ("/v1/files/{id}", 404)
    assert (third.route, third.status, third.owner) == ("unmatched", 404, "")
    assert (fourth.route, fourth.status) == ("/v1/models", 401)
    written = b"".join(msgspec.json.encode(line) for line in lines)
    assert b"secret" not in written
    assert b"bj-good" not in written
