"""A sandbox server that is not there, is another thing, or breaks off: what its client makes of that. Faults only.

What a server does when all is well is proven by the contract suite, over a real one.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import socket
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.ports import unused_port

from belljar import AsyncSandbox
from belljar.errors import BadSettings, BelljarError, Fenced, InvalidRequest, Lost, NoneFree, Refused, TooLarge
from belljar.sandbox.base import Cell, Content, Sandbox, SandboxHandle, Spec
from belljar.sandbox.outputs import Exit, Output, Stdout
from belljar.sandbox.remote import RemoteSource, http_client, source
from belljar.sandbox.remote.sandbox import RemoteSandbox
from belljar.sandbox.remote.upload_body import TarBody

HEALTHY = {"status": "healthy", "api": 1, "isolation": "full", "spare": 3}
EXIT = {"type": "exit", "status": "ok", "text": "", "hint": "", "reason": None, "error": None, "code": None,
        "kept": True, "seconds": 0.5}  # fmt: skip
PATIENCE = 30.0
Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Fake:
    """Says what a test has it say, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Handle] = {
            "GET /health": told(HEALTHY),
            "GET /v1/packages": told({"packages": [{"name": "numpy", "version": "2.1"}]}),
            "POST /v1/sandboxes": lease,
            "DELETE /v1/sandboxes/one": told(None, 204),
            "POST /v1/sandboxes/one/packages": told(None, 204),
            "POST /v1/sandboxes/one/interrupt": told(None, 204),
        }
        self.asked: list[str] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        key = f"{request.method} {request.rel_url.raw_path}"
        self.asked.append(key)
        answer = self.answers.get(key, told("not here", 404))
        return await answer(request)  # type: ignore[arg-type]


def told(value: object, status: int = 200) -> Handle:
    """A whole answer; a text is not JSON."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if status == 204:
            return web.Response(status=204)
        return web.Response(status=status, text=value if isinstance(value, str) else json.dumps(value))

    return answer


def failing(code: str, status: int, message: str = "why", param: str | None = None) -> Handle:
    return told({"error": {"code": code, "message": message, "param": param}}, status)


async def lease(request: web.Request) -> web.StreamResponse:
    """A sandbox that stays until its client leaves."""
    response = await begun(request)
    await response.write(b'{"id":"one"}\n{}\n')
    await asyncio.Event().wait()
    return response


async def begun(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    await response.prepare(request)
    return response


def lines(*told: object, cut: bool = False) -> Handle:
    """An answer of these lines; `cut` where the connection breaks before it has ended."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await begun(request)
        for one in told:
            await response.write(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n")
        if cut:
            assert request.transport is not None
            request.transport.abort()
        return response

    return answer


@asynccontextmanager
async def serving(place: Path, *, patience: float = PATIENCE) -> AsyncIterator[tuple[Fake, RemoteSource]]:
    fake = Fake()
    runner = web.ServerRunner(web.Server(fake.handle, handler_cancellation=True))
    await runner.setup()
    await web.UnixSite(runner, str(place)).start()
    source = RemoteSource(f"unix://{place}", patience=patience)
    try:
        yield fake, source
    finally:
        await source.close()
        await runner.cleanup()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "s"


def using(place: Path, act: Callable[[Fake, Sandbox], Awaitable[None]], **answers: Handle) -> Fake:
    """Do this with a sandbox of a fake server."""

    async def main() -> Fake:
        async with serving(place) as (fake, source):
            fake.answers |= {key.replace("__", " "): one for key, one in answers.items()}
            async with asyncio.timeout(PATIENCE), source.acquire(Spec()) as sandbox:
                await act(fake, sandbox)
            return fake

    return asyncio.run(main())


async def run(sandbox: Sandbox) -> list[Output]:
    return [output async for output in sandbox.run(Cell("1"))]


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - as whoever has no better way
        await asyncio.sleep(0.01)


# -- not there --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_server_that_is_not_there_is_named_with_the_remedy(kind: str, place: Path) -> None:
    why = "No such file or directory" if kind == "unix" else "Connection refused|Connect call failed.*"

    async def main(url: str) -> None:
        source = RemoteSource(url, patience=0.2)
        for act in (source.prepare(), AsyncSandbox(source=source).__aenter__()):
            expected = rf"^the sandbox server at {url} does not answer: ({why}); start it with `belljar sandbox`, or"
            with pytest.raises(Refused, match=expected):
                await act
        await source.close()

    with unused_port() as port:
        asyncio.run(main(f"unix://{place}" if kind == "unix" else f"http://127.0.0.1:{port}"))


def test_a_server_that_comes_in_time_is_waited_for(place: Path) -> None:
    async def main() -> None:
        source = RemoteSource(f"unix://{place}", patience=PATIENCE)
        asked = asyncio.create_task(AsyncSandbox(source=source).__aenter__())
        await asyncio.sleep(0.1)
        async with serving(place) as (fake, _):
            box = await asked
            assert box.id == "one"
            await box.__aexit__(None, None, None)
            assert fake.asked == ["POST /v1/sandboxes", "DELETE /v1/sandboxes/one"]
            await source.close()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_one_that_accepts_and_never_answers_is_given_up_on(
    kind: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "_CONNECT", 0.2)
    tcp = kind == "tcp"
    with socket.create_server(("127.0.0.1", 0)) if tcp else socket.socket(socket.AF_UNIX) as silent:
        if not tcp:
            silent.bind(str(place))
            silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}" if tcp else f"unix://{place}"

        async def main() -> None:
            remote = RemoteSource(url, patience=0.2)
            expected = f"^the sandbox server at {url} does not answer: no sandbox came within 0.2 s; see what its log "
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(Refused, match=expected + r".*\(claim_timeout\)$"):
                    async with remote.acquire(Spec()):
                        pass
            await remote.close()

        asyncio.run(main())


