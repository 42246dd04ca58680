"""The probe: what each kind of host would be told, by tables; and what this one is."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests import traces

from belljar import config
from belljar.errors import CannotConfine
from belljar.sandbox.local import probe
from belljar.sandbox.local.diagnosis import Check, Facts, Report, complaint, diagnose, version, wsl
from belljar.sandbox.local.kernel_checks import INNER, LOCK, PROC, ROOT, USER, WALLS

FINE = Facts(tries=dict.fromkeys(WALLS), distribution="Debian GNU/Linux 12")
DENIED = "Operation not permitted"


def failing(step: str, error: str = DENIED, **facts: object) -> Facts:
    """A host where the steps before this one work and the ones after it are not reached."""
    tries: dict[str, str | None] = dict.fromkeys(WALLS[: WALLS.index(step)])
    return replace(FINE, tries={**tries, step: error}, **facts)  # type: ignore[arg-type]


def check(report: Report, name: str) -> Check:
    return next(check for check in report.checks if check.name == name)


def rung(facts: Facts, limit: str) -> tuple[str, bool]:
    return next((rung.keeper, rung.hard) for rung in diagnose(facts).rungs if rung.limit == limit)


def test_a_good_host() -> None:
    report = diagnose(FINE)
    assert report.level == "full"
    assert all(check.ok and not check.remedy for check in report.checks)
    assert complaint(report) == ""
    assert check(report, "platform").detail == "Linux, Debian GNU/Linux 12"


@pytest.mark.parametrize(
    ("facts", "missing", "remedies"),
    [
        (Facts(platform="darwin"), "platform: macOS", ["limactl start", "sandbox server on a Linux host"]),
        (Facts(platform="win32"), "platform: Windows", ["wsl --install", "Linux virtual machine", "sandbox server"]),
        (Facts(platform="sunos5"), "platform: sunos5", ["use a Linux host"]),
        (Facts(release="4.4.0-19041-Microsoft"), "platform: WSL 1", ["wsl --set-version <distribution> 2"]),
        (replace(FINE, machine="riscv64"), "architecture: riscv64", ["x86_64 or aarch64"]),
        (replace(FINE, release="5.10.0-28-amd64"), "kernel: 5.10.0-28-amd64", ["Linux 5.12 or newer"]),
        (
            failing(USER, "unshare: No space left on device", max_user_namespaces=0),
            "namespaces: user namespace: unshare: No space left",
            ["sudo sysctl -w user.max_user_namespaces=15000", "/etc/sysctl.d/"],
        ),
        (
            failing(INNER, "unshare: No space left on device", max_user_namespaces=0, own_users=True),
            "inner user namespace: unshare: No space left",
            ["sudo sysctl -w user.max_user_namespaces=15000"],
        ),
        (
            failing(USER, userns_clone=0),
            "namespaces: user namespace",
            ["sudo sysctl -w kernel.unprivileged_userns_clone=1"],
        ),
        (
            failing(ROOT, apparmor_userns=1, python="/usr/bin/python3.12"),
            f"private root: {DENIED}",
            [
                "1. run as root",
                "2. allow it to this Python",
                "profile belljar /usr/bin/python3.12 flags=(unconfined)",
                "userns,",
                "sudo apparmor_parser -r /etc/apparmor.d/belljar",
                "3. lift it for the whole host: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            ],
        ),
        (
            failing(USER, container="docker"),
            "namespaces: user namespace",
            ["docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt syst"],
        ),
        (failing(ROOT, container="docker", apparmor_userns=1), "private root", ["docker run", "apparmor=unconfined"]),
        (failing(PROC, container="podman"), "fresh /proc", ["podman run", "--security-opt unmask=ALL"]),
        (
            failing(PROC, container="kubernetes"),
            "fresh /proc",
            ["procMount: Unmasked", "seccompProfile: {type: Unconfined}", "hostUsers: false"],
        ),
        (failing(USER, container="lxc"), "namespaces", ["security.nesting true"]),
        (failing(USER, container="container"), "namespaces", ["allow unshare, mount and pivot_root"]),
        (failing(PROC), "fresh /proc", ["findmnt -R /proc"]),
        (failing(LOCK, "prctl 22: Invalid argument"), "call filter", ["CONFIG_SECCOMP_FILTER"]),
        (replace(FINE, openat2="Function not implemented"), "openat2", ["Linux 5.6"]),
        (replace(FINE, python_problem="/opt/py is closed to other users"), "python: /opt/py", ["everybody may read"]),
    ],
)  # fmt: skip
def test_a_host_that_is_refused(facts: Facts, missing: str, remedies: list[str]) -> None:
    report = diagnose(facts)
    assert report.level == "refused"
    text = complaint(report)
    assert missing in text
    for part in remedies:
        assert part in text
    assert all(check.remedy for check in report.missing if "not reached" not in check.detail)


def test_the_ways_out_of_ubuntu_come_in_order() -> None:
    text = complaint(diagnose(failing(ROOT, apparmor_userns=1)))
    assert text.index("1. run as root") < text.index("2. allow") < text.index("3. lift")
    assert text.count("1. run as root") == 1


def test_what_was_not_reached_is_said_to_be_so() -> None:
    report = diagnose(failing(ROOT))
    assert check(report, "fresh /proc").detail == "not reached: something it needs is missing"
    assert not check(report, "fresh /proc").ok
    assert diagnose(replace(FINE, tries={})).level == "refused"


@pytest.mark.parametrize(
    ("facts", "name", "remedy"),
    [
        (replace(FINE, landlock=0), "Landlock", "lsm=landlock"),
        (replace(FINE, cgroup="none", cgroup_why="version 2: EACCES"), "cgroup", "systemd-run --user --scope"),
        (replace(FINE, cgroup="none", own_users=True), "cgroup", "mount -t cgroup2"),
        (replace(FINE, cgroup="none", container="docker"), "cgroup", "writable cgroup"),
        (replace(FINE, pids=100), "processes", "--pids-limit"),
        (replace(FINE, open_files=1024), "open files", "LimitNOFILE"),
        (replace(FINE, stack_flaw="lacks x", stack_remedy="pip install x"), "data stack", "pip install x"),
    ],
)  # fmt: skip
def test_what_is_good_to_have(facts: Facts, name: str, remedy: str) -> None:
    report = diagnose(facts)
    assert report.level == "full"
    found = check(report, name)
    assert (found.ok, found.needed) == (False, False)
    assert remedy in found.remedy


def test_who_keeps_the_limits() -> None:
    assert rung(FINE, "memory") == ("cgroup v2", True)
    assert rung(replace(FINE, cgroup="v1"), "cpus") == ("cgroup v1", True)
    assert rung(replace(FINE, cgroup="none"), "memory")[1] is False
    assert rung(replace(FINE, cgroup_cpu=False), "cpus")[0].startswith("nobody")
    assert rung(FINE, "disk") == ("tmpfs of fixed size", True)
    assert rung(replace(FINE, release="5.13.0"), "processes")[1] is False
    assert rung(replace(FINE, release="5.13.0", own_users=True), "processes")[1] is True
    assert diagnose(Facts(platform="darwin")).rungs == ()


@pytest.mark.parametrize(
    ("release", "which"),
    [
        ("4.4.0-19041-Microsoft", 1),
        ("5.15.153.1-microsoft-standard-WSL2", 2),
        ("6.6.87.2-microsoft-standard-WSL2+", 2),
        ("6.8.0-45-generic", 0),
    ],
)
def test_which_wsl(release: str, which: int) -> None:
    assert wsl(release) == which


def test_wsl2_is_linux() -> None:
    assert diagnose(replace(FINE, release="5.15.153.1-microsoft-standard-WSL2")).level == "full"


def test_versions() -> None:
    assert version("6.18.44-fc-v445") == (6, 18)
    assert version("odd") == (0, 0)


# -- this host -----------------------------------------------------------------------------------------------------


def test_this_host_can_confine() -> None:
    report = probe.probe()
    assert report.level == "full", complaint(report)


def test_looking_changes_nothing_and_leaves_nothing() -> None:
    def seen() -> list[str]:
        spaces = [os.readlink(f"/proc/self/ns/{name}") for name in ("user", "mnt", "pid", "net", "cgroup")]
        files = [Path("/proc/self", name).read_text() for name in ("cgroup", "mountinfo")]
        return [*spaces, *files, *traces.cgroups(os.getpid())]

    before = seen()
    probe.gather()
    assert seen() == before


def test_the_rung_is_the_one_the_jail_takes() -> None:
    from belljar.sandbox.local import cgroups

    groups = cgroups.detect()
    try:
        assert probe.gather().cgroup == groups.kind
    finally:
        groups.close()


def test_the_remedy_of_a_good_host_is_the_problem_itself() -> None:
    assert probe.remedy("it broke") == "it broke"


def test_the_remedy_of_a_bad_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "gather", lambda: failing(PROC, container="docker"))
    text = probe.remedy("mount proc: EPERM")
    assert text.startswith("this host cannot confine code (fresh /proc: Operation not permitted). To mend it: ")
    assert "docker run" in text
    assert text.endswith("(the jail said: mount proc: EPERM)")


def test_a_try_that_cannot_be_made_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    report = diagnose(replace(probe.gather(), python_problem=""))
    assert report.level == "refused"


@pytest.mark.parametrize(("platform", "name"), [("darwin", "macOS"), ("win32", "Windows")])
def test_elsewhere_nothing_is_tried(monkeypatch: pytest.MonkeyPatch, platform: str, name: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert probe.probe().level == "refused"
    with pytest.raises(CannotConfine, match=f"this host cannot confine code \\({name}, "):
        probe.check_platform()


@pytest.mark.parametrize(
    ("variables", "files", "groups", "container"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ["/.dockerenv"], "", "kubernetes"),
        ({}, ["/run/.containerenv"], "", "podman"),
        ({"container": "podman"}, [], "", "podman"),
        ({}, ["/.dockerenv"], "", "docker"),
        ({"container": "lxc"}, [], "", "lxc"),
        ({"container": "systemd-nspawn"}, [], "", "container"),
        ({}, [], "12:pids:/docker/0123456789ab\n", "docker"),
        ({}, [], "0::/kubepods.slice/kubepods-burstable.slice\n", "kubernetes"),
        ({}, [], "0::/machine.slice/libpod-0123.scope\n", "podman"),
        ({}, [], "0::/init.scope\n", ""),
    ],
)
def test_which_container(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], files: list[str], groups: str, container: str
) -> None:
    monkeypatch.setattr(config, "variables", lambda *names: variables)
    monkeypatch.setattr(Path, "exists", lambda self: str(self) in files)
    monkeypatch.setattr(Path, "read_text", lambda self: groups)
    assert probe._container() == container


def test_the_groups_of_a_user_are_told() -> None:
    told = check(diagnose(replace(FINE, groups=("adm", "docker"))), "user")
    assert told.ok
    assert "your groups (adm, docker) cannot be given up without privilege" in told.detail
    assert "groups" not in check(diagnose(FINE), "user").detail
    assert "and no group" in check(diagnose(replace(FINE, own_users=True, groups=("adm",))), "user").detail
