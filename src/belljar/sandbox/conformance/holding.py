"""Checks of who holds a sandbox: kept without its connection, taken over with a higher epoch, fenced, listed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from numbers import Real
from typing import Any

import aiohttp

from belljar.sandbox.conformance import checked_lease
from belljar.sandbox.conformance.checked_lease import (
    CheckedLease,
    attach_lease,
    fail_if_late,
    lease_sandbox,
    open_lease,
    read_next,
    release_lease,
)
from belljar.sandbox.conformance.wire import CheckedServer, check, expect, member

_LONG = 300
"""Seconds to be kept: none of these checks takes so long, and what one leaves is gone after that at the latest."""


@asynccontextmanager
async def _leave_one(server: CheckedServer, epoch: int = 1, code: str = "x = 41") -> AsyncIterator[CheckedLease]:
    """A sandbox in which this has run, and whose connection has ended. Nothing is left of it afterwards."""
    async with open_lease(server, epoch=epoch, keep=_LONG) as held:
        try:
            await held.run(code)
        except BaseException:
            await release_lease(held)
            raise
    try:
        yield held
    finally:
        await server.ask("DELETE", f"/v1/sandboxes/{held.id}")


async def _find(server: CheckedServer, id: str) -> dict[str, Any] | None:
    told = (await server.ask("GET", "/v1/sandboxes")).has(200).json()
    for one in member(told, "sandboxes", list, "the list of sandboxes"):
        member(one, "idle_seconds", Real, "a sandbox of the list")
        member(one, "held", bool, "a sandbox of the list")
        if member(one, "id", str, "a sandbox of the list") == id:
            found: dict[str, Any] = one
            return found
    return None


async def kept(server: CheckedServer) -> None:
    """a sandbox with an epoch outlives its connection, and is listed as nobody's"""
    async with open_lease(server, epoch=3, keep=_LONG) as held:
        found = await _find(server, held.id)
        expect("what is listed while it is held", found and (found["epoch"], found["held"]), (3, True))
    try:
        deadline = time.monotonic() + checked_lease.SOON
        while (found := await _find(server, held.id)) is not None and found["held"]:
            check(time.monotonic() < deadline, "a sandbox whose connection has ended to be nobody's", found)
            await asyncio.sleep(0.02)
        expect("what is listed of it then", found and (found["epoch"], found["held"]), (3, False))
    finally:
        await server.ask("DELETE", f"/v1/sandboxes/{held.id}")


async def handover(server: CheckedServer) -> None:
    """whoever attaches with a higher epoch has it, with its variables, and is told of its cells and files"""
    async with _leave_one(server, code="x = 41; open('made', 'w').write('12')") as left:
        async with attach_lease(server, left.id, epoch=2) as held:
            first = held.first
            listed = [(one.get("name"), one.get("size")) for one in member(first, "files", list, "the first line")]
            expect("the files", listed, [("made", 2)])
            member(member(first, "files", list, "the first line")[0], "modified", Real, "a file")
            expect("how many cells", first.get("cells"), 1)
            before = member(first, "interpreter", int, "the first line")
            expect("x + 1", await held.text("print(x + 1)"), "42\n")
            (await held.ask("POST", "/restart")).has(204)
        async with attach_lease(server, left.id, epoch=3) as held:
            check(held.first.get("interpreter") != before, "another interpreter after a restart", held.first)


async def fences(server: CheckedServer) -> None:
    """whoever had it before is told, and can do nothing any more; a lower epoch takes nothing"""
    async with open_lease(server, epoch=5, keep=_LONG) as before:
        try:
            await before.put("a", b"new")
            async with attach_lease(server, before.id, epoch=7, keep=_LONG) as held:
                last = await read_next(before.rest)
                expect("the last line for the holder before", (last.get("code"), "ended" in last), ("fenced", True))
                for method, path, body in (
                    ("POST", "/cells", {"code": "1"}),
                    ("POST", "/restart", None),
                    ("GET", "/files/a", None),
                    ("DELETE", "/files/a", None),
                    ("DELETE", "", None),
                ):
                    (await before.ask(method, path, body)).refused(409, code="fenced")
                (await before.ask("PUT", "/files/a", data=b"old")).refused(409, code="fenced")
                for epoch in (6, 7):
                    (await held.ask("POST", "/attach", {"epoch": epoch})).refused(409, code="fenced")
                expect("the file", await held.get("a"), b"new")
        finally:
            await server.ask("DELETE", f"/v1/sandboxes/{before.id}")


async def stopping(server: CheckedServer) -> None:
    """a cell that runs is stopped before a sandbox is handed over, and its variables are kept"""
    async with open_lease(server, epoch=1, keep=_LONG) as before:
        try:
            code = "x = 7\nprint('up', flush=True)\nimport time\ntime.sleep(600)\nx = 8"
            async with before.cell(code) as outputs:
                await read_next(outputs)
                async with (
                    fail_if_late("the sandbox to be handed over"),
                    attach_lease(server, before.id, epoch=2) as held,
                ):
                    expect("x", await held.text("print(x)"), "7\n")
                    await _end_of(outputs)
        finally:
            await server.ask("DELETE", f"/v1/sandboxes/{before.id}")


async def _end_of(outputs: AsyncIterator[dict[str, Any]]) -> None:
    try:
        async with fail_if_late("the stopped cell's answer to end"):
            async for _ in outputs:
                pass
    except aiohttp.ClientError:
        pass  # cut off is an end too


async def expiry(server: CheckedServer) -> None:
    """one that nobody attaches to is gone when its time is over"""
    async with open_lease(server, epoch=1, keep=0.1) as held:
        pass
    try:
        deadline = time.monotonic() + checked_lease.SOON
        while (came := await held.ask("GET")).status == 200:
            check(time.monotonic() < deadline, f"a sandbox to be gone within {checked_lease.SOON:g} s", "one alive")
            await asyncio.sleep(0.02)
        came.refused(404, code="sandbox_lost")
        (await held.ask("POST", "/attach", {"epoch": 2})).refused(404, code="sandbox_lost")
    finally:
        await server.ask("DELETE", f"/v1/sandboxes/{held.id}")


async def terms(server: CheckedServer) -> None:
    """terms that cannot be are refused, and one without an epoch is its connection's alone"""
    for asked in ({"epoch": 0}, {"epoch": "1"}, {"keep": 5}, {"epoch": 1, "keep": -1}, {"wait": -1}):
        (await server.ask("POST", "/v1/sandboxes", asked)).refused(400, code="invalid_request")
    async with lease_sandbox(server, wait=1) as held:
        for asked in ({"epoch": 1}, {}):
            (await held.ask("POST", "/attach", asked)).refused(400, code="invalid_request")
        expect("a cell", await held.text("print(1)"), "1\n")


CHECKS = (kept, handover, fences, stopping, expiry, terms)
