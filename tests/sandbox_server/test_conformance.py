"""The conformance script passes on our own server, and each check of `/v1` fails on one that is wrong in one way.

The wrong servers are our own behind a go-between that spoils one thing.
"""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from belljar.sandbox.base import Spec
from belljar.sandbox.conformance import checked_lease, execution, holding, port
from belljar.sandbox.conformance.runner import Check, CheckOutcome, conform
from belljar.sandbox.local.sandbox import LocalSandbox
from belljar.sandbox.local.source import LocalSource

from .live import live

TOKEN = "s3cret"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with live(tmp_path_factory.mktemp("cache"), TOKEN) as url:
        yield url


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "belljar.sandbox.conformance", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_our_own_server_passes(server: str) -> None:
    came = ran(server, "--token", TOKEN)
    assert (came.returncode, came.stderr) == (0, ""), came.stdout
    told = came.stdout.splitlines()
    assert told == [f"ok      {one.__doc__}" for one in (*execution.CHECKS, *port.CHECKS, *holding.CHECKS)]


class Leisurely(LocalSource):
    """Takes its time to let go of a sandbox, as a server may that clears up: its place is not free until then."""

    @asynccontextmanager
    async def acquire(
        self, spec: Spec, *, epoch: int | None = None, wait: float = 0.0, container: str | None = None
    ) -> AsyncIterator[LocalSandbox]:
        async with super().acquire(spec, epoch=epoch, wait=wait) as sandbox:
            try:
                yield sandbox
            finally:
                await asyncio.sleep(0.4)


def test_a_server_with_room_for_three_passes(tmp_path: Path) -> None:
    with live(tmp_path, most=3, make=Leisurely) as url:
        came = ran(url)
    assert (came.returncode, came.stderr) == (0, ""), came.stdout


def test_what_is_wrong_is_told(server: str) -> None:
    came = ran(server, "--token", "wrong", "--json")
    assert came.returncode == 1
    told = [json.loads(line) for line in came.stdout.splitlines()]
    assert [one["check"] for one in told] == [one.__doc__ for one in (*execution.CHECKS, *port.CHECKS, *holding.CHECKS)]
    assert [one["check"] for one in told if one["ok"]] == [
        one.__doc__ for one in (execution.health, execution.tokens, port.doors)
    ]
    assert "expected POST /execute to answer 200, came 401" in told[2]["problem"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:8080", "is not an address; write http://HOST:PORT"),
        ("unix://socket", "does not name a socket; write unix:///run"),
        ("unix:///nonexistent/socket", "nobody answers at unix:///nonexistent/socket"),
    ],
)
def test_nobody_there(url: str, said: str) -> None:
    came = ran(url)
    assert (came.returncode, came.stdout) == (2, "")
    assert said in came.stderr
    assert "Traceback" not in came.stderr


