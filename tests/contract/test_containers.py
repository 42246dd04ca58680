"""Containers over the real jail and a real store: they outlive their sandboxes, and nothing of them is lost."""

from __future__ import annotations

import asyncio
import io
import os
import select
import signal
import tarfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from belljar.errors import (
    ContainerExpired,
    InvalidRequest,
    Lost,
    NoneFree,
    NotFound,
    OperatorError,
    OverQuota,
    Refused,
    TooLarge,
)
from belljar.gateway.containers import Policy
from belljar.gateway.store import blob_slices
from belljar.gateway.store.base import Blob, ContainerRecord, Page
from belljar.sandbox.base import MIB, Cell, Sandbox, SandboxSource
from belljar.sandbox.local.sandbox import LocalSandbox
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.outputs import Exit
from belljar.sandbox.remote.sandbox import RemoteSandbox
from belljar.wire.tools import NetworkPolicy

from .conftest import PATIENCE, needs, only_local, until, wheel
from .houses import ALL, OWNER, Clock, House, opened, run_in

pytestmark = needs("variables")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store"


async def kill(sandbox: Sandbox) -> None:
    """End all its processes from outside, as the kernel or an operator might."""
    if isinstance(sandbox, RemoteSandbox):
        await sandbox._lease._door.tell("DELETE", f"/v1/sandboxes/{sandbox.id}")
        await until(lambda: not sandbox.alive, "the sandbox is dead")
        return
    assert isinstance(sandbox, LocalSandbox)
    assert sandbox._box._init is not None
    init = os.dup(sandbox._box._init)
    try:
        signal.pidfd_send_signal(init, signal.SIGKILL)
        await until(lambda: bool(select.select([init], [], [], 0)[0]), "the sandbox is dead")
    finally:
        os.close(init)


@asynccontextmanager
async def few(home: Path, most: int) -> AsyncIterator[LocalSource]:
    """A source with few places."""
    source = LocalSource(JailOptions(cache=home / "cache", most=most, preload=False))
    try:
        yield source
    finally:
        await source.close()


def bare(**more: object) -> Policy:
    return Policy(packages="none", **more)  # type: ignore[arg-type]


async def begun(house: House, container: ContainerRecord, name: str = "begun") -> None:
    """Wait until a cell has made this file."""
    deadline = time.monotonic() + PATIENCE
    while True:
        for sandbox in house.source.alive:
            if name in [info.name for info in await sandbox.files.list()]:
                return
        assert time.monotonic() < deadline, f"no {name} in {container.id}"
        await asyncio.sleep(0.01)


WAIT = "import os, time\nopen('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\n"


# -- life -------------------------------------------------------------------------------------------------------------


