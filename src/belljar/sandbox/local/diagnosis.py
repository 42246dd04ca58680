"""Diagnose a host from facts: what its jail enforces, and the remedy for each check that fails. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

MACHINES = ("x86_64", "aarch64")
OLDEST = (5, 12)
PER_NAMESPACE = (5, 14)
STACK = "data stack"
"""The one check of what code finds inside, rather than of what keeps it there."""

ELSEWHERE = {
    "darwin": (
        "macOS",
        "macOS has no namespaces, seccomp or cgroups. Run Belljar in a Linux virtual machine "
        "(such as Lima: `limactl start`, then `limactl shell default`), or use a sandbox server on a Linux host: "
        "`belljar sandbox` there, BELLJAR_SANDBOX_URL=http://HOST:8080 here",
    ),
    "win32": (
        "Windows",
        "Windows has no namespaces, seccomp or cgroups. Run Belljar in WSL 2 (`wsl --install`, then `wsl`), in a Linux "
        "virtual machine, or use a sandbox server on a Linux host: `belljar sandbox` there, "
        "BELLJAR_SANDBOX_URL=http://HOST:8080 here",
    ),
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    """What to do about it, command by command; empty when there is nothing to do."""
    needed: bool = True
    """Whether the jail refuses to run without."""


@dataclass(frozen=True, slots=True)
class Rung:
    """Who keeps one limit on this host."""

    limit: str
    keeper: str
    hard: bool
    """Whether the kernel itself keeps it for all processes of a sandbox together."""


@dataclass(frozen=True, slots=True)
class Report:
    """What this host can enforce."""

    checks: tuple[Check, ...]
    rungs: tuple[Rung, ...]

    @property
    def level(self) -> Literal["full", "refused"]:
        return "refused" if self.missing else "full"

    @property
    def missing(self) -> tuple[Check, ...]:
        """What keeps the jail from running."""
        return tuple(check for check in self.checks if check.needed and not check.ok)

    @property
    def causes(self) -> tuple[Check, ...]:
        """Those of them that something can be done about; the others only wait for these."""
        return tuple(check for check in self.missing if check.remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was seen. The defaults are an ordinary user's on an ordinary, recent Linux."""

    platform: str = "linux"
    machine: str = "x86_64"
    release: str = "6.8.0"
    distribution: str = ""
    container: str = ""
    """docker, podman, kubernetes, lxc or container; empty on a host of its own."""
    own_users: bool = False
    groups: tuple[str, ...] = ()
    """Of the user, beyond the first."""
    max_user_namespaces: int | None = None
    userns_clone: int | None = None
    """Debian's switch kernel.unprivileged_userns_clone."""
    apparmor_userns: int | None = None
    """Ubuntu's switch kernel.apparmor_restrict_unprivileged_userns."""
    tries: Mapping[str, str | None] = field(default_factory=dict)
    """Step -> None where it worked, or what the kernel said. A step that is not here was not reached."""
    openat2: str | None = None
    landlock: int = 7
    cgroup: Literal["v2", "v1", "none"] = "v2"
    cgroup_cpu: bool = True
    cgroup_why: str = ""
    open_files: int = 1 << 20
    pids: int | None = None
    python: str = "/usr/bin/python3"
    python_problem: str = ""
    stack_flaw: str = ""
    """What is wrong with the data stack, and what mends it."""
    stack_remedy: str = ""


def diagnose(facts: Facts) -> Report:
    """The whole report; off Linux it ends with the platform."""
    platform = _platform(facts)
    if not platform.ok:
        return Report((platform,), ())
    checks = (
        platform,
        _machine(facts),
        _kernel(facts),
        _user(facts),
        _namespaces(facts),
        _wall(facts, "fresh /proc", "a /proc of its own can be mounted", _proc_remedy(facts)),
        _wall(facts, "private root", "tmpfs, read-only binds and pivot_root work", _mount_remedy(facts)),
        _wall(facts, "inner user namespace", "works, without any capability", _namespace_remedy(facts)),
        _wall(
            facts, "call filter", "seccomp filters can be installed", "use a kernel built with CONFIG_SECCOMP_FILTER"
        ),
        _openat2(facts),
        _landlock(facts),
        _cgroup(facts),
        _pids(facts),
        _open_files(facts),
        Check(
            "python",
            not facts.python_problem,
            facts.python_problem or facts.python,
            "use a Python whose files everybody may read" if facts.python_problem else "",
        ),
        Check(
            STACK,
            not facts.stack_flaw,
            facts.stack_flaw or "installed",
            facts.stack_remedy,
            needed=False,
        ),
    )
    return Report(checks, _rungs(facts))


