"""Outputs come as they are made, no faster than they are read; a client that leaves stops its cell."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
from tests.contract.conftest import wheel
from tests.sandbox_server.conftest import PATIENCE, Box, Client, lines, serving, until

from belljar.errors import Lost
from belljar.sandbox.base import Cell, Spec
from belljar.sandbox.local.source import LocalSource
from belljar.sandbox.outputs import Exit, Output, Stdout

Play: TypeAlias = Callable[[], AsyncGenerator[Output, None]]


class Acted:
    """A source of sandboxes in which every cell plays the same piece."""

    in_use = spare = 0
    id = "sbx_acted"
    alive = True

    def __init__(self, play: Play) -> None:
        self._play = play

    @asynccontextmanager
    async def acquire(self, spec: Spec) -> AsyncIterator[Acted]:
        yield self

    def run(self, cell: Cell) -> AsyncGenerator[Output, None]:
        return self._play()


# -- outputs ----------------------------------------------------------------------------------------------------------


async def test_every_kind_of_output(box: Box) -> None:
    told = await box.run(
        "import sys\nprint('out ü')\nprint('err', file=sys.stderr)\nopen('made.txt', 'w').write('x')\n"
        "class Picture:\n"
        "    def _repr_png_(self): return b'\\x89PNG'\n"
        "    def __repr__(self): return 'picture'\n"
        "display(Picture())\n41 + 1"
    )
    by_type = {line["type"]: line for line in told}
    assert by_type["stdout"] == {"type": "stdout", "text": "out ü\n"}
    assert by_type["stderr"] == {"type": "stderr", "text": "err\n"}
    png = {"base64": base64.b64encode(b"\x89PNG").decode()}
    assert by_type["display"]["data"] == {"text/plain": "picture", "image/png": png}
    assert by_type["result"]["data"]["text/plain"] == "42"
    made = by_type["file_changed"]
    assert (made["name"], made["size"], made["mime"], made["change"]) == ("made.txt", 1, "text/plain", "created")
    assert told[-1].keys() == {
        "type", "status", "text", "hint", "reason", "error", "code", "kept", "seconds", "limit",
    }  # fmt: skip
    assert (told[-1]["type"], told[-1]["status"]) == ("exit", "ok")


WAIT = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"


async def test_an_exception_is_an_outcome(box: Box) -> None:
    told = (await box.run("1 / 0"))[-1]
    assert (told["status"], told["kept"]) == ("raised", True)
    assert told["error"].keys() == {"type", "message", "traceback"}
    assert told["error"]["type"] == "ZeroDivisionError"


async def test_a_timeout_of_the_cell_itself(box: Box) -> None:
    assert (await box.run("while True: pass", timeout=0.3))[-1]["status"] == "timed_out"


async def test_outputs_come_while_the_cell_runs(box: Box) -> None:
    async with box.cell(f"print('up', flush=True)\n{WAIT}") as answer:
        told = lines(answer)
        assert await anext(told) == {"type": "stdout", "text": "up\n"}
        assert (await box.ask("PUT", "/files/go", data=b""))[0] == 200
        assert [line["type"] async for line in told][-1] == "exit"


async def test_cells_wait_for_their_turn(box: Box) -> None:
    codes = [f"{WAIT}\nn = [1]", "n.append(2)", "n.append(3)", "n"]
    async with AsyncExitStack() as stack:
        answers = [await stack.enter_async_context(box.cell(code)) for code in codes]
        assert (await box.ask("PUT", "/files/go", data=b""))[0] == 200
        told = [[line async for line in lines(answer)] for answer in answers]
    assert told[-1][0]["data"]["text/plain"] == "[1, 2, 3]"


@pytest.mark.parametrize("code", ["'\ud800'", "open('b\udcff', 'w').close()", "print('\\udcff')"])
async def test_lone_surrogates_are_no_failure_of_ours(box: Box, code: str) -> None:
    assert (await box.run(code))[-1]["type"] in ("exit", "error")
    assert (await box.run("1"))[-1]["status"] == "ok"


async def test_a_name_that_is_not_utf_8_is_told(box: Box) -> None:
    told = await box.run(r"import os; os.close(os.open(b'b\xff', os.O_CREAT | os.O_WRONLY))")
    assert [line["name"] for line in told if line["type"] == "file_changed"] == ["b\udcff"]


# -- stopping ---------------------------------------------------------------------------------------------------------


async def test_interrupt(box: Box) -> None:
    async with box.cell("x = 7\nprint('up', flush=True)\nimport time\ntime.sleep(600)") as answer:
        told = lines(answer)
        await anext(told)
        assert await box.ask("POST", "/interrupt") == (204, None)
        last = [line async for line in told][-1]
    assert (last["status"], last["reason"], last["kept"]) == ("killed", "interrupted", True)
    assert (await box.run("x"))[0]["data"]["text/plain"] == "7"


async def test_a_client_that_leaves_interrupts_its_cell(box: Box) -> None:
    async with box.cell("x = 7\nprint('up', flush=True)\nimport time\ntime.sleep(600)\nx = 8") as answer:
        await anext(lines(answer))
        answer.close()
    async with asyncio.timeout(PATIENCE):
        assert (await box.run("x"))[0]["data"]["text/plain"] == "7"


async def test_a_client_that_leaves_before_its_turn(box: Box) -> None:
    """Its cell never runs, and the others do."""
    async with box.cell(f"n = 0\nprint('up', flush=True)\n{WAIT}") as first:
        told = lines(first)
        await anext(told)
        async with box.cell("n = 1") as second:
            lease = box.client.app.leases.find(box.id)
            assert len(lease._uses) == 2
            second.close()
        await until(lambda: len(lease._uses) == 1, "the server has noticed")
        assert (await box.ask("PUT", "/files/go", data=b""))[0] == 200
        assert [line async for line in told][-1]["status"] == "ok"
    assert (await box.run("n"))[0]["data"]["text/plain"] == "0"


async def test_restart(box: Box) -> None:
    await box.run("x = 1; open('kept', 'w').close()")
    assert await box.ask("POST", "/restart") == (204, None)
    assert (await box.run("x"))[-1]["error"]["type"] == "NameError"
    assert [one["name"] for one in (await box.ask("GET", "/files"))[1]["files"]] == ["kept"]


async def test_a_sandbox_that_is_dropped_under_its_cell(box: Box) -> None:
    async with box.cell("print('up', flush=True)\nimport time\ntime.sleep(600)") as answer:
        told = lines(answer)
        await anext(told)
        assert await box.ask("DELETE") == (204, None)
        last = [line async for line in told][-1]
    assert (last["type"], last["reason"]) == ("exit", "lost")


# -- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        (b"", 400, "code"),
        (b"{}", 400, "code"),
        (b'{"code": 1}', 400, "code"),
        (b'{"code": "1", "timeout": 0}', 400, "timeout"),
        (b'{"code": "1", "timeout": NaN}', 400, None),
        (b'{"code": "1", "lang": "r"}', 400, "lang"),
        (b'{"code": "' + b"#" * (8 << 20) + b'1"}', 413, None),
    ],
    ids=range(7),
)
async def test_wrong_cells(box: Box, body: bytes, status: int, param: str | None) -> None:
    found, answer = await box.ask("POST", "/cells", data=io.BytesIO(body))
    assert (found, answer["error"]["param"]) == (status, param)


async def test_a_sandbox_that_fails_in_the_middle(caplog: pytest.LogCaptureFixture) -> None:
    async def lost() -> AsyncGenerator[Output, None]:
        yield Stdout("so far\n")
        raise Lost("gone")

    async with serving(Acted(lost)) as client, client.box() as box:
        assert await box.run("") == [
            {"type": "stdout", "text": "so far\n"},
            {"type": "error", "error": {"code": "sandbox_lost", "message": "gone", "param": None}},
        ]

    async def broken() -> AsyncGenerator[Output, None]:
        yield Stdout("so far\n")
        raise RuntimeError("a secret of ours")

    with caplog.at_level(logging.ERROR):
        async with serving(Acted(broken)) as client, client.box() as box:
            last = (await box.run(""))[-1]
    assert last["error"]["code"] == "sandbox_lost"
    assert "secret" not in json.dumps(last)
    assert "a secret of ours" in caplog.text


# -- the pace ---------------------------------------------------------------------------------------------------------


async def test_what_is_ready_at_once_goes_in_one_write() -> None:
    go = asyncio.Event()

    async def play() -> AsyncGenerator[Output, None]:
        for number in range(100):
            yield Stdout(str(number))
        await go.wait()
        yield Exit("ok")

    async with serving(Acted(play)) as client, client.box() as box, box.cell("") as answer:
        chunk, _ = await answer.content.readchunk()
        assert chunk.count(b"\n") == 100
        go.set()
        assert [line["type"] async for line in lines(answer)] == ["exit"]


async def test_silence_is_broken_now_and_then() -> None:
    go = asyncio.Event()

    async def play() -> AsyncGenerator[Output, None]:
        await go.wait()
        yield Exit("ok")

    async with serving(Acted(play), ping=0.02) as client, client.box() as box, box.cell("") as answer:
        assert await answer.content.readline() == b"{}\n"
        assert await answer.content.readline() == b"{}\n"
        go.set()
        rest = (await answer.content.read()).split(b"\n")
        assert json.loads(rest[-2])["type"] == "exit"


async def test_a_slow_reader_holds_the_cell_up() -> None:
    """What is on its way stays small, and nothing of it is lost."""
    part, count = "x" * (64 << 10), 1000
    made = 0

    async def play() -> AsyncGenerator[Output, None]:
        nonlocal made
        for _ in range(count):
            made += 1
            yield Stdout(part)
        yield Exit("ok")

    async with serving(Acted(play)) as client, client.box() as box:
        request = f"POST {box.path}/cells HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\n".encode()
        async with client.raw(request + b'{"code":""}') as (reader, _):
            before = -1
            while made != before:
                before = made
                await asyncio.sleep(0.3)
            assert 0 < made < count / 4
            seen = 0
            while b'"exit"' not in (data := await reader.readuntil(b"\n")):
                seen += data.startswith(b'{"type":"stdout"')
            assert seen == made == count


async def test_a_large_output_of_the_real_thing(client: Client) -> None:
    async with client.box(limits={"output": 64 << 20}) as box:
        told = await box.run("for _ in range(200): print('x' * 99_999)")
    assert sum(len(line["text"]) for line in told if line["type"] == "stdout") == 200 * 100_000


# -- packages ---------------------------------------------------------------------------------------------------------


async def test_install(home: Path, box: Box) -> None:
    wheel(home / "wheels", "served", "answer = 42")
    await box.run("x = 1")
    assert await box.ask("POST", "/packages", json={"requirements": ["served"]}) == (204, None)
    assert (await box.run("import served; served.answer + x"))[0]["data"]["text/plain"] == "43"


@pytest.mark.parametrize(
    ("told", "status", "code"),
    [
        ({"requirements": ["nowhere-to-be-found"]}, 503, "sandbox_refused"),
        ({"requirements": ["../x"]}, 400, "invalid_request"),
        ({"requirements": "rich"}, 400, "invalid_request"),
        ({"requirement": []}, 400, "invalid_request"),
        ({}, 400, "invalid_request"),
    ],
)
async def test_what_cannot_be_installed(box: Box, told: object, status: int, code: str) -> None:
    found, answer = await box.ask("POST", "/packages", json=told)
    assert (found, answer["error"]["code"]) == (status, code)
    assert (await box.run("1"))[-1]["status"] == "ok"


async def test_the_packages_that_are_there(source: LocalSource, client: Client) -> None:
    status, answer = await client.ask("GET", "/v1/packages")
    assert status == 200
    assert answer["packages"] == [{"name": one.name, "version": one.version} for one in source.packages]


async def test_the_lease_outlives_its_cells(client: Client, box: Box) -> None:
    await box.run("x = 1")
    lease = client.app.leases.find(box.id)
    await until(lambda: not lease._here, "the cell ended")
    assert lease.alive
