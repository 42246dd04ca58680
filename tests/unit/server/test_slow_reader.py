"""Clients that do not read are cut off: nothing that is done for them waits for them for long."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import pytest
from tests.unit.server.conftest import PATIENCE, Host

from belljar.gateway.server.wording import Wording
from belljar.http_server import uvicorn_protocol
from belljar.http_server.asgi import Receive, Scope, Send
from belljar.http_server.reply import Answer, Stream
from belljar.http_server.request import Gone, Request
from belljar.http_server.sender import Sender
from belljar.http_server.uvicorn_protocol import SlowReader


class Line:
    """A transport and a loop that only the test moves."""

    def __init__(self) -> None:
        self.unread = 0
        self.aborted = False
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self.limits = high, low

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.aborted = True

    def call_later(self, seconds: float, call: Callable[[], None]) -> Any:
        timer = seconds, call
        self.timers.append(timer)
        line = self

        class Handle:
            def cancel(self) -> None:
                line.timers.remove(timer)

        return Handle()

    def pass_time(self) -> float:
        seconds, call = self.timers.pop()
        call()
        return seconds


def read_by(line: Line, *, hurried: bool) -> SlowReader:
    reader = SlowReader(cast(asyncio.Transport, line), cast(asyncio.AbstractEventLoop, line), hurried=hurried)
    line.unread = line.limits[0] + 1
    reader.pause()
    return reader


@pytest.mark.parametrize("hurried", [True, False])
def test_who_reads_nothing_is_cut_off(hurried: bool) -> None:
    line = Line()
    read_by(line, hurried=hurried)
    assert line.pass_time() == (10 if hurried else 60)
    assert line.aborted


@pytest.mark.parametrize("hurried", [True, False])
def test_who_catches_up_is_not(hurried: bool) -> None:
    line = Line()
    read_by(line, hurried=hurried).resume()
    assert not line.timers
    assert not line.aborted


def test_who_reads_a_file_slowly_is_not() -> None:
    line = Line()
    read_by(line, hurried=False)
    for _ in range(5):
        line.unread -= 1
        line.pass_time()
        assert not line.aborted
    line.pass_time()
    assert line.aborted, "it read nothing more"


def test_who_reads_slowly_while_something_goes_on_is() -> None:
    line = Line()
    read_by(line, hurried=True)
    line.unread -= 1
    line.pass_time()
    assert line.aborted


def test_what_goes_on_ends_with_a_client_that_does_not_read(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_protocol, "_CATCH_UP", 0.1)
    ended = threading.Event()

    async def go_on() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"x" * (1 << 16)
        finally:
            ended.set()

    async def answer() -> Answer:
        return Stream(pieces=go_on(), headers=(), live=True)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, patience=60)
        try:
            await Sender(request, send, Wording()).answer(answer())
        except Gone:
            pass

    host.app = cast(Any, serve)
    with socket.create_connection(("127.0.0.1", host.port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert ended.wait(PATIENCE), "it is still being done"
