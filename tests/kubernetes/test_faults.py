"""An API server that is busy, forgets, loses answers or dies: a claim is made once, seen, and deleted all the same."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from tests.kubernetes.cluster import Cluster, Namespace, eventually
from tests.kubernetes.conftest import Sources
from tests.kubernetes.door import Door, Fault
from tests.kubernetes.test_claims import gone, run

from belljar.errors import BelljarError, Refused
from belljar.sandbox.base import Cell, Spec
from belljar.sandbox.kubernetes import claim_objects
from belljar.sandbox.outputs import Stdout

CONFLICT = {
    "kind": "Status",
    "reason": "Conflict",
    "code": 409,
    "message": 'Operation cannot be fulfilled on resourcequotas "few": the object has been modified',
}
EXPIRED = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


# -- making one -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        Fault("POST", forwarded=True),
        Fault("POST"),
        Fault("POST", 429, headers={"Retry-After": "1"}),
        Fault("POST", 500, times=2),
        Fault("POST", 503, forwarded=True),
        Fault("POST", 504, forwarded=True, times=2),
        Fault("POST", 409, body=CONFLICT),
    ],
    ids=["answer lost", "dropped", "429", "500 twice", "503 and yet made", "504 twice and yet made", "409 of a quota"],
)
async def test_a_claim_is_made_once(door: Door, space: Namespace, sources: Sources, fault: Fault) -> None:
    await space.pool()
    times = fault.times
    door.faults = [Fault(**vars(fault))]
    async with sources(door.access) as source:
        async with source.acquire(Spec()) as sandbox:
            assert len(await space.names("sandboxclaims")) == 1
            assert (await run(sandbox, "1")).text == "1"
        assert door.asked.count("POST") == times + 1
        assert await space.names("sandboxclaims") == set()


async def test_a_claim_whose_answer_was_lost_is_deleted_when_nobody_wants_it_any_more(
    door: Door, space: Namespace, sources: Sources
) -> None:
    await space.pool()
    door.faults = [Fault("POST", forwarded=True, times=100)]
    async with sources(door.access, patience=1) as source:
        with pytest.raises(BelljarError):
            async with source.acquire(Spec()):
                raise AssertionError
        assert await space.names("sandboxclaims") == set()
    await gone(space)


async def test_a_claim_of_somebody_else_with_the_name_is_left_alone(space: Namespace, sources: Sources) -> None:
    await space.pool()
    body = claim_objects.write("bj-taken", pool="pool", deployment="other", request="other", shutdown=4e9, now=1.8e9)
    await space.api.ask("POST", space.path("sandboxclaims"), body)
    async with sources() as source:
        with pytest.raises(Refused, match="a claim bj-taken is there already, and of somebody else"):
            async with source.acquire(Spec(), name="bj-taken"):
                pass
    assert await space.names("sandboxclaims") == {"bj-taken"}


async def test_an_api_server_that_does_not_come_back_is_told_of(door: Door, space: Namespace, sources: Sources) -> None:
    door.faults = [Fault(method, times=1000) for method in ("GET", "POST", "WATCH")]
    async with sources(door.access, patience=0.5) as source:
        with pytest.raises(Refused, match=r"the API server at http://127.0.0.1:\d+ does not answer as it should"):
            async with source.acquire(Spec()):
                pass
        assert source.problem is not None
        with pytest.raises(Refused, match=r"^the API server at http://127.0.0.1:\d+ does not answer: "):
            await source.prepare()


# -- seeing it --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        Fault("WATCH"),
        Fault("WATCH", 410, body={"reason": "Expired", "code": 410}),
        Fault("WATCH", event=EXPIRED),
        Fault("WATCH", 429, headers={"Retry-After": "1"}),
        Fault("WATCH", 500),
        Fault("GET", 503),
        Fault("GET"),
    ],
    ids=["dropped", "410", "410 in the middle", "429", "500", "503 to the list", "the list dropped"],
)
async def test_a_watch_that_breaks_is_taken_up_again(
    door: Door, space: Namespace, sources: Sources, fault: Fault
) -> None:
    await space.pool()
    door.faults = [Fault(**vars(fault))]
    async with sources(door.access) as source, source.acquire(Spec()) as sandbox:
        assert (await run(sandbox, "1")).text == "1"
        assert source.problem is None


@pytest.mark.parametrize("forgets", [False, True], ids=["", "forgotten"])
async def test_what_happened_while_nobody_watched_is_seen_later(
    door: Door, space: Namespace, sources: Sources, forgets: bool
) -> None:
    """The watch breaks, the claim's pod goes, and then it is there again: from where it was, or with a new list."""
    await space.pool(replicas=1)
    async with sources(door.access) as source, source.acquire(Spec()) as sandbox:
        await eventually(lambda: _watching(door), "the watch is there")
        door.faults = [Fault("WATCH", times=3), Fault("WATCH", event=EXPIRED, times=int(forgets))]
        door.cut_watches()
        [name] = await space.names("sandboxclaims")
        await space.api.ask("DELETE", space.path("sandboxclaims", name), {})
        await eventually(lambda: _dead(sandbox), "it is gone")


