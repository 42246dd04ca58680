"""Several sandbox servers behind one source: who is asked, what a full or a dead one means, who has which sandbox."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from tests.helpers.coroutine_tests import until

from belljar.errors import BadSettings, Lost, NoneFree, Refused
from belljar.sandbox.base import SandboxHandle, Spec
from belljar.sandbox.remote import ServersSource


class Server:
    """What a sandbox server says, without a jail: it counts, and may be full, failing or away."""

    def __init__(self, name: str, capacity: int = 4) -> None:
        self.name, self.capacity = name, capacity
        self.held: dict[str, int | None] = {}
        self.asked = 0
        self.status = "healthy"
        self._made = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _health(self, request: web.Request) -> web.Response:
        told = {"status": self.status, "api": 2, "api_oldest": 1, "isolation": f"walls of {self.name}",
                "capacity": self.capacity, "current_load": len(self.held), "spare": 1}  # fmt: skip
        return web.json_response(told, status=200 if self.status == "healthy" else 503)

    async def _packages(self, request: web.Request) -> web.Response:
        return web.json_response({"packages": []})

    async def _make(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        told = await request.json()
        if len(self.held) >= self.capacity:
            error = {"code": "none_free", "message": f"all of {self.name} are in use", "most": self.capacity}
            return web.json_response({"error": error}, status=429)
        self._made += 1
        return await self._hold(request, f"sbx_{self.name}_{self._made}", told.get("epoch"), {})

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        told = await request.json()
        state = {"cells": 3, "interpreter": 1, "limits": {}, "files": []}
        return await self._hold(request, request.match_info["id"], told["epoch"], state)

    async def _hold(self, request: web.Request, id: str, epoch: Any, state: dict[str, Any]) -> web.StreamResponse:
        self.held[id] = epoch
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(json.dumps({"id": id, **state}).encode() + b"\n")
        try:
            await asyncio.Event().wait()
        finally:
            self.held.pop(id, None)
        return answer

    async def _end(self, request: web.Request) -> web.Response:
        self.held.pop(request.match_info["id"], None)
        return web.Response(status=204)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        app = web.Application()
        app.add_routes([
            web.get("/health", self._health), web.get("/v1/packages", self._packages),
            web.post("/v1/sandboxes", self._make), web.post("/v1/sandboxes/{id}/attach", self._attach),
            web.delete("/v1/sandboxes/{id}", self._end),
        ])  # fmt: skip
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()
            self.held.clear()


@asynccontextmanager
async def opened(*servers: Server, patience: float = 20.0) -> AsyncIterator[ServersSource]:
    source = ServersSource([one.url for one in servers], patience=patience)
    try:
        await source.prepare()
        yield source
    finally:
        await source.close()


async def test_the_load_is_spread_and_the_next_one_is_asked_where_one_is_full() -> None:
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(Server(name, 2).running()) for name in "abc"]
        source = await stack.enter_async_context(opened(*servers))
        for _ in range(6):
            await stack.enter_async_context(source.acquire(Spec()))
        assert [len(one.held) for one in servers] == [2, 2, 2]
        with pytest.raises(NoneFree, match=r"^all of . are in use"):
            async with source.acquire(Spec()):
                raise AssertionError
        await source.look()
        assert [one.free for one in source.servers] == [0, 0, 0]


async def test_a_full_house_is_waited_for_at_any_of_them() -> None:
    async with Server("a", 1).running() as a, Server("b", 1).running() as b, opened(a, b) as source:
        first, second = AsyncExitStack(), AsyncExitStack()
        for one in (first, second):
            await one.enter_async_context(source.acquire(Spec()))
        before = a.asked + b.asked
        waiting = source.acquire(Spec(), wait=60.0)
        task = asyncio.create_task(waiting.__aenter__())
        await until(lambda: a.asked + b.asked > before + 1, "both were asked")
        await second.aclose()
        assert (await task).alive
        await waiting.__aexit__(None, None, None)
        await first.aclose()


async def test_a_dead_one_is_left_out_and_comes_back() -> None:
    a, b = Server("a"), Server("b")
    async with AsyncExitStack() as stack:
        life = await stack.enter_async_context(AsyncExitStack())
        await life.enter_async_context(a.running())
        await stack.enter_async_context(b.running())
        source = await stack.enter_async_context(opened(a, b))
        await life.aclose()
        for _ in range(4):  # whether it was noticed or not
            async with source.acquire(Spec()):
                assert len(b.held) == 1
        await source.look()
        assert [one.problem is None for one in source.servers] == [False, True]
        assert source.problem is None
        await stack.enter_async_context(a.running())
        await until(lambda: source.servers[0].problem is None, "it is back")


async def test_one_that_says_that_it_is_not_well_is_left_out() -> None:
    async with Server("a").running() as a, Server("b").running() as b, opened(a, b) as source:
        a.status = "stopping"
        await source.look()
        for _ in range(3):
            async with source.acquire(Spec()):
                assert (len(a.held), len(b.held)) == (0, 1)
        b.status = "failed"
        await source.look()
        assert source.problem is not None
        assert a.url in source.problem
        assert b.url in source.problem


async def test_none_of_them_is_there() -> None:
    source = ServersSource(["http://127.0.0.1:1", "unix:///not/there.sock"], patience=0.2)
    try:
        with pytest.raises(Refused, match=r"127\.0\.0\.1:1 does not answer.*; the sandbox server at unix:///not/there"):
            await source.prepare()
        with pytest.raises(Refused, match="does not answer"):
            async with source.acquire(Spec()):
                raise AssertionError
    finally:
        await source.close()


async def test_what_is_no_sandbox_server_stops_the_start() -> None:
    app = web.Application()
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with Server("a").running() as a:
        source = ServersSource([a.url, f"http://127.0.0.1:{runner.addresses[0][1]}"], patience=1)
        try:
            with pytest.raises(BadSettings, match="is no belljar sandbox"):
                await source.prepare()
        finally:
            await source.close()
            await runner.cleanup()


async def test_a_sandbox_is_found_at_the_server_that_has_it() -> None:
    async with Server("a").running() as a, Server("b").running() as b, opened(a, b) as source:
        async with source.acquire(Spec(), epoch=1) as sandbox:
            handle = sandbox.handle
            assert handle is not None
            [one] = [one for one in (a, b) if one.held]
            assert handle.url == one.url
            await sandbox.detach()
        async with source.attach(handle, 2) as attached:
            assert attached.cells == 3
            assert (handle.id in a.held, handle.id in b.held) == (one is a, one is b)
        with pytest.raises(Lost, match="none of our servers"):
            async with source.attach(SandboxHandle("http://elsewhere.example", "sbx_1"), 2):
                raise AssertionError


async def test_what_is_told_of_them_together() -> None:
    async with Server("a").running() as a, Server("b").running() as b, opened(a, b) as source:
        assert source.isolation in ("walls of a, walls of b", "walls of b, walls of a")
        assert source.spare == 2
        b.status = "stopping"
        await source.look()
        assert source.spare == 1


async def test_without_await() -> None:
    async with Server("a").running() as a, Server("b").running() as b:
        source = ServersSource([a.url, b.url, "http://127.0.0.1:1"], patience=1)

        def act() -> int:
            source.learn()
            with source.hold(Spec()):
                return len(a.held) + len(b.held)

        assert await asyncio.to_thread(act) == 1
        assert [one.problem is None for one in source.servers] == [True, True, False]
        source.shut()
        await until(lambda: not a.held and not b.held, "nothing is held")
