"""What `deploy/kubernetes` applies, asked of the real tools: kubectl renders the same, and an API server takes it.

Both are what `make kubernetes` builds. The server is 1.20: it knows the autoscaler and the budget under older versions,
and drops fields that came later, which `tests/deploy/test_kubernetes.py` checks against the types of today.
"""

from __future__ import annotations

import asyncio

import pytest
import yaml
from tests.deploy.kustomization import KUBERNETES, TREES, Object, read, render
from tests.helpers.programs import control_plane, has_control_plane
from tests.kubernetes.cluster import Cluster, eventually, succeeds

from belljar.sandbox.kubernetes.api_client import ApiClient, ApiError

BUILT = has_control_plane()
OLDER = {"autoscaling/v2": "autoscaling/v2beta2", "policy/v1": "policy/v1beta1"}
PLURALS = {"NetworkPolicy": "networkpolicies"}


def path_of(one: Object) -> str:
    api = one["apiVersion"]
    plural = PLURALS.get(one["kind"], one["kind"].lower() + "s")
    space = one["metadata"].get("namespace")
    return f"/{'apis' if '/' in api else 'api'}/{api}{f'/namespaces/{space}' if space else ''}/{plural}"


def name_of(one: Object) -> tuple[str, ...]:
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


@pytest.mark.parametrize("tree", TREES)
async def test_kubectl_renders_the_same(tree: str) -> None:
    """Our own renderer is what the other tests read with."""
    command = (str(control_plane() / "kubectl"), "kustomize", str(TREES[tree]))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    assert process.returncode == 0
    assert sorted(yaml.safe_load_all(told), key=name_of) == sorted(render(TREES[tree]), key=name_of)


@pytest.mark.parametrize("cluster", ["real"], indirect=True)
async def test_a_real_api_server_takes_every_object(cluster: Cluster) -> None:
    api = cluster.api
    objects = [one for tree in TREES.values() for one in render(tree)] + read(KUBERNETES / "first-key.yaml")
    spaces = {one["metadata"]["name"]: one for one in objects if one["kind"] == "Namespace"}
    for one in spaces.values():
        await api.ask("POST", "/api/v1/namespaces", one)
    try:
        for name in spaces:  # made by a controller, and asked for by every pod
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            await eventually(lambda account=account: succeeds(api.ask("GET", account)), account)  # type: ignore[misc]
        for one in objects:
            if one["kind"] != "Namespace":
                await dry_run(api, {**one, "apiVersion": OLDER.get(one["apiVersion"], one["apiVersion"])})
            if one["kind"] == "SandboxTemplate":  # whose pods are open in the schema: as the pods that they become
                pod = {**one["spec"]["podTemplate"], "apiVersion": "v1", "kind": "Pod"}
                pod["spec"].pop("runtimeClassName", None)  # the cluster's own
                pod["metadata"] = {**pod["metadata"], "name": "sandbox", "namespace": "belljar-sandboxes"}
                await dry_run(api, pod)
        wrong = next(one for one in objects if one["kind"] == "Service")
        with pytest.raises(ApiError, match="port"):
            await dry_run(api, {**wrong, "spec": {"ports": [{"port": 0}]}})
    finally:
        for name in spaces:
            await api.ask("DELETE", f"/api/v1/namespaces/{name}", {})


async def dry_run(api: ApiClient, one: Object) -> None:
    try:
        await api.ask("POST", path_of(one), one, query={"dryRun": "All"})
    except ApiError as error:
        error.add_note(f"{name_of(one)}")
        raise


if not BUILT:  # as with the other tests of claims: those of the real server are there where it is
    del test_kubectl_renders_the_same, test_a_real_api_server_takes_every_object
