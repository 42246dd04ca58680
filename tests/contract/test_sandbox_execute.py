"""A server that has `/execute` alone: what it does in place of what it cannot, how it is told, and what goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import execute_server
from tests.helpers.execute_server import ExecuteServer

from belljar.errors import BadSettings, InvalidRequest, Lost, NoneFree, Refused, TooLarge
from belljar.gateway.interpreter.prompts import RESTARTED
from belljar.sandbox.base import MIB, Cell, Limits, SandboxHandle, SandboxSource, Spec
from belljar.sandbox.outputs import Display, Run, Stderr, Stdout, fold
from belljar.sandbox.remote import RemoteSource, ServersSource
from belljar.sandbox.remote.execute_codec import whole_seconds
from belljar.sandbox.remote.execute_sandbox import ExecuteSandbox

from .conftest import LACKS, PATIENCE, SOURCES, Box, Boxes, until
from .houses import opened

executing = pytest.mark.parametrize("source", ["execute"], indirect=True)


@pytest.fixture(scope="module")
def shared() -> Iterator[ExecuteServer]:
    with execute_server.running() as server:
        yield server


@pytest.fixture
def server(shared: ExecuteServer) -> Iterator[ExecuteServer]:
    """One that a test may set as it likes."""
    shared.asked.clear()
    yield shared
    shared.token, shared.answer, shared.capacity, shared.mode, shared.load = None, None, 8, "python", 0


@pytest.fixture
def whole(sources: Callable[[str], SandboxSource]) -> RemoteSource:
    """A server that has all of it."""
    made = sources("remote")
    assert isinstance(made, RemoteSource)
    made.learn()  # it is there then
    return made


@asynccontextmanager
async def source_of(server: ExecuteServer, **more: Any) -> AsyncIterator[RemoteSource]:
    source = RemoteSource(server.url, **more)
    try:
        yield source
    finally:
        await source.close()


async def run(sandbox: Any, code: str, timeout: float | None = None) -> Run:
    return fold([output async for output in sandbox.run(Cell(code, timeout))])


async def begun(box: Box) -> ExecuteSandbox:
    """Its sandbox, once a cell was sent."""
    sandbox = box.sandbox
    assert isinstance(sandbox, ExecuteSandbox)
    await until(lambda: sandbox._running is not None, "it was begun")
    return sandbox


# -- what it cannot do ------------------------------------------------------------------------------------------------


def test_what_is_lacking_is_named_for_sources_that_are_there() -> None:
    assert set(LACKS) <= set(SOURCES)


@executing
async def test_no_variables_stay_and_files_do(box: Box) -> None:
    first = await box.run("x = 1\nopen('d.txt', 'w').write('kept')")
    assert (first.exit.status, first.exit.kept) == ("ok", False)
    second = await box.run("'x' in globals(), open('d.txt').read()")
    assert second.text == "(False, 'kept')"


@executing
async def test_outputs_come_at_the_end_each_kind_in_its_order(box: Box) -> None:
    got = await box.run("import sys\nprint('e', file=sys.stderr)\nprint('o')\ndisplay({'a': 1})\n'value'")
    assert got.outputs == (
        Stdout("o\n"), Stderr("e\n"), Display({"text/plain": "{'a': 1}"}), got.result, got.exit,
    )  # fmt: skip
    assert got.text == "'value'"


@executing
async def test_await_and_what_is_left_open(box: Box) -> None:
    got = await box.run("import asyncio\nawait asyncio.sleep(0)\nheld = open('held', 'w'); held.write('abc')\n7")
    assert (got.text, got.stderr) == ("7", "")
    assert await box.files.read("held") == b"abc"


@executing
@pytest.mark.parametrize(
    ("code", "status", "number", "text"),
    [
        ("import sys; sys.exit()", "ok", 0, "The cell ended itself with exit code 0."),
        ("import sys; sys.exit(3)", "raised", 3, "SystemExit: 3. The cell ended itself with exit code 3."),
        ("import sys; sys.exit('text')", "raised", 1, "SystemExit: text. The cell ended itself with exit code 1."),
        ("1 / 0", "raised", None, "ZeroDivisionError: division by zero"),
        ("import os; os._exit(7)", "killed", 7, "The code ended its own interpreter with exit code 7"),
        ("import ctypes; ctypes.string_at(0)", "killed", -11, "The interpreter crashed: a segmentation fault"),
    ],
)
async def test_how_cells_end(box: Box, code: str, status: str, number: int | None, text: str) -> None:
    await box.files.write("sub/kept", b"x")
    got = await box.run(f"open('made', 'w').write('m')\nprint('before', flush=True)\n{code}")
    assert (got.stdout, got.exit.status, got.exit.code, got.exit.kept) == ("before\n", status, number, False)
    assert got.exit.text.startswith(text)
    assert [(one.name, one.change) for one in got.files] == [("made", "created")]
    assert (await box.run("open('sub/kept').read() + open('made').read()")).text == "'xm'"


@executing
async def test_a_timeout_is_in_whole_seconds_and_keeps_the_files(box: Box) -> None:
    got = await box.run("print('on', flush=True)\nopen('made', 'w').write('m')\nimport time; time.sleep(60)", 0.3)
    assert (got.stdout, got.stderr, got.exit.status, got.exit.limit) == ("on\n", "", "timed_out", "time")
    assert got.exit.text.startswith("Stopped: the cell ran longer than its 1 s. The variables are gone;")
    assert await box.files.read("made") == b"m"


@pytest.mark.parametrize(("asked", "sent"), [(0.2, 1), (1.0, 1), (1.01, 2), (60.0, 60), (None, 3600), (9999.0, 3600)])
def test_seconds_are_whole_ones(asked: float | None, sent: int) -> None:
    assert whole_seconds(asked) == sent


@executing
@pytest.mark.parametrize("thread", [False, True], ids=["from a task", "from a thread"])
async def test_an_interrupt_leaves_the_code_to_its_server(box: Box, source: SandboxSource, thread: bool) -> None:
    running = asyncio.create_task(box.run("import time; time.sleep(2)", 30))
    sandbox = await begun(box)
    if thread:
        await asyncio.to_thread(sandbox.interrupt)
    else:
        sandbox.interrupt()
    got = await running
    assert (got.exit.status, got.exit.reason, got.exit.kept) == ("killed", "interrupted", False)
    assert (await box.run("1")).text == "1"


@executing
async def test_closing_ends_a_cell_and_cancelling_too(boxes: Boxes) -> None:
    async with boxes() as box:
        left = asyncio.create_task(box.run("import time; time.sleep(2)"))
        await begun(box)
    assert (await left).exit.reason == "lost"
    async with boxes() as box:
        task = asyncio.create_task(box.run("import time; time.sleep(2)"))
        await begun(box)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await box.run("1")).text == "1"


@executing
async def test_nobody_can_attach(box: Box, source: SandboxSource) -> None:
    assert box.sandbox.handle is None
    with pytest.raises(Refused, match="keeps no sandboxes"):
        await box.sandbox.detach()
    with pytest.raises(Lost, match="keeps no sandboxes"):
        async with source.attach(SandboxHandle("x", "y"), 2):
            raise AssertionError("there must be no sandbox")


@executing
async def test_what_does_not_fit_into_a_request_is_refused(box: Box) -> None:
    await box.files.write("a", bytes(6 * MIB))
    with pytest.raises(TooLarge, match="'b' does not fit: the workspace holds 7340032 bytes in all"):
        await box.files.write("b", bytes(2 * MIB))
    got = await box.run("import os; os.path.getsize('a')")
    assert got.text == str(6 * MIB)
    with pytest.raises(TooLarge, match=r"^code: .* 10 MiB are the most .* /execute alone; delete files"):
        await box.run(f"x = {'y' * (2 * MIB)!r}")


@executing
async def test_the_cap_of_outputs_holds(boxes: Boxes) -> None:
    async with boxes(output=1000) as box:
        got = await box.run("print('x' * 5000)")
        assert (got.stdout, got.stderr) == ("x" * 1000, "\n[output cut at 1000 bytes of 4.884 KiB]\n")


@executing
async def test_what_code_writes_into_the_index_stays_in_the_workspace(box: Box) -> None:
    """The index is written by the process of the code: a name that leads elsewhere is nobody's."""
    forged = (
        "import sys\n"
        "def leave(home, prefix, before, outcome):\n    import json, os\n"
        "    open(os.path.join(home, prefix + '0'), 'w').write('x')\n"
        "    outcome.update(files=[[prefix + '0', '../../evil', 1.0, False], [prefix + '0', 'good', 1.0, False]], "
        "gone=['/etc/passwd'])\n"
        "    json.dump(outcome, open(os.path.join(home, prefix + 'index'), 'w'))\n"
        "frame = sys._getframe()\n"
        "while 'leave_files' not in frame.f_globals: frame = frame.f_back\n"
        "frame.f_globals['leave_files'] = leave\n"
    )
    got = await box.run(forged)
    assert [one.name for one in got.files] == ["good"], got
    assert [one.name for one in await box.files.list()] == ["good"]


