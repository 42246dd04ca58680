"""From acquiring to closing: fresh, separate, restartable, bounded in number, and gone without a trace."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests import traces
from tests.helpers import forked

from belljar.errors import BelljarError, InvalidRequest, Lost, NoneFree, Refused
from belljar.sandbox.base import Cell, Limits, Sandbox, SandboxHandle, SandboxSource, Spec
from belljar.sandbox.local import box as jailed
from belljar.sandbox.local import cell_run
from belljar.sandbox.local.jail import Jail
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.outputs import Exit, Stdout, fold

from .conftest import PATIENCE, Box, Boxes, appears, needs, until, wheel


@needs("walls")
async def test_sandboxes_are_fresh_and_separate(boxes: Boxes) -> None:
    async with boxes() as one, boxes() as other:
        assert one.sandbox.id != other.sandbox.id
        await one.run("x = 1; open('mine', 'w').write('1'); open('/tmp/mine', 'w').write('1')")
        run = await other.run("import os; ('x' in globals(), os.listdir('/mnt/data'), os.path.exists('/tmp/mine'))")
        assert run.text == "(False, [], False)"
    async with boxes() as third:
        assert (await third.run("import os; ('x' in globals(), os.listdir())")).text == "(False, [])"


@needs("walls")
async def test_restart_gives_a_new_interpreter_with_the_same_files(box: Box) -> None:
    await box.files.write("kept", b"x")
    await box.run("x = 1\nimport subprocess\np = subprocess.Popen(['sleep', '60'])\nopen('pid', 'w').write(str(p.pid))")
    await box.sandbox.restart()
    run = await box.run(
        "import os\n('x' in globals(), sorted(os.listdir()), os.path.exists('/proc/' + open('pid').read()))"
    )
    assert run.text == "(False, ['kept', 'pid'], False)"
    for _ in range(3):
        await box.sandbox.restart()
    assert (await box.run("1")).text == "1"


async def test_restart_waits_for_the_running_cell(box: Box) -> None:
    cell = asyncio.create_task(box.run("import time; time.sleep(0.2); 'done'"))
    await asyncio.sleep(0.05)
    await box.sandbox.restart()
    assert (await cell).text == "'done'"
    assert (await box.run("1")).text == "1"


async def test_an_interpreter_that_ended_between_cells_is_replaced(box: Box) -> None:
    await box.run("import os, threading\nthreading.Timer(0.05, os._exit, [4]).start()")
    await asyncio.sleep(0.5)
    run = await box.run("print('x'); 1")
    assert run.exit.reason == "exited" or run.text == "1"
    assert (await box.run("2")).text == "2"


async def test_a_closed_sandbox_is_lost(boxes: Boxes) -> None:
    async with boxes() as box:
        await box.run("1")
    with pytest.raises(Lost):
        await box.run("1")
    with pytest.raises(Lost):
        await box.files.list()
    with pytest.raises(Lost):
        await box.files.write("x", b"")
    with pytest.raises(Lost):
        await box.sandbox.restart()
    with pytest.raises(Lost):
        await box.sandbox.install(["numpy"])
    box.sandbox.interrupt()


@needs("live")
@pytest.mark.parametrize("code", ["import time; time.sleep(60)", "while True: print('x')"])
async def test_closing_ends_a_running_cell(boxes: Boxes, code: str) -> None:
    async with boxes() as box:
        cell = asyncio.create_task(box.run(f"open('running', 'w')\n{code}"))
        await appears(box, "running")
    async with asyncio.timeout(PATIENCE):
        try:
            run = await cell
        except Lost:
            pass
        else:
            assert (run.exit.status, run.exit.kept) == ("killed", False)
    async with boxes() as another:
        assert (await another.run("1")).text == "1"


@needs("live")
async def test_closing_under_a_stream_that_is_left_open(boxes: Boxes) -> None:
    async with boxes() as box:
        stream = box.stream("import sys, time\nsys.stdout.write('ready')\ntime.sleep(60)")
        assert await anext(stream) == Stdout("ready")
    async with asyncio.timeout(PATIENCE):
        try:
            rest = [output async for output in stream]
        except Lost:
            pass
        else:
            assert isinstance(rest[-1], Exit)
            assert not rest[-1].kept


async def test_an_exception_inside_the_context_passes_through(boxes: Boxes) -> None:
    async def fail() -> None:
        async with boxes() as box:
            await box.run("1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


# Requirements


@needs("walls", "environments")
async def test_requirements_can_be_imported_and_not_changed(boxes: Boxes, home: Path) -> None:
    wheel(home / "wheels", "tinything", "def answer(): return 42\n")
    async with boxes(requirements=("tinything",)) as box:
        assert (await box.run("import tinything; tinything.answer()")).text == "42"
        assert (await box.run("import importlib.metadata as m; m.version('tinything')")).text == "'1.0'"
        assert (await box.run("import numpy, pandas; pandas.Series([1]).sum().item()")).text == "1"
        run = await box.run("open(tinything.__file__, 'a')")
        assert run.error is not None
        assert run.error.type in ("OSError", "PermissionError")
        run = await box.run("import os; os.listdir('/pkgs')")
        assert run.exit.status == "raised"
        await box.sandbox.restart()
        assert (await box.run("import tinything; tinything.answer()")).text == "42"
    async with boxes() as box:
        assert (await box.run("import tinything")).exit.status == "raised"


@needs("environments")
async def test_the_bare_environment_gets_what_others_have_preloaded(boxes: Boxes, home: Path) -> None:
    wheel(home / "wheels", "numpy", "is_ours = True\n", version="99.0")
    async with boxes(packages="none", requirements=("numpy",)) as box:
        assert (await box.run("import numpy; numpy.is_ours")).text == "True"


@pytest.mark.parametrize(
    "requirement", ["no-such-thing-anywhere", "-r /etc/passwd", "https://example.com/x.whl", "json", ""]
)
async def test_what_cannot_be_had_is_explained_before_anything_runs(boxes: Boxes, requirement: str) -> None:
    with pytest.raises(BelljarError, match=r"^requirements(\[0\])?: "):
        async with boxes(requirements=(requirement,)):
            raise AssertionError("there must be no sandbox")


async def test_an_unknown_environment_is_refused(boxes: Boxes) -> None:
    with pytest.raises(BelljarError, match="'other' is not an environment; use one of auto, data, none"):
        async with boxes(packages="other"):
            raise AssertionError("there must be no sandbox")


# Capacity, and leaving nothing. These make sources of their own, so they speak of the local one.


async def test_none_is_free_at_the_cap(home: Path) -> None:
    source = LocalSource(JailOptions(cache=home / "cache", most=2, preload=False))
    try:
        async with source.acquire(Spec(packages="none")), AsyncExitStack() as stack:
            await stack.enter_async_context(source.acquire(Spec(packages="none")))
            with pytest.raises(NoneFree, match=r"all 2 sandboxes that there may be \(max_sandboxes\)") as caught:
                await stack.enter_async_context(source.acquire(Spec(packages="none")))
            assert (caught.value.code, caught.value.retryable) == ("none_free", True)
            await stack.aclose()
            sandbox = await stack.enter_async_context(source.acquire(Spec(packages="none")))
            assert isinstance([output async for output in sandbox.run(Cell("1"))][-1], Exit)
        with pytest.raises(InvalidRequest):
            async with source.acquire(Spec(packages="none", requirements=("json",))):
                pass
        async with source.acquire(Spec(packages="none")), source.acquire(Spec(packages="none")):
            pass  # what failed took no place for ever
    finally:
        await source.close()


async def test_a_closed_source_gives_nothing(home: Path) -> None:
    source = LocalSource(JailOptions(cache=home / "cache", preload=False))
    async with source.acquire(Spec(packages="none")):
        pass
    await source.close()
    await source.close()
    with pytest.raises(Lost):
        async with source.acquire(Spec(packages="none")):
            pass


@pytest.mark.parametrize("warm", [0, 3])
def test_a_source_leaves_nothing_behind(home: Path, warm: int, tmp_path: Path) -> None:
    program = "import asyncio, sys, pathlib\nsys.path.append(sys.argv[1])\n" + (
        "from tests.contract.leaving import leave_nothing\n"
        "asyncio.run(leave_nothing(pathlib.Path(sys.argv[2]), int(sys.argv[3])))"
    )
    given = str(Path(__file__).parents[2]), str(home / "cache"), str(warm)
    ran = forked.run("-c", program, *given, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.parametrize("first", range(194, 205))
async def test_a_jail_starts_with_whichever_descriptors_are_free(home: Path, first: int) -> None:
    filling = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while filling[-1] < first - 1:
            filling.append(os.dup(filling[0]))
        for fd in filling[1:]:
            if fd >= first:
                filling.remove(fd)
                os.close(fd)
        source = LocalSource(JailOptions(cache=home / "cache", warm=0, preload=False))
        try:
            async with source.acquire(Spec(packages="none")) as sandbox:
                assert isinstance([output async for output in sandbox.run(Cell("1"))][-1], Exit)
        finally:
            await source.close()
    finally:
        for fd in filling:
            os.close(fd)


async def test_a_jail_that_died_keeps_sandboxes_ready_again_once_their_kind_is_asked_for(home: Path) -> None:
    source = LocalSource(JailOptions(cache=home / "cache", warm=1, warm_spec=Spec(packages="data"), preload=False))
    try:
        async with source.acquire(Spec(packages="data")):
            await until(lambda: source.spare == 1, "one is ready")
        jail = source._jail
        assert jail is not None
        os.kill(jail.pid, signal.SIGKILL)
        await until(lambda: not jail.alive, "it has died")
        for name in ("none", "data", "none", "data"):  # the new jail has not loaded the warm one's kind at first
            async with source.acquire(Spec(packages=name)) as sandbox:
                assert isinstance([output async for output in sandbox.run(Cell("1"))][-1], Exit)
        await until(lambda: source.spare == 1, "one is ready again")
    finally:
        await source.close()


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_jail_that_is_killed_while_it_makes_a_sandbox_is_replaced(
    home: Path, blocking: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = LocalSource(JailOptions(cache=home / "cache", preload=False))
    spec = Spec(packages="none")
    try:
        async with source.acquire(spec):
            jail = source._jail
        assert jail is not None
        create = jail.create

        def be_killed(environment: str, fds: list[int], *, again: bool) -> None:
            os.kill(jail.pid, signal.SIGKILL)
            jail._process.wait(PATIENCE)
            create(environment, fds, again=again)

        monkeypatch.setattr(jail, "create", be_killed)
        if blocking:
            with source.lease(spec) as box:
                assert box.alive
        else:
            async with source.acquire(spec) as sandbox:
                assert isinstance([output async for output in sandbox.run(Cell("1"))][-1], Exit)
        assert source._jail is not jail
    finally:
        await source.close()


async def test_what_is_ready_in_a_jail_that_has_ended_is_neither_counted_nor_given(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jail's own end comes first: its sandboxes may live a moment longer."""
    spec = Spec(packages="none")
    source = LocalSource(JailOptions(cache=home / "cache", warm=1, warm_spec=spec, preload=False))
    try:
        async with source.acquire(spec) as held:
            await until(lambda: source.spare == 1, "one is ready")
            jail, [ready] = source._jail, source._pool.ready
            monkeypatch.setattr(Jail, "alive", property(lambda one: one is not jail and one._process.poll() is None))
            assert source.spare == 0
            assert not held.alive
            async with source.acquire(spec) as sandbox:
                assert sandbox.id != ready.id
                assert isinstance([output async for output in sandbox.run(Cell("1"))][-1], Exit)
    finally:
        await source.close()


