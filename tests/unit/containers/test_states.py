"""The table of a container's states, row by row, over a real store and a sandbox that only plays: the jail's own
containers are in `tests/contract`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, cast

import pytest
from msgspec import structs

from belljar.errors import Lost, NotFound, Refused
from belljar.gateway.containers.capacity import Capacity
from belljar.gateway.containers.container import Container, State
from belljar.gateway.containers.incoming import Incoming
from belljar.gateway.containers.policy import Policy
from belljar.gateway.containers.released_blobs import ReleasedBlobs
from belljar.gateway.containers.services import Services
from belljar.gateway.containers.use import Use
from belljar.gateway.containers.workspace import Live
from belljar.gateway.membership import Membership
from belljar.gateway.store.base import Blob, Change, ContainerRecord, Records
from belljar.gateway.store.local_store import open_store
from belljar.sandbox.base import Cell, Content, FileInfo, Sandbox, SandboxHandle, SandboxSource, Spec
from belljar.sandbox.outputs import Exit, FileChanged, Output, Stdout

ME = "key_me"


class Played:
    """A sandbox whose cells are calls of Python functions that change its files."""

    def __init__(self) -> None:
        self.id = "played"
        self.alive = True
        self.handle: SandboxHandle | None = None
        self.detached = False
        self.kept: dict[str, bytes] = {}
        self.cells: dict[str, Callable[[], Iterable[Output]]] = {}
        self.refuses = ""

    @property
    def files(self) -> Played:
        return self

    async def detach(self) -> SandboxHandle:
        assert self.handle is not None
        self.detached = True
        return self.handle

    async def write(self, name: str, content: Content) -> FileInfo:
        if name == self.refuses:
            raise Refused(f"{name!r} is not taken")
        self.kept[name] = content if isinstance(content, bytes) else b"".join(cast(Iterable[bytes], content))
        return self._info(name)

    async def write_many(self, files: Iterable[tuple[str, Content]]) -> list[FileInfo]:
        return [await self.write(name, content) for name, content in files]

    async def stream(self, name: str, *, chunk: int = 1) -> AsyncIterator[bytes]:
        yield self.kept[name]

    async def list(self) -> list[FileInfo]:
        return [self._info(name) for name in self.kept]

    async def delete(self, name: str) -> None:
        del self.kept[name]

    def _info(self, name: str) -> FileInfo:
        return FileInfo(name, len(self.kept[name]), float(hash(self.kept[name]) % 1000), "text/plain")

    async def run(self, cell: Cell) -> AsyncGenerator[Output, None]:
        for output in self.cells[cell.code]():
            await asyncio.sleep(0)
            yield output

    async def install(self, requirements: Sequence[str]) -> None: ...


class InputFiles:
    """A container, the sandboxes that it had, and the store beneath."""

    def __init__(
        self, records: Records, container: Container, made: list[Played], blob: Callable[[bytes], Awaitable[Blob]]
    ) -> None:
        self.records = records
        self.container = container
        self.made = made
        self._blob = blob

    async def put(self, name: str, content: bytes) -> None:
        await self.container.put([Incoming(name, await self._blob(content), "text/plain")], disk=1 << 20)

    def state(self) -> State:
        return self.container.state

    async def stored(self) -> list[str]:
        return sorted(one.path for one in await self.records.all_container_files(self.container.id))


Scenario = Callable[[InputFiles], Coroutine[None, None, None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    def play(scenario: Scenario, isolation: Literal["per_container", "per_call"] = "per_container") -> None:
        async def main() -> None:
            async with staged(tmp_path / "state", isolation) as stage:
                await scenario(stage)

        asyncio.run(main())

    return play


@asynccontextmanager
async def staged(directory: Path, isolation: Literal["per_container", "per_call"]) -> AsyncIterator[InputFiles]:
    records, blobs = open_store(directory)
    made: list[Played] = []

    class Source:
        @asynccontextmanager
        async def acquire(self, spec: Spec, *, epoch: int | None = None, **_: object) -> AsyncIterator[Sandbox]:
            played = Played()
            played.cells = {
                "ok": lambda: [Exit("ok")],
                "write": lambda: _writes(played, "made"),
                "secretly": lambda: _writes(played, "made", told=False),
                "lose": lambda: _loses(played),
            }
            made.append(played)
            try:
                yield cast(Sandbox, played)
            finally:
                played.alive = False

        async def close(self) -> None: ...

    async def blob(content: bytes) -> Blob:
        async with blobs.write() as writer:
            await writer.write(content)
            return await writer.finish()

    policy = Policy(isolation=isolation)
    capacity = Capacity(cast(SandboxSource, Source()), policy, lambda: 1000.0)
    record = ContainerRecord(id="cntr_1", owner=ME, name="x", created_at=0, last_active_at=0)
    await records.create_container(record)
    container = Container(
        record.id,
        ME,
        Services(
            records, blobs, capacity, policy, Membership(records), lambda: 1000.0, ReleasedBlobs(records, blobs), bool
        ),
    )
    try:
        yield InputFiles(records, container, made, blob)
    finally:
        await capacity.close()
        await records.close()
        assert not any(one.alive for one in made)


def test_a_sandbox_that_died_while_nobody_used_it_is_not_idle_but_dead(play: Callable[..., None]) -> None:
    async def scenario(stage: InputFiles) -> None:
        seen = []

        def look() -> None:
            seen.append(stage.container.dead)

        look()
        async with stage.container.use() as use:
            await run(use, "ok")
            look()
        look()
        stage.made[0].alive = False
        look()
        async with stage.container.use():
            look()  # it has another
        assert seen == [False, False, False, True, False]

    play(scenario)


def _writes(played: Played, name: str, *, told: bool = True) -> Iterable[Output]:
    played.kept[name] = b"1"
    yield Stdout("written\n")
    if told:
        info = played._info(name)
        yield FileChanged(name, info.size, info.modified, info.type)
    yield Exit("ok")


def _loses(played: Played) -> Iterable[Output]:
    played.alive = False
    raise Lost("gone")


async def run(use: Use, code: str) -> None:
    outputs = [output async for output in use.run(Cell(code))]
    await use.collect([one for one in outputs if isinstance(one, FileChanged)])


def test_cold_use_makes_it_warm_with_every_file(play: Callable[..., None]) -> None:
    async def scenario(stage: InputFiles) -> None:
        await stage.put("a", b"1")
        assert stage.state() is State.COLD
        async with stage.container.use():
            assert stage.state() is State.WARM
            assert stage.made[0].kept == {"a": b"1"}
        assert stage.state() is State.WARM
        assert stage.container.idle

    play(scenario)


def test_cold_if_its_files_cannot_be_put_in_place(play: Callable[..., None]) -> None:
    async def scenario(stage: InputFiles) -> None:
        await stage.put("a", b"1")
        [file] = await stage.records.all_container_files("cntr_1")
        await stage.records.change_container("cntr_1", Change(put=[structs.replace(file, blob="0" * 64)]))
        with pytest.raises(Refused):
            async with stage.container.use():
                raise AssertionError("nothing is run without its files")
        assert stage.state() is State.COLD

    play(scenario)


def test_warm_files_go_into_both_and_are_undone_in_both(play: Callable[..., None]) -> None:
    async def scenario(stage: InputFiles) -> None:
        async with stage.container.use():
            await stage.put("a", b"1")
            stage.made[0].refuses = "b"
            with pytest.raises(Refused):
                await stage.put("b", b"2")
        assert (list(stage.made[0].kept), await stage.stored()) == (["a"], ["a"])
        [file] = await stage.records.all_container_files("cntr_1")
        await stage.container.delete_file(file.id)
        assert (stage.made[0].kept, await stage.stored()) == ({}, [])
        assert stage.state() is State.WARM

    play(scenario)


def test_running_until_what_it_changed_is_taken(play: Callable[..., None]) -> None:
    async def scenario(stage: InputFiles) -> None:
        async with stage.container.use() as use:
            outputs = use.run(Cell("write"))
            await anext(outputs)
            assert stage.state() is State.RUNNING
            rest = [output async for output in outputs]
            assert stage.state() is State.RUNNING
            await use.collect([one for one in rest if isinstance(one, FileChanged)])
            assert stage.state() is State.WARM
        assert await stage.stored() == ["made"]

    play(scenario)


def test_running_and_left_is_stopped_compared_and_taken(play: Callable[..., None]) -> None:
    async def scenario(stage: InputFiles) -> None:
        async with stage.container.use() as use:
            await anext(use.run(Cell("secretly")))
        assert stage.state() is State.WARM
        assert await stage.stored() == ["made"]

    play(scenario)


def test_lost_is_cold_and_the_next_caller_is_told(play: Callable[..., None]) -> None:
    async def scenario(stage: InputFiles) -> None:
        async with stage.container.use() as use:
            assert not use.healed
            await run(use, "ok")
            with pytest.raises(Lost):
                await run(use, "lose")
        assert stage.state() is State.COLD
        async with stage.container.use() as use:
            assert use.healed
        async with stage.container.use() as use:
            assert use.healed, "no cell has ended since: nobody has told it"
            await run(use, "ok")
        async with stage.container.use() as use:
            assert not use.healed

    play(scenario)


def test_an_end_takes_what_no_cell_told_of(play: Callable[..., None]) -> None:
    async def scenario(stage: InputFiles) -> None:
        async with stage.container.use() as use:
            await run(use, "ok")
        stage.made[0].kept["late"] = b"by a thread"
        await stage.container.end()
        assert stage.state() is State.COLD
        assert await stage.stored() == ["late"]

    play(scenario)


def test_deleted_ends_everything_and_whoever_waits_is_told(play: Callable[..., None]) -> None:
    async def scenario(stage: InputFiles) -> None:
        async with stage.container.use() as use:
            waiting = asyncio.ensure_future(_use(stage.container))
            await anext(use.run(Cell("write")))
            await stage.container.delete()
            assert stage.state() is State.DELETED
            assert not stage.made[0].alive
        with pytest.raises(NotFound):
            await waiting
        with pytest.raises(NotFound):
            await stage.put("a", b"1")
        assert await stage.stored() == []

    play(scenario)


async def _use(container: Container) -> None:
    async with container.use():
        pass


def test_one_sandbox_a_call_leaves_it_cold(play: Callable[..., None]) -> None:
    async def scenario(stage: InputFiles) -> None:
        async with stage.container.use() as first, stage.container.use() as second:
            await run(first, "write")
            await run(second, "ok")
            assert stage.state() is State.COLD
            assert len(stage.made) == 2
        assert not any(one.alive for one in stage.made)
        assert await stage.stored() == ["made"]
        async with stage.container.use() as use:
            assert not use.healed

    play(scenario, "per_call")


def test_every_change_of_its_state_makes_the_next_version(play: Callable[..., None]) -> None:
    async def scenario(stage: InputFiles) -> None:
        async def number() -> int:
            record = await stage.records.get_container("cntr_1", ME)
            assert record is not None
            return record.version

        await stage.put("a", b"1")
        assert await number() == 1
        async with stage.container.use() as use:
            assert (use.began, use.version) == (1, 1)
            await run(use, "ok")
            assert (use.version, await number()) == (2, 2)
            await use.require(["handy"])
            assert (use.version, await number()) == (3, 3)
            await run(use, "write")
            assert (use.version, await number()) == (4, 4)
        await stage.container.end()
        assert await number() == 4, "nothing had changed since"
        [file] = [one for one in await stage.records.all_container_files("cntr_1") if one.path == "a"]
        await stage.container.delete_file(file.id)
        assert await number() == 5
        async with stage.container.use() as use:
            with pytest.raises(Lost):
                await run(use, "lose")
        assert await number() == 6, "it ran, though nothing came of it"

    play(scenario)


def test_whoever_runs_leaves_the_last_version_before_somebody_elses(play: Callable[..., None]) -> None:
    async def scenario(stage: InputFiles) -> None:
        async with stage.container.use() as use:
            outputs = use.run(Cell("write"))
            await anext(outputs)
            await stage.put("theirs", b"1")
            rest = [output async for output in outputs]
            await use.collect([one for one in rest if isinstance(one, FileChanged)])
            assert (use.began, use.version) == (0, 0), "what was put in between is still to be told"

    play(scenario)


def test_packages_that_two_processes_add_at_once_are_all_kept(play: Callable[..., None]) -> None:
    async def scenario(stage: InputFiles) -> None:
        get, others = stage.records.get_container, [("theirs",)]

        async def overtaken(id: str, owner: str) -> ContainerRecord | None:
            """Another process adds a package between this one's look and its change."""
            found = await get(id, owner)
            if others:
                await stage.records.change_container(id, Change(requirements=others.pop()))
            return found

        stage.records.get_container = overtaken  # type: ignore[method-assign]
        live = Live(stage.container.id, Spec(), cast(Sandbox, Played()), stage.container.end)
        wanted, version = await stage.container.require(live, ["ours"])
        assert (wanted, version) == (("ours", "theirs"), 2)

    play(scenario)