# -- told apart -------------------------------------------------------------------------------------------------------


async def test_it_is_told_apart_at_once_and_asked_for_its_packages_once(server: ExecuteServer) -> None:
    async with source_of(server) as source:
        for _ in range(3):
            await source.prepare()
        assert source.stateless
        assert source.isolation == "unknown, and no variables stay (it has /execute alone)"
        assert {"numpy", "pandas"} <= {one.name for one in source.packages}
        assert len(server.asked) == 1
        async with source.acquire(Spec()) as sandbox:
            assert (await run(sandbox, "6 * 7")).text == "42"


async def test_without_a_look_it_is_told_apart_by_what_it_answers(server: ExecuteServer) -> None:
    async with source_of(server) as source, source.acquire(Spec(), epoch=1, wait=5) as sandbox:
        assert isinstance(sandbox, ExecuteSandbox)
        assert source.stateless
        assert (await run(sandbox, "6 * 7")).text == "42"


@pytest.mark.parametrize("first", ["execute", "sandbox"])
async def test_it_is_told_apart_again_when_it_changes(server: ExecuteServer, whole: RemoteSource, first: str) -> None:
    """Another server at the same address: as after a rollout, or a roll-back."""
    ways = {"execute": ("127.0.0.1", server.server_port), "sandbox": whole.url.removeprefix("unix://")}
    async with relay() as (url, way):
        source = RemoteSource(url)
        try:
            for kind in (first, *(ways.keys() - {first}), first):
                way[0] = ways[kind]
                async with source.acquire(Spec()) as sandbox:
                    assert isinstance(sandbox, ExecuteSandbox) == source.stateless == (kind == "execute")
                    assert (await run(sandbox, "6 * 7")).text == "42"
        finally:
            await source.close()


