"""`host_mounts` of a code interpreter become a container that has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI
from tests.helpers import servers
from tests.helpers.openai import FlatContainers

from belljar.adapters.openai.host_mounts import materialise
from belljar.errors import Declined, WorkspaceError, WorkspaceSecurityError
from belljar.filesystem import HostMount
from belljar.tools import AutoContainerConfig, OpenAICodeInterpreterTool


@pytest.fixture
def sunfish(tmp_path: Path) -> Path:
    root = tmp_path / "roots/sunfish"
    for path in ("engine.py", "data/input.csv", "sunfish/nested.py", "engine.pyc"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("1,2\n")
    return root


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    with servers.gateway(tmp_path_factory.mktemp("gateway") / "state") as server, server.client() as client:
        yield client


def auto(*mounts: HostMount) -> AutoContainerConfig:
    return AutoContainerConfig(memory_limit="4g", host_mounts=mounts)


def paths(client: OpenAI, id: str) -> list[str]:
    return sorted(file.path for file in client.containers.files.list(id, limit=100))


def test_the_founding_examples_mount(gateway: OpenAI, sunfish: Path, tmp_path: Path) -> None:
    upload = gateway.files.create(file=("table.csv", b"1"), purpose="user_data")
    tool = OpenAICodeInterpreterTool(
        name="code",
        container={
            "type": "auto",
            "memory_limit": "4g",
            "file_ids": [upload.id],
            "host_mounts": [
                {
                    "host_path": "sunfish",
                    "mount_path": "/workspace/sunfish",
                    "include_glob": ["*.py", "*.csv"],
                    "exclude_glob": ["**/__pycache__/**"],
                    "max_bytes": 600_000,
                    "follow_symlinks": False,
                }
            ],
        },
    )
    assert isinstance(tool.config, AutoContainerConfig)
    id = materialise(gateway, tool.config, allowed_host_roots=(tmp_path / "roots",))
    assert paths(gateway, id) == [
        "/mnt/data/table.csv",
        "/mnt/data/workspace/sunfish/data/input.csv",
        "/mnt/data/workspace/sunfish/engine.py",
        "/mnt/data/workspace/sunfish/sunfish/nested.py",
    ]
    assert gateway.containers.retrieve(id).memory_limit == "4g"


def test_without_roots_a_mount_is_its_own(
    gateway: OpenAI, sunfish: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sunfish.parent)
    id = materialise(gateway, auto(HostMount("sunfish", include_glob=("*.csv",))))
    assert paths(gateway, id) == ["/mnt/data/sunfish/data/input.csv"]
    (tmp_path / "secret").write_text("key")
    (sunfish / "out").symlink_to(tmp_path / "secret")
    with pytest.raises(WorkspaceSecurityError, match="outside"):
        materialise(gateway, auto(HostMount("sunfish", follow_symlinks=True)))


def test_roots_hold_before_anything_is_asked_of_the_server(sunfish: Path, tmp_path: Path) -> None:
    with FlatContainers() as server, server.client() as client:
        with pytest.raises(WorkspaceSecurityError):
            materialise(client, auto(HostMount(str(sunfish))), allowed_host_roots=(tmp_path / "roots/other",))
        assert server.requests == []
        server.refusing = 1
        with pytest.raises(Declined, match="No containers today"):
            materialise(client, auto(HostMount(str(sunfish))))


@pytest.mark.parametrize("name", ["setup.exe", "deep/Setup.EXE", "tool.dll", "disk.dmg"])
def test_programs_are_refused_before_anything_is_sent(gateway: OpenAI, sunfish: Path, name: str) -> None:
    (sunfish / name).parent.mkdir(exist_ok=True)
    (sunfish / name).write_bytes(b"MZ")
    before = len(list(gateway.containers.list()))
    with pytest.raises(WorkspaceError, match=r"not supported \(\.\w+\); leave it out with exclude_glob") as caught:
        materialise(gateway, auto(HostMount(str(sunfish))))
    assert name in str(caught.value)
    assert len(list(gateway.containers.list())) == before


@pytest.mark.parametrize(
    "name", ["a.csv", "a.png", "a.zip", "a.pdf", "a.py", "a.ipynb", "Makefile", ".env", "a.exe.txt"]
)
def test_what_code_can_use_is_welcome(gateway: OpenAI, sunfish: Path, name: str) -> None:
    (sunfish / name).write_bytes(b"x")
    id = materialise(gateway, auto(HostMount(str(sunfish), include_glob=(name,))))
    assert paths(gateway, id) == [f"/mnt/data/sunfish/{name}"]