@pytest.mark.parametrize("begins", [False, True])
def test_one_that_is_well_but_gives_no_sandbox_is_given_up_on_and_hears_of_it(
    place: Path, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_MAKING", 0.3)
    left = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        try:
            if begins:
                await begun(request)
            await asyncio.sleep(PATIENCE)
        finally:
            left.set()
        raise AssertionError

    async def main() -> None:
        async with serving(place, patience=0.1) as (fake, remote), asyncio.timeout(PATIENCE):
            fake.answers["POST /v1/sandboxes"] = hang
            with pytest.raises(Refused, match="no sandbox came within"):
                async with remote.acquire(Spec()):
                    pass
            await left.wait()
            assert fake.asked.count("GET /health") >= 3

    asyncio.run(main())


@pytest.mark.parametrize(
    ("status", "requirements"),
    [pytest.param("starting", (), id="starts"), pytest.param("healthy", ("humanize",), id="fetches packages")],
)
def test_one_that_has_something_to_do_is_waited_for_while_it_answers(
    place: Path, status: str, requirements: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_MAKING", 0.1)
    looked = asyncio.Event()

    async def health(request: web.Request) -> web.StreamResponse:
        looked.set()
        return await told({**HEALTHY, "status": status}, 200 if status == "healthy" else 503)(request)

    async def slow(request: web.Request) -> web.StreamResponse:
        for _ in range(3):
            looked.clear()
            await looked.wait()
        return await lease(request)

    async def main() -> None:
        async with serving(place, patience=0.1) as (fake, remote), asyncio.timeout(PATIENCE):
            fake.answers |= {"GET /health": health, "POST /v1/sandboxes": slow}
            async with remote.acquire(Spec(requirements=requirements)) as sandbox:
                assert sandbox.id == "one"
            assert fake.asked.count("POST /v1/sandboxes") == 1

    asyncio.run(main())


def test_a_closed_source_gives_nothing(place: Path) -> None:
    async def main() -> None:
        source = RemoteSource(f"unix://{place}", patience=0.1)
        await source.close()
        with pytest.raises(Lost, match="the source is closed"):
            async with source.acquire(Spec()):
                pass

    asyncio.run(main())


def test_what_may_have_been_heard_is_not_asked_again(place: Path) -> None:
    async def main() -> None:
        async with serving(place) as (fake, source):
            fake.answers["POST /v1/sandboxes"] = lines(cut=True)
            with pytest.raises(Refused, match="does not answer"):
                async with source.acquire(Spec()):
                    pass
            assert fake.asked == ["POST /v1/sandboxes"]

    asyncio.run(main())


# -- another thing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("health", "sent", "found"),
    [
        ({"api": 1}, {}, False),
        ({"api": 2, "api_oldest": 1}, {"epoch": 7, "keep": 5, "wait": 3}, True),
        ({"api": 9, "api_oldest": 2}, {"epoch": 7, "keep": 5, "wait": 3}, True),
    ],
    ids=str,
)
def test_versions_that_can_go_on_with_each_other(
    place: Path, health: dict[str, int], sent: dict[str, float], found: bool
) -> None:
    """An older server is not told of epochs, and its sandboxes cannot be found again."""
    bodies: list[dict[str, object]] = []

    async def made(request: web.Request) -> web.StreamResponse:
        bodies.append(json.loads(await request.read()))
        return await lease(request)

    async def main() -> None:
        async with serving(place) as (fake, _):
            fake.answers |= {"GET /health": told({**HEALTHY, **health}), "POST /v1/sandboxes": made}
            source = RemoteSource(f"unix://{place}", patience=PATIENCE, keep=5)
            async with source.acquire(Spec(), epoch=7, wait=3) as sandbox:
                assert sandbox.handle == (SandboxHandle(f"unix://{place}", "one") if found else None)
            async with source.acquire(Spec()) as plain:
                assert plain.handle is None
            await source.close()

    asyncio.run(main())
    usual = {"limits", "packages", "requirements"}
    assert {name: value for name, value in bodies[0].items() if name not in usual} == sent
    assert set(bodies[1]) == usual


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (failing("fenced", 409), Fenced),
        (failing("sandbox_lost", 404), Lost),
        (lines(), Lost),
        (lines({"id": "one"}), Lost),
        (lines({"id": "one", "cells": 1, "interpreter": 1, "limits": {"memory": 1}, "files": []}), Lost),
        (lines({"id": "one"}, cut=True), Lost),
        (told("bad gateway", 502), Lost),
    ],
    ids=range(7),
)
def test_what_is_wrong_with_attaching_is_said(place: Path, answer: Handle, kind: type[BelljarError]) -> None:
    async def main() -> None:
        async with serving(place) as (fake, source):
            fake.answers["POST /v1/sandboxes/one/attach"] = answer
            with pytest.raises(kind) as failed:
                async with source.attach(SandboxHandle(source.url, "one"), 2):
                    raise AssertionError
            assert isinstance(failed.value, Fenced) == (kind is Fenced)

    asyncio.run(main())


