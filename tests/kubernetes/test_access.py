"""The way to an API server: in a pod with a token that changes, and from outside by a kubeconfig."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.kubernetes.cluster import Cluster, Namespace, access, kubeconfig, write_certificate

from belljar.errors import BadSettings
from belljar.sandbox.kubernetes import api_client
from belljar.sandbox.kubernetes.access import ClusterAccess, find_access
from belljar.sandbox.kubernetes.api_client import ApiClient, ApiError, ApiUnreachable


async def namespaces(way: ClusterAccess) -> int:
    api = ApiClient(way)
    try:
        return len((await api.ask("GET", "/api/v1/namespaces"))["items"])
    finally:
        await api.close()


# -- in a pod ---------------------------------------------------------------------------------------------------------


async def test_the_token_of_a_pod_is_read_at_every_request(cluster: Cluster, space: Namespace, tmp_path: Path) -> None:
    """It is written anew before it ends, and the one before is not good for ever."""
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "ca.crt").write_bytes(cluster.server.authority.read_bytes())
    (account / "token").write_text(cluster.server.token)
    host, port = cluster.server.url.removeprefix("https://").split(":")
    variables = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "HOME": str(tmp_path)}
    way = find_access(variables, account=account)
    assert way.url == cluster.server.url
    assert await namespaces(way) > 0
    api = ApiClient(way)
    try:
        for token, good in (("rotten", False), (cluster.server.token + "\n", True)):
            (account / "token").write_text(token)
            if good:
                await api.ask("GET", "/api/v1/namespaces")
            else:
                with pytest.raises(ApiError) as caught:
                    await api.ask("GET", "/api/v1/namespaces")
                assert caught.value.status == 401
        (account / "token").unlink()
        with pytest.raises(ApiUnreachable, match=r"the token in .* cannot be read \(No such file"):
            await api.ask("GET", "/api/v1/namespaces")
    finally:
        await api.close()


def test_an_address_of_version_six(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    write_certificate(tmp_path)[0].rename(tmp_path / "ca.crt")
    way = find_access({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, account=tmp_path)
    assert (way.url, way.headers()) == ("https://[fd00::1]:6443", {"Authorization": "Bearer t"})


# -- from outside -----------------------------------------------------------------------------------------------------


async def test_a_kubeconfig(cluster: Cluster, tmp_path: Path) -> None:
    (folder := tmp_path / ".kube").mkdir()
    (folder / "config").write_text(kubeconfig(cluster.server.url, cluster.server.authority, cluster.server.token))
    assert await namespaces(find_access({"HOME": str(tmp_path)}, account=tmp_path)) > 0
    assert await namespaces(find_access({"KUBECONFIG": str(folder / "config")})) > 0


async def test_a_kubeconfig_that_holds_everything_itself(cluster: Cluster, tmp_path: Path) -> None:
    told = json.loads(kubeconfig(cluster.server.url, cluster.server.authority, cluster.server.token))
    data = base64.b64encode(cluster.server.authority.read_bytes()).decode()
    told["clusters"][0]["cluster"] = {"server": cluster.server.url, "certificate-authority-data": data}
    (tmp_path / "token").write_text(cluster.server.token)
    told["users"][0]["user"] = {"tokenFile": "token"}  # beside it
    assert await namespaces(configured(tmp_path, told)) > 0


async def test_two_kubeconfigs_are_one(cluster: Cluster, tmp_path: Path) -> None:
    told = json.loads(kubeconfig(cluster.server.url, cluster.server.authority, cluster.server.token))
    users = {"users": told.pop("users")}
    for name, part in (("a", told), ("b", users)):
        (tmp_path / name).write_text(json.dumps(part))
    assert await namespaces(find_access({"KUBECONFIG": f"{tmp_path}/a:{tmp_path}/not-there:{tmp_path}/b"})) > 0


async def test_a_server_that_nobody_vouches_for_is_not_told_the_token(cluster: Cluster, tmp_path: Path) -> None:
    stranger = write_certificate(tmp_path)[0]
    told = json.loads(kubeconfig(cluster.server.url, stranger, cluster.server.token))
    with pytest.raises(ApiUnreachable, match="its certificate is not trusted"):
        await namespaces(configured(tmp_path, told))
    told["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    assert await namespaces(configured(tmp_path, told)) > 0


async def test_the_name_in_the_certificate_may_be_another(cluster: Cluster, tmp_path: Path) -> None:
    told = json.loads(kubeconfig(cluster.server.url, cluster.server.authority, cluster.server.token))
    told["clusters"][0]["cluster"]["tls-server-name"] = "not.in.it"
    with pytest.raises(ApiUnreachable, match="its certificate is not trusted"):
        await namespaces(configured(tmp_path, told))
    told["clusters"][0]["cluster"] |= {"tls-server-name": "127.0.0.1"}
    assert await namespaces(configured(tmp_path, told)) > 0


def test_a_certificate_of_our_own(tmp_path: Path) -> None:
    """That it is good is the server's to say; here it is only read."""
    certificate, key = write_certificate(tmp_path)
    told = json.loads(kubeconfig("https://127.0.0.1:1", certificate, ""))
    told["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(certificate.read_bytes()).decode(),
        "client-key": key.name,
    }
    assert configured(tmp_path, told).tls is not None
    told["users"][0]["user"]["client-key"] = "not-there"
    with pytest.raises(BadSettings, match="the client certificate or its key cannot be used"):
        configured(tmp_path, told)


