"""Commands and the library with code in claimed pods, without a gateway of their own to be set up."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from tests.helpers import forked
from tests.kubernetes.cluster import Cluster, Namespace, kubeconfig, unused_ports
from tests.kubernetes.test_claims import gone

from belljar import AsyncSandbox, Sandbox


@pytest.fixture
def environment(cluster: Cluster, space: Namespace, tmp_path: Path) -> dict[str, str]:
    """Which names the pool by settings."""
    config = tmp_path / "kubeconfig"
    config.write_text(kubeconfig(cluster.server.url, cluster.server.authority, cluster.server.token))
    return {
        "KUBECONFIG": str(config),
        "BELLJAR_SANDBOX_PORT": str(cluster.port),
        "BELLJAR_SANDBOX_WARM_POOL": "pool",
        "BELLJAR_SANDBOX_NAMESPACE": space.name,
        "BELLJAR_CLAIM_TIMEOUT": "60",
    }


async def test_commands_run_code_in_pods(space: Namespace, environment: dict[str, str], tmp_path: Path) -> None:
    await space.pool(replicas=1)

    def scenario() -> None:
        named = {name: value for name, value in environment.items() if not name.endswith(("_POOL", "_NAMESPACE"))}
        flags = ("--sandbox-warm-pool", "pool", "--sandbox-namespace", space.name)
        ran = forked.run("run", "-c", "print(6 * 7)", *flags, env={**os.environ, **named})
        assert (ran.returncode, ran.stdout) == (0, "42\n"), ran.stderr
        variables = {**os.environ, **environment}
        told = json.loads(forked.run("doctor", "--json", env=variables).stdout)
        assert (told["level"], told["sandbox_warm_pool"], told["checks"][0]["name"]) == ("full", "pool", "warm pool")
        assert json.loads(forked.run("packages", "--json", env=variables).stdout) == []
        apart = {"BELLJAR_PORT": str(unused_ports(1)[0]), "BELLJAR_DISCOVER": "false"}
        asked = forked.run("chat", "print(40 + 2)", env={**variables, **apart})
        assert asked.returncode == 0, asked.stderr
        assert "42" in asked.stdout + asked.stderr
        wrong = forked.run("run", "-c", "1", env={**variables, "BELLJAR_SANDBOX_WARM_POOL": "none-such"})
        assert "sandbox_warm_pool: there is no warm pool 'none-such'" in wrong.stderr

    await asyncio.to_thread(scenario)
    await gone(space, "sandboxclaims")


async def test_the_library_runs_code_in_pods(
    space: Namespace, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    await space.pool()
    async with AsyncSandbox() as box:
        assert (await box.run("6 * 7")).text == "42"
        assert len(await space.names("sandboxclaims")) == 1

    def blocking() -> str:
        with Sandbox() as box:
            box.files.write("a.txt", b"text")
            return box.run("open('a.txt').read()").text

    assert await asyncio.to_thread(blocking) == "'text'"
    await gone(space, "sandboxclaims")
