"""What `kubectl apply -k deploy/kubernetes` would apply: real fields, real settings, and parts that fit together.

A real API server is asked in `tests/kubernetes/test_manifests.py`.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from tests.deploy.kubernetes_schema import find_faults
from tests.deploy.kustomization import KUBERNETES, ROOT, TREES, Object, read, render

from belljar import __version__
from belljar.config import Settings
from belljar.gateway.server.routes.health import HealthRoutes

OURS = ("belljar-gateway", "belljar-sandbox")
FIRST_KEY = KUBERNETES / "first-key.yaml"


def objects(name: str) -> list[Object]:
    return [*render(TREES[name]), *read(FIRST_KEY)]


def only(kind: str, name: str, tree: str = "base") -> Object:
    [found] = [one for one in objects(tree) if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def pod_of(one: Object) -> Object | None:
    spec = one.get("spec", {})
    found = spec.get("podTemplate") or spec.get("template")
    return found["spec"] if found else None


def pods(tree: str) -> dict[str, Object]:
    found = {f"{one['kind']}/{one['metadata']['name']}": pod_of(one) for one in objects(tree)}
    return {name: pod for name, pod in found.items() if pod is not None}


def containers(tree: str) -> list[Object]:
    return [one for pod in pods(tree).values() for one in pod["containers"]]


def variables(container: Object) -> dict[str, str]:
    return {one["name"]: str(one.get("value", "10.0.0.1")) for one in container.get("env", ())}


# -- every field and every setting is a real one -----------------------------------------------------------------------


@pytest.mark.parametrize("tree", TREES)
def test_every_field_is_one_of_kubernetes(tree: str) -> None:
    assert [fault for one in objects(tree) for fault in find_faults(one)] == []


def test_a_field_that_is_none_is_found() -> None:
    """The check can fail: at any depth, for a wrong name, a wrong type and a missing field."""
    template = only("SandboxTemplate", "belljar")
    template["spec"]["podTemplate"]["spec"]["containers"][0]["securityContext"]["procMounts"] = "Unmasked"
    template["spec"]["serviceAccount"] = "x"
    template["spec"]["networkPolicy"]["ingress"][0]["form"] = []
    service = only("Service", "belljar-gateway")
    service["spec"]["ports"][0]["port"] = "80"
    del service["spec"]["ports"][0]["targetPort"]
    pool = only("SandboxWarmPool", "belljar")
    pool["spec"]["replica"] = 3
    policy = only("NetworkPolicy", "gateway-to-sandboxes")
    policy["spec"]["egress"][0]["ports"][0]["protokol"] = "TCP"
    role = only("RoleBinding", "belljar-gateway")
    del role["roleRef"]["name"]
    faults = [fault for one in (template, service, pool, policy, role) for fault in find_faults(one)]
    for word in (
        "procMounts",
        "serviceAccount",
        "ingress[0].form",
        "ports[0].port",
        "replica",
        "protokol",
        "roleRef.name",
    ):
        assert [fault for fault in faults if word in fault], (word, faults)
    assert len(faults) == 7


@pytest.mark.parametrize("tree", TREES)
def test_every_setting_is_one_that_belljar_reads(tree: str) -> None:
    """A name that does not exist, or a value that does not fit, raises `BadSettings`."""
    for container in containers(tree):
        if any(container["image"].startswith(one) for one in OURS):
            given = {
                name: value.replace("$(POD_IP)", "10.0.0.1")
                for name, value in variables(container).items()
                if name.startswith("BELLJAR_")
            }
            settings = Settings.load(environment=given)
            assert set(settings.origins) == {name.removeprefix("BELLJAR_").lower() for name in given}


@pytest.mark.parametrize("tree", TREES)
def test_images_are_of_this_version(tree: str) -> None:
    images = {one["image"] for one in containers(tree)}
    assert {f"{name}:{__version__}" for name in OURS} <= images
    recipe = (ROOT / "deploy/image/Containerfile").read_text()
    for name in OURS:
        assert f"--target {name.removeprefix('belljar-')} -t {name}:{__version__} ." in recipe
    assert not [one for one in images if one.endswith(":latest") or ":" not in one]


# -- the gateway -------------------------------------------------------------------------------------------------------


def test_probes_ask_what_the_gateway_has() -> None:
    [gateway] = pods("base")["Deployment/belljar-gateway"]["containers"]
    known = {route.template for route in HealthRoutes(None, None).routes()}  # type: ignore[arg-type]
    paths = {kind: gateway[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    assert set(paths.values()) <= known
    assert paths["liveness"] == "/healthz", "a gateway without its database must not be killed for it"
    assert paths["readiness"] == "/readyz"


def test_a_gateway_has_time_to_finish() -> None:
    pod = pods("base")["Deployment/belljar-gateway"]
    [gateway] = pod["containers"]
    [_, before] = gateway["lifecycle"]["preStop"]["exec"]["command"]
    drain = Settings.load(environment={"BELLJAR_DRAIN": variables(gateway)["BELLJAR_DRAIN"]}).drain
    assert pod["terminationGracePeriodSeconds"] >= int(before) + drain + 10


def test_what_a_gateway_writes_has_a_place() -> None:
    pod = pods("base")["Deployment/belljar-gateway"]
    [gateway] = pod["containers"]
    mounted = {one["mountPath"]: one["name"] for one in gateway["volumeMounts"]}
    given = variables(gateway)
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert set(mounted.values()) == set(volumes)
    for place in (given["BELLJAR_STATE_DIR"], given["BELLJAR_CACHE_DIR"], "/tmp"):
        assert "emptyDir" in volumes[mounted[place]]
    for file in (given["BELLJAR_DATABASE_FILE"], given["AWS_SHARED_CREDENTIALS_FILE"]):
        assert "secret" in volumes[mounted[file.rpartition("/")[0]]]
    cache = Settings.load(environment={"BELLJAR_BLOBS_CACHE": given["BELLJAR_BLOBS_CACHE"]}).blobs_cache
    room = volumes[mounted[given["BELLJAR_CACHE_DIR"]]]["emptyDir"]["sizeLimit"]
    assert cache < int(room.removesuffix("Gi")) << 30


def test_a_gateway_may_claim_sandboxes_and_nothing_else() -> None:
    roles = [one for one in objects("base") if one["kind"] in ("Role", "ClusterRole", "ClusterRoleBinding")]
    assert [one["kind"] for one in roles] == ["Role"]
    [rule] = roles[0]["rules"]
    assert rule["apiGroups"] == ["extensions.agents.x-k8s.io"]
    assert rule["resources"] == ["sandboxclaims"]
    [told] = [
        one
        for block in re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/kubernetes.md").read_text(), re.M | re.S)
        if (one := yaml.safe_load(block)).get("kind") == "Role"
    ]
    assert told["rules"] == roles[0]["rules"]
    binding = only("RoleBinding", "belljar-gateway")
    account = pods("base")["Deployment/belljar-gateway"]["serviceAccountName"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "belljar"}]
    assert only("ServiceAccount", account)["metadata"]["namespace"] == "belljar"
    assert binding["roleRef"]["name"] == roles[0]["metadata"]["name"]
    assert binding["metadata"]["namespace"] == roles[0]["metadata"]["namespace"]


@pytest.mark.parametrize("tree", TREES)
def test_pods_are_closed(tree: str) -> None:
    """Nobody is root, nothing is written outside volumes, no capability; a sandbox has no token and no way out."""
    for name, pod in pods(tree).items():
        ours = any(one["image"].startswith(OURS) for one in pod["containers"])
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["runAsUser"] > 0, name
        assert name == "Deployment/belljar-gateway" or pod["automountServiceAccountToken"] is False, name
        for one in (*pod["containers"], *pod.get("initContainers", ())):
            context = one["securityContext"]
            assert not ours or context["readOnlyRootFilesystem"], name
            assert not ours or one["resources"]["limits"]["memory"], name
            if (tree, name) == ("kata", "SandboxTemplate/belljar"):
                assert pod["runtimeClassName"] == "kata", "inside a machine of its own alone"
                continue
            assert not context.get("privileged"), name
            assert context["allowPrivilegeEscalation"] is False, name
            assert context["capabilities"] == {"drop": ["ALL"]}, name


@pytest.mark.parametrize("tree", TREES)
def test_references_lead_to_something(tree: str) -> None:
    """Selectors, targets, pools and namespaces."""
    all_of = objects(tree)
    named = {(one["kind"], one["metadata"]["name"]) for one in all_of}
    spaces = {name for kind, name in named if kind == "Namespace"}
    assert {one["metadata"].get("namespace") for one in all_of if one["kind"] != "Namespace"} <= spaces
    labels = [
        (one["spec"].get("podTemplate") or one["spec"]["template"])["metadata"]["labels"]
        for one in all_of
        if pod_of(one) is not None
    ]
    for one in all_of:
        spec = one.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector") or {}
        wanted = selector.get("matchLabels", {} if "matchExpressions" in selector else selector)
        assert any(wanted.items() <= given.items() for given in labels), one["metadata"]["name"]
    scaled = only("HorizontalPodAutoscaler", "belljar-gateway", tree)["spec"]["scaleTargetRef"]
    assert (scaled["kind"], scaled["name"]) in named
    assert "replicas" not in only(scaled["kind"], scaled["name"], tree)["spec"], "the autoscaler's to say"


# -- the sandboxes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tree", TREES)
def test_the_gateway_finds_its_sandboxes(tree: str) -> None:
    """Pool, namespace and port are the same on both sides, and the gateway is let in."""
    [gateway] = pods(tree)["Deployment/belljar-gateway"]["containers"]
    [sandbox] = pods(tree)["SandboxTemplate/belljar"]["containers"]
    given = variables(gateway)
    pool = only("SandboxWarmPool", given["BELLJAR_SANDBOX_WARM_POOL"], tree)
    template = only("SandboxTemplate", pool["spec"]["sandboxTemplateRef"]["name"], tree)
    place = given["BELLJAR_SANDBOX_NAMESPACE"]
    assert pool["metadata"]["namespace"] == template["metadata"]["namespace"] == place
    port = int(variables(sandbox)["BELLJAR_SANDBOX_PORT"])
    assert port == Settings.load(environment={}).sandbox_port, "the gateway asks there where nothing else is said"
    assert [one["containerPort"] for one in sandbox["ports"]] == [port]
    [rule] = template["spec"]["networkPolicy"]["ingress"]
    assert [one["port"] for one in rule["ports"]] == [port]
    [source] = rule["from"]
    deployment = only("Deployment", "belljar-gateway", tree)
    assert source["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": deployment["metadata"]["namespace"]
    }
    assert source["podSelector"]["matchLabels"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert template["spec"]["networkPolicy"]["egress"] == []
    assert {"POD_NAME", "POD_UID"} <= variables(sandbox).keys()
    quota = only("ResourceQuota", "belljar-sandboxes", tree)["spec"]["hard"]
    claims = int(quota["count/sandboxclaims.extensions.agents.x-k8s.io"])
    assert claims + pool["spec"]["replicas"] <= int(quota["pods"])


def test_the_jail_has_what_it_needs_of_a_pod() -> None:
    """As docs/isolation.md says."""
    pod = pods("base")["SandboxTemplate/belljar"]
    [sandbox] = pod["containers"]
    [row] = re.findall(r"^\| Kubernetes \|.*\| (.*) \|$", (ROOT / "docs/isolation.md").read_text(), re.M)
    told, rest = re.findall(r"`([^`]+)`", row)
    wanted = yaml.safe_load(told)["securityContext"]
    assert wanted.pop("runAsUser") > 0
    assert wanted.items() <= sandbox["securityContext"].items()
    assert pod.items() >= yaml.safe_load(rest).items()


# -- the network -------------------------------------------------------------------------------------------------------


def allowed(tree: str, side: str) -> dict[str, list[Any]]:
    """By name, what policies of the gateway's namespace let through."""
    found = [one for one in objects(tree) if one["kind"] == "NetworkPolicy"]
    return {
        one["metadata"]["name"]: [port["port"] for rule in one["spec"].get(side, ()) for port in rule["ports"]]
        for one in found
        if one["spec"].get(side)
    }