class Between:
    """Hands everything on to a server and back, and spoils what it is told to."""

    def __init__(self, url: str, wrong: str, session: aiohttp.ClientSession) -> None:
        self.url, self.wrong, self.session = url, wrong, session
        self.cells = 0
        self.left: list[aiohttp.ClientResponse] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path, body = request.raw_path, await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOPS}
        where = path.partition("?")[0].split("/")[3:]
        if (canned := self.canned(request.method, where)) is not None:
            return canned
        path, body = self.spoil_request(request.method, path, where, body, headers)
        self.cells += where[1:] == ["cells"]
        try:
            url = URL(self.url + path, encoded=True)
            upstream = await self.session.request(request.method, url, data=io.BytesIO(body), headers=headers)
            try:
                return await self.give_back(request, where, upstream)
            finally:
                if self.wrong == "forgets to leave":
                    self.left.append(upstream)
                else:
                    upstream.close()
        finally:
            self.cells -= where[1:] == ["cells"]

    def canned(self, method: str, where: list[str]) -> web.Response | None:
        """Answers that the server never hears of."""
        match self.wrong, method, where[1:]:
            case ("lets nothing go", "DELETE", []) | ("does not interrupt", "POST", ["interrupt"]):
                return web.Response(status=204)
            case ("does not restart", "POST", ["restart"]) | ("installs anything", "POST", ["packages"]):
                return web.Response(status=204)
            case "deletes twice", "DELETE", ["files", _]:
                return web.Response(status=204)
            case "drops archives", "PUT", ["files"]:
                return web.json_response({"files": []})
            case "runs at once", "POST", ["cells"] if self.cells:
                said = b'{"type":"stdout","text":"False\\n"}\n{"type":"exit","status":"ok"}\n'
                return web.Response(body=said, content_type="application/x-ndjson")
        return None

    def spoil_request(
        self, method: str, path: str, where: list[str], body: bytes, headers: dict[str, str]
    ) -> tuple[str, bytes]:
        match self.wrong, method, where[1:]:
            case "knows no limits", "POST", [] if body.startswith(b'{"limits": {"timeout"'):
                body = b"{}"
            case "thinks in Latin-1", _, ["files", name] if method != "DELETE":
                path = path.replace(name, name.replace("%E9", "%C3%A9"))
            case "cuts files", "PUT", ["files", _]:
                body = body[: 1 << 20]
            case "keeps nothing", "POST", [] if b'"keep"' in body:
                body = json.dumps({**json.loads(body), "keep": 0}).encode()
            case "keeps everything", "POST", [] if b'"keep"' in body:
                body = json.dumps({**json.loads(body), "keep": 600}).encode()
            case "takes any terms", "POST", []:
                body = b"{}"
            case "hands over a new one", "POST", ["attach"]:
                path, body = "/v1/sandboxes", json.dumps({"epoch": json.loads(body)["epoch"]}).encode()
        if self.wrong == "lets pages in":
            headers.pop("Origin", None)
        if self.wrong == "hears no epoch":
            headers.pop("Belljar-Epoch", None)
        return path, body

    async def give_back(
        self, request: web.Request, where: list[str], upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        headers = {name: value for name, value in upstream.headers.items() if name.lower() not in _HOPS}
        if self.wrong == "hides what is allowed":
            headers.pop("Allow", None)
        if upstream.content_type == "application/x-ndjson":
            response = web.StreamResponse(status=upstream.status, headers=headers)
            await response.prepare(request)
            if self.wrong == "waits for the end" and where[1:] == ["cells"]:
                await response.write(await upstream.read())
            else:
                async for line in upstream.content:
                    await response.write(self.spoil_line(line))
            await response.write_eof()
            return response
        body = await upstream.read()
        if upstream.content_type == "application/json":
            body = json.dumps(self.spoil_answer(request.path, json.loads(body))).encode()
        if self.wrong == "errors in plain text" and upstream.status >= 400:
            body = b"Bad Request"
        if self.wrong == "hides the length" and where[1:2] == ["files"]:
            response = web.StreamResponse(status=upstream.status, headers=headers)
            await response.prepare(request)
            await response.write(body)
            await response.write_eof()
            return response
        return web.Response(status=upstream.status, headers=headers, body=body)

    def spoil_line(self, line: bytes) -> bytes:
        told = json.loads(line)
        if self.wrong == "counts no cells":
            told.pop("cells", None)
        match self.wrong, told.get("type"):
            case "loses what was shown", "display":
                return b""
            case "exits without a word", "exit":
                del told["kept"]
            case "hides exceptions", "exit":
                told["error"] = None
            case "time is time", "exit" if told["status"] == "timed_out":
                told["status"] = "killed"
            case "ends without an end", "exit":
                return b""
        return json.dumps(told).encode() + b"\n"

    def spoil_answer(self, path: str, told: Any) -> Any:
        if path == "/health" and self.wrong == "always full":
            told["current_load"] = 7
        if path == "/v1/packages" and self.wrong == "names without versions":
            told["packages"] = [one["name"] for one in told["packages"]] or ["numpy"]
        if "error" in told and self.wrong == "knows nobody":
            told["error"]["code"] = "not_found"
        return told


_HOPS = {"host", "content-length", "transfer-encoding", "connection", "date", "server"}


@asynccontextmanager
async def between(url: str, wrong: str) -> AsyncIterator[str]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        app = web.Application(client_max_size=100 << 20)
        go_between = Between(url, wrong, session)
        app.router.add_route("*", "/{anything:.*}", go_between.handle)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
            for upstream in go_between.left:
                upstream.close()


def outcomes(url: str, wrong: str, *checks: Check) -> list[CheckOutcome]:
    async def main() -> list[CheckOutcome]:
        async with between(url, wrong) as spoilt:
            return [outcome async for outcome in conform(spoilt, checks, TOKEN)]

    return asyncio.run(main())


def test_the_go_between_spoils_nothing_by_itself(server: str) -> None:
    assert [outcome for outcome in outcomes(server, "", *port.CHECKS, *holding.CHECKS) if not outcome.ok] == []


WRONG: dict[str, list[tuple[Check, str]]] = {
    "forgets to leave": [
        (port.lease, "a sandbox without its lease to be gone within"),
        (port.lease_in_a_cell, "a sandbox without its lease to be gone within"),
        (port.leaving, "expected the next cell to run, came nothing"),
    ],
    "lets nothing go": [(port.release, "expected the lease's answer to end, came nothing")],
    "always full": [(port.load, "a load below 7 when the lease is over, came 7")],
    "knows no limits": [(port.limits, "the size of the workspace: expected 33554432")],
    "names without versions": [(port.installed, "a package to have 'name' (str)")],
    "waits for the end": [(port.streaming, "expected another line, came nothing")],
    "loses what was shown": [(port.outputs, "the types in order: expected")],
    "exits without a word": [(port.outputs, "expected an exit with code, error, hint, kept")],
    "ends without an end": [(port.state, "expected one exit, as the last line")],
    "hides exceptions": [(port.state, "the exit to have 'error' (dict)")],
    "runs at once": [(port.turns, "whether the second saw the first's variable: expected True")],
    "time is time": [(port.timeouts, "status: expected timed_out, came killed")],
    "does not interrupt": [(port.interrupt, "expected another line, came nothing")],
    "does not restart": [(port.restart, "x, and the file: expected False x")],
    "installs anything": [(port.install, "/packages to answer 400, came 204")],
    "thinks in Latin-1": [(port.names, "what PUT says of 'caf\\udce9.bin': expected")],
    "cuts files": [(port.large_files, "the length told: expected 8388608, came 1048576")],
    "hides the length": [(port.large_files, "the length told: expected 8388608, came None")],
    "drops archives": [(port.archives, "what was written: expected")],
    "deletes twice": [(port.missing_files, "/files/here.txt to answer 404, came 204")],
    "errors in plain text": [(port.bad_requests, "expected JSON, came b'Bad Request'")],
    "knows nobody": [(port.strangers, "the error's code: expected sandbox_lost, came not_found")],
    "hides what is allowed": [(port.paths, "expected Allow to name POST")],
    "lets pages in": [(port.doors, "POST /v1/sandboxes to answer 403")],
    "keeps nothing": [(holding.kept, "what is listed of it then: expected (3, False), came None")],
    "keeps everything": [(holding.expiry, "expected a sandbox to be gone within")],
    "hears no epoch": [(holding.fences, "/cells to answer 409")],
    "counts no cells": [(holding.handover, "how many cells: expected 1")],
    "hands over a new one": [(holding.stopping, "expected ok, came raised")],
    "takes any terms": [(holding.terms, "POST /v1/sandboxes to answer 400")],
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_server_is_caught(server: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_lease, "SOON", 2.0)
    came = outcomes(server, wrong, *(check for check, _ in WRONG[wrong]))
    for outcome, (_, said) in zip(came, WRONG[wrong], strict=True):
        assert outcome.problem is not None
        assert said in outcome.problem


def test_every_check_can_fail() -> None:
    assert {check for caught in WRONG.values() for check, _ in caught} == {*port.CHECKS, *holding.CHECKS}
