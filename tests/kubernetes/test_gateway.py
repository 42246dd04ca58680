"""A gateway whose code runs in claimed pods: from the request to the pod and back, and what is left when one dies."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from openai import BadRequestError, InternalServerError, OpenAI
from tests.gateway.houses import House, Scene
from tests.gateway.test_first_minute import cell, logs
from tests.gateway.test_loop import ask
from tests.gateway.test_sandbox_url import LIVE, WAIT, ready, until
from tests.gateway.test_sandboxed import end, python, told
from tests.helpers.postgres import Postgres
from tests.kubernetes.cluster import PATIENCE, Cluster, Namespace, kubeconfig
from tests.kubernetes.pods import SharingPod

from belljar.gateway.interpreter.prompts import RESTARTED

T = TypeVar("T")


class Far:
    """The cluster, for a thread: its loop goes on meanwhile."""

    def __init__(self, space: Namespace) -> None:
        self.space = space
        self._loop = asyncio.get_running_loop()

    def __call__(self, act: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(act, self._loop).result(PATIENCE)

    def names(self, plural: str) -> set[str]:
        return self(self.space.names(plural))

    def pools(self, container: str) -> list[str]:
        """Those that the claims for this container are on."""
        claims = self(self.space.list("sandboxclaims"))
        named = [one for one in claims if one["metadata"]["annotations"].get("belljar.dev/container") == container]
        return [one["spec"]["warmPoolRef"]["name"] for one in named]

    def crash(self, why: str) -> None:
        """The pod of the only claim."""

        async def act() -> None:
            [claim] = await self.space.list("sandboxclaims")
            path = self.space.path("pods", claim["status"]["sandbox"]["name"])
            uid = (await self.space.api.ask("GET", path))["metadata"]["uid"]
            cast(SharingPod, self.space.cluster.node.running[uid]).crash(why)

        self(act())


@pytest.fixture(scope="module")
def _scene() -> Iterator[Scene]:
    scene = Scene()
    with scene.server:
        yield scene


@pytest.fixture
def scene(_scene: Scene) -> Scene:
    _scene.play()
    return _scene


@pytest.fixture
def house(cluster: Cluster, space: Namespace, scene: Scene, tmp_path: Path) -> Callable[..., House]:
    """Makes gateways over the test's namespace."""
    config = tmp_path / "kubeconfig"
    config.write_text(kubeconfig(cluster.server.url, cluster.server.authority, cluster.server.token))

    def make(*flags: str, pools: str = "pool", **variables: str) -> House:
        place = ("--sandbox-warm-pool", pools, "--sandbox-namespace", space.name)
        behind = ("--upstream", f"loop={scene.server.base_url}")
        known = {"KUBECONFIG": str(config), "BELLJAR_SANDBOX_PORT": str(cluster.port), **variables}
        return House(tmp_path / "state", *place, *behind, *flags, environment=known)

    return make


def read_metrics(house: House) -> dict[str, float]:
    with urllib.request.urlopen(f"{house.url}/metrics") as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def opened(house: House) -> OpenAI:
    return OpenAI(base_url=house.base_url, api_key="none", max_retries=0, timeout=60)


async def test_code_runs_in_a_claimed_pod_for_as_long_as_the_container_has_it(
    space: Namespace, house: Callable[..., House], scene: Scene
) -> None:
    await space.pool(replicas=1)
    far = Far(space)

    def scenario() -> None:
        with house() as gateway, opened(gateway) as client:
            assert f"warm pool pool in namespace {space.name}" in gateway.told["isolation"]
            until(lambda: ready(gateway)[0] == 200)
            scene.play([python("kept = 7\nopen('a.txt', 'w').write('file');")], "ok", [python("kept * 6")], "42")
            first = ask(client)
            assert cell(first).status == "completed"
            [claim] = far.names("sandboxclaims")
            again = ask(client, previous_response_id=first.id)
            assert (logs(again), far.names("sandboxclaims")) == ("42", {claim})
            [file] = client.containers.files.list(cell(first).container_id)
            assert client.containers.files.content.retrieve(file.id, container_id=file.container_id).read() == b"file"
            client.containers.delete(cell(first).container_id)
            until(lambda: not far.names("sandboxclaims"))

    await asyncio.to_thread(scenario)


