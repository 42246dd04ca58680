"""SandboxClaims of agent-sandbox v1beta1: how one is written, and what its status says. Pure."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from belljar.sandbox.kubernetes.api_client import Object

GROUP, VERSION = "extensions.agents.x-k8s.io", "v1beta1"
DEPLOYMENT = "belljar.dev/deployment"
"""The label by which gateways that share a store find each other's claims."""
_CONTAINER = "belljar.dev/container"
_EPOCH = "belljar.dev/epoch"
"""Under which it is held: whoever has a lower one has lost it."""
_PLACE = "claim:"
_REQUEST = "belljar.dev/request"
"""Tells who asked for it: a claim that is there already may be of our own lost request."""

TERMINAL = frozenset(
    {
        "ClaimExpired",
        "EnvVarsInjectionRejected",
        "InvalidConfiguration",
        "InvalidMetadata",
        "PodFailed",
        "PodSucceeded",
        "SandboxExpired",
        "TemplateNotFound",
        "VolumeClaimTemplatesError",
        "WarmPoolNotFound",
    }
)
"""Reasons of a claim that is not ready and will not become so, or only when somebody acts."""


# -- writing ----------------------------------------------------------------------------------------------------------


def path_of(namespace: str, name: str | None = None) -> str:
    path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/sandboxclaims"
    return path if name is None else f"{path}/{name}"


def name_for(container: str, epoch: int) -> str:
    """The name of the claim that holds this container's sandbox: any gateway finds it, and no later one has it.

    Short, since the names of pods and services are made of it.
    """
    return f"bj-{hashlib.sha256(f'{container}/{epoch}'.encode()).hexdigest()[:20]}"


def write(
    name: str,
    *,
    pool: str,
    deployment: str,
    request: str,
    shutdown: float,
    now: float,
    container: str | None = None,
    epoch: int | None = None,
) -> Object:
    """A claim on a pool's sandbox that ends at `shutdown` unless it is renewed, with all that is under it."""
    known = {} if container is None else {_CONTAINER: container}
    known |= {} if epoch is None else {_EPOCH: str(epoch)}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "SandboxClaim",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/managed-by": "belljar", DEPLOYMENT: deployment},
            "annotations": {
                _REQUEST: request,
                "agents.x-k8s.io/client-first-requested-at": _format_time(now, "microseconds"),
                **known,
            },
        },
        "spec": {"warmPoolRef": {"name": pool}, **renewal(shutdown)["spec"]},
    }


def renewal(shutdown: float) -> Object:
    """A merge patch that lets a claim live until then."""
    return {"spec": {"lifecycle": {"shutdownTime": _format_time(math.ceil(shutdown)), "shutdownPolicy": "Delete"}}}


def taking(found: Object, *, epoch: int, request: str, shutdown: float) -> Object:
    """A merge patch that makes a claim ours, as long as nobody changes it between our look and this."""
    meta = {
        "resourceVersion": version_of(found),
        "annotations": {_EPOCH: str(epoch), _REQUEST: request},
    }
    return {"metadata": meta, **renewal(shutdown)}


def deletion(uid: str, version: str | None = None) -> Object:
    """Of this very claim: another may have its name by then. What is under it goes in the background.

    With a version, only as it is in that: whoever takes it over makes another.
    """
    same = {"uid": uid} if version is None else {"uid": uid, "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": same}


def write_place(namespace: str, name: str, uid: str) -> str:
    """By what a claim is found again: part of the handle of its sandbox."""
    return f"{_PLACE}{namespace}/{name}/{uid}"


def read_place(place: str) -> tuple[str, str, str] | None:
    """Namespace, name and uid; None for what is no claim."""
    parts = place.removeprefix(_PLACE).split("/")
    return (parts[0], parts[1], parts[2]) if place.startswith(_PLACE) and len(parts) == 3 else None


def pool_command(pool: str, namespace: str) -> str:
    """What an operator types to have a pool of the template with its name."""
    made = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "SandboxWarmPool",
        "metadata": {"name": pool, "namespace": namespace},
        "spec": {"replicas": 2, "sandboxTemplateRef": {"name": pool}},
    }
    return f"echo '{json.dumps(made)}' | kubectl apply -f -"


def _format_time(at: float, precision: str = "seconds") -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec=precision).replace("+00:00", "Z")


# -- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pending:
    """Not ready yet, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Ready:
    """A pod by its name, which is the sandbox's, and its addresses."""

    pod: str
    addresses: tuple[str, ...]
    launch: str
    """`warm` from the pool, or `cold`, made for this claim because the pool had none."""


@dataclass(frozen=True, slots=True)
class ClaimEnd:
    """It will not be ready, or not any more."""

    reason: str
    message: str

    @property
    def why(self) -> str:
        return f"{self.reason}: {self.message}" if self.message else self.reason


Status: TypeAlias = Pending | Ready | ClaimEnd


def uid_of(claim: Object) -> str:
    return str(claim["metadata"]["uid"])


def name_of(claim: Object) -> str:
    return str(claim["metadata"]["name"])


def version_of(claim: Object) -> str:
    return str(claim["metadata"]["resourceVersion"])


def request_of(claim: Object) -> str | None:
    return _annotation(claim, _REQUEST)


def container_of(claim: Object) -> str | None:
    return _annotation(claim, _CONTAINER)


def epoch_of(claim: Object) -> int | None:
    found = _annotation(claim, _EPOCH)
    return int(found) if found is not None and found.isdecimal() else None


def _annotation(claim: Object, name: str) -> str | None:
    found = (claim["metadata"].get("annotations") or {}).get(name)
    return None if found is None else str(found)


def made_at(claim: Object) -> float:
    return datetime.fromisoformat(str(claim["metadata"]["creationTimestamp"])).timestamp()


def read_status(claim: Object) -> Status:
    """What the claim says of its sandbox now."""
    if claim["metadata"].get("deletionTimestamp"):
        return ClaimEnd("Deleted", "the claim is being deleted")
    status = claim.get("status") or {}
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    ready, finished = conditions.get("Ready") or {}, conditions.get("Finished") or {}
    if finished.get("status") == "True":
        return _ended(finished)
    if ready.get("status") != "True":
        if ready.get("reason") in TERMINAL:
            return _ended(ready)
        return Pending(": ".join(filter(None, (ready.get("reason"), ready.get("message")))) or "no word of it yet")
    sandbox = status.get("sandbox") or {}
    pod, addresses = sandbox.get("name"), tuple(map(str, sandbox.get("podIPs") or ()))
    if not pod or not addresses:
        return Pending("ready, and its pod has no address yet")
    return Ready(str(pod), addresses, "cold" if pod == name_of(claim) else "warm")


def judge_held(held: Ready, claim: Object) -> ClaimEnd | None:
    """What has become of a sandbox that is in use: None as long as it is the same one.

    A pod that is not ready for a moment, because it is busy, is still there; one whose address has gone is not. The
    controller puts an empty one in its place, under the same name.
    """
    match read_status(claim):
        case ClaimEnd() as ended:
            return ended
        case Ready(pod, addresses) if (pod, addresses) != (held.pod, held.addresses):
            return ClaimEnd("PodReplaced", f"pod {held.pod} was replaced, and what it held is gone")
        case Pending(why) if (
            tuple(((claim.get("status") or {}).get("sandbox") or {}).get("podIPs") or ()) != held.addresses
        ):
            return ClaimEnd("PodGone", f"pod {held.pod} is gone ({why})")
    return None


def _ended(condition: Mapping[str, Any]) -> ClaimEnd:
    return ClaimEnd(str(condition.get("reason") or "Finished"), str(condition.get("message") or ""))
