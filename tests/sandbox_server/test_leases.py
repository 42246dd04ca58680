"""A sandbox is there for as long as the answer that told its id stays open."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.sandbox_server.conftest import Box, Client, lines, serving, settled, until

from belljar.sandbox.base import Spec
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.server.run import set_up_connections

HOLD = b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"


async def test_it_is_made_used_and_dropped(source: LocalSource, client: Client) -> None:
    before = await settled(source)
    async with client.open("POST", "/v1/sandboxes", json={}) as lease:
        assert (lease.status, lease.content_type) == (200, "application/x-ndjson")
        told = json.loads(await lease.content.readline())
        assert told.keys() == {"id"}
        path = f"/v1/sandboxes/{told['id']}"
        assert await client.ask("GET", path) == (200, {"id": told["id"], "alive": True})
        assert source.in_use == before + 1
        assert await client.ask("DELETE", path) == (204, None)
        assert source.in_use == before
        assert await lease.content.read() == b""
    for method, below in (
        ("GET", ""),
        ("GET", "/files"),
        ("PUT", "/files/a"),
        ("POST", "/cells"),
        ("POST", "/interrupt"),
        ("POST", "/restart"),
        ("POST", "/packages"),
    ):
        status, answer = await client.ask(method, path + below, json={})
        assert (status, answer["error"]["code"]) == (404, "sandbox_lost")
        assert told["id"] in answer["error"]["message"]
    assert await client.ask("DELETE", path) == (204, None)


async def test_a_client_that_closes_lets_it_go(source: LocalSource, client: Client) -> None:
    before = await settled(source)
    async with client.box() as box:
        assert source.in_use == before + 1
    await until(lambda: source.in_use == before, "the sandbox ended")
    assert (await box.ask("GET"))[0] == 404


async def test_a_client_that_is_killed_lets_it_go(source: LocalSource, client: Client) -> None:
    before = await settled(source)
    code = (
        "import sys, time, urllib.request as u\n"
        f"answer = u.urlopen('http://127.0.0.1:{client.port}/v1/sandboxes', data=b'{{}}')\n"
        "print(answer.readline().decode(), end='', flush=True)\n"
        "time.sleep(600)"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    id = json.loads(await process.stdout.readline())["id"]
    assert (await client.ask("GET", f"/v1/sandboxes/{id}"))[0] == 200
    process.kill()
    await process.communicate()
    await until(lambda: source.in_use == before, "the sandbox ended")
    assert (await client.ask("GET", f"/v1/sandboxes/{id}"))[0] == 404


async def test_a_client_that_asks_for_more_behind_it_and_leaves(source: LocalSource, client: Client) -> None:
    """The connection is the lease, whatever else was sent on it and waits for the end of this answer."""
    before = await settled(source)
    async with client.raw(HOLD + HOLD + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") as (reader, _):
        await reader.readuntil(b'{"id":')
        assert source.in_use == before + 1
    await until(lambda: source.in_use == before, "the sandbox ended")


def test_the_kernel_gives_up_on_a_client_that_has_vanished() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        set_up_connections(door)
        with socket.create_connection(door.getsockname()), door.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 120_000
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_client_that_leaves_while_it_is_made(source: LocalSource, client: Client) -> None:
    before = await settled(source)
    async with client.raw(HOLD):
        while source.in_use == before:  # noqa: ASYNC110 - it is made within milliseconds
            await asyncio.sleep(0)
    await until(lambda: source.in_use == before, "the sandbox ended")


async def test_a_client_that_leaves_while_the_source_takes_its_time() -> None:
    """The same for a source that cannot be quick, so that the client has surely gone before."""
    entered, left = asyncio.Event(), asyncio.Event()

    class Slow:
        in_use = spare = 0

        @asynccontextmanager
        async def acquire(self, spec: Spec) -> AsyncIterator[None]:
            entered.set()
            try:
                await asyncio.Event().wait()
                yield
            finally:
                left.set()

    async with serving(Slow()) as client:
        async with client.raw(HOLD):
            await entered.wait()
        await left.wait()


async def test_one_that_ends_by_itself_is_told(client: Client, box: Box) -> None:
    init = client.app.leases.find(box.id).sandbox._box._init
    assert init is not None
    signal.pidfd_send_signal(init, signal.SIGKILL)
    (told,) = [line async for line in lines(box.lease)]
    assert told == {"ended": "the sandbox ended by itself: its first process is gone"}
    assert (await box.ask("GET"))[0] == 404


async def test_the_answer_says_something_now_and_then(source: LocalSource) -> None:
    async with serving(source, ping=0.02) as client, client.box() as box:
        assert await box.lease.content.readline() == b"{}\n"
        assert await box.lease.content.readline() == b"{}\n"


async def test_two_are_apart(client: Client) -> None:
    async with client.box() as one, client.box() as other:
        await one.run("x = 1; open('a', 'w').close()")
        assert (await other.run("x"))[-1]["error"]["type"] == "NameError"
        assert (await other.ask("GET", "/files"))[1] == {"files": []}


async def test_limits_are_those_that_were_asked_for(client: Client) -> None:
    async with client.box(limits={"timeout": 0.3, "grace": 0.5}, packages="none") as box:
        assert (await box.run("while True: pass"))[-1]["status"] == "timed_out"
        assert (await box.run("import numpy"))[-1]["error"]["type"] == "ModuleNotFoundError"


# -- refusals, before anything is answered ---------------------------------------------------------------------------


async def test_none_free(tmp_path: Path) -> None:
    async with serving(LocalSource(JailOptions(cache=tmp_path, most=0))) as client:
        status, answer = await client.ask("POST", "/v1/sandboxes", json={})
        async with client.open("POST", "/execute", json={"code": "1"}) as full:
            assert (full.status, full.headers["Retry-After"]) == (429, "1")
    assert (status, answer["error"]["code"]) == (503, "none_free")
    assert "max_sandboxes" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"[]", None),
        (b"{", None),
        (b'{"limits": {"memory": "1g"}}', "limits.memory"),
        (b'{"limits": {"memory": null}}', "limits.memory"),
        (b'{"limits": {"ram": 1}}', "limits.ram"),
        (b'{"packages": "some"}', "packages"),
        (b'{"requirements": "rich"}', "requirements"),
        (b'{"requirements": ["../x"]}', "requirements"),
        (b'{"memory": 1}', "memory"),
    ],
)
async def test_what_cannot_be_made(client: Client, body: bytes, param: str | None) -> None:
    status, answer = await client.ask("POST", "/v1/sandboxes", data=body)
    assert (status, answer["error"]["code"], answer["error"]["param"]) == (400, "invalid_request", param)


@pytest.mark.parametrize(
    "limits",
    [
        {"memory": 1 << 50},
        {"disk": 1 << 50},
        {"disk": 1},
        {"scratch": 1},
        {"scratch": 1 << 50},
        {"processes": 1 << 20},
        {"processes": 4},
        {"open_files": 1 << 20},
        {"open_files": 16},
        {"file_size": 1 << 50},
        {"cpus": 1e-9},
        {"cpus": 1e6},
        {"output": 0, "output_total": 0, "display": 0},
        {"grace": 0},
    ],
    ids=str,
)
async def test_the_ends_of_what_may_be_asked(client: Client, limits: dict[str, float]) -> None:
    """Either there is a sandbox, or the host says why not; never our own failure."""
    async with client.open("POST", "/v1/sandboxes", json={"limits": limits}) as answer:
        told = json.loads(await answer.content.readline())
        assert "id" in told or (answer.status, told["error"]["code"]) == (503, "sandbox_refused"), told
        answer.close()