def test_nobody_is_there_to_attach_to(place: Path) -> None:
    async def main() -> None:
        source = RemoteSource(f"unix://{place}")
        with pytest.raises(Lost, match="does not answer any more"):
            async with source.attach(SandboxHandle(source.url, "one"), 2):
                raise AssertionError
        await source.close()

    asyncio.run(main())


def test_a_server_that_takes_its_time_is_given_up(place: Path) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> None:
        async with serving(place, patience=0.05) as (fake, source):
            fake.answers["POST /v1/sandboxes/one/attach"] = silent
            with pytest.raises(Lost, match="no word within"):
                async with source.attach(SandboxHandle(source.url, "one"), 2):
                    raise AssertionError

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answers", "kind", "message"),
    [
        (
            {"GET /health": told("<html>", 404)},
            BadSettings,
            r"^sandbox_url: what answers at .* is no belljar sandbox \(404",
        ),
        (
            {"GET /health": told({"status": "ok"})},
            BadSettings,
            "is no belljar sandbox .200 OK.; start one with `belljar s",
        ),
        ({"GET /health": told("[]")}, BadSettings, "is no belljar sandbox"),
        (
            {"GET /health": told({**HEALTHY, "api": 9, "api_oldest": 3})},
            BadSettings,
            "speaks versions 3 to 9 of the API, and this speaks 1 to 2; bring the older",
        ),
        ({"GET /health": told({**HEALTHY, "api": 0})}, BadSettings, "speaks versions 0 to 0"),
        ({"GET /health": told({**HEALTHY, "api": "2"})}, BadSettings, "speaks versions '2' to '2'"),
        ({"GET /health": told("bad gateway", 502)}, Refused, "does not answer: 502 Bad Gateway; start it"),
        ({"GET /health": told({**HEALTHY, "status": "starting"}, 503)}, Refused, "is not ready: starting$"),
        (
            {"GET /health": told({**HEALTHY, "status": "failed", "error": "no namespaces"}, 503)},
            Refused,
            "is not ready: failed: no namespaces$",
        ),
        ({"GET /v1/packages": failing("unauthenticated", 401)}, BadSettings, "^sandbox_token: .* requests without one"),
    ],
)
def test_what_is_wrong_with_a_server_is_said(
    place: Path, answers: dict[str, Handle], kind: type[BelljarError], message: str
) -> None:
    async def main() -> None:
        async with serving(place) as (fake, source):
            fake.answers |= answers
            with pytest.raises(kind, match=message):
                await source.prepare()

    asyncio.run(main())


