"""A sandbox for a claim: from the pool or cold, used, renewed, given up; what is set up wrong; what nobody names."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.kubernetes.cluster import Cluster, Namespace, access, eventually
from tests.kubernetes.conftest import Sources

from belljar.errors import BadSettings, InvalidRequest, NoneFree, Refused
from belljar.sandbox.base import Cell, Sandbox, SandboxHandle, Spec
from belljar.sandbox.kubernetes import ClaimSource, claim_objects, claims
from belljar.sandbox.kubernetes.api_client import ApiClient, ApiError
from belljar.sandbox.outputs import Run, fold
from belljar.sandbox.validation import make_spec

CLAIMS = {
    "apiGroups": ["extensions.agents.x-k8s.io"],
    "resources": ["sandboxclaims"],
    "verbs": ["create", "get", "list", "watch", "patch", "delete"],
}
"""All that a gateway may do."""


async def run(sandbox: Sandbox, code: str) -> Run:
    return fold([output async for output in sandbox.run(Cell(code))])


async def gone(space: Namespace, *plurals: str) -> None:
    """The claims at once, what was under them when the garbage collector has come round."""

    async def none_left() -> bool:
        return not any([await space.names(plural) for plural in plurals or ("sandboxclaims", "sandboxes", "pods")])

    await eventually(none_left, "nothing is left")


# -- from the pool, and cold ------------------------------------------------------------------------------------------


async def test_a_claim_gets_a_pod_of_the_pool_and_gives_it_up(space: Namespace, sources: Sources) -> None:
    await space.pool(replicas=1, image="process")
    [waiting] = await space.names("pods")
    async with sources() as source:
        async with source.acquire(Spec(), container="cntr_1") as sandbox:
            [claim] = await space.list("sandboxclaims")
            assert claim["metadata"]["labels"]["belljar.dev/deployment"] == space.name
            assert claim["metadata"]["annotations"]["belljar.dev/container"] == "cntr_1"
            assert claim["spec"]["lifecycle"]["shutdownPolicy"] == "Delete"
            assert claim["status"]["sandbox"]["name"] == waiting
            assert (await run(sandbox, "kept = 6; kept * 7")).text == "42"
            assert (await run(sandbox, "kept")).text == "6"
            await sandbox.files.write("a.txt", b"text")
            assert (await run(sandbox, "open('a.txt').read()")).text == "'text'"
        assert await space.names("sandboxclaims") == set()

        async def refilled() -> bool:
            return waiting not in await space.names("pods") and await space.ready("pool", 1)

        await eventually(refilled, "the pod is gone, and the pool has another")


async def test_with_an_empty_pool_a_pod_is_made_for_the_claim(space: Namespace, sources: Sources) -> None:
    await space.pool(image="process")
    async with sources() as source, source.acquire(Spec(), name="bj-cold") as sandbox:
        assert await space.names("pods") == {"bj-cold"}
        assert (await run(sandbox, "1 + 1")).text == "2"


async def test_the_memory_that_is_asked_for_chooses_the_pool(space: Namespace, sources: Sources) -> None:
    await space.pool("small")
    await space.pool("large")
    async with sources(pools="1g=small,4g=large") as source:
        for memory, pool in ("512m", "small"), ("1g", "small"), ("1025m", "large"), ("4g", "large"):
            async with source.acquire(make_spec(memory=memory)) as sandbox:
                [claim] = await space.list("sandboxclaims")
                assert claim["spec"]["warmPoolRef"]["name"] == pool
                assert (await run(sandbox, "6 * 7")).text == "42"
        expected = (
            r"^memory: 16 GiB \(a container's memory_limit\) is more than any warm pool has, 1g=small,4g=large; "
            r"ask for 4g or less, or add one to sandbox_warm_pool$"
        )
        with pytest.raises(InvalidRequest, match=expected):
            async with source.acquire(make_spec(memory="16g")):
                pass
        assert await space.names("sandboxclaims") == set()


async def test_each_pool_is_looked_at_before_the_first_sandbox(space: Namespace, sources: Sources) -> None:
    await space.pool("small")
    async with sources(pools="1g=small,4g=large") as source:
        with pytest.raises(BadSettings, match=r"^sandbox_warm_pool: there is no warm pool 'large' in the namespace"):
            await source.prepare()
        await space.pool("large")
        await source.prepare()
        assert source.isolation is not None


async def test_more_at_once_than_the_pool_has(space: Namespace, sources: Sources) -> None:
    await space.pool(replicas=2)
    async with sources() as source:
        together = asyncio.Barrier(8)

        async def use(number: int) -> str:
            async with source.acquire(Spec()) as sandbox:
                await together.wait()  # all of them are there
                return (await run(sandbox, str(number))).text

        assert await asyncio.gather(*map(use, range(8))) == [str(number) for number in range(8)]
        assert await space.names("sandboxclaims") == set()


async def test_a_hundred_executions_leave_nothing(cluster: Cluster, space: Namespace, sources: Sources) -> None:
    await space.pool(replicas=2)
    used = set()
    async with sources() as source:
        for number in range(100):
            async with source.acquire(Spec()) as sandbox:
                used |= {one["status"]["sandbox"]["name"] for one in await space.list("sandboxclaims")}
                assert (await run(sandbox, f"{number} + 1")).text == str(number + 1)
    assert len(used) == 100  # no pod was used twice
    await eventually(lambda: space.ready("pool", 2), "the pool is as it was")
    await eventually(lambda: _count(space, 2), "two sandboxes, two pods, no claims")
    assert (await cluster.shared.health())["current_load"] == 0


async def _count(space: Namespace, waiting: int) -> bool:
    found = [len(await space.names(plural)) for plural in ("sandboxclaims", "sandboxes", "pods")]
    return found == [0, waiting, waiting]


async def test_a_source_knows_what_is_in_its_pods_once_it_is_prepared(space: Namespace, sources: Sources) -> None:
    await space.pool()
    async with sources() as source:
        assert (source.isolation, source.packages) == (None, ())
        await source.prepare()
        assert source.isolation
        assert await space.names("sandboxclaims") == set()


async def test_no_more_than_the_configured_number(space: Namespace, sources: Sources) -> None:
    await space.pool()
    async with sources(most=1) as source:
        async with source.acquire(Spec()):
            with pytest.raises(NoneFree, match=r"^all 1 sandboxes that there may be \(max_sandboxes\)") as caught:
                async with source.acquire(Spec()):
                    pass
            assert caught.value.most == 1
            assert len(await space.names("sandboxclaims")) == 1
        async with source.acquire(Spec()):
            pass


async def test_a_claim_is_given_up_when_its_user_is_called_away(space: Namespace, sources: Sources) -> None:
    await space.pool()
    async with sources() as source:
        held = asyncio.Event()

        async def use() -> None:
            async with source.acquire(Spec()):
                held.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(use())
        await held.wait()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert await space.names("sandboxclaims") == set()


# -- what is not set up right -----------------------------------------------------------------------------------------


async def test_a_pool_that_is_not_there_is_told_with_the_command_that_makes_it(
    space: Namespace, sources: Sources
) -> None:
    await space.template("python")
    async with sources(pools="python") as source:
        with pytest.raises(BadSettings) as caught:
            async with source.acquire(Spec()):
                pass
        told = str(caught.value)
        assert told.startswith(
            f"sandbox_warm_pool: there is no warm pool 'python' in the namespace '{space.name}'; make"
        )
        assert await space.names("sandboxclaims") == set()
        command = re.fullmatch(r".*: (echo .*) \| kubectl apply -f -", told)
        assert command is not None
        printed = await asyncio.to_thread(subprocess.check_output, ["sh", "-c", command[1]])
        await space.api.ask("POST", space.path("sandboxwarmpools"), json.loads(printed))
        async with source.acquire(Spec()) as sandbox:
            assert (await run(sandbox, "'made'")).text == "'made'"


async def test_a_pool_whose_template_is_not_there(space: Namespace, sources: Sources) -> None:
    await space.pool_alone("pool")
    async with sources() as source:
        with pytest.raises(
            BadSettings, match=r"^sandbox_warm_pool: the warm pool 'pool' .* template that is not there"
        ):
            async with source.acquire(Spec()):
                pass


async def test_a_cluster_without_claims(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_objects, "VERSION", "v1alpha1")
    expected = r"knows no SandboxClaim of extensions\.agents\.x-k8s\.io/v1alpha1.*install agent-sandbox"
    async with sources() as source:
        with pytest.raises(BadSettings, match=expected):
            await source.prepare()
        with pytest.raises(BadSettings, match=expected):
            async with source.acquire(Spec()):
                pass


async def test_the_rights_of_a_gateway_are_on_claims_alone(
    cluster: Cluster, space: Namespace, sources: Sources
) -> None:
    await space.pool()
    token = await space.account(CLAIMS)
    async with sources(access(cluster.server, token)) as source:
        await source.prepare()
        async with source.acquire(Spec()) as sandbox:
            assert (await run(sandbox, "40 + 2")).text == "42"
            await source.claims.renew()
    api = ApiClient(access(cluster.server, token))
    try:
        elsewhere = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/default/sandboxclaims"
        for method, path in (
            ("GET", space.path("pods")),
            ("GET", space.path("sandboxes")),
            ("GET", space.path("sandboxwarmpools", "pool")),
            ("GET", space.path("sandboxtemplates")),
            ("GET", space.path("serviceaccounts")),
            ("GET", elsewhere),
            ("GET", "/apis/extensions.agents.x-k8s.io/v1beta1/sandboxclaims"),
            ("DELETE", space.path("sandboxwarmpools", "pool")),
        ):
            with pytest.raises(ApiError) as caught:
                await api.ask(method, path)
            assert caught.value.status == 403, path
    finally:
        await api.close()


async def test_without_rights_the_role_is_named(cluster: Cluster, space: Namespace, sources: Sources) -> None:
    token = await space.account()
    expected = rf"does not let us claim sandboxes in the namespace '{space.name}' .*on sandboxclaims"
    async with sources(access(cluster.server, token)) as source:
        with pytest.raises(BadSettings, match=expected):
            await source.prepare()
        with pytest.raises(BadSettings, match=expected):
            async with source.acquire(Spec()):
                pass
        assert source.problem is not None


async def test_a_token_that_nobody_knows(cluster: Cluster, sources: Sources) -> None:
    async with sources(access(cluster.server, "nobody")) as source:
        with pytest.raises(BadSettings, match="does not take our token"):
            await source.prepare()


# -- a full house -----------------------------------------------------------------------------------------------------


async def test_a_namespace_that_is_full_of_claims(space: Namespace, sources: Sources) -> None:
    await space.pool()
    await quota(space, "count/sandboxclaims.extensions.agents.x-k8s.io", 1)
    async with sources() as source:
        async with source.acquire(Spec()):
            with pytest.raises(NoneFree, match=rf"^the namespace '{space.name}' is full: .*exceeded quota"):
                async with source.acquire(Spec()):
                    pass
            source.isolation = None
            await source.prepare()  # this is nothing that is set up wrong
            assert source.isolation is None

        async def free() -> bool:
            found = await space.api.ask("GET", space.path("resourcequotas", "few"))
            used = (found.get("status") or {}).get("used") or {}
            return "0" in {str(one) for one in used.values()} or not used

        await eventually(free, "the quota counts no claim any more")
        async with source.acquire(Spec()) as sandbox:
            assert (await run(sandbox, "1")).text == "1"


async def test_a_namespace_that_is_full_of_pods_is_waited_for_and_then_told(space: Namespace, sources: Sources) -> None:
    await space.pool(replicas=1)
    await quota(space, "pods", 1)
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(sources(patience=1.5))
        await stack.enter_async_context(source.acquire(Spec()))
        with pytest.raises(Refused, match=r"^no sandbox of the warm pool 'pool' came within 1.5 s: .*exceeded quota.*"):
            async with source.acquire(Spec()):
                pass
        assert len(await space.names("sandboxclaims")) == 1


async def quota(space: Namespace, what: str, most: int) -> None:
    await space.make("resourcequotas", "ResourceQuota", "few", spec={"hard": {what: str(most)}})
    if space.cluster.kind == "real":  # its controller counts first

        async def counted() -> bool:
            found = await space.api.ask("GET", space.path("resourcequotas", "few"))
            return bool((found.get("status") or {}).get("used"))

        await eventually(counted, "the quota is counted")


async def test_a_pod_that_does_not_come_in_time(cluster: Cluster, space: Namespace, sources: Sources) -> None:
    await space.pool()
    cluster.node.stopped = True
    try:
        async with sources(patience=1) as source:
            with pytest.raises(Refused, match=r"came within 1 s: .*phase: Pending.*\(claim_timeout\)$"):
                async with source.acquire(Spec()):
                    pass
            assert await space.names("sandboxclaims") == set()
    finally:
        cluster.node.go_on()
    await gone(space)


async def test_a_pod_that_comes_late_but_in_time(cluster: Cluster, space: Namespace, sources: Sources) -> None:
    await space.pool()
    cluster.node.stopped = True
    async with sources() as source:

        async def use() -> str:
            async with source.acquire(Spec()) as sandbox:
                return (await run(sandbox, "'late'")).text

        task = asyncio.create_task(use())
        try:
            await eventually(lambda: _some(space, "pods"), "the pod waits for room")
        finally:
            cluster.node.go_on()
        assert await task == "'late'"


async def _some(space: Namespace, plural: str) -> bool:
    return bool(await space.names(plural))


# -- which pod it is --------------------------------------------------------------------------------------------------


async def test_a_server_of_another_pod_is_not_used(cluster: Cluster, space: Namespace, sources: Sources) -> None:
    """Addresses are used again: a stale server may answer at that of a new pod."""
    await space.pool(replicas=1)
    [pod] = [cluster.node.running[one["metadata"]["uid"]] for one in await space.list("pods")]
    name, pod.name = pod.name, "somebody-else"  # type: ignore[attr-defined]
    async with sources(patience=1) as source:
        with pytest.raises(Refused, match=r"is that of pod somebody-else, and the claim is on pod pool-"):
            async with source.acquire(Spec()):
                pass
    assert name is not None
    assert await space.names("sandboxclaims") == set()


async def test_a_server_that_does_not_say_which_pod_it_is_in(
    cluster: Cluster, space: Namespace, sources: Sources
) -> None:
    await space.pool(replicas=1)
    [pod] = [cluster.node.running[one["metadata"]["uid"]] for one in await space.list("pods")]
    pod.name = None  # type: ignore[attr-defined]
    async with sources(patience=1) as source:
        with pytest.raises(Refused, match=r"does not say which pod it is in, .* must set POD_NAME from metadata.name$"):
            async with source.acquire(Spec()):
                pass


async def test_a_pod_where_nobody_listens(space: Namespace, sources: Sources) -> None:
    await space.pool()
    async with sources(patience=1, port=1) as source:
        expected = (
            r"does not answer: .*; pod \S+ must run `belljar sandbox --host 0.0.0.0 --port 1`, and the network policy"
        )
        with pytest.raises(Refused, match=expected):
            async with source.acquire(Spec()):
                pass
    assert await space.names("sandboxclaims") == set()


# -- how long it lives ------------------------------------------------------------------------------------------------


def living(source: ClaimSource, seconds: float) -> None:
    source.claims._life = seconds


async def test_a_claim_that_nobody_renews_ends_by_itself(space: Namespace, sources: Sources) -> None:
    """As after a gateway that was killed."""
    await space.pool()
    async with sources() as source:
        living(source, 2)
        async with source.acquire(Spec()) as sandbox:
            await gone(space, "sandboxclaims")
            end = (await run(sandbox, "1")).exit if sandbox.alive else None
            assert end is None or end.reason == "lost"
            await eventually(lambda: _dead(sandbox), "its user is told")
    await gone(space)


async def _dead(sandbox: Sandbox) -> bool:
    return not sandbox.alive


async def test_a_claim_that_is_held_is_renewed(
    space: Namespace, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "_RENEW", 0.3)
    await space.pool()
    async with sources() as source:
        living(source, 3)
        async with source.acquire(Spec()) as sandbox:
            [first] = await space.list("sandboxclaims")
            ends = first["spec"]["lifecycle"]["shutdownTime"]

            async def twice() -> bool:
                [now] = await space.list("sandboxclaims")
                return bool(now["spec"]["lifecycle"]["shutdownTime"] > ends)

            for _ in range(3):
                await eventually(twice, "it is renewed")
                [now] = await space.list("sandboxclaims")
                ends = now["spec"]["lifecycle"]["shutdownTime"]
            assert (await run(sandbox, "'alive'")).text == "'alive'"


async def test_claims_that_no_container_names_are_deleted(
    space: Namespace, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of our own deployment, made for a container, and old enough; with their uid, so that no other is hit."""
    await space.pool()
    asked: list[set[str]] = []
    uids: dict[str, str] = {}

    async def kept(containers: Any) -> Any:
        asked.append(set(containers))
        noted = claim_objects.write_place(space.name, "bj-noted", uids["bj-noted"])
        before = claim_objects.write_place(space.name, "bj-before", "the uid of another")
        return {
            "cntr_held": (7, None),
            "cntr_noted": (9, SandboxHandle(noted, "sbx_1")),
            "cntr_before": (None, SandboxHandle(before, "sbx_1")),
        }

    async with sources(kept=kept) as source, source.acquire(Spec(), name="bj-ours", epoch=1, container="cntr_ours"):
        held = claim_objects.name_for("cntr_held", 7)
        for name, deployment, container, epoch in (
            (held, space.name, "cntr_held", 7),
            ("bj-noted", space.name, "cntr_noted", 3),
            ("bj-before", space.name, "cntr_before", 3),
            ("bj-forgotten", space.name, "cntr_gone", 1),
            ("bj-call", space.name, "cntr_gone", None),
            ("bj-other", "other", "cntr_gone", 1),
        ):
            body = claim_objects.write(
                name, pool="pool", deployment=deployment, request="x", shutdown=4e9, now=1.8e9, container=container,
                epoch=epoch,
            )  # fmt: skip
            uids[name] = claim_objects.uid_of(await space.api.ask("POST", space.path("sandboxclaims"), body))
        await eventually(lambda: _mirrors(source, 6), "the watch has seen them")
        await source.claims.reap()
        assert asked == []  # they are too young
        monkeypatch.setattr(claims, "_YOUNG", -60)

        async def reaped() -> bool:  # one that the controller has just changed is left to the next look
            await source.claims.reap()
            left = await space.names("sandboxclaims")
            assert left >= {"bj-ours", held, "bj-noted", "bj-call", "bj-other"}
            return not left & {"bj-forgotten", "bj-before"}

        await eventually(reaped, "they are gone")
        assert asked[0] == {"cntr_held", "cntr_noted", "cntr_before", "cntr_gone"}


async def test_the_only_gateway_deletes_what_was_left_by_the_one_before(
    space: Namespace, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    await space.pool()
    monkeypatch.setattr(claims, "_YOUNG", -60)
    async with sources() as source, source.acquire(Spec(), name="bj-ours"):
        body = claim_objects.write("bj-left", pool="pool", deployment=space.name, request="x", shutdown=4e9, now=1.8e9)
        await space.api.ask("POST", space.path("sandboxclaims"), body)
        await eventually(lambda: _mirrors(source, 2), "the watch has seen it")

        async def reaped() -> bool:
            await source.claims.reap()
            return await space.names("sandboxclaims") == {"bj-ours"}

        await eventually(reaped, "it is gone")


async def _mirrors(source: ClaimSource, count: int) -> bool:
    return len(source.claims.watch.mirror) == count