@asynccontextmanager
async def relay() -> AsyncIterator[tuple[str, list[Any]]]:
    """An address whose connections lead to wherever is said, one request each."""
    way: list[Any] = [None]

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to = way[0]
        if to is None:
            return writer.close()
        opened = asyncio.open_unix_connection(to) if isinstance(to, str) else asyncio.open_connection(*to)
        there, back = await opened
        one = (b"\r\n", b"\r\nConnection: close\r\n", 1)
        hung_up = contextlib.suppress(asyncio.IncompleteReadError, OSError)
        with contextlib.closing(back), contextlib.closing(writer), hung_up:
            back.write((await reader.readuntil(b"\r\n\r\n")).replace(*one))
            sending = asyncio.create_task(pump(reader, back))
            writer.write((await there.readuntil(b"\r\n\r\n")).replace(*one))
            await asyncio.gather(sending, pump(there, writer))

    serving = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{serving.sockets[0].getsockname()[1]}", way
    finally:
        serving.close()


@pytest.mark.parametrize(
    ("health", "said"),
    [
        (b"<html>", "is no belljar sandbox"),
        (b'{"hello": 1}', "is no belljar sandbox"),
        (b'{"status": "healthy"}', "is no belljar sandbox"),  # and nothing at /execute
        (b'{"status": "healthy", "mode": "golang"}', "runs golang, and code here is Python"),
    ],
)
async def test_what_is_no_such_server_is_told(health: bytes, said: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, OSError):
            head = await reader.readuntil(b"\r\n\r\n")
            status, body = (b"200 OK", health) if b"/health" in head else (b"404 Not Found", b"404")
            told = b"Connection: close\r\nContent-Length: %d" % len(body)
            writer.write(b"HTTP/1.1 %s\r\n%s\r\n\r\n%s" % (status, told, body))
            await writer.drain()

    serving = await asyncio.start_server(serve, "127.0.0.1", 0)
    source = RemoteSource(f"http://127.0.0.1:{serving.sockets[0].getsockname()[1]}", patience=0.1)
    try:
        with pytest.raises(BadSettings, match=said):
            await source.prepare()
        with pytest.raises(BadSettings, match=said):
            async with source.acquire(Spec()):
                raise AssertionError("there must be no sandbox")
    finally:
        await source.close()
        serving.close()


