"""What tests of upstreams share: both HTTP clients, a server that sends bytes exactly as told, patience."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import pytest
import uvloop

from belljar.config import Upstream
from belljar.gateway.upstream.transport import Transport
from belljar.testing import FakeClock, LoopbackUpstream
from belljar.vendors.deltas import AnsweringModel, CallBegun, CallEnd, Delta, Text
from belljar.vendors.request import ModelRequest
from belljar.wire.items import InputText, Message

PATIENCE = 30.0
"""Seconds after which something that should have happened has not: the machine may be busy."""
KEY = "sk-do-not-leak-0123456789"

T = TypeVar("T")
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Run(Protocol):
    """Runs a coroutine in a fresh loop."""

    def __call__(self, main: Coroutine[Any, Any, T], /) -> T: ...


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """On each of the two loops: their transports differ."""

    def runs(main: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop if request.param == "uvloop" else None) as runner:
            return runner.run(main)

    return runs


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """A server in this loop; the address is loopback's, so the small client is used."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client hung up, as some tests mean it to
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


async def request_of(reader: asyncio.StreamReader) -> bytes:
    """One whole request."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    return head + await reader.readexactly(int(lengths[0]) if lengths else 0)


@asynccontextmanager
async def transport(clock: FakeClock | None = None) -> AsyncIterator[Transport]:
    """One that does not wait for its pauses, which `clock` remembers."""
    clock = clock or FakeClock()
    made = Transport(sleep=clock.sleep, chance=lambda: 0.0)
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture(params=["loopback", "remote"])
def address(request: pytest.FixtureRequest) -> Callable[[LoopbackUpstream], str]:
    """The server's base URL, for each of the two clients: 0.0.0.0 leads here but is no loopback address by its name."""
    host = "127.0.0.1" if request.param == "loopback" else "0.0.0.0"
    return lambda upstream: upstream.base_url.replace("127.0.0.1", host)


def upstream(base_url: str, **settings: object) -> Upstream:
    return Upstream(**{"name": "lab", "base_url": base_url, "api_key": KEY, "timeout": PATIENCE, **settings})  # type: ignore[arg-type]


def asking(text: str = "hello", **fields: object) -> ModelRequest:
    items = (Message(role="user", content=(InputText(text=text),)),)
    return ModelRequest(**{"model": "sim", "items": items, **fields})  # type: ignore[arg-type]


async def answer(model: AnsweringModel, request: ModelRequest | None = None) -> list[Delta]:
    return [delta async for batch in model.ask(request or asking()) for delta in batch]


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, Text))


def calls_of(deltas: list[Delta]) -> list[tuple[str, str]]:
    """Each call's name and arguments."""
    names = {delta.index: delta.name for delta in deltas if isinstance(delta, CallBegun)}
    return [(names[delta.index], delta.arguments) for delta in deltas if isinstance(delta, CallEnd)]


async def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {what}"
        await asyncio.sleep(0.005)