def test_what_a_server_has_is_known_after_a_look(place: Path) -> None:
    async def main() -> None:
        async with serving(place) as (_, source):
            assert (source.packages, source.spare, source.isolation) == ((), 0, None)
            await source.prepare()
            assert [(one.name, one.version) for one in source.packages] == [("numpy", "2.1")]
            assert (source.spare, source.isolation) == (3, "full")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (failing("none_free", 503, "all 2 are in use"), NoneFree, "^all 2 are in use$"),
        (failing("invalid_request", 400, "limits.cpus: no", "limits.cpus"), InvalidRequest, "^limits.cpus: no$"),
        (failing("something_new", 500, "later words"), Refused, "^later words$"),
        (failing("unauthenticated", 401), BadSettings, "^sandbox_token: "),
        (told("nothing here", 404), BadSettings, "is no belljar sandbox"),
        (told("<html>", 502), Refused, "does not answer: 502 Bad Gateway"),
        (lines({"other": 1}), Refused, "gave no sandbox"),
        (lines(), Refused, "gave no sandbox; is it"),
        (lines(b"garbage\n"), Lost, "cannot be read"),
    ],
)
def test_a_refusal_is_the_servers_own(place: Path, answer: Handle, kind: type[BelljarError], message: str) -> None:
    async def main() -> None:
        async with serving(place) as (fake, source):
            fake.answers["POST /v1/sandboxes"] = answer
            with pytest.raises(kind, match=message) as caught:
                async with source.acquire(Spec()):
                    raise AssertionError("there must be no sandbox")
            assert type(caught.value) is kind
            assert getattr(caught.value, "param", None) == ("limits.cpus" if kind is InvalidRequest else None)

    asyncio.run(main())