async def test_its_token_is_sent_and_a_wrong_one_told(server: ExecuteServer) -> None:
    server.token = "right"
    async with source_of(server, token="right") as source, source.acquire(Spec()) as sandbox:
        assert (await run(sandbox, "6 * 7")).text == "42"
        server.token = "another"
        with pytest.raises(BadSettings, match=r"^sandbox_token: .* does not take ours"):
            await run(sandbox, "1")
    async with source_of(server) as source:
        with pytest.raises(BadSettings, match=r"^sandbox_token: .* does not take requests without one"):
            await source.prepare()


async def test_one_of_several_servers_is_such_a_one(server: ExecuteServer, whole: RemoteSource) -> None:
    source = ServersSource([server.url, whole.url])
    try:
        await source.prepare()
        assert source.stateless, "nobody can count on variables"
        for _ in range(4):
            async with source.acquire(Spec()) as sandbox:
                assert (await run(sandbox, "6 * 7")).text == "42"
    finally:
        await source.close()


# -- what goes wrong --------------------------------------------------------------------------------------------------


async def test_a_full_server_is_waited_for_and_told(server: ExecuteServer) -> None:
    async with source_of(server) as source:
        await source.prepare()
        server.load = server.capacity
        with pytest.raises(NoneFree, match="runs 8 of 8 at once") as caught:
            async with source.acquire(Spec()):
                raise AssertionError("there must be no sandbox")
        assert caught.value.most == 8
        threading.Timer(0.1, lambda: setattr(server, "load", 0)).start()
        async with source.acquire(Spec(), wait=PATIENCE) as sandbox:
            assert (await run(sandbox, "1")).text == "1"
            server.load = server.capacity
            threading.Timer(0.1, lambda: setattr(server, "load", 0)).start()
            assert (await run(sandbox, "2")).text == "2"
        async with source.acquire(Spec()) as sandbox:
            server.load = server.capacity
            with pytest.raises(NoneFree, match=r"is full: at capacity \(9/8 concurrent executions\)"):
                await run(sandbox, "3")


FAULTS: dict[str, tuple[int, bytes, str]] = {
    "not JSON": (200, b"<html>", "it is not JSON"),
    "no object": (200, b"[]", "it is no object"),
    "nothing in it": (200, b"{}", "it has no stdout"),
    "a proxy": (502, b"<html>Bad Gateway", "it answered with 502"),
    "no base64": (200, b'{"stdout":"","stderr":"","exit_code":0,"execution_time_ms":1,"files_produced":{"a":1}}',
                  "are not base64"),
}  # fmt: skip


@pytest.mark.parametrize("fault", [*FAULTS, "dies"])
async def test_an_answer_that_is_none_is_a_loss_and_the_files_stay(server: ExecuteServer, fault: str) -> None:
    def answer(handler: Any) -> bool:
        if fault == "dies":
            handler.connection.shutdown(socket.SHUT_RDWR)
        else:
            handler.tell(*FAULTS[fault][:2])
        return True

    async with source_of(server) as source, source.acquire(Spec()) as sandbox:
        await sandbox.files.write("kept", b"x")
        server.answer = answer
        before = len(server.asked)
        got = await run(sandbox, "1")
        assert len(server.asked) == before + 1, "what may have run is not sent again"
        assert (got.exit.status, got.exit.reason, got.exit.limit) == ("killed", "lost", "lost")
        assert got.exit.text.startswith(f"The sandbox was lost (the sandbox server at {server.url}: ")
        assert fault == "dies" or FAULTS[fault][2] in got.exit.text
        server.answer = None
        assert (await run(sandbox, "open('kept').read()")).text == "'x'"


async def test_a_refusal_says_why_and_nothing_was_run(server: ExecuteServer) -> None:
    async with source_of(server) as source, source.acquire(Spec()) as sandbox:

        def refuse(handler: Any) -> bool:
            handler.tell(500, {"error": "failed to create temp dir"})
            return True

        server.answer = refuse
        with pytest.raises(Refused, match=r"refuses the code \(500\): failed to create temp dir"):
            await run(sandbox, "1")