async def test_a_container_is_in_a_pod_of_its_tier(space: Namespace, house: Callable[..., House], scene: Scene) -> None:
    await space.pool("small")
    await space.pool("large")
    far = Far(space)

    def scenario() -> None:
        with house(pools="1g=small,4g=large") as gateway, opened(gateway) as client:
            assert f"warm pool 1g=small,4g=large in namespace {space.name}" in gateway.told["isolation"]
            until(lambda: ready(gateway)[0] == 200)
            made = client.containers.create(name="large", memory_limit="4g")
            scene.play([python("6 * 7")], "42")
            tool = {"type": "code_interpreter", "container": made.id}
            assert logs(ask(client, tools=[tool])) == "42"
            assert far.pools(made.id) == ["large"]
            client.containers.delete(made.id)
            auto = {"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "16g"}}
            for refused in (
                lambda: client.containers.create(name="huge", memory_limit="16g"),
                lambda: ask(client, tools=[auto]),
            ):
                with pytest.raises(BadRequestError, match="Supported values are: '1g', and '4g'") as caught:
                    refused()
                assert "memory_limit" in str(caught.value.param)

    await asyncio.to_thread(scenario)


async def test_a_pod_that_dies_in_a_cell_is_told_and_the_container_heals_with_the_next(
    space: Namespace, house: Callable[..., House], scene: Scene
) -> None:
    await space.pool(replicas=1)
    far = Far(space)

    def scenario() -> None:
        with house() as gateway, opened(gateway) as client:
            scene.play([python("kept = 1\nopen('kept.txt', 'w').write('file');")], "ok")
            first = ask(client)
            scene.play([python(WAIT)], "It was lost.")
            with cast(Any, ask(client, previous_response_id=first.id, stream=True)) as stream:
                assert any(event.type == LIVE for event in stream)
                far.crash("container sandbox was killed (OOMKilled)")
                lost = list(stream)[-1].response
            assert (lost.status, cell(lost).status, end(lost)["reason"]) == ("completed", "failed", "lost")
            assert "PodFailed: container sandbox was killed (OOMKilled)" in end(lost)["text"]
            assert "The sandbox was lost while the code ran." in told(scene)
            counted = read_metrics(gateway)
            assert counted['belljar_sandbox_claims_ended_total{reason="PodFailed"}'] == 1
            assert counted['belljar_sandbox_claims_ended_total{reason="released"}'] == 1, "of the look at the start"
            assert counted["belljar_sandbox_claims_made_total"] == 2
            assert counted["belljar_sandbox_claims_waiting"] == 0
            took = [value for name, value in counted.items() if "claim_ready_seconds_count" in name]
            assert sum(took) == 2
            scene.play([python("open('kept.txt').read(), 'kept' in globals()")], "ok")
            healed = ask(client, previous_response_id=lost.id)
            assert cell(healed).container_id == cell(first).container_id
            assert logs(healed) == "('file', False)"
            assert end(healed)["healed"]
            assert told(scene).startswith(RESTARTED)

    await asyncio.to_thread(scenario)


async def test_with_isolation_per_call_each_call_has_a_claim_that_is_deleted_in_every_outcome(
    space: Namespace, house: Callable[..., House], scene: Scene
) -> None:
    await space.pool(replicas=1)
    far = Far(space)

    def scenario() -> None:
        with house("--isolation", "per_call", "--timeout", "5") as gateway, opened(gateway) as client:
            until(lambda: ready(gateway)[0] == 200)
            habits = ["x = 1", "1 / 0", "import os; os._exit(1)", "import time; time.sleep(60)", "'x' in globals()"]
            scene.play([python(one) for one in habits], "apart")
            response = ask(client)
            statuses = [cell(response, number).status for number in range(5)]
            assert statuses == ["completed", "completed", "failed", "failed", "completed"]
            assert logs(response, 4) == "False"
            assert far.names("sandboxclaims") == set()

    await asyncio.to_thread(scenario)


async def test_an_exhausted_cluster_is_told_to_the_model_after_the_claim_timeout(
    cluster: Cluster, space: Namespace, house: Callable[..., House], scene: Scene
) -> None:
    await space.pool(replicas=1)

    def scenario() -> None:
        with house(BELLJAR_CLAIM_TIMEOUT="1.5") as gateway, opened(gateway) as client:
            until(lambda: ready(gateway)[0] == 200)
            cluster.node.stopped = True
            scene.play([python("1")], "There is no room.")
            response = ask(client)
            if cell(response).status == "completed":  # the pool had one
                scene.play([python("1")], "There is no room.")
                response = ask(client)
            assert (cell(response).status, response.output_text) == ("failed", "There is no room.")
            assert told(scene).startswith(
                "The code was not run. no sandbox of the warm pool 'pool' came within 1.5 s: DependenciesNotReady"
            )

    try:
        await asyncio.to_thread(scenario)
    finally:
        cluster.node.go_on()


async def test_a_gateway_that_is_killed_leaves_claims_that_end(
    space: Namespace, house: Callable[..., House], scene: Scene
) -> None:
    """By their shutdown time, which nobody renews; or deleted by the next gateway over the same store."""
    await space.pool()
    far = Far(space)

    def scenario() -> None:
        with house() as gateway:
            with opened(gateway) as client:
                scene.play([python("1")], "ok")
                ask(client)
                [left] = far.names("sandboxclaims")
                gateway.kill()
            found = far(space.api.ask("GET", space.path("sandboxclaims", left)))
            assert found["spec"]["lifecycle"]["shutdownPolicy"] == "Delete"
            past = {"spec": {"lifecycle": {"shutdownTime": "2020-01-01T00:00:00Z"}}}
            far(space.api.ask("PATCH", space.path("sandboxclaims", left), past))
            until(lambda: not far.names("sandboxclaims"))

    await asyncio.to_thread(scenario)


async def test_a_container_goes_on_at_another_gateway_with_its_variables(
    space: Namespace, house: Callable[..., House], scene: Scene, postgres: Postgres
) -> None:
    """Its gateway is stopped, and leaves the claim to others; the next one is killed."""
    await space.pool()
    far = Far(space)
    database = postgres.address(await postgres.make_database())

    def scenario() -> None:
        def opening() -> House:
            return house(BELLJAR_DATABASE=database)

        def run(client: OpenAI, code: str, previous: str | None) -> Any:
            scene.play([python(code)], "ok")
            return ask(client, previous_response_id=previous)

        def run_when_free(client: OpenAI, code: str, previous: str) -> Any:
            """Once the gateway that held the container is taken for dead."""
            answers: list[Any] = []

            def is_free() -> bool:
                with suppress(InternalServerError):
                    answers.append(run(client, code, previous))
                return bool(answers)

            until(is_free)
            return answers[0]

        with opening() as c, opened(c) as third:
            with opening() as b, opened(b) as second:
                with opening() as a, opened(a) as first:
                    until(lambda: all(ready(one)[0] == 200 for one in (a, b, c)))
                    made = run(first, "x = 1", None)
                    [claim] = far.names("sandboxclaims")
                # The first was told to stop.
                assert far.names("sandboxclaims") == {claim}
                again = run(second, "x = x + 1; x", made.id)
                assert (logs(again), end(again).get("healed")) == ("2", None)
                assert far.names("sandboxclaims") == {claim}
                b.kill()
            again = run_when_free(third, "x + 1", again.id)
            assert (logs(again), end(again).get("healed")) == ("3", None)
            assert far.names("sandboxclaims") == {claim}
            third.containers.delete(cell(again).container_id)
            until(lambda: not far.names("sandboxclaims"))

    await asyncio.to_thread(scenario)


async def test_a_pool_that_is_not_there_stops_the_start(space: Namespace, house: Callable[..., House]) -> None:
    ran = await asyncio.to_thread(lambda: house().run())
    assert ran.returncode == 3
    assert (
        f"belljar: error: sandbox_warm_pool: there is no warm pool 'pool' in the namespace '{space.name}'" in ran.stderr
    )
    assert "| kubectl apply -f -" in ran.stderr
    assert await space.names("sandboxclaims") == set()


async def test_the_founding_documents_template_is_the_pool_of_its_name(
    space: Namespace, house: Callable[..., House], tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        f"providers: {{code_interpreter: {{settings: {{sandbox_template: pool, sandbox_namespace: {space.name}}}}}}}"
    )
    gateway = house("--config", str(file))
    gateway.command = [one for one in gateway.command if one not in ("--sandbox-warm-pool", "pool")]
    ran = await asyncio.to_thread(gateway.run)
    assert f"there is no warm pool 'pool' in the namespace '{space.name}'" in ran.stderr


async def test_what_excludes_each_other_stops_the_start(house: Callable[..., House]) -> None:
    ran = await asyncio.to_thread(lambda: house("--sandbox-url", "http://127.0.0.1:1").run())
    assert ran.returncode == 2
    assert "sandbox_url and sandbox_warm_pool are both set" in ran.stderr