def test_the_token_is_sent(place: Path) -> None:
    seen: list[str | None] = []

    async def packages(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization"))
        return await told({"packages": []})(request)

    async def main() -> None:
        async with serving(place) as (fake, _):
            fake.answers["GET /v1/packages"] = packages
            for token in (None, "s3cret"):
                source = RemoteSource(f"unix://{place}", token=token)
                await source.prepare()
                await source.close()

    asyncio.run(main())
    assert seen == [None, "Bearer s3cret"]


# -- cells ------------------------------------------------------------------------------------------------------------

CELLS = "POST__/v1/sandboxes/one/cells"


@pytest.mark.parametrize("cut", [False, True], ids=["ended", "cut"])
@pytest.mark.parametrize("before", [[], [{"type": "stdout", "text": "so far"}]], ids=["at once", "later"])
def test_an_answer_without_an_exit_is_a_lost_sandbox(place: Path, before: list[object], cut: bool) -> None:
    async def act(fake: Fake, sandbox: Sandbox) -> None:
        *outputs, end = await run(sandbox)
        assert outputs == [Stdout("so far")] * len(before)
        assert isinstance(end, Exit)
        assert (end.status, end.reason, end.kept) == ("killed", "lost", False)
        assert f"the sandbox server at unix://{place}" in end.text

    using(place, act, **{CELLS: lines(*before, cut=cut)})


@pytest.mark.parametrize("begins", [False, True], ids=["before its answer", "in its answer"])
@pytest.mark.parametrize("what", ["a cell", "a file"])
def test_a_sandbox_that_somebody_knows_to_be_gone_is_waited_for_no_longer(place: Path, what: str, begins: bool) -> None:
    why = "its pod failed (OOMKilled)"

    async def act(fake: Fake, sandbox: Sandbox) -> None:
        reached = asyncio.Event()

        async def hang(request: web.Request) -> web.StreamResponse:
            if begins:
                await (await begun(request)).write(b'{"type":"stdout","text":"so far"}\n')
            reached.set()
            await asyncio.sleep(PATIENCE)
            raise AssertionError

        async def read() -> None:
            await sandbox.files.list()

        async def hear() -> None:
            async for output in sandbox.run(Cell("1")):
                heard.append(output)

        assert isinstance(sandbox, RemoteSandbox)
        lose = sandbox.watched(word=PATIENCE)
        fake.answers |= {"POST /v1/sandboxes/one/cells": hang, "GET /v1/sandboxes/one/files": hang}
        heard: list[Output] = []
        asked = asyncio.ensure_future(hear() if what == "a cell" else read())
        await reached.wait()
        if begins and what == "a cell":
            await until(lambda: heard == [Stdout("so far")])
        lose(why)
        assert not sandbox.alive
        if begins and what == "a cell":
            await asked
            end = heard[-1]
            assert len(heard) == 2
            assert isinstance(end, Exit)
            assert (end.reason, why in end.text) == ("lost", True)
        else:
            with pytest.raises(Lost, match=rf"^the sandbox is gone: {re.escape(why)}; make a new one$"):
                await asked

    fake = using(place, act)
    assert "DELETE /v1/sandboxes/one" not in fake.asked


@pytest.mark.parametrize("told", [True, False], ids=["told", "nobody tells"])
def test_why_a_connection_broke_is_asked_of_whoever_watches(place: Path, told: bool) -> None:
    why = "its pod failed (OOMKilled)"

    async def act(fake: Fake, sandbox: Sandbox) -> None:
        assert isinstance(sandbox, RemoteSandbox)
        lose = sandbox.watched(word=PATIENCE if told else 0.1)
        running = asyncio.create_task(run(sandbox))
        await until(lambda: "POST /v1/sandboxes/one/cells" in fake.asked)
        if told:
            await asyncio.sleep(0.05)  # the connection is broken by now
            lose(why)
        end = (await running)[-1]
        assert isinstance(end, Exit)
        assert (end.reason, why in end.text) == ("lost", told)

    using(place, act, **{CELLS: lines({"type": "stdout", "text": "so far"}, cut=True)})


def test_a_server_that_falls_silent_is_lost(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "_SILENCE", 0.2)

    async def hang(request: web.Request) -> web.StreamResponse:
        await begun(request)
        await asyncio.sleep(PATIENCE)
        raise AssertionError

    async def act(fake: Fake, sandbox: Sandbox) -> None:
        end = (await run(sandbox))[-1]
        assert isinstance(end, Exit)
        assert "nothing was heard for 0.2 s" in end.text
        await until(lambda: not sandbox.alive)
        with pytest.raises(Lost, match="nothing was heard"):
            await sandbox.files.list()

    using(place, act, **{CELLS: hang})


def test_nobody_waits_for_an_answer_when_the_lease_has_ended(place: Path) -> None:
    asked = asyncio.Event()

    async def once(request: web.Request) -> web.StreamResponse:
        response = await begun(request)
        await response.write(b'{"id":"one"}\n')
        await asked.wait()
        await response.write(b'{"ended":"it was killed"}\n')
        return response

    async def hang(request: web.Request) -> web.StreamResponse:
        asked.set()
        await asyncio.sleep(PATIENCE)
        raise AssertionError

    async def act(fake: Fake, sandbox: Sandbox) -> None:
        with pytest.raises(Lost, match="it was killed; make a new one"):
            await sandbox.restart()
        assert not sandbox.alive

    hung = {"POST__/v1/sandboxes": once, "POST__/v1/sandboxes/one/restart": hang}
    assert "DELETE /v1/sandboxes/one" not in using(place, act, **hung).asked


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ({"type": "error", "error": {"code": "sandbox_lost", "message": "it is gone"}}, Lost, "^it is gone$"),
        ({"type": "error", "error": {"code": "too_large", "message": "the code"}}, TooLarge, "^the code$"),
        ({"type": "surprise"}, Lost, "an output of type 'surprise'"),
        (b"{]\n", Lost, "cannot be read"),
    ],
)
def test_a_fault_in_a_cell_is_raised(place: Path, line: object, kind: type[BelljarError], message: str) -> None:
    async def act(fake: Fake, sandbox: Sandbox) -> None:
        with pytest.raises(kind, match=message):
            await run(sandbox)

    using(place, act, **{CELLS: lines({}, line)})


def test_lines_may_come_in_any_pieces(place: Path) -> None:
    told = [{"type": "stdout", "text": "x" * 300_000}, {"type": "stdout", "text": "y"}, {}, EXIT]
    whole = b"".join(json.dumps(one).encode() + b"\n" for one in told)
    pieces = [whole[:7], whole[7:150_000], whole[150_000:-3], whole[-3:]]

    async def act(fake: Fake, sandbox: Sandbox) -> None:
        assert await run(sandbox) == [Stdout("x" * 300_000), Stdout("y"), Exit("ok", seconds=0.5)]

    using(place, act, **{CELLS: lines(*pieces)})


