"""Where the API server of Kubernetes is, and who we are to it: a pod's service account, or a kubeconfig's user."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from belljar.config import variables
from belljar.errors import BadSettings

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds the token of its service account, which is written anew before it ends, and the server's CA."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How the API server is reached."""

    url: str
    tls: ssl.SSLContext | None = None
    """None for plain HTTP, as `kubectl proxy` speaks it."""
    server_name: str | None = None
    """The name in its certificate, where that is not the one in the address."""
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None

    def headers(self) -> Mapping[str, str]:
        """Read at every request: the file's token changes within the hour."""
        if self.token_file is None:
            return {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            return {"Authorization": f"Bearer {self.token_file.read_text(encoding='ascii').strip()}"}
        except (OSError, UnicodeDecodeError) as error:
            raise BadSettings(
                f"kubernetes: the token in {self.token_file} cannot be read ({_reason(error)}); mount the service "
                "account's token (automountServiceAccountToken)"
            ) from None


def find_access(environment: Mapping[str, str] | None = None, *, account: Path = ACCOUNT) -> ClusterAccess:
    """KUBECONFIG, a pod's service account, or ~/.kube/config: the first that there is; `BadSettings` if none is."""
    names = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "HOME")
    given = variables(*names) if environment is None else environment
    if named := [Path(one) for one in given.get("KUBECONFIG", "").split(os.pathsep) if one]:
        return _from_kubeconfig(named)
    host = given.get("KUBERNETES_SERVICE_HOST")
    if host and (account / "token").exists():
        return _from_account(host, given.get("KUBERNETES_SERVICE_PORT", "443"), account)
    usual = Path(given.get("HOME") or os.path.expanduser("~"), ".kube", "config")
    if usual.is_file():
        return _from_kubeconfig([usual])
    raise BadSettings(
        "kubernetes: there is no way to a cluster: this is no pod with a service account's token, KUBECONFIG is not "
        f"set, and there is no {usual}; set KUBECONFIG, or run the gateway in the cluster"
    )


def _from_account(host: str, port: str, account: Path) -> ClusterAccess:
    address = f"[{host}]" if ":" in host else host
    tls = _trusting(account / "ca.crt", "the service account's ca.crt")
    return ClusterAccess(f"https://{address}:{port}", tls, token_file=account / "token")


# -- kubeconfig -------------------------------------------------------------------------------------------------------


def _from_kubeconfig(paths: Sequence[Path]) -> ClusterAccess:
    config = _Config(paths)
    context = config.current()
    cluster = config.find("clusters", "cluster", context.get("cluster"))
    user = config.find("users", "user", context.get("user")) if context.get("user") else {}
    url = str(cluster.get("server") or "").rstrip("/")
    if urlsplit(url).scheme not in ("http", "https"):
        raise config.wrong(f"clusters: {context.get('cluster')!r} has no server such as https://10.0.0.1:6443")
    for unknown, instead in (
        ("exec", "a program that fetches credentials"),
        ("auth-provider", "a plugin that fetches credentials"),
        ("username", "a name and a password"),
    ):
        if unknown in user:
            raise config.wrong(
                f"users: {context.get('user')!r} has {instead} ({unknown}), which is not used here; make a token "
                "(kubectl create token NAME), or run `kubectl proxy` and name a kubeconfig whose server is "
                "http://127.0.0.1:8001"
            )
    token_file = user.get("tokenFile")
    return ClusterAccess(
        url,
        _tls(config, cluster, user) if url.startswith("https:") else None,
        str(cluster["tls-server-name"]) if cluster.get("tls-server-name") else None,
        token=None if token_file else user.get("token"),
        token_file=config.path(token_file) if token_file else None,
    )


class _Config:
    """One or several files: of two entries with one name, and of two current contexts, the first counts."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = ", ".join(map(str, paths))
        self._folder = paths[0].parent
        there = [path for path in paths if path.is_file()]
        if not there:
            raise BadSettings(f"kubernetes: there is no kubeconfig {self._paths}; set KUBECONFIG to one that is there")
        self._parsed = [_parse(path) for path in there]

    def current(self) -> Mapping[str, Any]:
        name = next((one for each in self._parsed if (one := each.get("current-context"))), None)
        if not name:
            raise self.wrong("current-context is not set; choose one: kubectl config use-context NAME")
        return self.find("contexts", "context", name)

    def find(self, kind: str, inner: str, name: object) -> Mapping[str, Any]:
        for entry in self._entries(kind):
            if entry.get("name") == name:
                found = entry.get(inner)
                return found if isinstance(found, dict) else {}
        raise self.wrong(f"{kind}: there is no {name!r}")

    def _entries(self, kind: str) -> Iterable[Mapping[str, Any]]:
        for each in self._parsed:
            listed = each.get(kind)
            yield from (one for one in (listed if isinstance(listed, list) else ()) if isinstance(one, dict))

    def path(self, name: object) -> Path:
        """Relative ones are so to the file."""
        return self._folder / str(name)

    def wrong(self, what: str) -> BadSettings:
        return BadSettings(f"kubernetes: {what} ({self._paths})")


def _parse(path: Path) -> Mapping[str, Any]:
    import yaml

    try:
        parsed = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadSettings(f"kubernetes: {path} cannot be read ({_reason(error)}); mend it, or set KUBECONFIG") from None
    return parsed if isinstance(parsed, dict) else {}


# -- TLS --------------------------------------------------------------------------------------------------------------


def _tls(config: _Config, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    if data := cluster.get("certificate-authority-data"):
        tls = _trusting(_decode(config, data, "certificate-authority-data"), "certificate-authority-data")
    elif file := cluster.get("certificate-authority"):
        tls = _trusting(config.path(file), str(file))
    else:
        tls = ssl.create_default_context()
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    certificate = user.get("client-certificate-data") or user.get("client-certificate")
    if certificate:
        _present(config, tls, user)
    return tls


def _trusting(authority: bytes | Path, what: str) -> ssl.SSLContext:
    """Only what this authority has signed."""
    try:
        if isinstance(authority, bytes):
            return ssl.create_default_context(cadata=authority.decode("ascii"))
        return ssl.create_default_context(cafile=str(authority))
    except (OSError, ValueError) as error:
        raise BadSettings(f"kubernetes: {what} holds no certificate ({_reason(error)}); mend the kubeconfig") from None


def _present(config: _Config, tls: ssl.SSLContext, user: Mapping[str, Any]) -> None:
    """Our own certificate. OpenSSL reads files only, so what stands in the kubeconfig is one for a moment."""
    with tempfile.TemporaryDirectory(prefix="belljar-") as folder:
        files = []
        for name in ("client-certificate", "client-key"):
            if data := user.get(f"{name}-data"):
                file = Path(folder, name)
                file.touch(0o600)
                file.write_bytes(_decode(config, data, f"{name}-data"))
            else:
                file = config.path(user.get(name, ""))
            files.append(str(file))
        try:
            tls.load_cert_chain(*files)
        except OSError as error:
            raise config.wrong(f"users: the client certificate or its key cannot be used ({_reason(error)})") from None


def _decode(config: _Config, data: object, what: str) -> bytes:
    try:
        return base64.b64decode(str(data), validate=True)
    except (binascii.Error, ValueError):
        raise config.wrong(f"{what} is not base64") from None


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
