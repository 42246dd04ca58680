"""A sandbox with an epoch outlives its connection, and is taken over by whoever comes with a higher one."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.sandbox_server.conftest import PATIENCE, Box, Client, Told, lines, serving, settled, until

from belljar.sandbox.base import MIB
from belljar.sandbox.codec import EPOCH
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.server import leases

LONG = 600
SLEEPS = "x = 7\nprint('up', flush=True)\nimport time\ntime.sleep(600)\nx = 8"
STUBBORN = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(600)"


def under(epoch: int) -> dict[str, str]:
    return {EPOCH: str(epoch)}


class Attached(Box):
    """A sandbox that was taken over, and its first line."""

    def __init__(self, client: Client, lease: aiohttp.ClientResponse, first: Told) -> None:
        super().__init__(client, lease, first["id"])
        self.first = first


@asynccontextmanager
async def attached(client: Client, id: str, epoch: int, **terms: Any) -> AsyncIterator[Attached]:
    async with client.open("POST", f"/v1/sandboxes/{id}/attach", json={"epoch": epoch, **terms}) as answer:
        assert answer.status == 200, await answer.text()
        yield Attached(client, answer, json.loads(await answer.content.readline()))
        answer.close()


async def listed(client: Client, id: str) -> Told | None:
    status, answer = await client.ask("GET", "/v1/sandboxes")
    assert status == 200
    found = [one for one in answer["sandboxes"] if one["id"] == id]
    return found[0] if found else None


async def unheld(client: Client, box: Box) -> None:
    lease = client.app.leases.find(box.id)
    await until(lambda: not lease.held, "its connection's end was noticed")


async def ended(client: Client, box: Box) -> None:
    await until(lambda: box.id not in client.app.leases._held, "it has ended")


@pytest.fixture(autouse=True)
def nothing_is_left(runner: asyncio.Runner, client: Client) -> Any:
    yield
    runner.run(_drop_all(client))


async def _drop_all(client: Client) -> None:
    for lease in client.app.leases.all():
        await client.app.leases.drop(lease.sandbox.id, None)


# -- kept -------------------------------------------------------------------------------------------------------------


async def test_it_outlives_its_connection(client: Client) -> None:
    async with client.box(epoch=3, keep=LONG) as box:
        await box.run("x = 41; open('made.txt', 'w').write('12')")
        assert (await listed(client, box.id) or {})["held"]
    await unheld(client, box)
    found = await listed(client, box.id)
    assert found is not None
    assert found["idle_seconds"] >= 0
    assert found == {"id": box.id, "epoch": 3, "idle_seconds": found["idle_seconds"], "held": False}
    async with attached(client, box.id, 4) as again:
        first = again.first
        assert (first["id"], first["cells"], first["interpreter"]) == (box.id, 1, 1)
        assert first["limits"]["memory"] == 1 << 30
        [file] = first["files"]
        assert (file["name"], file["size"]) == ("made.txt", 2)
        assert file == (await again.ask("GET", "/files"))[1]["files"][0]
        assert (await again.run("x + 1"))[0]["data"]["text/plain"] == "42"


async def test_nobody_comes(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with client.box(epoch=1, keep=0.05) as box:
            pass
        await ended(client, box)
    assert (await box.ask("GET"))[0] == 404
    assert "nobody attached to it within 0.05 s" in caplog.text


async def test_its_time_does_not_run_while_it_is_held(client: Client) -> None:
    async with client.box(epoch=1, keep=2) as box:
        pass
    async with attached(client, box.id, 2, keep=0.2) as again:
        await asyncio.sleep(2.2)  # the time that it would have had
        assert (await again.run("1"))[-1]["status"] == "ok"
    await ended(client, box)


@pytest.mark.parametrize("terms", [{}, {"wait": 1}, {"epoch": 5, "keep": 0}], ids=str)
async def test_without_it_ends_with_its_connection(source: LocalSource, client: Client, terms: Told) -> None:
    before = await settled(source)
    async with client.box(**terms) as box:
        assert source.in_use == before + 1
    await until(lambda: source.in_use == before, "the sandbox ended")
    assert (await box.ask("GET"))[0] == 404


async def test_a_server_that_stops_keeps_nothing(source: LocalSource) -> None:
    before = await settled(source)
    async with serving(source) as other:
        async with other.box(epoch=1, keep=LONG) as box:
            pass
        await unheld(other, box)
        assert source.in_use == before + 1
    assert source.in_use == before


async def test_one_that_is_kept_and_dies_is_let_go(client: Client) -> None:
    async with client.box(epoch=1, keep=LONG) as box:
        pass
    await unheld(client, box)
    client.app.leases.find(box.id).sandbox._box.lost = "a test says so"
    await ended(client, box)


# -- taken over -------------------------------------------------------------------------------------------------------


async def test_the_holder_is_told(client: Client) -> None:
    async with client.box(epoch=1) as box:
        await box.run("x = 1")
        async with attached(client, box.id, 2) as other:
            told = [line async for line in lines(box.lease)]
            assert told == [{"ended": "taken over under epoch 2", "code": "fenced"}]
            assert (await other.run("x"))[0]["data"]["text/plain"] == "1"
    assert (await listed(client, box.id) or {})["epoch"] == 2


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/cells", b'{"code": "1"}'),
        ("POST", "/interrupt", None),
        ("POST", "/restart", None),
        ("POST", "/packages", b'{"requirements": []}'),
        ("GET", "/files", None),
        ("PUT", "/files", b""),
        ("GET", "/files/a", None),
        ("PUT", "/files/a", b"old"),
        ("DELETE", "/files/a", None),
    ],
)
async def test_whoever_had_it_before_can_do_nothing(client: Client, method: str, path: str, body: bytes | None) -> None:
    async with client.box(epoch=5) as box:
        await box.client.ask("PUT", box.file("a"), data=b"new", headers=under(5))
        async with attached(client, box.id, 7) as other:
            headers = {"Content-Type": "application/x-tar"}
            if path == "/cells":
                async with client.open(method, box.path + path, data=body, headers=under(5)) as answer:
                    told = json.loads((await answer.content.read()).splitlines()[-1])
                    assert (answer.status, told["error"]["code"]) == (409, "fenced")
            else:
                status, told = await box.ask(method, path, data=body, headers={**headers, **under(5)})
                assert (status, told["error"]["code"]) == (409, "fenced"), told
            status, told = await box.ask("GET", "", headers=under(8))
            assert (status, told["error"]["code"], told["error"]["param"]) == (400, "invalid_request", "epoch")
            assert (await other.ask("GET", "", headers=under(7)))[0] == 200
            assert (await other.client.ask("GET", other.file("a")))[1] == b"new"


@pytest.mark.parametrize("epoch", [1, 4, 5])
async def test_a_lower_epoch_takes_nothing(client: Client, epoch: int) -> None:
    async with client.box(epoch=5) as box:
        status, told = await box.ask("POST", "/attach", json={"epoch": epoch})
        assert (status, told["error"]["code"]) == (409, "fenced")
        assert (await box.run("1"))[-1]["status"] == "ok"
        assert (await listed(client, box.id) or {})["held"]


async def test_of_two_at_once_the_higher_has_it(client: Client) -> None:
    async with client.box(epoch=1, limits={"grace": 1}) as box, box.cell(STUBBORN) as cell:
        await anext(lines(cell))

        async def attach(epoch: int) -> int:
            async with client.open("POST", f"{box.path}/attach", json={"epoch": epoch}) as answer:
                if answer.status == 200:
                    await answer.content.readline()
                    assert (await listed(client, box.id) or {})["epoch"] == epoch
                return answer.status

        first = asyncio.create_task(attach(2))
        lease = client.app.leases.find(box.id)
        await until(lambda: lease.epoch == 2, "the first has come")
        assert (await attach(3), await first) == (200, 409)


async def test_it_may_be_ended_with_a_higher_one(client: Client) -> None:
    async with client.box(epoch=5, keep=LONG) as box:
        pass
    assert (await box.ask("DELETE", headers=under(4)))[0] == 409
    assert (await box.ask("DELETE", headers=under(6)))[0] == 204
    assert (await box.ask("GET"))[0] == 404


async def test_one_without_an_epoch_is_its_connections(box: Box) -> None:
    status, told = await box.ask("POST", "/attach", json={"epoch": 1})
    assert (status, told["error"]["param"]) == (400, "epoch")
    status, told = await box.ask("GET", "", headers=under(1))
    assert (status, told["error"]["param"]) == (400, "epoch")
    assert (await box.run("1"))[-1]["status"] == "ok"


@pytest.mark.parametrize(
    ("path", "told", "param"),
    [
        ("/v1/sandboxes", {"epoch": 0}, "epoch"),
        ("/v1/sandboxes", {"epoch": True}, "epoch"),
        ("/v1/sandboxes", {"epoch": 1, "keep": -1}, "keep"),
        ("/v1/sandboxes", {"keep": 1}, "epoch"),
        ("/v1/sandboxes", {"wait": "long"}, "wait"),
        ("attach", {}, "epoch"),
        ("attach", {"epoch": "2"}, "epoch"),
        ("attach", {"epoch": 2, "wait": 1}, "wait"),
    ],
)
async def test_what_cannot_be_read(client: Client, box: Box, path: str, told: Told, param: str) -> None:
    status, answer = await client.ask("POST", f"{box.path}/attach" if path == "attach" else path, json=told)
    assert (status, answer["error"]["code"], answer["error"]["param"]) == (400, "invalid_request", param)


@pytest.mark.parametrize("header", ["", "x", "-1", "1.5", "9" * 20])
async def test_what_is_no_epoch(box: Box, header: str) -> None:
    status, told = await box.ask("GET", "", headers={EPOCH: header})
    assert (status, told["error"]["param"]) == (400, EPOCH)


async def test_there_is_nothing_to_attach_to(client: Client) -> None:
    status, told = await client.ask("POST", "/v1/sandboxes/sbx_none/attach", json={"epoch": 1})
    assert (status, told["error"]["code"]) == (404, "sandbox_lost")


async def test_a_new_interpreter_has_another_number(client: Client) -> None:
    async with client.box(epoch=1) as box:
        await box.run("import os; os._exit(3)")
        async with attached(client, box.id, 2) as other:
            assert (other.first["cells"], other.first["interpreter"]) == (1, 2)
            await other.run("1")
            async with attached(client, box.id, 3) as third:
                assert (third.first["cells"], third.first["interpreter"]) == (2, 2)
                await third.ask("POST", "/restart")
                async with attached(client, box.id, 4) as last:
                    assert last.first["interpreter"] == 3


# -- what runs meanwhile ----------------------------------------------------------------------------------------------


async def test_a_running_cell_is_stopped_first(client: Client) -> None:
    async with client.box(epoch=1) as box, box.cell(SLEEPS) as cell:
        told = lines(cell)
        await anext(told)
        waiting = asyncio.create_task(box.ask("POST", "/cells", data=b'{"code": "x = 9"}', headers=under(1)))
        lease = client.app.leases.find(box.id)
        await until(lambda: len(lease._uses) == 2, "another cell waits for its turn")
        async with asyncio.timeout(PATIENCE), attached(client, box.id, 2) as other:
            last = [line async for line in told][-1]
            assert (last["type"], last["error"]["code"]) == ("error", "fenced")
            assert other.first["cells"] == 1
            assert (await other.run("x"))[0]["data"]["text/plain"] == "7"
        body: bytes = (await waiting)[1]
        assert json.loads(body.splitlines()[-1])["error"]["code"] == "fenced"


async def test_a_holder_that_reads_nothing_holds_nobody_up(client: Client) -> None:
    """As one that was stopped: its connections stay, and what it was sent fills them."""
    async with client.box(epoch=1, limits={"output": 64 * MIB}) as box:
        body = json.dumps(
            {"code": "x = 1\nfor _ in range(600): print('x' * 99_999)\nimport time; time.sleep(600); x = 2"}
        ).encode()
        head = f"POST {box.path}/cells HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        async with client.raw(head.encode() + body) as (reader, _):
            await reader.readline()
            async with asyncio.timeout(PATIENCE), attached(client, box.id, 2) as other:
                assert (await other.run("x"))[0]["data"]["text/plain"] == "1"


@pytest.mark.parametrize("told", [True, False], ids=["length", "chunks"])
@pytest.mark.parametrize("archive", [True, False], ids=["archive", "file"])
async def test_an_upload_that_is_under_way_puts_nothing_in_place(client: Client, told: bool, archive: bool) -> None:
    sent, go = asyncio.Event(), asyncio.Event()

    async def half() -> AsyncIterator[bytes]:
        yield bytes(6 * MIB)
        sent.set()
        await go.wait()
        yield bytes(6 * MIB)

    headers = {"Content-Type": "application/x-tar" if archive else "application/octet-stream", **under(1)}
    if told:
        headers["Content-Length"] = str(12 * MIB)
    async with client.box(epoch=1) as box:
        path = f"{box.path}/files" if archive else box.file("half")
        data = _as_archive(half(), 12 * MIB - 1536) if archive else half()
        upload = asyncio.create_task(client.ask("PUT", path, data=data, headers=headers))
        await sent.wait()
        lease = client.app.leases.find(box.id)
        await until(lambda: bool(lease._here), "the upload has begun")
        async with asyncio.timeout(PATIENCE), attached(client, box.id, 2) as other:
            assert other.first["files"] == []
            go.set()
            status = None
            try:
                status, answer = await upload
            except aiohttp.ClientError:
                pass  # its connection was closed while it still sent
            assert status is None or (status, answer["error"]["code"]) == (409, "fenced")
            assert (await other.ask("GET", "/files"))[1] == {"files": []}


async def _as_archive(body: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """One file of that size."""
    import tarfile

    info = tarfile.TarInfo("half")
    info.size = size
    head = info.tobuf()
    async for part in body:
        yield head + part[len(head) :]
        head = b""


async def test_a_client_that_leaves_while_it_takes_over(client: Client) -> None:
    """It is kept on the newest terms."""
    async with client.box(epoch=1, limits={"grace": 1}) as box, box.cell(STUBBORN) as cell:
        await anext(lines(cell))
        body = b'{"epoch": 2, "keep": 600}'
        head = f"POST {box.path}/attach HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        lease = client.app.leases.find(box.id)
        async with client.raw(head.encode() + body):
            await until(lambda: lease.epoch == 2, "it has come")
        await unheld(client, box)
    async with attached(client, box.id, 3) as other:
        assert (await other.run("1"))[-1]["status"] == "ok"


# -- a full house -----------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> LocalSource:
    return LocalSource(JailOptions(cache=tmp_path, warm=0, preload=False, most=1))


async def test_whoever_waits_longest_gets_the_next(small: LocalSource) -> None:
    try:
        async with serving(small) as client:
            order: list[int] = []

            async def take(number: int) -> None:
                async with client.box(wait=PATIENCE):
                    order.append(number)

            async with client.box() as box:
                waiting = []
                for number in range(3):
                    waiting.append(asyncio.create_task(take(number)))
                    await until(lambda: len(small._places._queue) == len(waiting), "it waits")
                waiting[1].cancel()
                await until(lambda: len(small._places._queue) == 2, "it waits no more")
                assert (await client.ask("POST", "/v1/sandboxes", json={}))[0] == 503
                assert (await client.ask("POST", "/execute", json={"code": "1"}))[0] == 429
                assert await box.ask("DELETE") == (204, None)
            await asyncio.wait(waiting)
            assert order == [0, 2]
    finally:
        await small.close()


async def test_whoever_waits_too_long_is_told(small: LocalSource) -> None:
    try:
        async with serving(small) as client, client.box():
            status, told = await client.ask("POST", "/v1/sandboxes", json={"wait": 0.05})
            assert (status, told["error"]["code"]) == (503, "none_free")
            assert "none became free within 0.05 s" in told["error"]["message"]
    finally:
        await small.close()


async def test_one_that_nobody_came_back_for_makes_room(small: LocalSource, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        async with serving(small) as client:
            async with client.box(epoch=1, keep=LONG) as box:
                pass
            await unheld(client, box)
            status, told = await client.ask("POST", "/v1/sandboxes", json={})
            assert (status, told["error"]["code"]) == (503, "none_free")
            monkeypatch.setattr(leases, "_ABANDONED", 0.0)
            async with client.box() as other:
                assert other.id != box.id
                assert (await box.ask("GET"))[0] == 404
    finally:
        await small.close()