def test_an_interrupt_is_sent_for_the_cell_that_runs_and_never_to_the_next(place: Path) -> None:
    release = asyncio.Event()

    async def cell(request: web.Request) -> web.StreamResponse:
        response = await begun(request)
        await response.write(b'{"type":"stdout","text":"on"}\n')
        await release.wait()
        await response.write(json.dumps(EXIT).encode() + b"\n")
        return response

    async def interrupt(request: web.Request) -> web.StreamResponse:
        release.set()
        await asyncio.sleep(0.1)  # it arrives late
        seen.append("interrupted")
        return web.Response(status=204)

    seen: list[str] = []

    async def act(fake: Fake, sandbox: Sandbox) -> None:
        fake.asked = seen
        sandbox.interrupt()  # there is no cell
        async for output in sandbox.run(Cell("1")):
            if output == Stdout("on"):
                await asyncio.to_thread(sandbox.interrupt)
        await run(sandbox)
        sandbox.interrupt()
        calls = [one.removeprefix("POST /v1/sandboxes/one/") for one in seen]
        assert calls == ["cells", "interrupt", "interrupted", "cells"]

    using(place, act, **{CELLS: cell, "POST__/v1/sandboxes/one/interrupt": interrupt})


# -- files ------------------------------------------------------------------------------------------------------------


def broken(*chunks: bytes) -> Iterator[bytes]:
    yield from chunks
    raise ZeroDivisionError("the caller's own")


def test_what_the_callers_content_raises_is_raised_and_the_body_has_no_end(place: Path) -> None:
    ended: list[bool] = []

    async def put(request: web.Request) -> web.StreamResponse:
        try:
            await request.read()
        except BaseException:
            ended.append(False)
            raise
        ended.append(True)
        return await told({})(request)

    async def act(fake: Fake, sandbox: Sandbox) -> None:
        with pytest.raises(ZeroDivisionError, match="the caller's own"):
            await sandbox.files.write("x", broken(b"1", b"", b"2"))
        await until(lambda: bool(ended))
        assert ended == [False]

    using(place, act, **{"PUT__/v1/sandboxes/one/files/x": put})


def test_of_many_files_those_before_a_broken_one_are_sent(place: Path) -> None:
    came: list[tuple[str, bytes]] = []

    async def put(request: web.Request) -> web.StreamResponse:
        assert request.content_type == "application/x-tar"
        came.extend(unpacked(await request.read()))
        return await told({"files": []})(request)

    async def act(fake: Fake, sandbox: Sandbox) -> None:
        with pytest.raises(ZeroDivisionError):
            await sandbox.files.write_many([("a", b"1"), ("b/c", iter([b"2", b"3"])), ("d", broken(b"4")), ("e", b"5")])
        with pytest.raises(InvalidRequest, match="lone surrogate"):
            await sandbox.files.write_many([("f", b"6"), ("\ud800", b"7")])

    using(place, act, **{"PUT__/v1/sandboxes/one/files": put})
    assert came == [("a", b"1"), ("b/c", b"23"), ("f", b"6")]


def unpacked(data: bytes) -> list[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape", encoding="utf-8") as archive:
        members = archive.getmembers()
        assert all(member.isreg() for member in members)
        return [(member.name, file.read()) for member in members if (file := archive.extractfile(member))]


KINDS: list[Callable[[bytes], Content]] = [bytes, io.BytesIO, lambda data: iter([data[:7], data[7:]])]
raw_names = st.binary(min_size=1, max_size=300).filter(lambda raw: b"\0" not in raw and not raw.endswith(b"/"))


@given(st.lists(st.tuples(raw_names.map(os.fsdecode), st.binary(max_size=2000), st.sampled_from(KINDS)), max_size=5))
def test_an_archive_holds_every_name_and_byte(files: list[tuple[str, bytes, Callable[[bytes], Content]]]) -> None:
    archive = TarBody((name, make(data)) for name, data, make in files)
    assert unpacked(b"".join(archive.pieces())) == [(name, data) for name, data, _ in files]
    assert archive.failed is None


def test_a_large_file_is_measured_and_sent_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(os.urandom(3 << 20))
    with path.open("rb") as file, path.open("rb") as spooled:
        file.seek(5)
        pieces = list(TarBody([("measured", file), ("spooled", iter(lambda: spooled.read(1 << 19), b""))]).pieces())
    assert max(map(len, pieces)) < 1 << 20
    data = path.read_bytes()
    assert unpacked(b"".join(pieces)) == [("measured", data[5:]), ("spooled", data)]


def test_a_file_that_shrinks_while_it_is_read_ends_the_archive_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(3 << 20))
    with path.open("rb") as file:
        pieces = TarBody([("x", file)]).pieces()
        next(pieces)
        os.truncate(path, 1 << 20)
        with pytest.raises(InvalidRequest, match=r"^name: 'x' became shorter while it was read"):
            list(pieces)
