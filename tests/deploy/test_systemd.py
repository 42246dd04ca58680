"""The pair of units: systemd reads them, their settings are real, and the two users meet at one socket alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.programs import needed

from belljar.config import Settings

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "deploy" / "systemd"
NAMES = ("belljar.service", "belljar-sandbox.service", "belljar-sandbox.socket")
EXPOSURE = {"belljar.service": 1.5, "belljar-sandbox.service": 3.5}
"""At most, of 10: as `systemd-analyze security` counts. The sandbox's needs namespaces, mounts and all of /proc."""


def read(name: str) -> dict[str, list[str]]:
    """What each name is set to, in order."""
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text().splitlines():
        if matched := re.fullmatch(r"(\w+)=(.*)", line):
            found.setdefault(matched[1], []).append(matched[2])
    return found


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a program that is there: systemd looks."""
    folder = tmp_path_factory.mktemp("units")
    for name in NAMES:
        text = (UNITS / name).read_text().replace("/opt/belljar/bin/belljar", sys.executable)
        (folder / name).write_text(text)
    return folder


def test_systemd_reads_them_without_a_word(copies: Path) -> None:
    command = [needed("systemd", "systemd-analyze"), "verify", "--man=no", *(str(copies / name) for name in NAMES)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    ours = [line for line in told.stderr.splitlines() if "belljar" in line]
    assert (ours, told.returncode) == ([], 0)


@pytest.mark.parametrize("name", EXPOSURE)
def test_they_are_exposed_to_little(copies: Path, name: str) -> None:
    command = [needed("systemd", "systemd-analyze"), "security", "--offline=true", "--no-pager", str(copies / name)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(re.findall(rf"exposure level for {name}: ([\d.]+)", told)[0]) <= EXPOSURE[name]


@pytest.mark.parametrize("name", EXPOSURE)
def test_every_setting_is_one_that_belljar_reads(name: str) -> None:
    given = dict(one.split("=", 1) for one in read(name)["Environment"])
    assert all(one.startswith("BELLJAR_") for one in given)
    settings = Settings.load(environment=given)
    assert set(settings.origins) == {one.removeprefix("BELLJAR_").lower() for one in given}
    [stop] = read(name)["TimeoutStopSec"]
    assert settings.drain + 10 < int(stop)


def test_the_gateway_is_let_in_and_nobody_else() -> None:
    gateway, sandbox, door = (read(name) for name in NAMES)
    [path] = door["ListenStream"]
    assert sandbox["ExecStart"] == [f"/opt/belljar/bin/belljar sandbox --socket {path}"]
    assert gateway["ExecStart"] == [f"/opt/belljar/bin/belljar serve --sandbox-url unix://{path}"]
    assert gateway["User"] != sandbox["User"]
    assert (door["SocketUser"], door["SocketGroup"]) == (sandbox["User"], gateway["User"])
    assert door["SocketMode"] == ["0660"]
    users = re.findall(r"^u (\S+)", (UNITS / "belljar.sysusers").read_text(), re.M)
    assert users == [*gateway["User"], *sandbox["User"]]


def test_the_jail_has_what_it_needs_of_a_unit() -> None:
    """RestrictSUIDSGID takes openat2 away, as a start under systemd showed; the others namespaces, or some of /proc."""
    forbidden = {
        "RestrictSUIDSGID", "RestrictNamespaces", "ProtectKernelTunables", "ProtectKernelLogs", "ProtectControlGroups",
        "ProtectProc", "ProcSubset", "PrivateUsers", "MemoryDenyWriteExecute",
    }  # fmt: skip
    sandbox = read("belljar-sandbox.service")
    assert not forbidden & set(sandbox)
    assert sandbox["Delegate"] == ["yes"]


def test_the_sandbox_has_nothing_of_the_gateway() -> None:
    gateway, sandbox, _ = (read(name) for name in NAMES)
    assert sandbox["PrivateNetwork"] == ["yes"]
    assert "EnvironmentFile" not in sandbox
    closed = sandbox["InaccessiblePaths"][0].replace("-/", "/").split()
    assert f"/var/lib/{gateway['StateDirectory'][0]}" in closed
    assert str(Path(gateway["EnvironmentFile"][0].removeprefix("-")).parent) in closed