async def test_one_environment_has_one_name_whatever_it_was_asked_by(home: Path) -> None:
    """`auto` and what it stands for are one kind: the one kept ready will do for both, and one zygote is enough."""
    before = zygotes()
    source = LocalSource(JailOptions(cache=home / "cache", warm=1, preload=False))
    try:
        for name in ("auto", "data", "auto"):
            async with source.acquire(Spec(packages=name)):
                assert len(zygotes() - before) == 1
            await until(lambda: source.spare == 1, "one is ready")
    finally:
        await source.close()


def zygotes() -> set[int]:
    """Those below this process. What one has just forked bears its name too, until it gives itself another."""

    def read(pid: int) -> tuple[str, int]:
        with contextlib.suppress(OSError):
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
            return name, int(rest.split()[1])
        return "", 0

    parents = {
        pid: parent
        for pid in traces.descendants(os.getpid())
        for name, parent in [read(pid)]
        if name == "belljar-zygote"
    }
    return {pid for pid, parent in parents.items() if parent not in parents}


async def test_a_zygote_that_was_renewed_goes_when_its_last_sandbox_has(home: Path) -> None:
    before = zygotes()
    options = JailOptions(cache=home / "cache", warm=1, warm_spec=Spec(packages="none"), preload=False, renew=3)
    source = LocalSource(options)
    try:
        first: set[int] = set()
        for _ in range(8):
            async with source.acquire(Spec(packages="none")) as one:
                _ = [output async for output in one.run(Cell("1"))]
                first = first or zygotes() - before
        assert len(first) == 1
        await until(lambda: not first & zygotes(), "the first one has ended")
        await until(lambda: len(zygotes() - before) == source.spare == 1, "one zygote and one sandbox made ahead")
    finally:
        await source.close()


