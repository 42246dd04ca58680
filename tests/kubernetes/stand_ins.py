"""What else there is in a cluster with agent-sandbox, as far as claims notice: its controller, and a node for pods.

Both speak to an API server, a real one or ours. The controller behaves as the real one of v1beta1 was
seen to; what is under a deleted claim it leaves to the garbage collector, as that does.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from belljar.sandbox.kubernetes.api_client import ApiClient, ApiError, ApiUnreachable, Object

AGENTS, EXTENSIONS = "agents.x-k8s.io/v1beta1", "extensions.agents.x-k8s.io/v1beta1"
POOL = "agents.x-k8s.io/warm-pool"
NODE = "stand-in"


async def mirror(api: ApiClient, path: str, into: dict[str, Object], changed: Callable[[str, Object], None]) -> None:
    """All objects of a kind by uid, for ever."""
    while True:
        try:
            listed = await api.ask("GET", path)
            found = {one["metadata"]["uid"]: one for one in listed["items"]}
            for uid in into.keys() - found.keys():
                changed("DELETED", into.pop(uid))
            into.update(found)
            for one in found.values():
                changed("ADDED", one)
            query = {"resourceVersion": listed["metadata"]["resourceVersion"]}
            async with api.watch(path, query, seconds=300) as events:
                async for event in events:
                    one = event["object"]
                    if event["type"] == "BOOKMARK":
                        continue
                    if event["type"] == "DELETED":
                        into.pop(one["metadata"]["uid"], None)
                    else:
                        into[one["metadata"]["uid"]] = one
                    changed(event["type"], one)
        except (ApiError, ApiUnreachable):
            await asyncio.sleep(0.1)


def owner(one: Object, kind: str, api_version: str) -> Object:
    meta = one["metadata"]
    known = {"apiVersion": api_version, "kind": kind, "name": meta["name"], "uid": meta["uid"]}
    return {**known, "controller": True, "blockOwnerDeletion": True}


def owned_by(one: Object, uid: str) -> bool:
    return any(each["uid"] == uid for each in one["metadata"].get("ownerReferences") or ())


def condition(type: str, status: bool, reason: str, message: str = "") -> Object:
    told = {"type": type, "status": "True" if status else "False", "reason": reason, "message": message}
    return {**told, "lastTransitionTime": utc()}


def utc() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- the controller ---------------------------------------------------------------------------------------------------


class Controller:
    """Looks at everything whenever anything changes, and does what is missing."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._news = asyncio.Event()
        self.paused = False
        """It sees nothing and does nothing, as one that is being replaced."""
        self.claims: dict[str, Object] = {}
        self.sandboxes: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.pools: dict[str, Object] = {}
        self.templates: dict[str, Object] = {}
        self._owned: dict[str, list[str]] = {}
        self._changed: set[str] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for path, into in (
                (f"/apis/{EXTENSIONS}/sandboxclaims", self.claims),
                (f"/apis/{AGENTS}/sandboxes", self.sandboxes),
                ("/api/v1/pods", self.pods),
                (f"/apis/{EXTENSIONS}/sandboxwarmpools", self.pools),
                (f"/apis/{EXTENSIONS}/sandboxtemplates", self.templates),
            ):
                group.create_task(mirror(self._api, path, into, self._note))
            while True:
                try:
                    async with asyncio.timeout(0.5):
                        await self._news.wait()
                    changed, self._changed = self._changed, set()
                except TimeoutError:  # claims expire without a change, and what failed is tried again
                    changed = self.sandboxes.keys() | self.claims.keys() | self.pools.keys()
                self._news.clear()
                if not self.paused:
                    await self._look(changed)

    def _note(self, type: str, one: Object) -> None:
        """It is to be looked at, and what it belongs to."""
        self._changed |= {
            one["metadata"]["uid"],
            *(each["uid"] for each in one["metadata"].get("ownerReferences") or ()),
        }
        self._news.set()

    def _index(self) -> None:
        """What each owns, once for a whole look: there may be hundreds."""
        self._owned = {}
        for uid, one in (*self.sandboxes.items(), *self.pods.items()):
            for each in one["metadata"].get("ownerReferences") or ():
                self._owned.setdefault(each["uid"], []).append(uid)

    async def _look(self, changed: Collection[str]) -> None:
        self._index()
        acts: list[tuple[Callable[[Object], Awaitable[None]], dict[str, Object]]] = [
            (self._sandbox, self.sandboxes), (self._claim, self.claims), (self._pool, self.pools),
        ]  # fmt: skip
        for act, all in acts:
            found = [all[uid] for uid in changed if uid in all]
            for one in sorted(found, key=lambda one: str(one["metadata"]["creationTimestamp"])):
                if one["metadata"]["uid"] in all and not one["metadata"].get("deletionTimestamp"):
                    with contextlib.suppress(ApiError, ApiUnreachable):  # it is looked at again
                        await act(one)

    def _path(self, one: Object, plural: str, api: str = EXTENSIONS) -> str:
        return f"/apis/{api}/namespaces/{one['metadata']['namespace']}/{plural}"

    async def _set_status(self, path: str, all: dict[str, Object], one: Object, status: Object) -> None:
        """Where that is a change: times aside."""

        def timeless(told: Any) -> str:
            known = {name: value for name, value in (told or {}).items() if value is not None}
            return json.dumps(
                {**known, "conditions": [{**one, "lastTransitionTime": ""} for one in known.get("conditions") or ()]},
                sort_keys=True,
            )

        merged = {**(one.get("status") or {}), **status}
        if timeless(one.get("status")) != timeless(merged):
            new = await self._api.ask("PATCH", f"{path}/{one['metadata']['name']}/status", {"status": status})
            all[new["metadata"]["uid"]] = new

    async def _sandbox(self, one: Object) -> None:
        pods = [self.pods[uid] for uid in self._owned.get(one["metadata"]["uid"], ()) if uid in self.pods]
        path = self._path(one, "sandboxes", AGENTS)
        status: Object
        if not pods:
            status = {"podIPs": None, "conditions": [condition("Ready", False, "DependenciesNotReady", "no pod")]}
            template = one["spec"]["podTemplate"]
            meta = {
                **template.get("metadata", {}),
                "name": one["metadata"]["name"],
                "ownerReferences": [owner(one, "Sandbox", AGENTS)],
            }
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
            try:
                new = await self._api.ask("POST", f"/api/v1/namespaces/{one['metadata']['namespace']}/pods", pod)
                self.pods[new["metadata"]["uid"]] = new
            except ApiError as error:
                if error.reason == "AlreadyExists":  # the one before is not gone yet
                    error = ApiError(0, "", "its pod is being deleted")
                status["conditions"] = [condition("Ready", False, "ReconcilerError", str(error))]
        else:
            status = _status_of(pods[0])
        await self._set_status(path, self.sandboxes, one, status)

    async def _claim(self, one: Object) -> None:
        path = self._path(one, "sandboxclaims")
        owned = self._owned.get(one["metadata"]["uid"], ())
        mine = next((self.sandboxes[uid] for uid in owned if uid in self.sandboxes), None)
        if (lifecycle := one["spec"].get("lifecycle")) and lifecycle.get("shutdownTime"):
            ends = dt.datetime.fromisoformat(lifecycle["shutdownTime"]).timestamp()
            if ends <= time.time():
                return await self._expire(one, mine, str(lifecycle.get("shutdownPolicy")))
        if mine is None:
            mine, refusal = await self._adopt(one)
            if mine is None:
                assert refusal is not None
                return await self._set_status(path, self.claims, one, {"conditions": [refusal]})
        found = mine.get("status") or {}
        status = {
            "sandbox": {"name": mine["metadata"]["name"], "podIPs": found.get("podIPs")},
            "conditions": found.get("conditions") or [condition("Ready", False, "SandboxNotReady")],
        }
        await self._set_status(path, self.claims, one, status)

    async def _expire(self, one: Object, mine: Object | None, policy: str) -> None:
        path = self._path(one, "sandboxclaims")
        if policy == "Retain":
            if mine is not None:
                await self._delete(self._path(one, "sandboxes", AGENTS), mine)
            expired = {"sandbox": None, "conditions": [condition("Ready", False, "ClaimExpired", "claim expired")]}
            return await self._set_status(path, self.claims, one, expired)
        await self._delete(path, one)

    async def _delete(self, path: str, one: Object) -> None:
        await self._api.ask(
            "DELETE", f"{path}/{one['metadata']['name']}", {"preconditions": {"uid": one["metadata"]["uid"]}}
        )

    async def _adopt(self, one: Object) -> tuple[Object | None, Object | None]:
        """The oldest of the pool that has an address, else a new one; or why not."""
        namespace, wanted = one["metadata"]["namespace"], one["spec"]["warmPoolRef"]["name"]
        pool = self._named(self.pools, namespace, wanted)
        if pool is None:
            return None, condition("Ready", False, "WarmPoolNotFound", f'SandboxWarmPool "{wanted}" not found')
        template = self._named(self.templates, namespace, pool["spec"]["sandboxTemplateRef"]["name"])
        if template is None:
            name = pool["spec"]["sandboxTemplateRef"]["name"]
            return None, condition("Ready", False, "TemplateNotFound", f'SandboxTemplate "{name}" not found')
        if one["spec"].get("env") and template["spec"].get("envVarsInjectionPolicy", "Disallowed") == "Disallowed":
            return None, condition("Ready", False, "EnvVarsInjectionRejected", "the template allows no variables")
        path = self._path(one, "sandboxes", AGENTS)
        meta: Object = {
            "ownerReferences": [owner(one, "SandboxClaim", EXTENSIONS)],
            "labels": {POOL: None, "agents.x-k8s.io/claim-uid": one["metadata"]["uid"]},
        }
        waiting = sorted(self._waiting(pool), key=lambda box: str(box["metadata"]["creationTimestamp"]))
        for box in waiting:
            if (box.get("status") or {}).get("podIPs"):
                meta["resourceVersion"] = box["metadata"]["resourceVersion"]
                try:
                    new = await self._api.ask("PATCH", f"{path}/{box['metadata']['name']}", {"metadata": meta})
                except ApiError as error:
                    if error.status not in (404, 409):
                        raise
                    continue
                self.sandboxes[new["metadata"]["uid"]] = new
                self._note("MODIFIED", pool)  # which has one less now
                return new, None
        del meta["labels"][POOL]
        return await self._create(path, {**meta, "name": one["metadata"]["name"]}, template), None

    async def _create(self, path: str, meta: Object, template: Object) -> Object:
        box = {
            "apiVersion": AGENTS,
            "kind": "Sandbox",
            "metadata": meta,
            "spec": {"podTemplate": template["spec"]["podTemplate"]},
        }
        new = await self._api.ask("POST", path, box)
        self.sandboxes[new["metadata"]["uid"]] = new
        return new

    async def _pool(self, pool: Object) -> None:
        template = self._named(
            self.templates, pool["metadata"]["namespace"], pool["spec"]["sandboxTemplateRef"]["name"]
        )
        waiting = self._waiting(pool)
        if template is not None:
            for _ in range(int(pool["spec"].get("replicas", 1)) - len(waiting)):
                meta = {
                    "name": f"{pool['metadata']['name']}-{random.randbytes(3).hex()}",
                    "labels": {POOL: pool["metadata"]["name"]},
                    "ownerReferences": [owner(pool, "SandboxWarmPool", EXTENSIONS)],
                }
                await self._create(self._path(pool, "sandboxes", AGENTS), meta, template)
        ready = [box for box in waiting if (box.get("status") or {}).get("podIPs")]
        status = {"replicas": len(waiting), "readyReplicas": len(ready)}
        await self._set_status(self._path(pool, "sandboxwarmpools"), self.pools, pool, status)

    def _waiting(self, pool: Object) -> list[Object]:
        return [
            box
            for box in self.sandboxes.values()
            if owned_by(box, pool["metadata"]["uid"]) and not box["metadata"].get("deletionTimestamp")
        ]

    def _named(self, all: Mapping[str, Object], namespace: str, name: str) -> Object | None:
        found = (one["metadata"] for one in all.values())
        uid = next((one["uid"] for one in found if (one["namespace"], one["name"]) == (namespace, name)), None)
        return None if uid is None else all[uid]