async def _watching(door: Door) -> bool:
    return "WATCH" in door.asked


async def _dead(sandbox: object) -> bool:
    return not sandbox.alive  # type: ignore[attr-defined]


async def test_a_watch_that_breaks_loses_nobody(door: Door, space: Namespace, sources: Sources) -> None:
    await space.pool()
    async with sources(door.access) as source, source.acquire(Spec()) as sandbox:
        await run(sandbox, "kept = 1")
        for fault in (Fault("WATCH"), Fault("WATCH", event=EXPIRED)):
            door.faults = [fault]
            before = len(door.asked)
            door.cut_watches()
            await eventually(lambda before=before: _watched_since(door, before, 2), "it is watched again")  # type: ignore[misc]
            async with source.acquire(Spec()) as other:
                assert (await run(other, "2")).text == "2"
        assert (await run(sandbox, "kept")).text == "1"


async def _watched_since(door: Door, before: int, times: int) -> bool:
    return door.asked[before:].count("WATCH") >= times


# -- deleting it ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        Fault("DELETE"),
        Fault("DELETE", forwarded=True),
        Fault("DELETE", 429, headers={"Retry-After": "1"}),
        Fault("DELETE", 500, times=3),
    ],
    ids=["dropped", "answer lost", "429", "500 thrice"],
)
async def test_a_claim_is_deleted_all_the_same(door: Door, space: Namespace, sources: Sources, fault: Fault) -> None:
    await space.pool()
    door.faults = [Fault(**vars(fault))]
    async with sources(door.access) as source:
        async with source.acquire(Spec()):
            pass
        assert await space.names("sandboxclaims") == set()


async def test_another_claim_with_its_name_is_not_deleted(door: Door, space: Namespace, sources: Sources) -> None:
    await space.pool()
    async with sources(door.access) as source:
        async with source.acquire(Spec(), name="bj-one"):
            door.faults = [Fault("WATCH", times=1000), Fault("GET", 503, times=1000)]
            door.cut_watches()  # so that nobody is told
            await space.api.ask("DELETE", space.path("sandboxclaims", "bj-one"), {})
            body = claim_objects.write("bj-one", pool="pool", deployment="x", request="x", shutdown=4e9, now=1.8e9)
            await space.api.ask("POST", space.path("sandboxclaims"), body)
        assert await space.names("sandboxclaims") == {"bj-one"}


async def test_a_claim_that_cannot_be_deleted_now_is_deleted_later(
    door: Door, space: Namespace, sources: Sources, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user need not wait for that."""
    monkeypatch.setattr("belljar.sandbox.kubernetes.claims._END", 0.3)
    await space.pool()
    async with sources(door.access) as source:
        async with source.acquire(Spec()):
            door.faults = [Fault("DELETE", times=1000)]
        [left] = await space.names("sandboxclaims")
        assert f"the claim {space.name}/{left} is not deleted yet" in caplog.text
        door.faults = []
        await gone(space, "sandboxclaims")


# -- the server dies --------------------------------------------------------------------------------------------------


async def test_an_api_server_that_is_killed_and_comes_back(
    cluster: Cluster, space: Namespace, sources: Sources
) -> None:
    """While a cell runs, while a claim is waited for, and while one is to be deleted."""
    await space.pool()
    async with sources() as source:

        async def use() -> str:
            async with source.acquire(Spec()) as sandbox:
                return (await run(sandbox, "'waited'")).text

        async with source.acquire(Spec()) as sandbox, AsyncExitStack() as stack:
            await stack.enter_async_context(source.acquire(Spec()))
            cluster.node.stopped = True
            waits = asyncio.create_task(use())
            try:
                await eventually(lambda: _pods(space, 3), "two are there, and one waits for its pod")
                outputs = sandbox.run(Cell("import time\nprint('on', flush=True)\ntime.sleep(2)\nprint('off')"))
                assert await anext(outputs) == Stdout("on\n")
                await cluster.server.kill()
            finally:
                cluster.node.go_on()
            deleted = asyncio.create_task(stack.aclose())
            back = asyncio.create_task(cluster.server.start())
            assert [one.text async for one in outputs if isinstance(one, Stdout)] == ["off\n"]
            assert sandbox.alive
            await back
            assert await waits == "'waited'"
            await deleted
            assert sandbox.alive
            assert (await run(sandbox, "'alive'")).text == "'alive'"
        await gone(space)


async def _pods(space: Namespace, count: int) -> bool:
    return len(await space.names("pods")) == count
