"""Clusters for tests: an API server, ours or a real one, with a stand-in controller and a stand-in node."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import secrets
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.helpers.programs import control_plane
from tests.kubernetes.fake_api import FakeServer
from tests.kubernetes.pods import SandboxServer, SharedServer, SharingPod
from tests.kubernetes.stand_ins import AGENTS, EXTENSIONS, Controller, Node, Pod, running

from belljar.sandbox.kubernetes.access import ClusterAccess
from belljar.sandbox.kubernetes.api_client import ApiClient, ApiError, ApiUnreachable, Object

CRDS = Path(__file__).with_name("crds.yaml")
PATIENCE = 60.0
"""Seconds after which something that should have happened has not: the machine may be busy."""
RBAC = "rbac.authorization.k8s.io/v1"


class ApiServer(Protocol):
    """At `url`, trusted by the certificate in `authority`; `token` may do everything."""

    authority: Path
    token: str

    @property
    def url(self) -> str: ...
    async def start(self) -> None: ...
    async def kill(self) -> None:
        """As the kernel would. `start` brings it back with all that it had."""

    async def stop(self) -> None: ...


class Fake:
    """Ours."""

    token = "admin"

    def __init__(self, home: Path) -> None:
        self.authority, self._key = write_certificate(home)
        self.server = FakeServer(self.authority, self._key)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server.port}"

    async def start(self) -> None:
        await self.server.start()

    async def kill(self) -> None:
        await self.server.kill()

    stop = kill


class Real:
    """etcd, kube-apiserver and kube-controller-manager, each a process."""

    token = "admin-token"

    def __init__(self, home: Path) -> None:
        self._home = home
        self._programs = control_plane()
        self._etcd, self._peer, self._port, self._manager = unused_ports(4)
        self.url = f"https://127.0.0.1:{self._port}"
        self.authority = home / "serving" / "apiserver.crt"
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    async def start(self) -> None:
        if not self._processes:
            self._write_secrets()
            etcd, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd, self._peer))
            await self._run(
                "etcd", f"--data-dir={self._home}/etcd", "--unsafe-no-fsync", f"--listen-client-urls={etcd}",
                f"--advertise-client-urls={etcd}", f"--listen-peer-urls={peer}", "--log-level=warn",
            )  # fmt: skip
        issuer = "https://kubernetes.default.svc"
        await self._run(
            "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self._etcd}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--secure-port={self._port}", f"--cert-dir={self._home}/serving",
            "--service-cluster-ip-range=10.96.0.0/24", "--authorization-mode=RBAC", "--allow-privileged=true",
            f"--token-auth-file={self._home}/tokens.csv", f"--service-account-issuer={issuer}",
            f"--api-audiences={issuer}", f"--service-account-signing-key-file={self._home}/sa.key",
            f"--service-account-key-file={self._home}/sa.pub",
        )  # fmt: skip
        await self._until_ready()
        if "kube-controller-manager" not in self._processes:
            await self._install()
            await self._run(
                "kube-controller-manager", f"--kubeconfig={self._home}/kubeconfig", "--leader-elect=false",
                "--controllers=garbagecollector,namespace,serviceaccount,resourcequota", "--bind-address=127.0.0.1",
                "--port=0", f"--secure-port={self._manager}", f"--cert-dir={self._home}/kcm",
            )  # fmt: skip

    async def kill(self) -> None:
        await self._end("kube-apiserver")

    async def stop(self) -> None:
        for name in reversed(list(self._processes)):
            await self._end(name)

    async def _run(self, name: str, *flags: str) -> None:
        with (self._home / f"{name}.log").open("ab") as log:
            self._processes[name] = await asyncio.create_subprocess_exec(
                str(self._programs / name), *flags, stdout=log, stderr=log, preexec_fn=_die_with_us
            )

    async def _end(self, name: str) -> None:
        process = self._processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def _until_ready(self) -> None:
        process = self._processes["kube-apiserver"]
        async with asyncio.timeout(PATIENCE):
            while True:
                assert process.returncode is None, (self._home / "kube-apiserver.log").read_text()[-2000:]
                if self.authority.exists():
                    api = ApiClient(access(self))
                    try:
                        with contextlib.suppress(ApiError, ApiUnreachable):
                            # `readyz` is text; a list of something that is made at the very start will do.
                            await api.ask("GET", "/api/v1/namespaces/kube-system")
                            return
                    finally:
                        await api.close()
                await asyncio.sleep(0.1)

    async def _install(self) -> None:
        """The kinds of agent-sandbox; until they can be listed."""
        api = ApiClient(access(self))
        try:
            for crd in yaml.safe_load_all(CRDS.read_text()):
                await api.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
                names = crd["spec"]["names"]["plural"]
                path = f"/apis/{crd['spec']['group']}/v1beta1/{names}"
                await eventually(lambda path=path: succeeds(api.ask("GET", path)), path)  # type: ignore[misc]
        finally:
            await api.close()

    def _write_secrets(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (self._home / "sa.key").write_bytes(_pem(key))
        kinds = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        (self._home / "sa.pub").write_bytes(key.public_key().public_bytes(*kinds))
        (self._home / "tokens.csv").write_text(f"{self.token},admin,admin,system:masters\n")
        (self._home / "kubeconfig").write_text(kubeconfig(self.url, self.authority, self.token))


SERVERS: dict[str, Callable[[Path], ApiServer]] = {"fake": Fake, "real": Real}


def access(server: ApiServer, token: str | None = None) -> ClusterAccess:
    return ClusterAccess(
        server.url, ssl.create_default_context(cafile=str(server.authority)), token=token or server.token
    )


def kubeconfig(url: str, authority: Path, token: str) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority": str(authority)}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return json.dumps(config)


# -- a cluster --------------------------------------------------------------------------------------------------------


class Cluster:
    """An API server with its stand-ins; `port` is what sandbox servers in pods listen on."""

    def __init__(self, kind: str, home: Path, **variables: str) -> None:
        """`variables` are for the sandbox server that pods share."""
        self.kind = kind
        self.home = home
        self.server = SERVERS[kind](home)
        self.port = unused_ports(1)[0]
        self.shared = SharedServer(home, **(variables or {"BELLJAR_PACKAGES": "none"}))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Cluster]:
        await self.server.start()
        self.api = ApiClient(access(self.server))
        self.controller = Controller(self.api)
        self.node = Node(self.api, self._make_pod, net=secrets.randbelow(200) + 20)
        try:
            await self.shared.start()
            async with running(self.controller.run(), self.node.run()):
                yield self
        finally:
            await self.api.close()
            await self.shared.stop()
            await self.server.stop()

    def _make_pod(self, pod: Object) -> Pod:
        image = pod["spec"]["containers"][0]["image"]
        return SandboxServer(self.home, self.port) if image == "process" else SharingPod(self.shared, self.port)

    # -- what an operator does ----------------------------------------------------------------------------------------

    async def namespace(self) -> Namespace:
        name = f"t-{secrets.token_hex(4)}"
        await self.api.ask(
            "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
        return Namespace(self, name)


class Namespace:
    """One of a test's own."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.api = cluster.api

    def path(self, plural: str, name: str = "") -> str:
        api = {
            "sandboxes": f"apis/{AGENTS}",
            "sandboxclaims": f"apis/{EXTENSIONS}",
            "sandboxtemplates": f"apis/{EXTENSIONS}",
            "sandboxwarmpools": f"apis/{EXTENSIONS}",
            "roles": f"apis/{RBAC}",
            "rolebindings": f"apis/{RBAC}",
        }.get(plural, "api/v1")
        return f"/{api}/namespaces/{self.name}/{plural}" + (f"/{name}" if name else "")

    async def make(self, plural: str, kind: str, name: str, **parts: object) -> Object:
        api = self.path(plural).split("/namespaces/")[0].removeprefix("/").removeprefix("apis/").removeprefix("api/")
        body = {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **parts}
        return await self.api.ask("POST", self.path(plural), body)

    async def list(self, plural: str) -> list[Object]:
        return list((await self.api.ask("GET", self.path(plural)))["items"])

    async def names(self, plural: str) -> set[str]:
        return {str(one["metadata"]["name"]) for one in await self.list(plural)}

    async def pool(self, name: str = "pool", *, replicas: int = 0, image: str = "shared") -> None:
        """A pool of the template with its name; when it is full."""
        await self.template(name, image=image)
        await self.pool_alone(name, replicas=replicas)
        await eventually(lambda: self.ready(name, replicas), f"{replicas} of {name} are ready")

    async def template(self, name: str, *, image: str = "shared") -> None:
        containers = [{"name": "sandbox", "image": image}]
        spec = {"podTemplate": {"spec": {"containers": containers, "automountServiceAccountToken": False}}}
        await self.make("sandboxtemplates", "SandboxTemplate", name, spec=spec)

    async def pool_alone(self, name: str, *, replicas: int = 0) -> None:
        """A pool whose template may be missing: made so, as a controller sees a deletion only some time after it."""
        pool = {"replicas": replicas, "sandboxTemplateRef": {"name": name}}
        await self.make("sandboxwarmpools", "SandboxWarmPool", name, spec=pool)

    async def ready(self, pool: str, replicas: int) -> bool:
        found = await self.api.ask("GET", self.path("sandboxwarmpools", pool))
        return int((found.get("status") or {}).get("readyReplicas") or 0) == replicas

    async def clear(self) -> None:
        """Nothing of it is left: other tests have pods too."""
        for plural in ("sandboxclaims", "sandboxwarmpools"):
            for one in await self.list(plural):
                with contextlib.suppress(ApiError):
                    await self.api.ask("DELETE", self.path(plural, one["metadata"]["name"]), {})
        await eventually(lambda: self._empty(), f"{self.name} is empty")

    async def _empty(self) -> bool:
        return not (await self.names("sandboxes") | await self.names("pods"))

    async def account(self, *rules: Object, name: str = "gateway") -> str:
        """The token of a service account that may do this here."""
        await self.make("serviceaccounts", "ServiceAccount", name)
        if rules:
            await self.make("roles", "Role", name, rules=list(rules))
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
            subjects = [{"kind": "ServiceAccount", "name": name, "namespace": self.name}]
            await self.make("rolebindings", "RoleBinding", name, roleRef=role, subjects=subjects)
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
        told = await self.api.ask("POST", self.path("serviceaccounts", name) + "/token", body)
        return str(told["status"]["token"])


async def succeeds(act: Awaitable[object]) -> bool:
    try:
        await act
    except (ApiError, ApiUnreachable):
        return False
    return True


async def eventually(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait for something to become true; fail with its name if it does not."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    while not await holds():
        assert loop.time() < deadline, f"not within {PATIENCE:g} s: {what}"
        await asyncio.sleep(0.03)


# -- this machine ------------------------------------------------------------------------------------------------------


def unused_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        doors = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(door.getsockname()[1]) for door in doors]


def _die_with_us() -> None:
    """Even if we are killed: PR_SET_PDEATHSIG."""
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.setpgrp()


def write_certificate(home: Path) -> tuple[Path, Path]:
    """Of 127.0.0.1, signed by itself."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kubernetes of a test")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = home / "server.crt", home / "server.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(_pem(key))
    return certificate, private


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    kinds = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, *kinds)
