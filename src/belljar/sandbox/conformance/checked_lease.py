"""A sandbox as the checks have it: asked by path, its lines read in time, and gone when a check is over."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from numbers import Real
from typing import Any

import aiohttp

from belljar.sandbox.conformance.wire import Came, CheckedServer, CheckFailed, check, expect, in_path, lines, member

EPOCH = "Belljar-Epoch"
SOON = 10.0
"""Seconds for what must happen at once, on a host that may be busy."""
_KINDS = ("stdout", "stderr", "display", "result", "file_changed", "exit")


class CheckedLease:
    """A sandbox for as long as its connection is open."""

    def __init__(
        self, server: CheckedServer, first: dict[str, Any], rest: AsyncIterator[dict[str, Any]], epoch: object
    ) -> None:
        self._server, self.first, self.rest = server, first, rest
        self.id: str = member(first, "id", str, "the first line of a lease")
        self._headers = {} if epoch is None else {EPOCH: str(epoch)}

    async def ask(self, method: str, path: str = "", body: object = None, **more: Any) -> Came:
        headers = {**self._headers, **more.pop("headers", {})}
        return await self._server.ask(method, f"/v1/sandboxes/{self.id}{path}", body, headers=headers, **more)

    async def put(self, name: str, data: bytes = b"") -> Came:
        return (await self.ask("PUT", f"/files/{in_path(name)}", data=data)).has(200)

    async def get(self, name: str) -> bytes:
        return (await self.ask("GET", f"/files/{in_path(name)}")).has(200).body

    async def names(self) -> list[str]:
        listed = member((await self.ask("GET", "/files")).has(200).json(), "files", list, "the list of files")
        for one in listed:
            member(one, "size", int, "a file")
            member(one, "modified", Real, "a file")
            member(one, "type", str, "a file")
        return sorted(member(one, "name", str, "a file") for one in listed)

    @asynccontextmanager
    async def cell(self, code: str, **more: object) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """A cell's lines as they come."""
        path = f"/v1/sandboxes/{self.id}/cells"
        async with self._server.open("POST", path, {"code": code, **more}, headers=self._headers) as response:
            await check_streaming(response, "a cell")
            yield lines(response)

    async def run(self, code: str, **more: object) -> list[dict[str, Any]]:
        """All lines of a cell; the last, and only the last, is its exit."""
        async with self.cell(code, **more) as outputs:
            came = [output async for output in outputs]
        kinds = [output.get("type") for output in came]
        check(set(kinds) <= set(_KINDS), f"lines of types {', '.join(_KINDS)}", kinds)
        check(kinds.index("exit") == len(kinds) - 1 if "exit" in kinds else False, "one exit, as the last line", kinds)
        return came

    async def text(self, code: str) -> str:
        """What a cell writes to standard output."""
        came = await self.run(code)
        expect(f"the status of {code[:60]!r}", came[-1].get("status"), "ok")
        return "".join(one["text"] for one in came if one["type"] == "stdout")


@asynccontextmanager
async def lease_sandbox(server: CheckedServer, **asked: object) -> AsyncIterator[CheckedLease]:
    """A sandbox of which nothing is left afterwards: whoever has little room has room for the next check."""
    async with open_lease(server, **asked) as held:
        try:
            yield held
        finally:
            await release_lease(held)


def open_lease(server: CheckedServer, **asked: object) -> AbstractAsyncContextManager[CheckedLease]:
    """A sandbox that only the end of its connection ends, or less where it is asked for with an epoch."""
    return _hold(server, "", asked)


def attach_lease(server: CheckedServer, id: str, **asked: object) -> AbstractAsyncContextManager[CheckedLease]:
    """One that is there, taken over."""
    return _hold(server, f"/{id}/attach", asked)


@asynccontextmanager
async def _hold(server: CheckedServer, path: str, asked: dict[str, object]) -> AsyncIterator[CheckedLease]:
    async with server.open("POST", f"/v1/sandboxes{path}", asked) as response:
        await check_streaming(response, f"POST /v1/sandboxes{path}")
        rest = lines(response)
        yield CheckedLease(server, await read_next(rest), rest, asked.get("epoch"))


async def release_lease(held: CheckedLease) -> None:
    """Whether DELETE does what it should is for its own check."""
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(SOON):
            await held.ask("DELETE")


async def check_streaming(response: aiohttp.ClientResponse, what: str) -> None:
    if response.status != 200:
        raise CheckFailed(f"{what}: expected 200, came {response.status} {await response.read()!r}")
    expect(f"{what}: the type", response.content_type, "application/x-ndjson")


@asynccontextmanager
async def fail_if_late(expected: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(SOON):
            yield
    except TimeoutError:
        raise CheckFailed(f"expected {expected}, came nothing within {SOON:g} s") from None


async def read_next(outputs: AsyncIterator[dict[str, Any]]) -> dict[str, Any]:
    """The next line; an answer that ends or stays silent is at fault."""
    try:
        async with fail_if_late("another line"):
            return await anext(outputs)
    except StopAsyncIteration:
        raise CheckFailed("expected another line, came the end of the answer") from None


async def wait_until_gone(held: CheckedLease) -> None:
    """A sandbox whose connection is closed goes by itself; when this is over, nothing is left of it."""
    try:
        deadline = time.monotonic() + SOON
        while (came := await held.ask("GET")).status == 200:
            check(time.monotonic() < deadline, f"a sandbox without its lease to be gone within {SOON:g} s", "one alive")
            await asyncio.sleep(0.02)
        came.refused(404, code="sandbox_lost")
    finally:
        await release_lease(held)
