"""A Kubernetes API server in this process, as far as claims and their stand-ins need one.

Objects of any kind with uid, resourceVersion, labels and owners; list and watch from a version with selectors and
bookmarks; merge patches, the status apart; deletion with preconditions, grace and garbage collection; quotas; tokens
with roles. What it does here a real one does as well: the same tests run over both.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import copy
import datetime as dt
import json
import re
import secrets
import ssl
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from aiohttp import web

Object: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str, str, str]
"""Group and version, plural, namespace, name."""

_PATH = re.compile(
    r"/(?P<api>api/v1|apis/[^/]+/[^/]+)(/namespaces/(?P<ns>[^/]+)(?=/))?/(?P<plural>[^/]+)(/(?P<name>[^/]+)(/(?P<sub>[^/]+))?)?"
)
AGENTS, EXTENSIONS = "apis/agents.x-k8s.io/v1beta1", "apis/extensions.agents.x-k8s.io/v1beta1"
KINDS = {
    ("api/v1", "namespaces"),
    ("api/v1", "nodes"),
    ("api/v1", "pods"),
    ("api/v1", "resourcequotas"),
    ("api/v1", "serviceaccounts"),
    ("apis/rbac.authorization.k8s.io/v1", "roles"),
    ("apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    (AGENTS, "sandboxes"),
    (EXTENSIONS, "sandboxclaims"),
    (EXTENSIONS, "sandboxtemplates"),
    (EXTENSIONS, "sandboxwarmpools"),
}
GLOBAL = {"namespaces", "nodes"}
_REMEMBERED = 1000
"""Changes that a watch can begin before; older ones are forgotten."""


class Refusal(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason

    def body(self) -> Object:
        told = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        return {**told, "message": str(self), "reason": self.reason, "code": self.status}


@dataclass
class Change:
    version: int
    type: str
    key: Key
    object: Object
    before: Object | None


class FakeApi:
    """The objects, and what may be asked of them."""

    def __init__(self) -> None:
        self.objects: dict[Key, Object] = {}
        self.tokens: dict[str, tuple[str, str] | None] = {"admin": None}
        """By token: namespace and name of a service account, None for who may do everything."""
        self._version = 1
        self._changes: list[Change] = []
        self._forgotten = 0
        self._news = asyncio.Condition()
        self._notes: set[asyncio.Task[None]] = set()
        self._collecting = False
        for name in ("default", "kube-system"):
            meta = {"name": name, "uid": str(uuid.uuid4()), "resourceVersion": "1"}
            self.objects["api/v1", "namespaces", "", name] = {"kind": "Namespace", "metadata": meta}

    # -- objects ------------------------------------------------------------------------------------------------------

    def _put(self, type: str, key: Key, new: Object) -> Object:
        self._version += 1
        before = self.objects.get(key)
        new["metadata"]["resourceVersion"] = str(self._version)
        if type == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = new
        self._changes.append(Change(self._version, type, key, copy.deepcopy(new), before))
        if len(self._changes) > _REMEMBERED:
            self._forgotten = self._changes.pop(0).version
        task = asyncio.get_running_loop().create_task(self._tell())
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)
        return new

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    def forget(self) -> None:
        """A watch can only begin from now: older versions are gone."""
        self._forgotten, self._changes = self._version, []

    def find(self, key: Key) -> Object:
        if key not in self.objects:
            raise Refusal(404, "NotFound", f'{key[1]} "{key[3]}" not found')
        return self.objects[key]

    def create(self, key: Key, new: Object) -> Object:
        api, plural, namespace, _ = key
        meta = new.setdefault("metadata", {})
        name = meta.get("name") or ""
        key = (api, plural, namespace, name)
        if namespace and ("api/v1", "namespaces", "", namespace) not in self.objects:
            raise Refusal(404, "NotFound", f'namespaces "{namespace}" not found')
        if key in self.objects:
            raise Refusal(409, "AlreadyExists", f'{plural} "{name}" already exists')
        _validate(plural, name, new)
        self._check_quota(api, plural, namespace)
        meta |= {"namespace": namespace} if namespace else {}
        meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": _now(), "generation": 1}
        if plural != "pods":
            new.pop("status", None)
        else:
            new["status"] = {"phase": "Pending"}
        self._collect_soon()  # its owner may have gone meanwhile
        return self._put("ADDED", key, new)

    def _check_quota(self, api: str, plural: str, namespace: str) -> None:
        group = api.split("/")[1] if api.startswith("apis/") else ""
        names = {plural, f"count/{plural}.{group}" if group else f"count/{plural}"}
        used = sum(key[:3] == (api, plural, namespace) for key in self.objects)
        for key, quota in self.objects.items():
            if key[1:3] == ("resourcequotas", namespace):
                for name in names & set(quota["spec"]["hard"]):
                    if used >= int(quota["spec"]["hard"][name]):
                        told = f"exceeded quota: {key[3]}, requested: {name}=1, used: {name}={used}, limited: "
                        raise Refusal(
                            403, "Forbidden", f"{plural} is forbidden: {told}{name}={quota['spec']['hard'][name]}"
                        )

    def patch(self, key: Key, patch: Object, *, status: bool) -> Object:
        old = self.find(key)
        version = (patch.get("metadata") or {}).get("resourceVersion")
        if version is not None and version != old["metadata"]["resourceVersion"]:
            raise Refusal(409, "Conflict", "the object has been modified")
        has_status = key[1] not in ("sandboxtemplates", "resourcequotas", "roles")
        if has_status:
            patch = {name: one for name, one in patch.items() if (name == "status") == status}
        new = _merge(copy.deepcopy(old), patch)
        for name in ("uid", "creationTimestamp", "name", "resourceVersion", "deletionTimestamp"):
            if name in old["metadata"]:
                new["metadata"][name] = old["metadata"][name]
        _validate(key[1], key[3], new)
        self._collect_soon()
        return old if new == old else self._put("MODIFIED", key, new)

    def delete(self, key: Key, options: Mapping[str, Any]) -> Object:
        old = self.find(key)
        uid = (options.get("preconditions") or {}).get("uid")
        if uid is not None and uid != old["metadata"]["uid"]:
            told = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
            raise Refusal(409, "Conflict", told)
        version = (options.get("preconditions") or {}).get("resourceVersion")
        if version is not None and version != old["metadata"]["resourceVersion"]:
            told = f"Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: "
            raise Refusal(409, "Conflict", told + old["metadata"]["resourceVersion"])
        bound = key[1] == "pods" and old["spec"].get("nodeName")
        if bound and options.get("gracePeriodSeconds") != 0:  # the node says when it is over
            if old["metadata"].get("deletionTimestamp"):
                return old
            new = copy.deepcopy(old)
            new["metadata"] |= {"deletionTimestamp": _now(), "deletionGracePeriodSeconds": 1}
            return self._put("MODIFIED", key, new)
        gone = self._put("DELETED", key, copy.deepcopy(old))
        self._collect_soon()
        return gone

    def _collect_soon(self) -> None:
        if not self._collecting:
            self._collecting = True
            asyncio.get_running_loop().call_later(0.01, self._collect)

    def _collect(self) -> None:
        """What has owners, and none that is there, goes as well."""
        self._collecting = False
        there = {one["metadata"]["uid"] for one in self.objects.values()}
        for key, one in list(self.objects.items()):
            owners = {owner["uid"] for owner in one["metadata"].get("ownerReferences") or ()}
            if owners and not owners & there and not one["metadata"].get("deletionTimestamp"):
                self.delete(key, {})

    def list(self, wanted: Callable[[Key, Object], bool]) -> Object:
        items = [copy.deepcopy(one) for key, one in self.objects.items() if wanted(key, one)]
        return {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": str(self._version)}, "items": items}

    # -- HTTP -----------------------------------------------------------------------------------------------------

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._handle(request)
        except Refusal as refusal:
            return web.json_response(refusal.body(), status=refusal.status)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path in ("/readyz", "/healthz"):
            return web.Response(text="ok")
        found = _PATH.fullmatch(request.path)
        if found is None or (found["api"], found["plural"]) not in KINDS:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        key = (found["api"], found["plural"], found["ns"] or "", found["name"] or "")
        watching = request.query.get("watch") in ("1", "true")
        verb = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "PUT": "update"}.get(request.method) or (
            "watch" if watching else "get" if key[3] else "list"
        )
        self._authorize(request, key, verb, found["sub"])
        body = json.loads(await request.read() or b"{}")
        if verb in ("list", "watch"):
            wanted = _selector(request.query, key)
            return await self._watch(request, wanted) if watching else web.json_response(self.list(wanted))
        return web.json_response(self._act(verb, key, found["sub"], body), status=201 if verb == "create" else 200)

    def _act(self, verb: str, key: Key, sub: str | None, body: Object) -> Object:
        match verb, sub:
            case "get", None:
                return self.find(key)
            case "create", None:
                return self.create(key, body)
            case "create", "binding":
                pod = copy.deepcopy(self.find(key))
                pod["spec"]["nodeName"] = body["target"]["name"]
                self._put("MODIFIED", key, pod)
                return {"kind": "Status", "status": "Success"}
            case "create", "token":
                self.tokens[token := secrets.token_hex(16)] = (key[2], key[3])
                return {"kind": "TokenRequest", "status": {"token": token}}
            case "patch", None | "status":
                return self.patch(key, body, status=sub == "status")
            case "delete", None:
                return self.delete(key, body)
        raise Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    def _authorize(self, request: web.BaseRequest, key: Key, verb: str, sub: str | None) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in self.tokens:
            raise Refusal(401, "Unauthorized", "Unauthorized")
        account = self.tokens[token]
        if account is None:
            return
        group = key[0].split("/")[1] if key[0].startswith("apis/") else ""
        resource = f"{key[1]}/{sub}" if sub else key[1]
        for rule in self._rules(account, key[2]):
            if group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]:
                return
        who = f"system:serviceaccount:{account[0]}:{account[1]}"
        told = f'User "{who}" cannot {verb} resource "{resource}" in API group "{group}" in the namespace "{key[2]}"'
        raise Refusal(403, "Forbidden", f"{key[1]} is forbidden: {told}")

    def _rules(self, account: tuple[str, str], namespace: str) -> Iterator[Object]:
        rbac = "apis/rbac.authorization.k8s.io/v1"
        for key, binding in list(self.objects.items()):
            who = [(one.get("namespace"), one["name"]) for one in binding.get("subjects") or ()]
            if key[:3] == (rbac, "rolebindings", namespace) and account in who:
                yield from self.find((rbac, "roles", namespace, binding["roleRef"]["name"]))["rules"]

    async def _watch(self, request: web.BaseRequest, wanted: Callable[[Key, Object], bool]) -> web.StreamResponse:
        seconds = float(request.query.get("timeoutSeconds", 1800))
        version = int(request.query.get("resourceVersion") or 0)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)

        async def say(type: str, told: Object) -> None:
            await response.write(json.dumps({"type": type, "object": told}).encode() + b"\n")

        if version < self._forgotten:
            told = f"too old resource version: {version} ({self._forgotten})"
            await say("ERROR", Refusal(410, "Expired", told).body())
            return response
        with contextlib.suppress(ConnectionError):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while True:
                        first = bisect.bisect_right(self._changes, version, key=lambda one: one.version)
                        for change in self._changes[first:]:
                            version = change.version
                            if wanted(change.key, change.object):
                                await say(change.type, change.object)
                        async with self._news:
                            while self._version <= version:
                                await self._news.wait()
            await say("BOOKMARK", {"kind": "Bookmark", "metadata": {"resourceVersion": str(version)}})
        return response


def _selector(query: Mapping[str, str], asked: Key) -> Callable[[Key, Object], bool]:
    labels = [one.split("=", 1) for one in query.get("labelSelector", "").split(",") if one]
    name = query.get("fieldSelector", "").removeprefix("metadata.name=")

    def wanted(key: Key, one: Object) -> bool:
        has = one["metadata"].get("labels") or {}
        return (
            key[:2] == asked[:2]
            and (not asked[2] or key[2] == asked[2])
            and all(has.get(label) == value for label, value in labels)
            and (not name or key[3] == name)
        )

    return wanted


def _validate(plural: str, name: str, one: Object) -> None:
    """What the schemas of the CRDs say, as far as it is ours."""
    if plural == "sandboxclaims":
        spec = one.get("spec") or {}
        if not (spec.get("warmPoolRef") or {}).get("name"):
            told = f'SandboxClaim.extensions.agents.x-k8s.io "{name}" is invalid: spec.warmPoolRef: Required value'
            raise Refusal(422, "Invalid", told)
        if "lifecycle" in spec:
            spec["lifecycle"].setdefault("shutdownPolicy", "Retain")


def _merge(into: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    made = into if isinstance(into, dict) else {}
    for name, one in patch.items():
        if one is None:
            made.pop(name, None)
        else:
            made[name] = _merge(made.get(name), one)
    return made


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- the process ------------------------------------------------------------------------------------------------------


@dataclass
class FakeServer:
    """`api` at an address, over TLS. It can be killed, and comes back with what it had, as an API server does."""

    certificate: Path
    key: Path
    api: FakeApi = field(default_factory=FakeApi)
    port: int = 0

    async def start(self) -> None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(self.certificate, self.key)
        self._runner = web.ServerRunner(web.Server(self.api.handle, handler_cancellation=True), shutdown_timeout=0.01)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=tls, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def kill(self) -> None:
        for connection in list((self._runner.server and self._runner.server.connections) or ()):
            if connection.transport is not None:
                connection.transport.abort()
        await self._runner.cleanup()