def _platform(facts: Facts) -> Check:
    if facts.platform in ELSEWHERE:
        name, remedy = ELSEWHERE[facts.platform]
        return Check("platform", False, f"{name}, and the jail is made of Linux's own walls", remedy)
    if facts.platform != "linux":
        remedy = "use a Linux host, or a sandbox server on one"
        return Check("platform", False, f"{facts.platform}, and the jail is made of Linux's own walls", remedy)
    if wsl(facts.release) == 1:
        remedy = "change to WSL 2, from Windows: wsl --set-version <distribution> 2"
        return Check("platform", False, "WSL 1, which only imitates the Linux kernel", remedy)
    what = "Linux in WSL 2" if wsl(facts.release) == 2 else "Linux"
    what += f", {facts.distribution}" if facts.distribution else ""
    return Check("platform", True, f"{what}, inside {_name_container(facts)}" if facts.container else what)


def wsl(release: str) -> int:
    """Which Windows Subsystem for Linux a kernel release stands for; 0 for none."""
    if "microsoft" not in release.lower():
        return 0
    return 2 if "wsl2" in release.lower() or "microsoft-standard" in release else 1


def _name_container(facts: Facts) -> str:
    names = {"docker": "Docker", "podman": "Podman", "kubernetes": "Kubernetes", "lxc": "LXC"}
    return names.get(facts.container, "a container")


def _machine(facts: Facts) -> Check:
    ok = facts.machine in MACHINES
    return Check("architecture", ok, facts.machine, "" if ok else f"use a machine with {' or '.join(MACHINES)}")