async def test_one_that_is_gone_is_told_and_found_again(server: ExecuteServer) -> None:
    async with relay() as (url, way):
        way[0] = ("127.0.0.1", server.server_port)
        source = RemoteSource(url, patience=0.2)
        try:
            await source.prepare()
            async with source.acquire(Spec()) as sandbox:
                way[0] = None
                assert (await run(sandbox, "1")).exit.reason == "lost"
                with pytest.raises(Refused, match="does not answer"):
                    async with source.acquire(Spec()):
                        raise AssertionError("there must be no sandbox")
                way[0] = ("127.0.0.1", server.server_port)
                assert (await run(sandbox, "6 * 7")).text == "42"
        finally:
            await source.close()


async def test_nobody_at_the_address_is_no_loss(server: ExecuteServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    source = RemoteSource(f"http://127.0.0.1:{port}", patience=0.1)
    try:
        with pytest.raises(Refused, match="does not answer: "):
            await run(ExecuteSandbox(source._door, Spec(), wait=0), "1")
    finally:
        await source.close()


async def test_requirements_are_sent_with_each_cell(server: ExecuteServer, home: Path) -> None:
    async with source_of(server) as source:
        with pytest.raises(Refused, match=r"^requirements: no version of nowhere found"):
            async with source.acquire(Spec(requirements=("nowhere",))):
                raise AssertionError("there must be no sandbox")
        with pytest.raises(InvalidRequest, match="'other' is not an environment"):
            async with source.acquire(Spec(packages="other")):
                raise AssertionError("there must be no sandbox")


async def test_the_limits_that_are_sent(server: ExecuteServer) -> None:
    async with source_of(server) as source, source.acquire(Spec(Limits(timeout=12.5))) as sandbox:
        await run(sandbox, "1")
        asked = server.asked[-1]
        assert asked["timeout_seconds"] == 13
        assert set(asked) == {"code", "timeout_seconds"}


# -- behind a gateway -------------------------------------------------------------------------------------------------


@executing
async def test_a_container_over_it_has_a_sandbox_for_each_call(source: SandboxSource, tmp_path: Path) -> None:
    assert isinstance(source, RemoteSource)
    await source.prepare()
    async with opened(source, tmp_path / "store") as house:
        container = await house.container()
        await house.put(container, "in/data.csv", b"1\n2\n")
        about = house.interpreter.declare(container).description or ""
        assert "variables and imports are gone, and only files stay" in about
        assert "no paths that begin with /mnt/data" in about
        assert "7 MiB of files" in about
        assert "notebook" not in about
        first = await house.call(container, "x = 1\nprint(open('in/data.csv').read())\nopen('out.txt', 'w').write('x')")
        assert first.status == "completed"
        assert [one.path for one in first.files] == ["out.txt"]
        second = await house.call(container, "import os\nos.remove('in/data.csv')\n'x' in globals()")
        assert (second.told.startswith("False"), RESTARTED in second.told) == (True, False)
        assert await house.files(container) == {"out.txt": b"x"}
        assert not house.source.alive


@executing
async def test_a_container_goes_on_when_its_server_becomes_such_a_one(
    source: SandboxSource, local: SandboxSource, tmp_path: Path
) -> None:
    """And the other way round, with a word about the variables that are gone."""
    changing = Changing(local)
    async with opened(changing, tmp_path / "store") as house:
        container = await house.container()
        assert (await house.call(container, "x = 1\nopen('kept', 'w').write('k')")).status == "completed"
        changing.now, changing.stateless = source, True
        ran = await house.call(container, "'x' in globals(), open('kept').read()")
        assert ran.told.startswith("(False, 'k')")
        assert not house.source.alive
        changing.now, changing.stateless = local, False
        ran = await house.call(container, "'x' in globals(), open('kept').read()")
        assert ran.told.startswith(RESTARTED)
        assert "(False, 'k')" in ran.told


class Changing:
    """A source that is another one at times."""

    def __init__(self, now: SandboxSource) -> None:
        self.now, self.stateless = now, False

    def acquire(self, spec: Spec, **more: Any) -> Any:
        return self.now.acquire(spec, **more)

    def attach(self, handle: SandboxHandle, epoch: int) -> Any:
        return self.now.attach(handle, epoch)

    async def close(self) -> None: ...