def _status_of(pod: Object) -> Object:
    """What a sandbox says of its pod."""
    status = pod.get("status") or {}
    phase = status.get("phase", "Pending")
    addresses = [one["ip"] for one in status.get("podIPs") or ()]
    if phase in ("Failed", "Succeeded"):
        told = status.get("message") or f"Pod {phase.lower()}"
        return {
            "podIPs": addresses or None,
            "conditions": [condition(type, type == "Finished", f"Pod{phase}", told) for type in ("Ready", "Finished")],
        }
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
    if ready and addresses and not pod["metadata"].get("deletionTimestamp"):
        return {"podIPs": addresses, "conditions": [condition("Ready", True, "DependenciesReady", "Pod is Ready")]}
    told = f"Pod exists with phase: {phase}"
    gone = pod["metadata"].get("deletionTimestamp")
    return {
        "podIPs": None if gone else addresses or None,
        "conditions": [condition("Ready", False, "DependenciesNotReady", told)],
    }


# -- the node ---------------------------------------------------------------------------------------------------------


class Pod(Protocol):
    """What a pod is made of here: `exited` ends by itself when it does."""

    async def start(self, pod: Object, address: str) -> None: ...
    async def exited(self) -> str: ...
    async def stop(self) -> None: ...


class Node:
    """Gives each pod an address of this machine, and starts what is to run there."""

    def __init__(self, api: ApiClient, make: Callable[[Object], Pod], *, net: int) -> None:
        """Addresses are 127.`net`.0.2 and up, so that no stale server of another run answers for a pod of ours."""
        self._api, self._make, self._net = api, make, net
        self._next = 2
        self.pods: dict[str, Object] = {}
        self.running: dict[str, Pod] = {}
        """By the uid of the pod."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.stopped = False
        """It starts nothing new: pods stay Pending, as where there is no room."""

    async def run(self) -> None:
        with contextlib.suppress(ApiError):
            await self._api.ask(
                "POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
            )
        try:
            await mirror(self._api, "/api/v1/pods", self.pods, self._changed)
        finally:
            for task in self._tasks.values():
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks.values())

    def go_on(self) -> None:
        """There is room again."""
        self.stopped = False
        for pod in list(self.pods.values()):
            self._changed("MODIFIED", pod)

    def _changed(self, type: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        going = pod["metadata"].get("deletionTimestamp") or type == "DELETED"
        if uid in self._tasks:
            if going and not self._tasks[uid].cancelling():  # a second time would break off its last steps
                self._tasks[uid].cancel()
        elif going and type != "DELETED":
            self._spawn(uid, self._finish(pod))
        elif not going and not self.stopped and (pod.get("status") or {}).get("phase", "Pending") == "Pending":
            self._spawn(uid, self._live(pod))

    def _spawn(self, uid: str, act: Coroutine[None, None, None]) -> None:
        task = self._tasks[uid] = asyncio.create_task(act)
        task.add_done_callback(lambda task: self._tasks.pop(uid, None))

    async def _live(self, pod: Object) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        address = f"127.{self._net}.{self._next >> 8}.{self._next & 255}"
        self._next += 1
        program = self._make(pod)
        try:
            with contextlib.suppress(ApiError, ApiUnreachable):
                bound = {"metadata": {"name": meta["name"]}, "target": {"kind": "Node", "name": NODE}}
                await self._api.ask("POST", f"{path}/binding", {"apiVersion": "v1", "kind": "Binding", **bound})
                await program.start(pod, address)
                self.running[meta["uid"]] = program
                types = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
                conditions = [{"type": one, "status": "True", "lastTransitionTime": utc()} for one in types]
                status: Object = {
                    "phase": "Running",
                    "podIP": address,
                    "podIPs": [{"ip": address}],
                    "conditions": conditions,
                }
                await self._insist("PATCH", f"{path}/status", {"status": status})
                why = await program.exited()
                ended = {"phase": "Failed", "message": why, "conditions": None}
                await self._insist("PATCH", f"{path}/status", {"status": ended})
        except asyncio.CancelledError:
            await program.stop()
            await self._finish(pod)
            raise
        finally:
            self.running.pop(meta["uid"], None)
            await program.stop()

    async def _finish(self, pod: Object) -> None:
        """What a kubelet does last."""
        meta = pod["metadata"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        await self._insist("DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", body)

    async def _insist(self, method: str, path: str, body: Object) -> None:
        for _ in range(100):
            try:
                await self._api.ask(method, path, body)
            except ApiUnreachable:
                await asyncio.sleep(0.1)
            except ApiError as error:
                if not error.passing:
                    return
                await asyncio.sleep(0.1)
            else:
                return


@asynccontextmanager
async def running(*acts: Coroutine[None, None, None]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(act) for act in acts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()):
                raise error
