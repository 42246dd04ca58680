"""Who may ask, what is not there, how the server is, and how it ends."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import platform
from pathlib import Path

import aiohttp
import pytest
from tests.sandbox_server.conftest import Client, lines, serving, settled, until

from belljar import __version__
from belljar.sandbox.local.source import JailOptions, LocalSource

# -- who may ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic right", "right", "Bearer rightx", "Bearer é"]
)
async def test_without_the_token(source: LocalSource, given: str | None) -> None:
    headers = {} if given is None else {"Authorization": given}
    async with serving(source, token="right") as client:
        for method, path in (
            ("POST", "/v1/sandboxes"), ("GET", "/v1/packages"), ("POST", "/execute"), ("GET", "/nowhere"),
            ("DELETE", "/v1/sandboxes/x"), ("PUT", "/v1/sandboxes/x/files/y"),
        ):  # fmt: skip
            status, answer = await client.ask(method, path, headers=headers)
            assert (status, answer["error"]["code"]) == (401, "unauthenticated")
        assert (await client.ask("GET", "/health", headers=headers))[0] == 200


async def test_with_the_token(source: LocalSource) -> None:
    async with serving(source, token="right") as client:
        for scheme in ("Bearer", "bearer"):
            assert (await client.ask("GET", "/v1/packages", headers={"Authorization": f"{scheme} right"}))[0] == 200


@pytest.mark.parametrize("path", ["/health", "/v1/packages", "/execute"])
@pytest.mark.parametrize(
    "headers", [{"Origin": "https://example.org"}, {"Origin": "null"}, {"Host": "rebound.example"}, {"Host": "[::"}]
)
async def test_a_page_in_a_browser_may_not(client: Client, path: str, headers: dict[str, str]) -> None:
    status, answer = await client.ask("GET", path, headers=headers)
    assert (status, answer["error"]["code"]) == (403, "forbidden")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:80", "LOCALHOST"])
async def test_names_of_this_machine(client: Client, host: str) -> None:
    assert (await client.ask("GET", "/health", headers={"Host": host}))[0] == 200


async def test_any_name_where_others_may_reach_it(source: LocalSource) -> None:
    async with serving(source, loopback=False) as client:
        assert (await client.ask("GET", "/health", headers={"Host": "sandbox.example"}))[0] == 200


# -- what is not there ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v2/packages", "/v1/sandboxes/x/y", "/v1/sandboxes/x/cells/y", "/health/x", "//health"]
)
async def test_paths_that_are_not_there(client: Client, path: str) -> None:
    status, answer = await client.ask("GET", path)
    assert (status, answer["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/health", "GET"),
        ("/execute", "POST"),
        ("/v1/packages", "GET"),
        ("/v1/sandboxes", "GET, POST"),
        ("/v1/sandboxes/x", "GET, DELETE"),
        ("/v1/sandboxes/x/cells", "POST"),
        ("/v1/sandboxes/x/files", "GET, PUT"),
        ("/v1/sandboxes/x/files/y/z", "GET, PUT, DELETE"),
    ],
)
async def test_methods_that_are_not_there(client: Client, path: str, allowed: str) -> None:
    async with client.open("PATCH", path) as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, allowed)
        assert (await answer.json())["error"]["code"] == "invalid_request"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /health HTTP/9.9\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nbroken header\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST /execute HTTP/1.1\r\nHost: localhost\r\nExpect: wonders\r\nContent-Length: 0\r\n\r\n", 400),
        (b"GET /" + b"x" * (64 << 10) + b" HTTP/1.1\r\n\r\n", 431),
    ],
    ids=range(6),
)
async def test_what_is_not_http(client: Client, request_: bytes, status: int) -> None:
    async with client.raw(request_ + b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n") as (reader, _):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert b"content-type: application/json" in head.lower()
    assert json.JSONDecoder().raw_decode(body.decode())[0]["error"]["code"] == "invalid_request"


async def test_a_body_that_is_too_large(client: Client) -> None:
    status, answer = await client.ask("POST", "/v1/sandboxes", data=io.BytesIO(b" " * (1 << 20) + b"{}"))
    assert (status, answer["error"]["code"]) == (413, "too_large")


async def test_a_failure_of_ours_says_nothing_but_that(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        in_use = spare = 0

        def acquire(self, spec: object) -> None:
            raise RuntimeError("a secret of ours")

    with caplog.at_level(logging.ERROR):
        async with serving(Broken()) as client:
            status, answer = await client.ask("POST", "/v1/sandboxes", json={})
    assert (status, answer["error"]["code"]) == (500, "belljar_error")
    assert "secret" not in answer["error"]["message"]
    assert "a secret of ours" in caplog.text


# -- /execute ---------------------------------------------------------------------------------------------------------


async def test_execute_is_here(source: LocalSource, client: Client) -> None:
    before = await settled(source)
    status, answer = await client.ask("POST", "/execute", json={"code": "print(6 * 7)"})
    assert (status, answer["status"], answer["stdout"]) == (200, "success", "42\n")
    assert source.in_use == before
    status, answer = await client.ask("POST", "/execute", json={})
    assert status == 400
    assert isinstance(answer["error"], str)


@pytest.mark.parametrize("told", [True, False])
async def test_execute_refuses_a_body_that_is_too_large(client: Client, told: bool) -> None:
    size = (10 << 20) + 1
    headers = {"Content-Length": str(size)} if told else {"Transfer-Encoding": "chunked"}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = f"POST /execute HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode()
    body = bytes(size) if told else f"{size:x}\r\n".encode() + bytes(size) + b"\r\n0\r\n\r\n"
    async with client.raw(request + body) as (reader, _):
        head_, _, rest = (await reader.readuntil(b"}")).partition(b"\r\n\r\n")
    assert head_.split()[1] == b"413"
    assert isinstance(json.loads(rest)["error"], str)


async def test_a_client_of_execute_that_leaves(source: LocalSource, client: Client) -> None:
    before = await settled(source)
    body = json.dumps({"code": "import time; time.sleep(600)", "timeout_seconds": 600}).encode()
    request = f"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with client.raw(request + body):
        await until(lambda: source.in_use == before + 1, "it runs")
    await until(lambda: source.in_use == before, "it has ended")


# -- health -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/health", "/healthz"])
async def test_healthy(source: LocalSource, client: Client, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    await settled(source)
    async with client.box():
        status, answer = await client.ask("GET", path)
    assert status == 200
    assert answer.pop("uptime_seconds") >= 0
    expected = {
        "status": "healthy", "mode": "python", "runtime_version": platform.python_version(), "capacity": 8,
        "current_load": 1, "belljar": __version__, "api": 2, "api_oldest": 1, "isolation": None,
        "spare": 0,
    }  # fmt: skip
    assert answer == expected
    monkeypatch.setenv("POD_NAME", "sandbox-0")
    monkeypatch.setenv("POD_UID", "u-1")
    answer = (await client.ask("GET", path))[1]
    assert (answer["pod_name"], answer["pod_uid"]) == ("sandbox-0", "u-1")


async def test_requests_wait_while_it_starts(source: LocalSource) -> None:
    async with serving(source, prepared=False) as client:
        status, answer = await client.ask("GET", "/health")
        assert (status, answer["status"]) == (503, "starting")
        packages = asyncio.create_task(client.ask("GET", "/v1/packages"))
        executed = asyncio.create_task(client.ask("POST", "/execute", json={"code": "1"}))
        made = asyncio.create_task(_make(client))
        done, _ = await asyncio.wait({packages, executed, made}, timeout=0.1)
        assert not done
        client.app.health.prepared()
        assert (await client.ask("GET", "/health"))[0] == 200
        assert [(await packages)[0], (await executed)[0], await made] == [200, 200, 200]


async def _make(client: Client) -> int:
    async with client.box():
        return 200


async def test_it_did_not_start(tmp_path: Path) -> None:
    async with serving(LocalSource(JailOptions(cache=tmp_path)), prepared=False) as client:
        waiting = asyncio.create_task(client.ask("POST", "/v1/sandboxes", json={}))
        client.app.health.failed(RuntimeError("no namespaces here"))
        status, answer = await client.ask("GET", "/health")
        assert (status, answer["status"]) == (503, "failed")
        assert "no namespaces here" in answer["error"]
        status, answer = await waiting
        assert (status, answer["error"]["code"]) == (503, "sandbox_refused")
        status, answer = await client.ask("POST", "/execute", json={"code": "1"})
        assert status == 503
        assert "no namespaces here" in answer["error"]


# -- the end ----------------------------------------------------------------------------------------------------------


async def test_what_runs_may_finish(source: LocalSource) -> None:
    before = await settled(source)
    async with aiohttp.ClientSession() as session:
        context = serving(source, session=session)
        client = await context.__aenter__()
        waits = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n1"
        async with client.box() as idle, client.box() as box, box.cell(waits) as answer:
            await client.ask("GET", "/health")  # leaves a connection that can still be used
            ending = asyncio.create_task(context.__aexit__(None, None, None))
            await until(lambda: client.app.health.stopping, "it is stopping")
            assert (await client.ask("GET", "/health"))[1]["status"] == "stopping"
            assert (await client.ask("POST", "/v1/sandboxes", json={}))[1]["error"]["code"] == "none_free"
            assert (await client.ask("POST", "/execute", json={"code": "1"}))[0] == 503
            for path, body in (("/cells", {"code": ""}), ("/restart", {}), ("/packages", {"requirements": []})):
                status, told = await idle.ask("POST", path, json=body)
                assert (status, told["error"]["code"]) == (502, "sandbox_lost")
            async with aiohttp.ClientSession() as another:
                with pytest.raises(aiohttp.ClientConnectorError):
                    await another.get(f"http://127.0.0.1:{client.port}/health")
            assert (await box.ask("PUT", "/files/go", data=b""))[0] == 200
            assert [line["type"] async for line in lines(answer)] == ["result", "exit"]
            for one in (idle, box):
                assert [line async for line in lines(one.lease)] == [{"ended": "the sandbox server is stopping"}]
            await ending
    assert source.in_use == before


async def test_what_runs_too_long_is_ended(source: LocalSource) -> None:
    before = await settled(source)
    async with aiohttp.ClientSession() as session:
        context = serving(source, session=session, drain=0.1)
        client = await context.__aenter__()
        async with client.box() as box, box.cell("print('up', flush=True)\nimport time\ntime.sleep(600)") as answer:
            told = lines(answer)
            await anext(told)
            ending = asyncio.create_task(context.__aexit__(None, None, None))
            last = [line async for line in told][-1]
            assert (last["type"], last["reason"]) == ("exit", "lost")
            await ending
    assert source.in_use == before


async def test_a_client_that_does_not_read_does_not_hold_up_the_end(source: LocalSource) -> None:
    before = await settled(source)
    async with aiohttp.ClientSession() as session:
        context = serving(source, session=session, drain=0.1)
        client = await context.__aenter__()
        async with client.box(limits={"output": 64 << 20}) as box:
            body = json.dumps({"code": "for _ in range(600): print('x' * 99_999)"}).encode()
            head = f"POST {box.path}/cells HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            async with client.raw(head.encode() + body) as (reader, _):
                await reader.readline()
                await context.__aexit__(None, None, None)
    assert source.in_use == before