def version(release: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _kernel(facts: Facts) -> Check:
    ok = version(facts.release) >= OLDEST
    return Check("kernel", ok, facts.release, "" if ok else "use Linux 5.12 or newer, which has mount_setattr")


def _user(facts: Facts) -> Check:
    if facts.own_users:
        return Check("user", True, "each sandbox has a user of its own, and no group")
    ours = "sandboxes run as you, in user namespaces"
    if facts.groups:
        ours += (
            f"; your groups ({', '.join(facts.groups)}) cannot be given up without privilege, and open what is theirs "
            "alone below /usr and Python: --attack looks for it"
        )
    return Check("user", True, ours)


def _wall(facts: Facts, name: str, fine: str, remedy: str) -> Check:
    """A step that was tried, if it could be: each needs those before it."""
    if name not in facts.tries:
        return Check(name, False, "not reached: something it needs is missing")
    error = facts.tries[name]
    return Check(name, error is None, error or fine, "" if error is None else remedy)


def _namespaces(facts: Facts) -> Check:
    for step in ("user namespace", "process namespace", "other namespaces"):
        if facts.own_users and step == "user namespace":
            continue
        if step not in facts.tries:
            return Check("namespaces", False, "could not be tried", "look at what `belljar doctor` prints above")
        error = facts.tries[step]
        if error is not None:
            return Check("namespaces", False, f"{step}: {error}", _namespace_remedy(facts))
    return Check(
        "namespaces", True, "process, mount, network, ipc, uts" + ("" if facts.own_users else ", in a user namespace")
    )


def _namespace_remedy(facts: Facts) -> str:
    if facts.max_user_namespaces == 0:
        return (
            "user namespaces are switched off (user.max_user_namespaces = 0); switch them on:\n"
            "sudo sysctl -w user.max_user_namespaces=15000\n"
            "echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/90-belljar.conf   # to keep it so"
        )
    if facts.userns_clone == 0 and not facts.own_users:
        return (
            "user namespaces are root's only (Debian's kernel.unprivileged_userns_clone = 0); switch them on:\n"
            "sudo sysctl -w kernel.unprivileged_userns_clone=1\n"
            "echo kernel.unprivileged_userns_clone=1 | sudo tee /etc/sysctl.d/90-belljar.conf   # to keep it so"
        )
    if facts.container:
        return _container_remedy(facts)
    if facts.apparmor_userns and not facts.own_users:
        return _ubuntu_remedy(facts)
    return "use a kernel with CONFIG_USER_NS, and check that no security policy forbids user namespaces to this program"


def _mount_remedy(facts: Facts) -> str:
    if facts.apparmor_userns and not facts.own_users and not facts.container:
        return _ubuntu_remedy(facts)
    if facts.container:
        return _container_remedy(facts)
    return "a security policy (AppArmor, SELinux) forbids mounting in a user namespace; allow it for " + facts.python


def _proc_remedy(facts: Facts) -> str:
    """In a container parts of /proc are covered, and the kernel then gives no fresh one to who is not its owner."""
    if facts.container:
        return _container_remedy(facts)
    return "something is mounted over a part of /proc (see `findmnt -R /proc`); unmount it, or run as root"


def _ubuntu_remedy(facts: Facts) -> str:
    return (
        "Ubuntu gives programs without a profile no rights in a user namespace "
        "(kernel.apparmor_restrict_unprivileged_userns = 1). Ways out, the best first:\n"
        "1. run as root, such as a system service: sudo belljar …\n"
        "2. allow it to this Python (and so to every program it runs) by a profile:\n"
        f"   printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile belljar {facts.python} flags=(unconfined) "
        "{\\n  userns,\\n}\\n' | sudo tee /etc/apparmor.d/belljar\n"
        "   sudo apparmor_parser -r /etc/apparmor.d/belljar\n"
        "3. lift it for the whole host: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    )


def _container_remedy(facts: Facts) -> str:
    """The least a container must be given; no capability is among it."""
    if facts.container == "kubernetes":
        lines = [
            "the pod's own walls forbid it. Give the container this securityContext (and the pod hostUsers: false, "
            "which procMount wants), or use a sandbox server elsewhere:",
            "securityContext: {procMount: Unmasked, seccompProfile: {type: Unconfined}, "
            "appArmorProfile: {type: Unconfined}, "
            "allowPrivilegeEscalation: false}",
        ]
        return "\n".join(lines)
    if facts.container == "podman":
        flags = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt unmask=ALL"
        return f"the container's own walls forbid it. Start it with:\npodman run {flags} …"
    if facts.container == "docker":
        flags = (
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
        )
        return f"the container's own walls forbid it. Start it with:\ndocker run {flags} …"
    if facts.container == "lxc":
        return "the container's own walls forbid it. On its host:\nlxc config set <name> security.nesting true"
    return "the container's own walls forbid it; allow unshare, mount and pivot_root, and leave /proc unmasked"


def _openat2(facts: Facts) -> Check:
    if facts.openat2 is None:
        return Check("openat2", True, "works")
    remedy = _container_remedy(facts) if facts.container else "use Linux 5.6 or newer"
    return Check("openat2", False, facts.openat2, remedy)


def _landlock(facts: Facts) -> Check:
    if facts.landlock:
        return Check("Landlock", True, f"version {facts.landlock}: a second lock on files", needed=False)
    remedy = "boot with lsm=landlock,… on Linux 5.13 or newer (optional: a second lock behind the first)"
    return Check("Landlock", False, "not in this kernel, or switched off", remedy, needed=False)


def _cgroup(facts: Facts) -> Check:
    if facts.cgroup != "none":
        detail = f"{_cgroup_name(facts)}{'' if facts.cgroup_cpu else ', without the cpu controller'}"
        return Check("cgroup", True, detail, needed=False)
    if facts.container:
        remedy = "let the container have a writable cgroup (Docker: --cgroupns private and a writable /sys/fs/cgroup)"
    elif facts.own_users:
        remedy = "mount the cgroup hierarchy: sudo mount -t cgroup2 none /sys/fs/cgroup"
    else:
        remedy = "run it in a unit with rights over its own group: systemd-run --user --scope -p Delegate=yes belljar …"
    return Check("cgroup", False, facts.cgroup_why or "none that we may write", remedy, needed=False)


def check_cache(directory: str, problem: str | None) -> Check:
    """Whether anything can be kept between starts."""
    if problem is None:
        return Check("cache", True, directory, needed=False)
    without = "until then requirements are refused, and each start makes a list of fonts of its own"
    return Check("cache", False, problem, without, needed=False)


def check_fetching(program: str, problem: str | None) -> Check:
    """Whether packages can be fetched that a sandbox does not start with."""
    if problem is None:
        return Check("uv", True, program, needed=False)
    return Check("uv", False, problem, "until then requirements that are not there already are refused", needed=False)


def _cgroup_name(facts: Facts) -> str:
    return f"cgroup {facts.cgroup}"


def _pids(facts: Facts) -> Check:
    if facts.pids is not None and facts.pids < 512:
        remedy = "raise the limit on processes (Docker: --pids-limit, systemd: TasksMax=, shell: ulimit -u)"
        return Check("processes", False, f"{facts.pids} for everything here together", remedy, needed=False)
    detail = "not limited" if facts.pids is None else f"{facts.pids} for everything here together"
    return Check("processes", True, detail, needed=False)


def _open_files(facts: Facts) -> Check:
    room = facts.open_files // 10
    if facts.open_files < 4096:
        remedy = "raise it: ulimit -Hn 65536, or LimitNOFILE=65536 in the unit"
        return Check("open files", False, f"{facts.open_files}: room for about {room} sandboxes", remedy, needed=False)
    return Check("open files", True, f"{facts.open_files}", needed=False)


def _rungs(facts: Facts) -> tuple[Rung, ...]:
    group = facts.cgroup != "none"
    name = _cgroup_name(facts)
    if group:
        memory = Rung("memory", name, hard=True)
    else:
        memory = Rung("memory", "RLIMIT_AS for each process, and a watcher that kills above the sum", hard=False)
    if group and facts.cgroup_cpu:
        cpus = Rung("cpus", name, hard=True)
    else:
        cpus = Rung("cpus", "nobody: it needs a cgroup with the cpu controller", hard=False)
    own = facts.own_users or version(facts.release) >= PER_NAMESPACE
    counted = "in the sandbox's own user namespace" if own else "together with all other processes of this user"
    return (
        memory,
        cpus,
        Rung("processor time", "a watcher, every 0.1 s", hard=False),
        Rung("wall time", "the host process", hard=True),
        Rung("processes", f"RLIMIT_NPROC, counted {counted}", hard=own),
        Rung("disk", "tmpfs of fixed size", hard=True),
        Rung("open files, file size", "RLIMIT_NOFILE and RLIMIT_FSIZE for each process", hard=True),
        Rung("output", "the host process", hard=True),
    )


def summary(report: Report) -> str:
    """What keeps code apart on this host, in a line."""
    weak = [rung.limit for rung in report.rungs if not rung.hard]
    absent = [check.name for check in report.checks if not check.ok and check.name != STACK]
    notes = [f"not kept by the kernel: {', '.join(weak)}"] * bool(weak)
    notes += [f"without {', '.join(absent)}"] * bool(absent)
    return "; ".join([report.level, *notes])


def complaint(report: Report) -> str:
    """What is missing and how to mend it, in as few lines as that takes; empty when nothing is."""
    found = report.causes
    if not found:
        return ""
    remedies = dict.fromkeys(check.remedy for check in found)
    what = "; ".join(f"{check.name}: {check.detail}" for check in found)
    return f"this host cannot confine code ({what}). To mend it: " + "\nor: ".join(remedies)
