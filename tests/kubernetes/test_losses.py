"""A pod that ends under its user: the run ends at once with the reason, and never goes on in an empty sandbox."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import cast

import pytest
from tests.kubernetes.cluster import Cluster, Namespace, eventually
from tests.kubernetes.conftest import Sources
from tests.kubernetes.pods import SandboxServer, SharingPod
from tests.kubernetes.test_claims import gone, run

from belljar.errors import Lost, Refused
from belljar.sandbox.base import Cell, Sandbox, Spec
from belljar.sandbox.outputs import Exit, Output, Stdout

WAIT = "import time\nprint('on', flush=True)\ntime.sleep(600)"


@asynccontextmanager
async def waiting(sandbox: Sandbox) -> AsyncIterator[asyncio.Task[list[Output]]]:
    """A cell that has begun and would take for ever; the rest of what it says."""
    async with aclosing(sandbox.run(Cell(WAIT, timeout=600))) as outputs:
        assert await anext(outputs) == Stdout("on\n")

        async def rest() -> list[Output]:
            return [output async for output in outputs]

        task = asyncio.create_task(rest())
        yield task
        await task


async def pod_of(space: Namespace) -> str:
    [claim] = await space.list("sandboxclaims")
    return str(claim["status"]["sandbox"]["name"])


async def delete_pod(cluster: Cluster, space: Namespace) -> None:
    """As a drain does, or an eviction."""
    await space.api.ask("DELETE", space.path("pods", await pod_of(space)), {})


async def delete_claim(cluster: Cluster, space: Namespace) -> None:
    [name] = await space.names("sandboxclaims")
    await space.api.ask("DELETE", space.path("sandboxclaims", name), {})


async def crash(cluster: Cluster, space: Namespace) -> None:
    found = await space.api.ask("GET", space.path("pods", await pod_of(space)))
    cast(SharingPod, cluster.node.running[found["metadata"]["uid"]]).crash("container sandbox was killed (OOMKilled)")


@pytest.mark.parametrize(
    ("end", "why"),
    [(delete_pod, "Pod"), (delete_claim, "Deleted: "), (crash, "PodFailed: container sandbox was killed (OOMKilled)")],
)
async def test_a_cell_ends_with_the_reason(
    cluster: Cluster, space: Namespace, sources: Sources, end: Callable[[Cluster, Namespace], object], why: str
) -> None:
    await space.pool(replicas=1)
    async with sources() as source:
        async with source.acquire(Spec()) as sandbox:
            [name] = await space.names("sandboxclaims")
            async with waiting(sandbox) as rest:
                await cast(AsyncAct, end)(cluster, space)
                *_, last = await rest
            assert isinstance(last, Exit)
            assert (last.status, last.reason) == ("killed", "lost")
            assert f"Kubernetes ended its pod ({why}" in last.text
            assert not sandbox.alive
            with pytest.raises(Lost, match=re.escape(f"the sandbox is gone: Kubernetes ended its pod ({why}")):
                await run(sandbox, "1")
            with pytest.raises(Lost):
                await sandbox.files.list()
            # The pod that came in its place is empty, and nobody's: the claim is given up before its user leaves.
            await gone(space, "sandboxclaims")
        async with source.acquire(Spec()) as again:
            assert (await run(again, "'again'")).text == "'again'"
            assert name not in await space.names("sandboxclaims")


AsyncAct = Callable[[Cluster, Namespace], asyncio.Future[None]]


async def _dead(sandbox: Sandbox) -> bool:
    return not sandbox.alive


@pytest.mark.parametrize("end", [delete_pod, delete_claim, crash])
async def test_a_sandbox_that_nobody_runs_anything_in_is_known_to_be_gone(
    cluster: Cluster, space: Namespace, sources: Sources, end: AsyncAct
) -> None:
    await space.pool(replicas=1)
    async with sources() as source, source.acquire(Spec()) as sandbox:
        await run(sandbox, "kept = 1")
        await end(cluster, space)
        await eventually(lambda: _dead(sandbox), "it is gone")
        with pytest.raises(Lost, match=r"^the sandbox is gone: "):
            await run(sandbox, "kept")


async def test_the_reason_is_kubernetes_own_where_the_connection_says_nothing(
    cluster: Cluster, space: Namespace, sources: Sources
) -> None:
    """The pod's machine has vanished: no connection breaks, and only the API server knows."""
    await space.pool(replicas=1)
    async with sources() as source, source.acquire(Spec()) as sandbox:
        [name] = await space.names("sandboxclaims")
        cluster.controller.paused = True  # else it would give the claim another status
        try:
            async with waiting(sandbox) as rest:
                conditions = [
                    {
                        "type": "Ready",
                        "status": "False",
                        "reason": "PodFailed",
                        "message": "the node is gone",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                ]
                await space.api.ask(
                    "PATCH", space.path("sandboxclaims", f"{name}/status"), {"status": {"conditions": conditions}}
                )
                *_, last = await rest
        finally:
            cluster.controller.paused = False
        assert isinstance(last, Exit)
        assert f"Kubernetes ended its pod (PodFailed: the node is gone; claim {name})" in last.text


async def test_a_pod_that_is_busy_for_a_moment_is_not_lost(
    cluster: Cluster, space: Namespace, sources: Sources
) -> None:
    """Its readiness probe fails when code takes every processor; its address stays."""
    await space.pool(replicas=1)
    async with sources() as source, source.acquire(Spec()) as sandbox:
        [claim] = await space.list("sandboxclaims")
        name = claim["metadata"]["name"]
        cluster.controller.paused = True
        try:
            unready = {**claim["status"]["conditions"][0], "status": "False", "reason": "DependenciesNotReady"}
            path = space.path("sandboxclaims", f"{name}/status")
            told = await space.api.ask("PATCH", path, {"status": {"conditions": [unready]}})
            version = told["metadata"]["resourceVersion"]

            async def seen() -> bool:
                return bool(source.claims.watch.mirror[name]["metadata"]["resourceVersion"] == version)

            await eventually(seen, "the watch has told of it")
        finally:
            cluster.controller.paused = False
        assert (await run(sandbox, "'here'")).text == "'here'"


async def test_a_server_that_is_killed_in_its_pod(cluster: Cluster, space: Namespace, sources: Sources) -> None:
    """The real process, as the kernel kills it."""
    await space.pool(image="process")
    async with sources() as source:
        async with source.acquire(Spec()) as sandbox:
            found = await space.api.ask("GET", space.path("pods", await pod_of(space)))
            server = cast(SandboxServer, cluster.node.running[found["metadata"]["uid"]])
            async with waiting(sandbox) as rest:
                assert server.process is not None
                server.process.kill()
                *_, last = await rest
            assert isinstance(last, Exit)
            assert (last.status, last.reason) == ("killed", "lost")
        await gone(space)


async def test_a_pod_that_fails_before_it_is_ready(cluster: Cluster, space: Namespace, sources: Sources) -> None:
    await space.pool()
    cluster.node.stopped = True
    try:
        async with sources() as source:

            async def use() -> None:
                async with source.acquire(Spec()):
                    pass

            task = asyncio.create_task(use())
            await eventually(lambda: _some_pod(space), "there is a pod")
            [name] = await space.names("pods")
            status = {"phase": "Failed", "message": "the image cannot be pulled"}
            await space.api.ask("PATCH", space.path("pods", f"{name}/status"), {"status": status})
            with pytest.raises(Refused, match=r"'pool': PodFailed: the image cannot be pulled$"):
                await task
            assert await space.names("sandboxclaims") == set()
    finally:
        cluster.node.go_on()


async def _some_pod(space: Namespace) -> bool:
    return bool(await space.names("pods"))
