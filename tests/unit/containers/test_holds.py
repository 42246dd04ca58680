"""The table of who holds a container, row by row: two gateways over one store, with sandboxes that only play."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from msgspec import structs
from tests.unit.containers.test_states import Played, run

from belljar.errors import Fenced, HeldElsewhere, InvalidRequest, Lost, NotFound, StoreUnavailable
from belljar.gateway.containers import Containers, Policy
from belljar.gateway.membership import LIFE, Membership
from belljar.gateway.store.base import Blob, Blobs, ContainerRecord, Records
from belljar.gateway.store.local_store import open_store
from belljar.sandbox.base import Attached, Cell, Sandbox, SandboxHandle, SandboxSource, Spec
from belljar.sandbox.outputs import Exit, FileChanged, Output

ME = "key_me"


class PlayedSource:
    """Sandboxes of one gateway, in the order in which they were made; a `server` keeps those that have an epoch."""

    def __init__(self, server: dict[str, Played] | None = None) -> None:
        self.made: list[Played] = []
        self._server = server

    @asynccontextmanager
    async def attach(self, handle: SandboxHandle, epoch: int) -> AsyncIterator[Attached]:
        played = None if self._server is None else self._server.get(handle.id)
        if played is None or not played.alive:
            raise Lost("there is no such sandbox")
        played.detached = False
        try:
            yield Attached(cast(Sandbox, played), cells=1, interpreter=1, files=tuple(await played.list()))
        finally:
            played.alive = played.detached

    @asynccontextmanager
    async def acquire(self, spec: Spec, *, epoch: int | None = None, **_: object) -> AsyncIterator[Sandbox]:
        played = Played()
        if self._server is not None and epoch is not None:
            played.handle = SandboxHandle("played", f"box_{len(self._server)}")
            self._server[played.handle.id] = played

        def append() -> list[Output]:
            played.kept["log"] = played.kept.get("log", b"") + b"+cell"
            info = played._info("log")
            return [FileChanged("log", info.size, info.modified, info.type), Exit("ok")]

        played.cells = {"ok": lambda: [Exit("ok")], "append": append}
        self.made.append(played)
        try:
            yield cast(Sandbox, played)
        finally:
            played.alive = played.detached

    async def close(self) -> None: ...


class OneGateway:
    """Its containers and sandboxes, over a store that it shares."""

    def __init__(
        self, records: Records, blobs: Blobs, clock: Callable[[], float], server: dict[str, Played] | None
    ) -> None:
        self.membership = Membership(records, alone=False, monotonic=clock)
        self.source = PlayedSource(server)
        self._blobs = blobs
        source = cast(SandboxSource, self.source)
        self.containers = Containers(records, blobs, source, Policy(), membership=self.membership, clock=clock)

    async def run(self, container: ContainerRecord, code: str = "ok") -> bool:
        """Whether the caller is told that variables are gone."""
        async with self.containers.use(container) as use:
            await run(use, code)
            return use.healed

    async def put(self, container: ContainerRecord, name: str, content: bytes) -> None:
        async with self._blobs.write() as writer:
            await writer.write(content)
            blob: Blob = await writer.finish()
        await self.containers.put_file(container, name, blob)


class Stage:
    """Two gateways, one container, and the time."""

    def __init__(self, records: Records, blobs: Blobs, a: OneGateway, b: OneGateway, now: list[float]) -> None:
        self.records = records
        self.blobs = blobs
        self.a = a
        self.b = b
        self._now = now

    async def make(self) -> ContainerRecord:
        return await self.a.containers.create(ME, name="x")

    async def fresh(self, container: ContainerRecord) -> ContainerRecord:
        found = await self.records.get_container(container.id, ME)
        assert found is not None
        return found

    async def contents(self, container: ContainerRecord) -> dict[str, bytes]:
        files = await self.records.all_container_files(container.id)
        return {one.path: b"".join([chunk async for chunk in self.blobs.stream(one.blob)]) for one in files}

    def pass_time(self, seconds: float) -> None:
        """While both gateways are stopped."""
        self._now[0] += seconds

    async def wait(self, seconds: float) -> None:
        """While both gateways are well."""
        end = self._now[0] + seconds
        while self._now[0] < end:
            self._now[0] = min(end, self._now[0] + LIFE - 2)
            for one in (self.a, self.b):
                await one.membership.beat()


Scenario = Callable[[Stage], Coroutine[None, None, None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Scenario], None]:
    return lambda scenario: asyncio.run(_play(tmp_path, scenario, None))


@pytest.fixture
def play_remote(tmp_path: Path) -> Callable[[Scenario], None]:
    """With a server that keeps sandboxes beyond their gateways."""

    def play(scenario: Scenario) -> None:
        server: dict[str, Played] = {}
        asyncio.run(_play(tmp_path, scenario, server))

    return play


async def _play(tmp_path: Path, scenario: Scenario, server: dict[str, Played] | None) -> None:
    now = [1000.0]
    records, blobs = open_store(tmp_path / "state", lambda: now[0])
    a, b = (OneGateway(records, blobs, lambda: now[0], server) for _ in range(2))
    for one in (a, b):
        await one.membership.join()
    try:
        await scenario(Stage(records, blobs, a, b, now))
    finally:
        for one in (a, b):
            await one.containers.close()
            await one.membership.leave()
            assert server is not None or not any(played.alive for played in one.source.made)
        await records.close()


def test_free_is_held_under_the_next_epoch(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        assert await stage.a.run(container) is False
        assert (await stage.fresh(container)).holder == stage.a.membership.id
        assert await stage.a.run(container) is False
        held = await stage.fresh(container)
        assert (held.epoch, len(stage.a.source.made)) == (1, 1)

    play(scenario)


def test_what_another_holds_is_asked_there(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        await stage.b.containers.check_here(await stage.fresh(container))
        await stage.a.run(container)
        for ask in (stage.b.run(container), stage.b.containers.check_here(await stage.fresh(container))):
            with pytest.raises(HeldElsewhere) as caught:
                await ask
            assert caught.value.gateway_id == stage.a.membership.id
        await stage.a.containers.check_here(await stage.fresh(container))
        assert stage.b.source.made == []

    play(scenario)


def test_given_up_it_is_let_go_with_its_files(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        await stage.a.run(container, "append")
        await stage.a.containers.close()
        assert (await stage.fresh(container)).holder is None
        assert await stage.b.run(container, "append") is True, "its variables are gone, and that is told"
        assert (await stage.fresh(container)).epoch == 2
        assert await stage.contents(container) == {"log": b"+cell+cell"}

    play(scenario)


def test_files_of_other_gateways_are_there_before_the_next_cell(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        await stage.a.put(container, "log", b"old")
        await stage.a.put(container, "gone", b"1")
        await stage.a.run(container, "append")
        await stage.b.put(container, "log", b"NEW!")
        await stage.b.put(container, "more", b"2")
        [gone] = [one for one in await stage.records.all_container_files(container.id) if one.path == "gone"]
        await stage.b.containers.delete_file(container, gone.id)
        await stage.a.run(container, "append")
        [played] = stage.a.source.made
        assert played.kept == {"log": b"NEW!+cell", "more": b"2"}
        assert await stage.contents(container) == {"log": b"NEW!+cell", "more": b"2"}

    play(scenario)


def test_a_look_that_changes_nothing_takes_no_version_of_others_for_its_own(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        await stage.a.run(container)
        await stage.b.put(container, "more", b"2")
        await stage.a.containers.place(container, [])
        await stage.a.run(container)
        assert stage.a.source.made[0].kept == {"more": b"2"}

    play(scenario)


def test_a_file_and_a_directory_of_one_name_never_pass_both(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        for _ in range(10):
            container = await stage.make()
            tried = await asyncio.gather(
                stage.a.put(container, "a", b"1"), stage.b.put(container, "a/b", b"2"), return_exceptions=True
            )
            assert [type(one) for one in tried if one is not None] == [InvalidRequest]
            await stage.a.run(container)

    play(scenario)


def test_what_a_dead_gateway_held_is_taken_over_and_the_loss_is_told(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        await stage.a.run(container, "append")
        stage.pass_time(LIFE - 2)
        await stage.b.membership.beat()
        with pytest.raises(HeldElsewhere):
            await stage.b.run(container)
        stage.pass_time(3)
        await stage.b.containers.check_here(await stage.fresh(container))
        assert await stage.b.run(container, "append") is True
        assert await stage.contents(container) == {"log": b"+cell+cell"}

    play(scenario)


def test_a_gateway_that_was_stopped_begins_nothing_and_comes_back_as_another(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        await stage.a.run(container, "append")
        before = stage.a.membership.id
        stage.pass_time(LIFE + 1)
        with pytest.raises(StoreUnavailable):
            await stage.a.run(container)
        await stage.b.membership.beat()
        await stage.b.run(container, "append")
        await stage.a.membership.beat()
        assert stage.a.membership.id != before
        assert not any(one.alive for one in stage.a.source.made)
        with pytest.raises(HeldElsewhere):
            await stage.a.run(container)
        assert await stage.contents(container) == {"log": b"+cell+cell"}

    play(scenario)


def test_what_a_stopped_gateway_was_running_is_not_written(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        async with stage.a.containers.use(container) as use:
            outputs = [output async for output in use.run(Cell("append"))]
            stage.pass_time(LIFE + 1)
            await stage.b.membership.beat()
            await stage.b.put(container, "log", b"theirs")
            await stage.b.run(container, "append")
            with pytest.raises(Fenced):
                await use.collect([one for one in outputs if isinstance(one, FileChanged)])
        assert await stage.contents(container) == {"log": b"theirs+cell"}
        assert not any(one.alive for one in stage.a.source.made)

    play(scenario)


def test_deleted_elsewhere_is_gone_here(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        await stage.a.run(container)
        async with stage.a.containers.use(container) as use:
            await stage.b.containers.delete(container.id, ME)
            await stage.a.containers.drop(container.id)
            assert not stage.a.source.made[-1].alive
            with pytest.raises(NotFound):
                await use.collect(())
        with pytest.raises(NotFound):
            await stage.a.run(container)

    play(scenario)


def test_a_container_that_runs_is_not_expired_elsewhere(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        async with stage.a.containers.use(container):
            for _ in range(3):
                await stage.wait(container.minutes * 60 - 1)
                await stage.a.containers.sweep()
                assert stage.b.containers.status(await stage.fresh(container)) == "running"

    play(scenario)


def test_idle_here_but_used_elsewhere_is_not_given_up(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        await stage.a.run(container)
        for _ in range(3):
            await stage.wait(container.minutes * 60 - 1)
            await stage.b.put(await stage.fresh(container), "kept", b"1")
            await stage.a.containers.sweep()
        assert stage.a.containers.count_sandboxes() == (0, 1)

    play(scenario)


def test_cells_are_counted_with_what_they_changed(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        for count, code in enumerate(("ok", "append", "ok"), 1):
            await stage.wait(1)
            await stage.a.run(container, code)
            found = await stage.fresh(container)
            assert (found.cells, found.version, found.last_active_at) == (count, count, 1000 + count)
        await stage.wait(60)
        async with stage.a.containers.use(container) as use:
            begun = use.run(Cell("ok"))
            await anext(begun)
            # Others see that it is in use before it has changed anything; it counts when that is known.
            async with asyncio.timeout(30):
                while (await stage.fresh(container)).last_active_at != 1063:  # noqa: ASYNC110 - of another thread
                    await asyncio.sleep(0.01)
            assert (await stage.fresh(container)).cells == 3
            await begun.aclose()
        assert (await stage.fresh(container)).cells == 4, "left, and counted all the same"

    play(scenario)


def test_warm_is_what_can_be_run_in_here_at_once(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        assert not stage.a.containers.is_warm(container)
        await stage.a.run(container)
        fresh = await stage.fresh(container)
        assert stage.a.containers.is_warm(fresh)
        assert not stage.b.containers.is_warm(fresh)
        assert not stage.a.containers.is_warm(structs.replace(fresh, memory="4g"))
        await stage.wait(fresh.minutes * 60 + 1)
        assert not stage.a.containers.is_warm(fresh), "expired"
        await stage.a.run(container)
        assert stage.a.containers.is_warm(await stage.fresh(container))
        await stage.b.containers.delete(container.id, ME)
        await stage.a.containers.drop(container.id)
        assert not stage.a.containers.is_warm(fresh), "whoever deletes it tells its holder"

    play(scenario)


# -- sandboxes that outlive their gateway -----------------------------------------------------------------------------


def test_what_a_dead_gateway_held_is_taken_over_with_its_variables(play_remote: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        await stage.a.put(container, "given", b"old")
        await stage.a.put(container, "unwanted", b"1")
        await stage.a.run(container, "append")
        [played] = stage.a.source.made
        played.kept["half"] = b"of a cell that nobody heard the end of"
        del played.kept["log"]
        stage.pass_time(LIFE + 1)
        await stage.b.membership.beat()
        await stage.b.put(container, "given", b"NEW!")
        [unwanted] = [one for one in await stage.records.all_container_files(container.id) if one.path == "unwanted"]
        await stage.b.containers.delete_file(container, unwanted.id)
        assert await stage.b.run(container) is False, "its variables live"
        assert stage.b.source.made == []
        assert played.kept == {"given": b"NEW!", "half": b"of a cell that nobody heard the end of"}
        assert await stage.contents(container) == played.kept
        version = (await stage.fresh(container)).version
        await stage.b.run(container)
        assert (await stage.fresh(container)).version == version + 1, "nothing is taken twice"

    play_remote(scenario)


def test_a_gateway_that_stops_leaves_its_sandboxes_to_the_others(play_remote: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        await stage.a.run(container, "append")
        await stage.a.containers.close()
        await stage.a.membership.leave()
        assert (await stage.fresh(container)).holder is None
        version = (await stage.fresh(container)).version
        assert await stage.b.run(container, "append") is False
        assert (await stage.fresh(container)).version == version + 1
        assert await stage.contents(container) == {"log": b"+cell+cell"}
        assert stage.b.source.made == []

    play_remote(scenario)


def test_a_sandbox_that_is_gone_is_not_looked_for_again(play_remote: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        await stage.a.run(container, "append")
        stage.a.source.made[0].alive = False
        stage.pass_time(LIFE + 1)
        await stage.b.membership.beat()
        assert await stage.b.run(container, "append") is True, "the loss is told"
        assert await stage.contents(container) == {"log": b"+cell+cell"}
        await stage.b.containers.delete(container.id, ME)

        other = await stage.b.containers.create(ME, name="x")
        await stage.b.run(other)
        assert (await stage.fresh(other)).sandbox
        await stage.wait(other.minutes * 60 + 1)
        await stage.b.containers.sweep()
        assert (await stage.fresh(other)).sandbox == b"", "given up for good"

    play_remote(scenario)


def test_code_that_a_provider_runs_has_the_container_to_itself(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        async with stage.a.containers.host(container) as hosting:
            with pytest.raises(HeldElsewhere):
                async with stage.b.containers.host(container):
                    pass
            with pytest.raises(HeldElsewhere):
                await stage.b.run(container)
            next_here = asyncio.create_task(stage.a.run(container))
            await stage.a.containers.note_hosted(hosting, b"at a")
            assert not next_here.done()
        assert await next_here is False
        # Beside a sandbox of ours: its hold goes on.
        async with stage.a.containers.host(container) as hosting:
            assert (hosting.record.hosted, hosting.record.epoch) == (b"at a", 2)
        assert await stage.a.run(container) is False
        assert len(stage.a.source.made) == 1

    play(scenario)


def test_what_a_provider_ran_for_one_that_was_stopped_is_not_kept(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        async with stage.a.containers.host(container) as before:
            stage.pass_time(LIFE + 1)
            await stage.b.membership.beat()
            async with stage.b.containers.host(container) as taken:
                await stage.b.containers.note_hosted(taken, b"at b")
            with pytest.raises(Fenced):
                await stage.a.containers.note_hosted(before, b"at a")
            await stage.b.containers.delete(container.id, ME)
            with pytest.raises(NotFound):
                await stage.a.containers.note_hosted(before, b"at a")

    play(scenario)


def test_a_cell_that_ended_as_all_was_given_up_is_not_acknowledged(play: Callable[[Scenario], None]) -> None:
    """Nobody else has the container yet, so the hold is still so; but what the cell wrote is gone."""

    async def scenario(stage: Stage) -> None:
        container = await stage.make()
        async with stage.a.containers.use(container) as use:
            changed = [one async for one in use.run(Cell("append")) if isinstance(one, FileChanged)]
            stage.pass_time(LIFE - 0.5)
            await stage.a.membership.beat()
            with pytest.raises(Fenced):
                await use.collect(changed)
        assert await stage.contents(container) == {}
        assert (await stage.fresh(container)).version == 0
        await stage.b.membership.beat()
        assert await stage.b.run(container, "append") is True
        assert await stage.contents(container) == {"log": b"+cell"}

    play(scenario)
