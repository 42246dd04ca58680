"""Claims that outlive their gateway: found by the container's row, taken over under a higher epoch."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from tests.kubernetes.cluster import Cluster, Namespace, eventually
from tests.kubernetes.conftest import Sources
from tests.kubernetes.door import Door, Fault
from tests.kubernetes.test_claims import gone, run

from belljar.errors import Fenced, Lost
from belljar.sandbox.base import SandboxHandle, Spec
from belljar.sandbox.kubernetes import ClaimSource, claim_objects

NAME = claim_objects.name_for("cntr_1", 3)


async def test_a_claim_that_was_left_goes_on_at_another_gateway(space: Namespace, sources: Sources) -> None:
    await space.pool()
    async with sources() as a:
        async with a.acquire(Spec(), epoch=3, container="cntr_1") as sandbox:
            await run(sandbox, "x = 41")
            [claim] = await space.list("sandboxclaims")
            assert claim["metadata"]["name"] == NAME, "any gateway finds it"
            handle = await sandbox.detach()
        assert handle.url == claim_objects.write_place(space.name, NAME, claim["metadata"]["uid"])
    assert await space.names("sandboxclaims") == {NAME}, "that gateway is gone, and nothing was deleted"
    async with sources() as b:
        async with b.attach(handle, 4) as attached:
            assert (attached.cells, attached.sandbox.handle) == (1, handle)
            assert (await run(attached.sandbox, "x + 1")).text == "42"
            with pytest.raises(Fenced):
                async with b.attach(handle, 4):
                    raise AssertionError
            assert (await run(attached.sandbox, "x")).text == "41", "it was only asked for"
            [claim] = await space.list("sandboxclaims")
            assert claim["metadata"]["annotations"]["belljar.dev/epoch"] == "4"
            assert claim["metadata"]["annotations"]["belljar.dev/container"] == "cntr_1"
        await gone(space, "sandboxclaims")
        with pytest.raises(Lost, match=rf"the claim {NAME} is gone"):
            async with b.attach(handle, 5):
                raise AssertionError


async def test_a_gateway_that_was_stopped_deletes_nothing_of_whoever_took_over(
    space: Namespace, sources: Sources, door: Door
) -> None:
    """It is cut off from the watch, so all that it knows is what it held."""
    await space.pool()
    async with sources(door.access) as a, sources() as b, AsyncExitStack() as stack:
        async with a.acquire(Spec(), epoch=3, container="cntr_1") as sandbox:
            await run(sandbox, "x = 1")
            door.faults.append(Fault("WATCH", status=503, times=10_000))
            door.cut_watches()
            await eventually(lambda: _broken(a), "it sees no claims any more")
            assert sandbox.handle is not None
            attached = await stack.enter_async_context(b.attach(sandbox.handle, 4))
        assert await space.names("sandboxclaims") == {NAME}
        assert (await run(attached.sandbox, "x")).text == "1"


async def _broken(source: ClaimSource) -> bool:
    return source.claims.watch.problem is not None


async def test_of_a_claim_that_changes_between_look_and_deletion_the_change_counts(
    space: Namespace, sources: Sources, door: Door
) -> None:
    await space.pool()
    async with sources(door.access) as source, source.acquire(Spec(), epoch=3, container="cntr_1"):
        # Somebody writes to it at every look that it takes before it deletes: the first deletion meets another version.
        door.faults.append(Fault("DELETE", status=409, body={"reason": "Conflict", "message": "changed"}))
        asked = len(door.asked)
    assert door.asked[asked:].count("DELETE") == 2
    assert await space.names("sandboxclaims") == set()


async def test_a_lost_answer_to_taking_over(space: Namespace, sources: Sources, door: Door) -> None:
    await space.pool()
    async with sources() as a, a.acquire(Spec(), epoch=3, container="cntr_1") as sandbox:
        handle = await sandbox.detach()
    door.faults.append(Fault("PATCH", forwarded=True))
    async with sources(door.access) as b, b.attach(handle, 4) as attached:
        assert (await run(attached.sandbox, "1")).text == "1"
    await gone(space, "sandboxclaims")


async def test_a_pod_that_died_meanwhile_is_not_taken_for_it(
    cluster: Cluster, space: Namespace, sources: Sources
) -> None:
    """The controller puts an empty one in its place, under the same name."""
    await space.pool()
    async with sources() as a, a.acquire(Spec(), epoch=3, container="cntr_1") as sandbox:
        await run(sandbox, "x = 1")
        handle = await sandbox.detach()
    [claim] = await space.list("sandboxclaims")
    pod = claim["status"]["sandbox"]["name"]
    before = claim["status"]["sandbox"]["podIPs"]
    await space.api.ask("DELETE", space.path("pods", pod), {})

    async def replaced() -> bool:
        [now] = await space.list("sandboxclaims")
        found = claim_objects.read_status(now)
        return isinstance(found, claim_objects.Ready) and list(found.addresses) != before

    await eventually(replaced, "there is another pod")
    await cluster.shared.forget(handle.id)  # the stand-in's pods share one server; that of a new pod knows no sandbox
    async with sources() as b:
        with pytest.raises(Lost):
            async with b.attach(handle, 4):
                raise AssertionError
        await gone(space, "sandboxclaims")


async def test_what_is_no_claim_of_ours(space: Namespace, sources: Sources) -> None:
    async with sources() as source:
        for url in ("http://127.0.0.1:1", "claim:elsewhere/bj-1/uid", "claim:bj-1", f"claim:{space.name}/bj-1/uid"):
            with pytest.raises(Lost):
                async with source.attach(SandboxHandle(url, "sbx_1"), 2):
                    raise AssertionError


async def test_two_who_take_over_at_once(space: Namespace, sources: Sources) -> None:
    """One has it, under the higher epoch; the other is told so, and neither deletes what is the other's."""
    await space.pool()
    async with sources() as a, a.acquire(Spec(), epoch=1, container="cntr_1") as sandbox:
        await run(sandbox, "x = 5")
        handle = await sandbox.detach()
    async with sources() as b, sources() as c:
        has_it, other_is_done = asyncio.Event(), asyncio.Event()

        async def take_late() -> None:
            try:
                async with b.attach(handle, 2):
                    await has_it.wait()
            except Fenced:
                pass
            finally:
                other_is_done.set()

        async def take() -> list[str]:
            async with c.attach(handle, 3) as attached:
                has_it.set()
                before = (await run(attached.sandbox, "x")).text
                await other_is_done.wait()
                return [before, (await run(attached.sandbox, "x")).text]

        assert (await asyncio.gather(take(), take_late()))[0] == ["5", "5"]
        await gone(space, "sandboxclaims")