@pytest.mark.parametrize("tree", TREES)
def test_the_network_denies_what_is_not_listed(tree: str) -> None:
    for space in ("belljar", "belljar-sandboxes"):
        [closed] = [
            one["spec"]
            for one in objects(tree)
            if one["kind"] == "NetworkPolicy" and one["metadata"] == {"name": "default-deny", "namespace": space}
        ]
        assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    policies = [one for one in objects(tree) if one["kind"] == "NetworkPolicy"]
    assert [one for one in policies if one["metadata"]["namespace"] == "belljar-sandboxes"] == [
        one for one in policies if one["metadata"] == {"name": "default-deny", "namespace": "belljar-sandboxes"}
    ]
    for one in policies:
        for side in ("ingress", "egress"):
            rules = one["spec"].get(side, ())
            assert all(rule.get("from" if side == "ingress" else "to") and rule["ports"] for rule in rules)


def test_the_gateway_reaches_what_it_needs() -> None:
    assert allowed("base", "egress") == {
        "gateway-to-gateway": [8787],
        "gateway-to-sandboxes": [8080],
        "all-to-dns": [53, 53],
        "all-to-database": [5432],
        "gateway-to-https": [443, 6443],
    }
    assert allowed("base", "ingress") == {"callers-to-gateway": [8787], "gateway-to-gateway": [8787]}


