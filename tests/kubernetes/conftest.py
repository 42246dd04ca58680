"""What takes `cluster` runs over our own API server, and over a real one where `make kubernetes` has built that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

import pytest
from tests.helpers.coroutine_tests import blocks, pytest_pyfunc_call, runner, unblocked
from tests.helpers.programs import has_control_plane
from tests.kubernetes.cluster import Cluster, Namespace, access
from tests.kubernetes.door import Door

from belljar.config import read_warm_pools
from belljar.sandbox.kubernetes import ClaimSource
from belljar.sandbox.kubernetes.access import ClusterAccess

__all__ = ["blocks", "pytest_pyfunc_call", "runner", "unblocked"]

KINDS = ["fake", "real"] if has_control_plane() else ["fake"]

Sources: TypeAlias = Callable[..., AbstractAsyncContextManager[ClaimSource]]


@pytest.fixture(scope="session")
def clusters(runner: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Cluster]]:
    """Each is started when first asked for, and kept."""
    made: dict[str, tuple[Cluster, AbstractAsyncContextManager[Cluster]]] = {}

    def find(kind: str) -> Cluster:
        if kind not in made:
            context = Cluster(kind, tmp_path_factory.mktemp(kind)).running()
            made[kind] = runner.run(_enter(context)), context
        return made[kind][0]

    yield find
    for _, context in made.values():
        runner.run(_leave(context))


@pytest.fixture(params=KINDS)
def cluster(request: pytest.FixtureRequest, clusters: Callable[[str], Cluster]) -> Cluster:
    return clusters(request.param)


@pytest.fixture
def space(runner: asyncio.Runner, cluster: Cluster) -> Iterator[Namespace]:
    made = runner.run(cluster.namespace())
    yield made
    runner.run(made.clear())


@pytest.fixture
def door(runner: asyncio.Runner, cluster: Cluster) -> Iterator[Door]:
    context = Door(access(cluster.server)).opened()
    yield runner.run(_enter(context))
    runner.run(_leave(context))


@pytest.fixture
def sources(cluster: Cluster, space: Namespace) -> Sources:
    """Makes sources over the test's namespace: `async with sources() as source:` takes any option of a source."""

    @asynccontextmanager
    async def make(way: ClusterAccess | None = None, pools: str = "pool", **options: Any) -> AsyncIterator[ClaimSource]:
        known = {
            "namespace": space.name,
            "pools": read_warm_pools(pools),
            "deployment": space.name,
            "port": cluster.port,
            "patience": 60,
        }
        source = ClaimSource(way or access(cluster.server), **{**known, **options})
        try:
            yield source
        finally:
            await source.close()

    return make


async def _enter(context: AbstractAsyncContextManager[Any]) -> Any:
    return await context.__aenter__()


async def _leave(context: AbstractAsyncContextManager[Any]) -> None:
    await context.__aexit__(None, None, None)
