"""The sandbox server in this process, over the real jail or a stand-in, asked as any client would ask it.

Tests are coroutines. One event loop and one jail per worker carry them all; a server of its own is cheap.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.parse import quote

import aiohttp
import pytest
from tests.helpers.coroutine_tests import PATIENCE, blocks, pytest_pyfunc_call, runner, unblocked, until
from yarl import URL

from belljar.sandbox.base import Spec
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.packages import LayerPolicy
from belljar.sandbox.server.app import App
from belljar.sandbox.server.auth import Guard
from belljar.sandbox.server.run import listening

__all__ = ["PATIENCE", "blocks", "pytest_pyfunc_call", "runner", "unblocked", "until"]

Told: TypeAlias = dict[str, Any]


class Box:
    """A sandbox that is held by an open answer."""

    def __init__(self, client: Client, lease: aiohttp.ClientResponse, id: str) -> None:
        self.client = client
        self.lease = lease
        self.id = id

    @property
    def path(self) -> str:
        return f"/v1/sandboxes/{self.id}"

    def cell(self, code: str, timeout: float | None = None) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self.client.open("POST", f"{self.path}/cells", json={"code": code, "timeout": timeout})

    async def run(self, code: str, timeout: float | None = None) -> list[Told]:
        async with self.cell(code, timeout) as answer:
            assert answer.status == 200, await answer.text()
            return [line async for line in lines(answer)]

    async def ask(self, method: str, path: str = "", **options: Any) -> tuple[int, Any]:
        return await self.client.ask(method, self.path + path, **options)

    def file(self, name: str) -> str:
        return f"{self.path}/files/{quote(os.fsencode(name))}"


class Client:
    """Asks one server."""

    def __init__(self, session: aiohttp.ClientSession, app: App, port: int) -> None:
        self.app = app
        self.port = port
        self._session = session

    def open(self, method: str, path: str, **options: Any) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._session.request(method, URL(f"http://127.0.0.1:{self.port}{path}", encoded=True), **options)

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        """Status and JSON, or bytes where the answer is a file's; None where it is empty."""
        async with self.open(method, path, **options) as answer:
            body = await answer.read()
            return answer.status, (json.loads(body) if answer.content_type == "application/json" else body or None)

    @asynccontextmanager
    async def box(self, **spec: Any) -> AsyncIterator[Box]:
        async with self.open("POST", "/v1/sandboxes", json=spec) as answer:
            assert answer.status == 200, await answer.text()
            yield Box(self, answer, json.loads(await answer.content.readline())["id"])
            answer.close()  # rather than wait for its end

    @asynccontextmanager
    async def raw(self, request: bytes) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection of its own that has sent this."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        try:
            writer.write(request)
            await writer.drain()
            yield reader, writer
        finally:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def serving(
    source: object,
    *,
    token: str | None = None,
    loopback: bool = True,
    ping: float = 15.0,
    drain: float = 10.0,
    prepared: bool = True,
    session: aiohttp.ClientSession | None = None,
) -> AsyncIterator[Client]:
    """A server, and a client that leaves before it ends unless it has a session of its own."""
    door = socket.create_server(("127.0.0.1", 0))
    async with contextlib.AsyncExitStack() as stack:
        app = await stack.enter_async_context(
            listening(
                cast(LocalSource, source), door, Guard(token, loopback=loopback), capacity=8, ping=ping, drain=drain
            )
        )
        if prepared:
            app.health.prepared()
        if session is None:
            session = await stack.enter_async_context(aiohttp.ClientSession())
        yield Client(session, app, door.getsockname()[1])


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the source keeps what it keeps, and `wheels` it may fetch."""
    made = tmp_path_factory.mktemp("source")
    (made / "wheels").mkdir()
    return made


@pytest.fixture(scope="session")
def source(runner: asyncio.Runner, home: Path) -> Iterator[LocalSource]:
    """The real jail."""
    policy = LayerPolicy(find_links=(str(home / "wheels"),), offline=True)
    made = LocalSource(JailOptions(cache=home / "cache", warm=0, preload=False, layers=policy))
    made.prepare(Spec())
    yield made
    made.shut()


@pytest.fixture(scope="session")
def client(runner: asyncio.Runner, source: LocalSource) -> Iterator[Client]:
    """A server that all tests of a worker share."""
    context = serving(source)
    yield runner.run(_enter(context))
    runner.run(_leave(context))


@pytest.fixture
def box(runner: asyncio.Runner, client: Client) -> Iterator[Box]:
    """A fresh sandbox of the default kind."""
    context = client.box()
    yield runner.run(_enter(context))
    runner.run(_leave(context))


async def _enter(context: AbstractAsyncContextManager[Any]) -> Any:
    return await context.__aenter__()


async def _leave(context: AbstractAsyncContextManager[Any]) -> None:
    await context.__aexit__(None, None, None)


async def lines(answer: aiohttp.ClientResponse) -> AsyncIterator[Told]:
    """What an answer of many lines says, without those that only keep it awake."""
    buffered = b""
    async for chunk in answer.content.iter_any():
        *whole, buffered = (buffered + chunk).split(b"\n")
        for line in whole:
            assert line.isascii()
            if told := json.loads(line):
                yield told
    assert not buffered


async def settled(source: LocalSource) -> int:
    """How many sandboxes there are once those of earlier tests have ended: none."""
    await until(lambda: source.in_use == 0, "the sandboxes of earlier tests ended")
    return 0