async def test_variables_stay_from_lease_to_lease(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        assert house.source.made == 0  # the first cell makes it
        async with house.containers.use(container) as use:
            assert not use.healed
            await run_in(use, "x = 41")
            assert (await run_in(use, "x + 1")).text == "42"
        async with house.containers.use(container) as use:
            assert not use.healed
            assert (await run_in(use, "x + 2")).text == "43"
        assert house.source.made == 1
        assert (await house.containers.get(container.id, OWNER)).cells == 3


async def test_containers_do_not_share(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        one, other = await house.container(), await house.container()
        await house.run(one, "x = 1; open('mine', 'w').write('1')")
        assert (await house.run(other, "'x' in globals(), __import__('os').listdir()")).text == "(False, [])"
        assert await house.files(other) == {}


@pytest.mark.parametrize("how", ["killed", "evicted", "gateway restarted"])
async def test_a_lost_sandbox_heals(source: SandboxSource, place: Path, how: str) -> None:
    content = {"報告 1.xlsx": b"\0\xff", "a/b/c.txt": b"deep", "empty": b""}
    async with opened(source, place) as house:
        container = await house.container()
        await house.put(container, "given.csv", b"a,b\n")
        made = "import os\nos.makedirs('a/b')\nx = 1\n"
        made += "".join(f"open({name!r}, 'wb').write({data!r})\n" for name, data in content.items())
        assert (await house.run(container, made)).ok
        if how == "killed":
            [sandbox] = house.source.alive
            await kill(sandbox)
        elif how == "evicted":
            house.clock.pass_minutes(21)
            await house.containers.sweep()
            assert house.source.alive == []
        if how != "gateway restarted":
            await check_healed(house, container, content)
    if how == "gateway restarted":
        async with opened(source, place) as house:
            await check_healed(house, await house.containers.get(container.id, OWNER), content)


async def check_healed(house: House, container: ContainerRecord, content: dict[str, bytes]) -> None:
    async with house.containers.use(container) as use:
        assert use.healed
        assert (await run_in(use, "'x' in globals()")).text == "False"
        for name, data in (content | {"given.csv": b"a,b\n"}).items():
            assert (await run_in(use, f"open({name!r}, 'rb').read() == {data!r}")).text == "True"
    async with house.containers.use(container) as use:
        assert not use.healed
        assert (await run_in(use, "2")).text == "2"
    assert await house.files(container) == content | {"given.csv": b"a,b\n"}


async def test_a_container_that_ran_nothing_has_nothing_to_heal(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        async with house.containers.use(container):
            pass
        await kill(house.source.alive[0])
        async with house.containers.use(container) as use:
            assert not use.healed


@only_local
async def test_dying_in_a_cell_is_told_and_what_it_had_written_is_kept(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        cell = asyncio.create_task(house.run(container, f"open('half', 'w').write('work')\n{WAIT}"))
        await begun(house, container)
        await kill(house.source.alive[0])
        run = await cell
        assert (run.exit.status, run.exit.reason) == ("killed", "lost")
        assert await house.files(container) == {"half": b"work", "begun": b""}
        async with house.containers.use(container) as use:
            assert use.healed
            assert (await run_in(use, "open('half').read()")).text == "'work'"


async def test_a_lost_interpreter_is_not_a_lost_sandbox(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        run = await house.run(container, "open('x', 'w').write('1')\nimport os\nos._exit(3)")
        assert run.exit.reason == "exited"
        async with house.containers.use(container) as use:
            assert not use.healed  # the exit has said so
            assert (await run_in(use, "open('x').read()")).text == "'1'"
        assert house.source.made == 1


async def test_what_a_thread_writes_after_the_cell_is_kept_too(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        code = (
            "import threading, time, os\n"
            "def later():\n"
            "    while not os.path.exists('go'): time.sleep(0.01)\n"
            "    open('late', 'w').write('!')\n"
            "threading.Thread(target=later, daemon=True).start()"
        )
        await house.run(container, code)
        await house.put(container, "go", b"")
        await begun(house, container, "late")
        house.clock.pass_minutes(21)
        await house.containers.sweep()
        assert await house.files(container) == {"go": b"", "late": b"!"}


# -- expiry -----------------------------------------------------------------------------------------------------------


async def test_idle_containers_expire_and_come_back_by_auto(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = (await house.containers.auto(OWNER, [])).record
        assert (container.auto, container.minutes) == (True, 20)
        await house.run(container, "x = 1; open('kept', 'w').write('1')")
        house.clock.pass_minutes(19)
        container = (await house.containers.named(container.id, OWNER)).record
        assert house.containers.status(container) == "running"
        await house.containers.sweep()
        assert len(house.source.alive) == 1
        assert await house.value(container, "x") == 1  # which starts the clock anew
        house.clock.pass_minutes(19)
        assert (await house.containers.named(container.id, OWNER)).record.id == container.id
        house.clock.pass_minutes(2)
        assert len(house.source.alive) == 1
        await house.containers.sweep()
        assert house.source.alive == []
        container = await house.containers.get(container.id, OWNER)
        assert house.containers.status(container) == "expired"
        with pytest.raises(ContainerExpired, match=r"^Container is expired\.$"):
            await house.containers.named(container.id, OWNER)
        with pytest.raises(ContainerExpired):
            await house.put(container, "new", b"")
        assert await house.files(container) == {"kept": b"1"}  # still readable,
        assert house.containers.status(await house.containers.get(container.id, OWNER)) == "expired"  # and no more
        assert [one.id for one in await house.containers.list(OWNER, ALL)] == [container.id]
        healed = (await house.containers.auto(OWNER, ["cntr_unknown", container.id])).record
        assert (healed.id, house.containers.status(healed)) == (container.id, "running")
        async with house.containers.use(healed) as use:
            assert use.healed
            assert (await run_in(use, "open('kept').read(), 'x' in globals()")).text == "('1', False)"
        assert (await house.containers.named(container.id, OWNER)).record.id == container.id


async def test_the_policy_may_let_named_containers_come_back(source: SandboxSource, place: Path) -> None:
    async with opened(source, place, Policy(heal_named=True, minutes=5)) as house:
        container = await house.container()
        await house.run(container, "open('kept', 'w').write('1')")
        house.clock.pass_minutes(6)
        assert house.containers.status(await house.containers.get(container.id, OWNER)) == "expired"
        back = (await house.containers.named(container.id, OWNER)).record
        assert (back.id, house.containers.status(back)) == (container.id, "running")
        assert await house.value(back, "open('kept').read()") == "1"


async def test_a_container_may_have_minutes_of_its_own(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.containers.create(OWNER, name="long", minutes=60)
        await house.run(container, "x = 1")
        house.clock.pass_minutes(59)
        await house.containers.sweep()
        assert await house.value((await house.containers.named(container.id, OWNER)).record, "x") == 1


@pytest.mark.parametrize("call", ["list", "get", "put", "stream", "delete"])
async def test_file_calls_start_the_clock_anew(source: SandboxSource, place: Path, call: str) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        file = await house.put(container, "x", b"1")
        await house.run(container, "1")
        house.clock.pass_minutes(15)
        container = await house.containers.get(container.id, OWNER)
        match call:
            case "list":
                await house.containers.list_files(container, ALL)
            case "get":
                await house.containers.get_file(container, file.id)
            case "put":
                await house.put(container, "y", b"2")
            case "stream":
                assert [chunk async for chunk in house.containers.stream_file(container, file)] == [b"1"]
            case "delete":
                await house.containers.delete_file(container, file.id)
        house.clock.pass_minutes(15)
        await house.containers.sweep()
        assert len(house.source.alive) == 1
        assert (await house.containers.named(container.id, OWNER)).record.id == container.id


async def test_a_container_does_not_expire_under_a_running_cell(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        cell = asyncio.create_task(house.run(container, WAIT))
        await begun(house, container)
        house.clock.pass_minutes(60)
        await house.containers.sweep()
        assert house.containers.status(await house.containers.get(container.id, OWNER)) == "running"
        await house.put((await house.containers.named(container.id, OWNER)).record, "go", b"")
        assert (await cell).ok
        assert house.containers.status(await house.containers.get(container.id, OWNER)) == "running"


# -- finding and deleting ---------------------------------------------------------------------------------------------


async def test_auto_takes_the_newest_that_is_there(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        old, new, gone = [await house.container() for _ in range(3)]
        theirs = await house.container("key_other")
        await house.containers.delete(gone.id, OWNER)
        ids = ["cntr_never", theirs.id, gone.id, new.id, old.id]
        assert (await house.containers.auto(OWNER, ids)).record.id == new.id
        fresh = (await house.containers.auto(OWNER, [gone.id, theirs.id])).record
        assert fresh.id not in ids
        assert (fresh.auto, fresh.memory) == (True, "1g")


async def test_auto_gives_a_container_more_memory_when_asked(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        await house.run(container, "open('kept', 'w').write('1')")
        same = (await house.containers.auto(OWNER, [container.id], memory="1g")).record
        assert (same.id, same.memory) == (container.id, "1g")
        more = (await house.containers.auto(OWNER, [container.id], memory="4g")).record
        assert (more.id, more.memory) == (container.id, "4g")
        async with house.containers.use(more) as use:
            assert use.healed
            assert (await run_in(use, "open('kept').read()")).text == "'1'"
        [sandbox] = house.source.alive
        assert isinstance(sandbox, LocalSandbox | RemoteSandbox)
        limits = sandbox._box.limits if isinstance(sandbox, LocalSandbox) else sandbox._limits
        assert limits.memory == 4 << 30
        less = (await house.containers.auto(OWNER, [container.id], memory="1g")).record
        assert less.memory == "4g"
        with pytest.raises(InvalidRequest, match="'8g'"):
            await house.containers.auto(OWNER, [container.id], memory="8g")


async def test_a_prospect_is_what_auto_would_give_and_changes_nothing(source: SandboxSource, place: Path) -> None:
    async with opened(source, place, Policy(memory="4g")) as house:
        fresh = (await house.containers.prospect(OWNER, ["cntr_never"])).record
        assert (fresh.id, fresh.memory, fresh.requirements) == ("", "4g", ())
        assert (await house.containers.prospect(OWNER, [], memory="1g")).record.memory == "1g"
        assert await house.containers.list(OWNER, Page()) == []
        container = await house.containers.create(OWNER, name="x")
        house.clock.pass_minutes(21)
        before = await house.containers.get(container.id, OWNER)
        more = (await house.containers.prospect(OWNER, ["cntr_never", container.id], memory="16g")).record
        assert (more.id, more.memory) == (container.id, "16g")
        assert (await house.containers.prospect(OWNER, [container.id], memory="1g")).record.memory == "4g"
        assert await house.containers.get(container.id, OWNER) == before
        assert house.containers.status(before) == "expired"
        assert (await house.containers.prospect("key_other", [container.id])).record.id == ""
        with pytest.raises(InvalidRequest, match="'8g'"):
            await house.containers.prospect(OWNER, [container.id], memory="8g")


async def test_what_is_not_there_is_not_found(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        for owner, id in ((OWNER, "cntr_x"), ("key_other", container.id)):
            for find in (house.containers.get, house.containers.named, house.containers.delete):
                with pytest.raises(NotFound) as missing:
                    await find(id, owner)
                assert str(missing.value) == f"Container with id '{id}' not found."
        for find_file in (house.containers.get_file, house.containers.delete_file):
            with pytest.raises(NotFound) as missing:
                await find_file(container, "cfile_x")
            assert str(missing.value) == f"File cfile_x not found on container {container.id}."


async def test_bad_wishes_are_refused(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        with pytest.raises(InvalidRequest, match="Supported values are") as refused:
            await house.containers.create(OWNER, name="x", memory="8g")
        assert refused.value.param == "memory_limit"
        with pytest.raises(InvalidRequest, match="no network") as refused:
            await house.containers.create(
                OWNER, name="x", network=NetworkPolicy(type="allowlist", allowed_domains=("example.com",))
            )
        assert refused.value.param == "network_policy"
        made = await house.containers.create(OWNER, name="x", network=NetworkPolicy(type="disabled"))
        assert made.network == b'{"type":"disabled"}'


async def test_deleting_takes_the_sandbox_and_the_files(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container, other = await house.container(), await house.container()
        await house.run(container, "open('mine', 'w').write('only mine')\nopen('both', 'w').write('shared')")
        await house.run(other, "open('both', 'w').write('shared')")
        mine, both = await house.blob(b"only mine"), await house.blob(b"shared")
        for blob in (mine, both):  # as if they had been there for long
            path = house.blobs.path(blob.name)
            assert path is not None
            os.utime(path, (0, 0))
        await house.containers.delete(container.id, OWNER)
        assert len(house.source.alive) == 1
        with pytest.raises(NotFound):
            await house.containers.get(container.id, OWNER)
        with pytest.raises(NotFound):
            async with house.containers.use(container):
                pass
        with pytest.raises(NotFound):
            await house.put(container, "x", b"")
        assert (house.blobs.path(mine.name), house.blobs.path(both.name) is None) == (None, False)
        assert await house.files(other) == {"both": b"shared"}


async def test_deleting_ends_a_running_cell_and_those_that_wait(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        running = asyncio.create_task(house.run(container, WAIT))
        await begun(house, container)
        waiting = asyncio.create_task(house.run(container, "1"))
        await asyncio.sleep(0)
        await house.containers.delete(container.id, OWNER)
        assert house.source.alive == []
        for task in (running, waiting):
            with pytest.raises(NotFound):
                await task


# -- turns ------------------------------------------------------------------------------------------------------------


async def test_cells_of_a_container_queue_in_order(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        first = asyncio.create_task(house.run(container, f"{WAIT}seen = ['first']"))
        await begun(house, container)
        rest = [asyncio.create_task(house.run(container, f"seen.append({n})")) for n in range(5)]
        await house.put(container, "go", b"")
        await asyncio.gather(first, *rest)
        assert await house.value(container, "seen") == ["first", 0, 1, 2, 3, 4]
        assert house.source.made == 1


async def test_a_waiting_lease_that_is_cancelled_lets_the_next_pass(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        first = asyncio.create_task(house.run(container, WAIT))
        await begun(house, container)
        second, third = [asyncio.create_task(house.run(container, code)) for code in ("x = 2", "'x' in globals()")]
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await house.put(container, "go", b"")
        await first
        assert (await third).text == "False"


async def test_a_running_cell_that_is_cancelled_stops_and_keeps_its_state(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        await house.run(container, "x = 1")
        cell = asyncio.create_task(house.run(container, f"open('partial', 'w').write('!')\nx = 2\n{WAIT}\nx = 3"))
        await begun(house, container)
        cell.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cell
        assert await house.files(container) == {"partial": b"!", "begun": b""}
        async with house.containers.use(container) as use:
            assert not use.healed
            assert (await run_in(use, "x")).text == "2"


async def test_a_cell_that_is_left_stops_with_the_lease(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        async with house.containers.use(container) as use:
            outputs = use.run(Cell("x = 1\nopen('made', 'w').write('!')\nprint('up', flush=True)\nwhile True: pass"))
            assert await anext(outputs) is not None
        async with asyncio.timeout(PATIENCE):
            assert await house.value(container, "x") == 1
        assert await house.files(container) == {"made": b"!"}


async def test_cancelled_while_its_sandbox_is_made_leaves_none(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        for n in range(20):
            task = asyncio.create_task(house.run(container, "1"))
            for _ in range(n):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        assert len(house.source.alive) <= 1
        assert await house.value(container, "1") == 1


async def test_calls_that_are_kept_apart_run_at_once_and_share_only_files(source: SandboxSource, place: Path) -> None:
    async with opened(source, place, Policy(isolation="per_call")) as house:
        container = await house.container()
        await house.put(container, "given", b"data")
        tasks = []
        for n in range(2):
            code = f"{WAIT}x = {n}\nopen('made-{n}', 'w').write(open('given').read())\n'y' in globals()"
            tasks.append(asyncio.create_task(house.run(container, code)))
        await until(lambda: len(house.source.alive) == 2, "both have a sandbox")
        for sandbox in list(house.source.alive):
            await sandbox.files.write("go", b"")
        assert [(await task).text for task in tasks] == ["False", "False"]
        assert house.source.alive == []
        assert await house.files(container) == {"given": b"data", "made-0": b"data", "made-1": b"data", "begun": b""}
        async with house.containers.use(container) as use:
            assert not use.healed
            run = await run_in(use, "import os; os.remove('given'); 'x' in globals(), sorted(os.listdir())")
        assert run.text == "(False, ['begun', 'made-0', 'made-1'])"
        assert sorted(await house.files(container)) == ["begun", "made-0", "made-1"]


# -- places -----------------------------------------------------------------------------------------------------------


async def test_the_least_recently_used_makes_room(home: Path, place: Path) -> None:
    async with few(home, 2) as source, opened(source, place, bare()) as house:
        first, second, third = [await house.container() for _ in range(3)]
        for n, container in enumerate((first, second, first)):
            house.clock.now += 1
            await house.run(container, f"x = {n}; open('x', 'w').write('{n}')")
        house.clock.now += 1
        await house.run(third, "x = 3")
        assert len(house.source.alive) == 2
        assert await house.value(first, "x") == 2  # it was the second that went
        async with house.containers.use(second) as use:
            assert use.healed
            assert (await run_in(use, "open('x').read()")).text == "'1'"


async def test_others_make_room_only_after_a_while_and_never_while_busy(home: Path, place: Path) -> None:
    async with few(home, 1) as source, opened(source, place, bare(spare=30)) as house:
        mine, theirs = await house.container(), await house.container("key_other")
        cell = asyncio.create_task(house.run(theirs, WAIT))
        await begun(house, theirs)
        house.clock.now += 100
        with pytest.raises(NoneFree):
            await house.run(mine, "1")
        await house.put(theirs, "go", b"")
        await cell
        house.clock.now += 29
        with pytest.raises(NoneFree, match="in use"):
            await house.run(mine, "1")
        house.clock.now += 1
        assert await house.value(mine, "1") == 1
        assert len(house.source.alive) == 1


async def test_a_full_house_waits_in_order(home: Path, place: Path) -> None:
    async with few(home, 1) as source, opened(source, place, bare(claim_timeout=PATIENCE)) as house:
        busy = await house.container()
        done: list[str] = []

        async def ask(name: str) -> None:
            container = await house.container(f"key_{name}")
            async with house.containers.use(container) as use:
                done.append((await run_in(use, repr(name))).text)
            await house.containers.delete(container.id, f"key_{name}")

        cell = asyncio.create_task(house.run(busy, WAIT))
        await begun(house, busy)
        waiting = []
        for name in "abc":
            waiting.append(asyncio.create_task(ask(name)))
            for _ in range(20):
                await asyncio.sleep(0)
        leaves = asyncio.create_task(ask("d"))
        await asyncio.sleep(0)
        leaves.cancel()
        assert done == []
        await house.put(busy, "go", b"")
        await cell
        await house.containers.delete(busy.id, busy.owner)
        await asyncio.gather(*waiting)
        assert done == ["'a'", "'b'", "'c'"]


async def test_an_owner_that_is_over_its_number_stands_in_nobodys_way(home: Path, place: Path) -> None:
    policy = bare(claim_timeout=PATIENCE, sandboxes_per_owner=1)
    async with few(home, 2) as source, opened(source, place, policy) as house:
        busy, next_one = await house.container(), await house.container()
        async with house.containers.use(busy):
            waits = asyncio.create_task(house.value(next_one, "1"))
            for _ in range(20):
                await asyncio.sleep(0)
            other = await house.container("key_other")
            assert await house.value(other, "2") == 2
            assert not waits.done()
        async with asyncio.timeout(PATIENCE):
            assert await waits == 1


async def test_an_owner_has_so_many_sandboxes(source: SandboxSource, place: Path) -> None:
    async with opened(source, place, Policy(sandboxes_per_owner=2)) as house:
        containers = [await house.container() for _ in range(3)]
        for n, container in enumerate(containers):
            house.clock.now += 1
            await house.run(container, f"x = {n}")
        assert len(house.source.alive) == 2
        assert await house.value(containers[2], "x") == 2
        async with house.containers.use(containers[1]), house.containers.use(containers[2]):
            with pytest.raises(OverQuota, match="all 2 sandboxes that one key may have are busy"):
                await house.run(containers[0], "1")
            other = await house.container("key_other")
            assert await house.value(other, "1") == 1
        assert await house.value(containers[0], "1") == 1
        assert len(house.source.alive) == 3


# -- files out of the sandbox -----------------------------------------------------------------------------------------


async def test_the_store_follows_the_workspace(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        given = await house.put(container, "given.txt", b"1")
        await house.run(container, "open('a', 'w').write('1'); open('b', 'w').write('2')")
        assert await house.files(container) == {"given.txt": b"1", "a": b"1", "b": b"2"}
        before = {file.path: file for file in await house.containers.list_files(container, ALL)}
        assert (before["given.txt"].source, before["a"].source) == ("user", "assistant")
        await house.run(container, "import os; os.rename('a', 'c'); os.remove('b'); open('given.txt', 'a').write('+')")
        assert await house.files(container) == {"given.txt": b"1+", "c": b"1"}
        after = {file.path: file for file in await house.containers.list_files(container, ALL)}
        assert after["given.txt"].id == given.id
        assert after["given.txt"].source == "assistant"
        assert after["given.txt"].size == 2
        await house.run(container, "os.remove('c'); os.mkdir('c'); open('c/d', 'w').write('3')")
        assert await house.files(container) == {"given.txt": b"1+", "c/d": b"3"}


async def test_names_and_types_are_kept(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        names = ["報告 1.xlsx", "報告 2.xlsx", "with space.csv", "new\nline", "deep/er/est.png", ".hidden"]
        code = "import os\nos.makedirs('deep/er')\n" + "".join(f"open({n!r}, 'w').write({n!r})\n" for n in names)
        async with house.containers.use(container) as use:
            run = await run_in(use, code)
            assert run.ok
        assert await house.files(container) == {name: name.encode() for name in names}
        types = {file.path: file.type for file in await house.containers.list_files(container, ALL)}
        assert types["報告 1.xlsx"] == "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
        assert (types["deep/er/est.png"], types["with space.csv"]) == ("image/png", "text/csv")


async def test_what_cannot_be_kept_is_told(source: SandboxSource, place: Path) -> None:
    async with opened(source, place, Policy(max_files=3, largest_file=100, max_bytes=150)) as house:
        container = await house.container()
        async with house.containers.use(container) as use:
            code = (
                "import os, time\ndef put(name, size):\n    open(name, 'wb').write(b'x' * size); time.sleep(0.002)\n"
                "put('a', 90); put('large', 101); put(b'\\xff', 1); put('too much', 70); put('b', 60); put('c', 0)\n"
                "put('one more', 0); os.symlink('/etc/passwd', 'link')"
            )
            await run_in(use, code)
            left = {one.path: one.why for one in use.left_out}
        assert await house.files(container) == {"a": b"x" * 90, "b": b"x" * 60, "c": b""}
        assert left == {
            "large": "one file may have 100 bytes",
            "\udcff": "its name is not UTF-8",
            "too much": "of this cell's files, only 60 bytes more are kept",
            "one more": "3 files of one cell are kept at most",
        }


async def test_taking_files_ends_in_time(source: SandboxSource, place: Path) -> None:
    async with opened(source, place, Policy(collect_timeout=0)) as house:
        container = await house.container()
        async with house.containers.use(container) as use:
            await run_in(use, "open('a', 'w'); open('b', 'w')")
            assert {one.path for one in use.left_out} == {"a", "b"}
            assert use.left_out[0].why == "keeping the others took 0 s"


async def test_many_files_and_a_large_one(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        code = "for n in range(300): open(f'{n:03}', 'w').write(str(n))\nopen('large', 'wb').write(bytes(64 << 20))"
        await house.run(container, code)
        records = {file.path: file for file in await house.containers.list_files(container, ALL)}
        assert len(records) == 301
        assert records["large"].size == 64 * MIB
        await kill(house.source.alive[0])
        check = "import os\nlen(os.listdir()), os.path.getsize('large'), open('299').read()"
        assert await house.value(container, check) == (301, 64 * MIB, "299")


async def test_a_write_that_fails_leaves_no_record_and_is_made_up_for(
    source: SandboxSource, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        write = house.blobs.write
        with monkeypatch.context() as broken:

            def fail() -> object:
                raise OperatorError("the disk is full")

            broken.setattr(house.blobs, "write", fail)
            with pytest.raises(OperatorError):
                await house.run(container, "open('x', 'w').write('1')")
            assert await house.files(container) == {}
        assert house.blobs.write == write
        await house.run(container, "1")
        assert await house.files(container) == {"x": b"1"}


# -- files into the sandbox -------------------------------------------------------------------------------------------


async def test_an_upload_is_there_at_once_and_the_newest_wins(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        first = await house.put(container, "in/データ.csv", b"1")
        assert await house.value(container, "open('in/データ.csv').read()") == "1"
        second = await house.put(container, "in/データ.csv", b"22")
        assert (second.id, second.size) == (first.id, 2)
        assert await house.value(container, "open('in/データ.csv').read()") == "22"
        await house.containers.delete_file(container, first.id)
        assert await house.value(container, "__import__('os').listdir('in')") == []
        assert await house.files(container) == {}


async def test_an_old_version_tells_what_was_there_and_what_is_kept_of_it(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        files = [
            await house.put(container, name, content)
            for name, content in (("a", b"1"), ("b", b"2"), ("c", b"2"), ("a", b"3"))
        ]
        await house.containers.delete_file(container, files[2].id)
        container = await house.containers.get(container.id, OWNER)
        old, gone = await house.containers.version(container, 3)
        assert {path: file.blob for path, file in old.files.items()} == {one.path: one.blob for one in files[:3]}
        assert gone == {"a"}, "what c had, b still has"
        new, gone = await house.containers.version(container, 5)
        assert (sorted(new.files), gone) == (["a", "b"], frozenset())
        with pytest.raises(NotFound, match="has no version 6; its newest is 5"):
            await house.containers.version(container, 6)


async def test_an_upload_during_a_cell_is_not_mistaken_for_its_own(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        cell = asyncio.create_task(house.run(container, WAIT))
        await begun(house, container)
        put = await house.put(container, "go", b"!")
        assert [file.name for file in (await cell).files] == ["begun"]
        assert (await house.containers.get_file(container, put.id)).source == "user"


@pytest.mark.parametrize("live", [False, True])
async def test_what_does_not_fit_is_refused(source: SandboxSource, place: Path, live: bool) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        if live:
            await house.run(container, "1")
        await house.put(container, "a/b", b"1")
        for name, problem in (
            ("a", "a file and a directory"),
            ("a/b/c", "a file and a directory"),
            ("../x", "leads out"),
        ):
            with pytest.raises(InvalidRequest, match=problem):
                await house.put(container, name, b"2")
        with pytest.raises(TooLarge, match="holds 512 MiB"):
            await house.containers.put_file(container, "huge", Blob("0" * 64, 512 * MIB))
        assert await house.files(container) == {"a/b": b"1"}
        assert await house.value(container, "__import__('os').listdir()") == ["a"]


async def test_a_file_may_be_too_large_by_policy(source: SandboxSource, place: Path) -> None:
    async with opened(source, place, Policy(largest_file=10)) as house:
        container = await house.container()
        await house.put(container, "ten", b"x" * 10)
        with pytest.raises(TooLarge, match="11 bytes; 10 bytes are the most"):
            await house.put(container, "eleven", b"x" * 11)


async def test_a_full_sandbox_refuses_an_upload_whole(source: SandboxSource, place: Path) -> None:
    async with opened(source, place, Policy(largest_file=1)) as house:  # so the store does not know of `big`
        container = await house.container()
        await house.run(container, "open('big', 'wb').write(bytes(500 << 20))")
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for n in range(2):
                info = tarfile.TarInfo(f"part-{n}")
                info.size = 8 * MIB
                tar.addfile(info, io.BytesIO(os.urandom(info.size)))
        blob = await house.blob(archive.getvalue())
        house.containers._policy = Policy()
        with pytest.raises(TooLarge):
            await house.containers.extract(container, blob, "parts.tar")
        assert await house.files(container) == {}
        assert await house.value(container, "__import__('os').listdir()") == ["big"]


async def test_uploaded_files_are_placed_once_under_their_names(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        one, same, other = [
            await house.upload("data.csv", data, f"file-{n}") for n, data in enumerate((b"1", b"1", b"2"))
        ]
        placed = await house.containers.place(container, [one, same, other])
        assert [file.path for file in placed] == ["data.csv", "data.csv", "file-2-data.csv"]
        assert await house.containers.place(container, [other, one]) == [placed[2], placed[0]]
        code = "open('data.csv').read(), open('file-2-data.csv').read()"
        assert await house.value(container, code) == ("1", "2")
        await house.run(container, "open('data.csv', 'w').write('changed by the code')")
        [again] = await house.containers.place(container, [one])
        assert (again.id, again.path) == (placed[0].id, "data.csv")
        assert await house.files(container) == {"data.csv": b"changed by the code", "file-2-data.csv": b"2"}
        with pytest.raises(InvalidRequest, match="leads out"):
            await house.containers.place(container, [await house.upload("../x", b"", "file-9")])


async def test_an_uploaded_file_beside_a_directory_of_its_name(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        await house.put(container, "data/x", b"1")
        [placed] = await house.containers.place(container, [await house.upload("data", b"2", "file-1")])
        assert placed.path == "file-1-data"


async def test_a_restored_workspace_is_whole_or_nothing_runs(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        for n in range(5):
            await house.put(container, f"{n}.txt", str(n).encode() * 100)
        [lost] = [file for file in await house.containers.list_files(container, ALL) if file.path == "3.txt"]
        path = house.blobs.path(lost.blob)
        assert path is not None
        path.unlink()
        for _ in range(2):
            with pytest.raises(Refused, match=r"3\.txt .* could not be put back"):
                await house.run(container, "1")
            assert house.source.alive == []
        await house.put(container, "3.txt", b"again")
        assert await house.value(container, "len(__import__('os').listdir())") == 5


@pytest.mark.parametrize("left", [b"", b"123", b"1234\0", b"123456"], ids=["empty", "short", "other", "long"])
async def test_a_damaged_file_is_noticed(source: SandboxSource, place: Path, left: bytes) -> None:
    """As a power cut may leave it."""
    async with opened(source, place) as house:
        container = await house.container()
        file = await house.put(container, "x", b"12345")
        path = house.blobs.path(file.blob)
        assert path is not None
        path.chmod(0o600)
        path.write_bytes(left)
        with pytest.raises(Refused, match=rf"file x of .* damaged.*\({len(left)} bytes.*again, or delete {file.id}"):
            await house.run(container, "1")
        with pytest.raises(NotFound, match="damaged"):
            await house.files(container)
        await house.put(container, "y", b"12345")
        assert await house.value(container, "open('x').read(), open('y').read()") == ("12345", "12345")


@pytest.mark.parametrize("bytes_left", [0, 600, 1500])
async def test_a_damaged_archive_is_noticed(source: SandboxSource, place: Path, bytes_left: int) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        archive = await house.blob(tarred("w", a=b"1" * 300, b=b"2" * 300))
        await house.containers.extract(container, archive, "x.tar")
        path = house.blobs.path(archive.name)
        assert path is not None
        path.write_bytes(path.read_bytes()[:bytes_left])
        with pytest.raises(Refused, match=r"file a of .* damaged"):
            await house.run(container, "1")
        with pytest.raises(NotFound, match="damaged"):
            await house.files(container)


# -- archives ---------------------------------------------------------------------------------------------------------


def tarred(mode: Literal["w", "w:gz"] = "w:gz", /, **files: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("live", [False, True])
async def test_an_archive_is_unpacked_into_the_workspace(
    source: SandboxSource, place: Path, live: bool, mode: Literal["w", "w:gz"]
) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        if live:
            await house.run(container, "open('a', 'w').write('old')")
        blob = await house.blob(tarred(mode, a=b"1", in__b=b"2", in__deep__c=bytes(3 * MIB)))
        put = await house.containers.extract(container, blob, "given.tar.gz")
        assert [(file.path, file.size, file.source) for file in put] == [
            ("a", 1, "user"),
            ("in/b", 1, "user"),
            ("in/deep/c", 3 * MIB, "user"),
        ]
        code = "import os\nopen('a').read(), open('in/b').read(), os.path.getsize('in/deep/c')"
        assert await house.value(container, code) == ("1", "2", 3 * MIB)
        assert sorted(await house.files(container)) == ["a", "in/b", "in/deep/c"]


async def test_the_files_of_a_plain_archive_stay_in_it(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        blob = await house.blob(tarred("w", a=b"1", b=b"22", c=b"333"))
        path = house.blobs.path(blob.name)
        assert path is not None
        a, b, c = await house.containers.extract(container, blob, "given.tar")
        assert {blob_slices.whole(file.blob) for file in (a, b, c)} == {blob.name}
        assert await house.files(container) == {"a": b"1", "b": b"22", "c": b"333"}
        await house.run(container, "open('b', 'w').write('new')")
        assert await house.files(container) == {"a": b"1", "b": b"new", "c": b"333"}
        os.utime(path, (0, 0))
        await house.containers.delete_file(container, a.id)
        assert await house.files(container) == {"b": b"new", "c": b"333"}
        await house.containers.delete_file(container, c.id)
        assert not path.exists()
        assert await house.value(container, "open('b').read()") == "new"


async def test_with_a_quota_every_file_of_an_archive_has_bytes_of_its_own(source: SandboxSource, place: Path) -> None:
    async with opened(source, place, policy=Policy(bytes_per_owner=1 << 30)) as house:
        container = await house.container()
        blob = await house.blob(tarred("w", a=b"1", b=b"22"))
        put = await house.containers.extract(container, blob, "given.tar")
        assert all(blob_slices.read(file.blob) is None for file in put)
        assert await house.files(container) == {"a": b"1", "b": b"22"}


async def test_nothing_of_a_bad_archive_is_kept(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        await house.run(container, "1")
        bad = io.BytesIO()
        with tarfile.open(fileobj=bad, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("good"))
            link = tarfile.TarInfo("link")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
        with pytest.raises(InvalidRequest, match="a link or a device"):
            await house.containers.extract(container, await house.blob(bad.getvalue()), "bad.tar")
        with pytest.raises(InvalidRequest, match="a file and a directory"):
            await house.containers.extract(container, await house.blob(tarred(a=b"1", a__b=b"2")), "bad.tar")
        assert await house.files(container) == {}
        assert await house.value(container, "__import__('os').listdir()") == []


# -- packages ---------------------------------------------------------------------------------------------------------


async def test_required_packages_stay_with_the_container(source: SandboxSource, home: Path, place: Path) -> None:
    wheel(home / "wheels", "faithful", "answer = 42\n")
    async with opened(source, place) as house:
        container = await house.container()
        async with house.containers.use(container) as use:
            await run_in(use, "x = 1")
            await use.require(["faithful"])
            assert (await run_in(use, "import faithful; faithful.answer + x")).text == "43"
            with pytest.raises(InvalidRequest, match="is part of Python"):
                await use.require(["json"])
            await use.require(["faithful"])
        fresh = await house.containers.get(container.id, OWNER)
        assert (fresh.requirements, fresh.cells) == (("faithful",), 2)
        await kill(house.source.alive[0])
        async with house.containers.use(container) as use:
            assert use.healed
            assert (await run_in(use, "import faithful; faithful.answer")).text == "42"
            await use.require(["faithful>=1"])
        assert (await house.containers.get(container.id, OWNER)).requirements == ("faithful>=1",)


async def test_an_exit_is_the_last_output(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house, house.containers.use(await house.container()) as use:
        outputs = [output async for output in use.run(Cell("print(1)"))]
        assert isinstance(outputs[-1], Exit)


async def test_a_closed_house_lends_no_more(source: SandboxSource, place: Path) -> None:
    async with opened(source, place, clock=Clock()) as house:
        container = await house.container()
        await house.run(container, "open('x', 'w').write('1')")
        await house.containers.close()
        assert house.source.alive == []
        with pytest.raises(Lost, match="stopping"):
            await house.run(container, "1")