def configured(home: Path, told: dict[str, Any]) -> ClusterAccess:
    (home / "kubeconfig").write_text(json.dumps(told))
    return find_access({"KUBECONFIG": str(home / "kubeconfig")})


def test_without_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=rf"^kubernetes: there is no way to a cluster: .* no {tmp_path}/.kube/config"):
        find_access({"HOME": str(tmp_path)}, account=tmp_path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"current-context": ""}, "current-context is not set; choose one: kubectl config use-context NAME"),
        ({"current-context": "y"}, "contexts: there is no 'y'"),
        ({"clusters": []}, "clusters: there is no 'c'"),
        ({"users": None}, "users: there is no 'u'"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, "clusters: 'c' has no server such as https://"),
        ({"clusters": [{"name": "c"}]}, "clusters: 'c' has no server such as https://"),
        ({"users": [{"name": "u", "user": {"exec": {"command": "aws"}}}]}, r"users: 'u' has a program .*kubectl proxy"),
        ({"users": [{"name": "u", "user": {"username": "a"}}]}, "users: 'u' has a name and a password"),
        (
            {"clusters": [{"name": "c", "cluster": {"server": "https://x", "certificate-authority-data": "!"}}]},
            "certificate-authority-data is not base64",
        ),
        (
            {"clusters": [{"name": "c", "cluster": {"server": "https://x", "certificate-authority-data": "eA=="}}]},
            "certificate-authority-data holds no certificate",
        ),
        (
            {"clusters": [{"name": "c", "cluster": {"server": "https://x", "certificate-authority": "no.crt"}}]},
            r"no.crt holds no certificate \(No such file or directory\)",
        ),
    ],
)
def test_a_kubeconfig_that_cannot_be_used(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    told = json.loads(kubeconfig("http://127.0.0.1:1", tmp_path, "t"))
    with pytest.raises(BadSettings, match=f"^kubernetes: {why}"):
        configured(tmp_path, told | change)


def test_a_file_that_is_no_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    with pytest.raises(BadSettings, match=f"^kubernetes: there is no kubeconfig {file}; set KUBECONFIG"):
        find_access({"KUBECONFIG": str(file)})
    file.write_text("{")
    with pytest.raises(BadSettings, match=rf"^kubernetes: {file} cannot be read \("):
        find_access({"KUBECONFIG": str(file)})


# -- what answers ------------------------------------------------------------------------------------------------------


async def test_the_time_is_the_servers(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims end by its clock. Ours may be wrong."""
    api = ApiClient(access(cluster.server))
    try:
        monkeypatch.setattr(api_client, "time", SimpleNamespace(time=lambda: time.time() - 300))
        await api.ask("GET", "/api/v1/namespaces")
        assert abs(api.now() - time.time()) < 10
    finally:
        await api.close()
