"""The checks of `/execute` and `/health` pass on a little server of another make, and each fails on one that is wrong.

The stand-in has no jail: it runs the kit's own harmless code as plain processes of this Python.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from belljar.sandbox.conformance import execution, runner
from belljar.sandbox.conformance.runner import Check, CheckOutcome, conform

TOKEN = "s3cret"
_NOT_ROOT = "import os; os.getuid = lambda: 1000\n"


class StandIn:
    """A server of the small API, wrong in one way if told so."""

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong
        self.running = 0
        self.starting = {"starts slowly": 3, "never starts": 1_000_000}.get(wrong, 0)
        self.one_at_a_time = asyncio.Lock()
        self.shared = tempfile.TemporaryDirectory()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=(100 << 20) if self.wrong == "takes any body" else (10 << 20))
        app.router.add_get("/health", self.health)
        app.router.add_post("/execute", self.execute)
        if self.wrong == "answers everything":
            app.router.add_route("*", "/{anything:.*}", self.health)
        return app

    async def health(self, request: web.Request) -> web.Response:
        if self.wrong == "health needs the token" and not self.knows(request):
            return web.json_response({"error": "no"}, status=401)
        if self.starting:
            self.starting -= 1
            return web.json_response({"status": "starting"}, status=503)
        told: dict[str, object] = {"status": "healthy", "mode": "python", "runtime_version": "3", "capacity": 3}
        told |= {"current_load": self.running, "uptime_seconds": 1}
        if self.wrong == "health has no capacity":
            del told["capacity"]
        if self.wrong == "health is another word":
            told["status"] = "ok"
        if self.wrong == "health never counts":
            told["current_load"] = 0
        return web.json_response(told)

    def knows(self, request: web.Request) -> bool:
        return request.headers.get("Authorization") == f"Bearer {TOKEN}"

    async def execute(self, request: web.Request) -> web.Response:
        if not self.knows(request) and self.wrong != "knows no token":
            return web.json_response({"error": "who are you?"}, status=401)
        try:
            asked = self.read(await request.read())
        except web.HTTPRequestEntityTooLarge:
            return web.json_response({"error": "too large"}, status=413)
        except ValueError as error:
            told: object = {"message": str(error)} if self.wrong == "errors are objects" else str(error)
            return web.json_response({"error": told}, status=500 if self.wrong == "faults are its own" else 400)
        self.running += 1
        try:
            return web.json_response(await self.answer(asked))
        finally:
            self.running -= 1

    def read(self, body: bytes) -> dict[str, Any]:
        try:
            asked = json.loads(body)
        except ValueError as error:
            raise ValueError(f"invalid request: {error}") from None
        kinds = {"code": str, "timeout_seconds": int, "files": dict, "requirements": list}
        if not isinstance(asked, dict) or any(
            not isinstance(asked[name], kind) for name, kind in kinds.items() if name in asked
        ):
            raise ValueError("invalid request: types")
        if not asked.get("code"):
            raise ValueError("code is required")
        for name, data in asked.get("files", {}).items():
            try:
                base64.b64decode(data, validate=True)
            except ValueError as error:
                named = "a file" if self.wrong == "hides the file's name" else f"file {name}"
                raise ValueError(f"failed to decode {named}: {error}") from None
        return asked

    async def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked.get("requirements") and self.wrong != "ignores packages":
            return {"status": "error", "stdout": "", "stderr": "package installation failed: there are none",
                    "exit_code": -1, "execution_time_ms": 0}  # fmt: skip
        if self.wrong == "one after the other":
            async with self.one_at_a_time:
                return await self.run(asked, Path(self.shared.name))
        if self.wrong == "one directory for all":
            return await self.run(asked, Path(self.shared.name))
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "work").mkdir()
            return await self.run(asked, Path(directory) / "work")

    async def run(self, asked: dict[str, Any], directory: Path) -> dict[str, Any]:
        for name, data in asked.get("files", {}).items():
            path = directory / (name if self.wrong == "follows directories" else os.path.basename(name))
            path.write_bytes(base64.b64decode(data))
        given = set(os.listdir(directory)) if self.wrong != "gives everything back" else set()
        timeout = asked.get("timeout_seconds", 0)
        if timeout <= 0 and self.wrong != "takes zero at its word":
            timeout = 30
        begun = time.monotonic()
        script = ("" if self.wrong == "runs as root" else _NOT_ROOT) + asked["code"]
        if self.wrong == "runs as root":
            script = "import os; os.getuid = lambda: 0\n" + script
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, cwd=directory, stdout=-1, stderr=-1, env={"OUTPUT_DIR": "."}
        )  # fmt: skip
        ended = asyncio.create_task(process.wait())
        reading = asyncio.gather(_all(process.stdout), _all(process.stderr))
        await asyncio.wait([ended], timeout=timeout + (1.5 if self.wrong == "late" else 0))
        late = not ended.done()
        if late:
            process.kill()
        out, err = await reading
        code = await ended
        stdout, stderr = out.decode(), err.decode()
        if late:
            code = 137 if self.wrong == "tells the signal" else -1
            if not stderr or self.wrong == "always says so":
                stderr += f"execution timed out after {timeout} seconds"
        if self.wrong == "every failure is 1" and code > 0:
            code = 1
        if self.wrong == "exceptions are fine":
            code = 0
        if self.wrong == "one stream":
            stdout, stderr = stdout + stderr, ""
        answer = {"status": "success" if code == 0 else "error", "stdout": stdout, "stderr": stderr}
        made = {name: (directory / name).read_bytes() for name in os.listdir(directory) if name not in given}
        told: dict[str, Any] = {**answer, "exit_code": code, "execution_time_ms": int((time.monotonic() - begun) * 1e3)}
        if self.wrong == "numbers are texts":
            told["exit_code"] = str(code)
        if self.wrong == "status is another word":
            told["status"] = "ok"
        if made:
            told["files_produced"] = {
                name: repr(data) if self.wrong == "files are plain" else base64.b64encode(data).decode()
                for name, data in made.items()
            }
        return told


async def _all(stream: asyncio.StreamReader | None) -> bytes:
    assert stream is not None
    return await stream.read()


@asynccontextmanager
async def served(stand_in: StandIn, path: Path | None = None) -> AsyncIterator[str]:
    """Its address; on a unix socket if there is a path for one."""
    runner = web.AppRunner(stand_in.app(), handler_cancellation=True)
    await runner.setup()
    try:
        if path is None:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        else:
            await web.UnixSite(runner, path).start()
            yield f"unix://{path}"
    finally:
        await runner.cleanup()
        stand_in.shared.cleanup()


def outcomes(wrong: str, *checks: Check) -> list[CheckOutcome]:
    async def main() -> list[CheckOutcome]:
        async with served(StandIn(wrong)) as url:
            return [outcome async for outcome in conform(url, checks, TOKEN)]

    return asyncio.run(main())


def test_a_right_server_passes() -> None:
    came = outcomes("", *execution.CHECKS)
    assert [outcome for outcome in came if not outcome.ok] == []
    assert [outcome.check for outcome in came] == [one.__doc__ for one in execution.CHECKS]


def test_a_server_that_starts_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    [outcome] = outcomes("starts slowly", execution.health)
    assert outcome.problem is None
    monkeypatch.setattr(runner, "STARTING", 0.2)
    [outcome] = outcomes("never starts", execution.health)
    assert outcome.problem is not None
    assert "GET /health to answer 200, came 503" in outcome.problem


def test_a_unix_socket_will_do() -> None:
    async def main() -> list[CheckOutcome]:
        with tempfile.TemporaryDirectory() as short:
            async with served(StandIn(), Path(short, "socket")) as url:
                return [outcome async for outcome in conform(url, [execution.health, execution.outputs], TOKEN)]

    assert [outcome.problem for outcome in asyncio.run(main())] == [None, None]


WRONG: dict[str, tuple[Check, str]] = {
    "health needs the token": (execution.health, "GET /health to answer 200, came 401"),
    "health has no capacity": (execution.health, "/health to have 'capacity'"),
    "health is another word": (execution.health, "status: expected healthy, came ok"),
    "health never counts": (execution.load, "current_load: expected 1 or more"),
    "one stream": (execution.outputs, "stdout: expected out é"),
    "numbers are texts": (execution.outputs, "to have 'exit_code' (int)"),
    "status is another word": (execution.outputs, "status: expected success, came ok"),
    "takes zero at its word": (execution.defaults, "stdout with timeout_seconds 0"),
    "exceptions are fine": (execution.exceptions, "exit_code: expected 1, came 0"),
    "every failure is 1": (execution.exit_codes, "exit_code: expected 3, came 1"),
    "follows directories": (execution.files, "whether '../above.txt' is above, and here: expected False True"),
    "gives everything back": (execution.files, "files that were given and not changed to be left out"),
    "files are plain": (execution.files, "files_produced: expected base64"),
    "faults are its own": (execution.bad_requests, "to answer 400, came 500"),
    "errors are objects": (execution.bad_requests, "to have 'error' (str)"),
    "hides the file's name": (execution.bad_requests, "to begin with 'failed to decode file x.txt'"),
    "takes any body": (execution.large_bodies, "to answer 400 or 413, came 200"),
    "late": (execution.deadline, "expected an end within 1 s of the deadline"),
    "tells the signal": (execution.deadline, "exit_code: expected -1, came 137"),
    "always says so": (execution.own_words, "stderr: expected mine\n, came mine\nexecution timed out"),
    "one after the other": (execution.at_once, "three spans that overlap"),
    "ignores packages": (execution.packages, "exit_code: expected -1, came 0"),
    "one directory for all": (execution.fresh, "expected False True\n, came True True"),
    "runs as root": (execution.fresh, "expected False True\n, came False False"),
    "knows no token": (execution.tokens, "POST /execute to answer 401, came 200"),
    "answers everything": (execution.others, "GET /belljar-conformance to answer 404, came 200"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_server_is_caught(wrong: str) -> None:
    check, said = WRONG[wrong]
    [outcome] = outcomes(wrong, check)
    assert outcome.problem is not None
    assert said in outcome.problem


def test_every_check_can_fail() -> None:
    assert {check for check, _ in WRONG.values()} == set(execution.CHECKS)