def test_the_trial_has_the_stores_that_its_gateway_asks_for() -> None:
    [gateway] = pods("trial")["Deployment/belljar-gateway"]["containers"]
    given = variables(gateway)
    host, port = given["BELLJAR_BLOBS_ENDPOINT"].removeprefix("http://").split(":")
    assert [one["port"] for one in only("Service", host, "trial")["spec"]["ports"]] == [int(port)]
    secret = only("Secret", "belljar", "trial")["stringData"]
    database = Settings.load(environment={"BELLJAR_DATABASE": secret["database"]}).database
    assert database is not None
    name, password, host, place = re.findall(r"//(\w+):(\w+)@(\w+)/(\w+)", database)[0]
    only("Service", host, "trial")
    [postgres] = pods("trial")[f"Deployment/{host}"]["containers"]
    told = variables(postgres)
    assert (name, password, place) == (told["POSTGRES_USER"], told["POSTGRES_PASSWORD"], told["POSTGRES_DB"])
    pair = re.findall(r"= (\S+)", secret["aws"])
    rclone = pods("trial")["Deployment/objects"]
    assert f"--auth-key={','.join(pair)}" in rclone["containers"][0]["args"]
    bucket = given["BELLJAR_BLOBS"].removeprefix("s3://")
    assert rclone["initContainers"][0]["args"] == ["mkdir", f"/data/{bucket}"]