def test_a_zygote_is_worn_by_sandboxes_and_by_time(home: Path) -> None:
    """Each environment's own, and once."""
    by_number = LocalSource(JailOptions(cache=home / "cache", renew=3))
    assert [by_number._is_worn("none") for _ in range(7)] == [False, False, True, False, False, True, False]
    assert not by_number._is_worn("data")
    by_time = LocalSource(JailOptions(cache=home / "cache", renew_after=0.0))
    assert by_time._is_worn("none")


async def test_closing_ends_though_the_jail_is_stuck(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A stopped zygote buries no children, so that the sandbox's processes cannot go. Nobody waits for it for ever."""
    for module in (jailed, cell_run):
        monkeypatch.setattr(module, "ENDING", 0.5)
    before = zygotes()
    source = LocalSource(JailOptions(cache=home / "cache", preload=False))
    try:
        async with source.acquire(Spec(Limits(grace=0.2), packages="none")) as one:
            assert await ending(one, "1") == "ok"
            for pid in zygotes() - before:
                os.kill(pid, signal.SIGSTOP)
            deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
            assert await ending(one, deaf, timeout=0.2) == "killed:lost"
            with pytest.raises(Lost, match="its interpreter was killed"):
                await ending(one, "1")
            id = one.id
        [said] = [record for record in caplog.records if record.levelname == "ERROR"]
        assert said.name == "belljar.sandbox"
        assert said.getMessage().startswith(f"sandbox {id} was killed but is not gone: process ")
    finally:
        await source.close()
    assert zygotes() <= before


async def ending(sandbox: Sandbox, code: str, timeout: float | None = None) -> str:
    run = fold([output async for output in sandbox.run(Cell(code, timeout))])
    return f"killed:{run.exit.reason}" if run.exit.status == "killed" else run.exit.status


async def test_one_without_a_handle_is_not_left_behind(box: Box) -> None:
    """It was made without an epoch: it ends with its context, whoever wants otherwise is told."""
    assert box.sandbox.handle is None
    with pytest.raises(Refused):
        await box.sandbox.detach()
    assert (await box.run("1")).text == "1"


async def test_one_that_is_gone_cannot_be_attached_to(source: SandboxSource) -> None:
    with pytest.raises(Lost):
        async with source.attach(SandboxHandle(getattr(source, "url", ""), "sbx_none"), 1):
            raise AssertionError
