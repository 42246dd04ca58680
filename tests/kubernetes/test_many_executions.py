"""Many executions through a gateway, a claim for each: afterwards everything that is left is accounted for."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.houses import CODE, OUTPUTS, House
from tests.gateway.test_first_minute import cell, logs
from tests.gateway.test_sandbox_url import ready, until
from tests.kubernetes.cluster import Cluster, Namespace, eventually
from tests.kubernetes.test_claims import _count
from tests.kubernetes.test_gateway import Far, _scene, house, opened, scene

__all__ = ["_scene", "house", "scene"]

WAITING = 2
"""Pods that the pool has ready."""
CODES: tuple[tuple[str, str], ...] = (
    ("print({n} + 1)", "completed"),
    ("open('n.txt', 'w').write('{n}'); print({n} + 1)", "completed"),
    ("1 / 0", "completed"),
    ("import os; os._exit(1)", "failed"),
)
"""What is run in turn, and how it ends."""


@pytest.mark.parametrize("count", [8, pytest.param(1000, marks=pytest.mark.soak)])
async def test_what_is_left_is_accounted_for(
    cluster: Cluster,
    space: Namespace,
    house: Callable[..., House],
    capsys: pytest.CaptureFixture[str],
    count: int,
) -> None:
    await space.pool(replicas=WAITING)
    far = Far(space)
    began = time.monotonic()

    def say(what: str) -> None:
        if count > 100:
            with capsys.disabled():
                print(f"\n{time.monotonic() - began:6.0f} s  {what}", end="", flush=True)

    def scenario() -> Path:
        with house("--isolation", "per_call") as gateway, opened(gateway) as client:
            until(lambda: ready(gateway)[0] == 200)
            responses: list[str] = []
            containers: dict[str, bool] = {}
            for number in range(count):
                code, status = CODES[number % len(CODES)]
                asked = f"```python\n{code.format(n=number)}\n```"
                made: Any = client.responses.create(model="belljar", input=asked, tools=CODE, include=OUTPUTS)  # type: ignore[arg-type]
                assert cell(made).status == status, made
                if number % len(CODES) < 2:
                    assert logs(made).strip() == str(number + 1)
                responses.append(made.id)
                containers[str(cell(made).container_id)] = number % len(CODES) == 1
                if number % 100 == 99:
                    say(
                        f"{number + 1} executions, {len(far.names('sandboxclaims'))} claims, {far(_held(cluster))} held"
                    )
            assert far.names("sandboxclaims") == set(), "each was deleted before its call was answered"
            rows = read_rows(gateway.state)
            assert set(rows["containers"]) == set(containers)
            assert set(rows["responses"]) == set(responses)
            assert {row[0] for row in rows["files"]} == {id for id, has_file in containers.items() if has_file}
            assert find_blobs(gateway.state) == {row[1] for row in rows["files"]}
            for id in containers:
                client.containers.delete(id)
            for id in responses:
                client.responses.delete(id)
            say("all deleted")
            return gateway.state

    state = await asyncio.to_thread(scenario)
    assert read_rows(state) == {"containers": [], "responses": [], "files": []}
    await eventually(lambda: space.ready("pool", WAITING), "the pool is as it was")
    await eventually(lambda: _count(space, WAITING), "pods and sandboxes of the pool, and no claims")
    assert await _held(cluster) == 0


async def _held(cluster: Cluster) -> int:
    """Sandboxes of the server behind the pods."""
    return int((await cluster.shared.health())["current_load"])


def read_rows(state: Path) -> dict[str, list[Any]]:
    database = sqlite3.connect(f"file:{state / 'records.db'}?mode=ro", uri=True)
    try:
        return {
            "containers": [id for (id,) in database.execute("SELECT id FROM containers")],
            "responses": [id for (id,) in database.execute("SELECT id FROM responses")],
            "files": database.execute("SELECT container_id, blob FROM container_files").fetchall(),
        }
    finally:
        database.close()


def find_blobs(state: Path) -> set[str]:
    return {one.parent.name + one.name for one in (state / "blobs").rglob("*") if one.is_file()}
