"""Probe what this host can enforce: gather facts, try the kernel, and ask for a diagnosis.

Importable on any platform: it is asked before anything else of the jail is.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from belljar import config
from belljar.errors import CannotConfine
from belljar.sandbox.local import diagnosis
from belljar.sandbox.local.diagnosis import Check, Facts, Report, Rung

__all__ = ["Check", "Facts", "Report", "Rung", "check_platform", "gather", "probe", "remedy"]

_BOOT = "import sys; sys.path.insert(0, {path!r}); from belljar.sandbox.local.kernel_checks import main; main({uid})"
_CGROUP_MARKS = {"kubepods": "kubernetes", "docker": "docker", "libpod": "podman", "lxc": "lxc"}


def probe() -> Report:
    """Look at this host. Tries are made in a process of their own; nothing of them is left."""
    return diagnosis.diagnose(gather())


def remedy(problem: str) -> str:
    """The message for a jail that could not be made: what is missing here and the command that mends it."""
    found = diagnosis.complaint(probe())
    return f"{found}\n(the jail said: {problem})" if found else problem


def check_platform() -> None:
    """Refuse, with the remedy, where there is no Linux kernel to jail with."""
    facts = Facts(platform=sys.platform, release=platform.release())
    found = diagnosis.diagnose(facts).checks[0]
    if not found.ok:
        raise CannotConfine(f"this host cannot confine code ({found.detail}). To mend it: {found.remedy}")


def gather() -> Facts:
    """The facts of this host; only those of the platform where it is not Linux."""
    release = platform.release()
    if sys.platform != "linux" or diagnosis.wsl(release) == 1:
        return Facts(platform=sys.platform, machine=platform.machine(), release=release)
    import resource

    from belljar.sandbox.local import users
    from belljar.sandbox.local.jail import python_home
    from belljar.sandbox.packages.stack import inspect_stack

    tried = _try_all()
    group = json.loads(tried.pop("cgroup", None) or '{"kind": "none", "cpu": false, "why": "could not be tried"}')
    landlock = int(tried.pop("landlock", None) or 0)
    openat2 = tried.pop("openat2", "could not be tried")
    stack = inspect_stack(python_home()["site_packages"])
    return Facts(
        platform=sys.platform,
        machine=platform.machine(),
        release=release,
        distribution=_distribution(),
        container=_container(),
        own_users=users.find_first_uid() is not None,
        groups=_groups(),
        max_user_namespaces=_number("/proc/sys/user/max_user_namespaces"),
        userns_clone=_number("/proc/sys/kernel/unprivileged_userns_clone"),
        apparmor_userns=_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        tries=tried,
        openat2=openat2,
        landlock=landlock,
        cgroup=group["kind"],
        cgroup_cpu=group["cpu"],
        cgroup_why=group["why"],
        open_files=_drop_unlimited(resource.getrlimit(resource.RLIMIT_NOFILE)[1]) or 1 << 20,
        pids=_process_limit(_drop_unlimited(resource.getrlimit(resource.RLIMIT_NPROC)[0])),
        python=os.path.realpath(sys.executable),
        python_problem=_python_problem(),
        stack_flaw=stack.flaw,
        stack_remedy=stack.remedy,
    )


def _try_all() -> dict[str, str | None]:
    """Run `tries` bare, as the launcher is run, and read its answers up to where it came."""
    from belljar.sandbox.local import users

    code = str(Path(__file__).resolve().parents[3])
    uid = users.find_first_uid() or 0
    command = [sys.executable, "-I", "-S", "-c", _BOOT.format(path=code, uid=uid)]
    try:
        ran = subprocess.run(
            command, env={}, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    answers: list[Any] = [json.loads(line) for line in ran.stdout.splitlines()]
    return dict(answers)


def _groups() -> tuple[str, ...]:
    import grp

    def name(number: int) -> str:
        try:
            return grp.getgrgid(number).gr_name
        except KeyError:
            return str(number)

    return tuple(name(number) for number in sorted({*os.getgroups()} - {os.getegid()}))


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def _drop_unlimited(limit: int) -> int | None:
    return None if limit < 0 or limit > 1 << 40 else limit


def _distribution() -> str:
    try:
        names = platform.freedesktop_os_release()
    except OSError:
        return ""
    return names.get("PRETTY_NAME") or names.get("NAME", "")


def _container() -> str:
    """Which container runtime we are in, by what each is known to leave about."""
    known = config.variables("KUBERNETES_SERVICE_HOST", "container")
    if "KUBERNETES_SERVICE_HOST" in known:
        return "kubernetes"
    if Path("/run/.containerenv").exists() or known.get("container") == "podman":
        return "podman"
    if Path("/.dockerenv").exists():
        return "docker"
    if known.get("container") in ("lxc", "lxc-libvirt"):
        return "lxc"
    try:
        groups = Path("/proc/1/cgroup").read_text()
    except OSError:
        groups = ""
    marked = next((name for mark, name in _CGROUP_MARKS.items() if re.search(rf"/{mark}\b|{mark}-", groups)), "")
    return marked or ("container" if known.get("container") else "")


def _process_limit(own: int | None) -> int | None:
    """The least of the limits on how many processes there may be here; an ordinary user's own, and the group's."""
    limits = [] if own is None or os.geteuid() == 0 else [own]
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if names in ("", "pids"):
                place = Path("/sys/fs/cgroup", names, path.lstrip("/"), "pids.max")
                limits += [n] if (n := _number(str(place))) is not None else []
    except (OSError, ValueError):
        pass
    return min(limits, default=None)


def _python_problem() -> str:
    """As root a sandbox has a user of its own, who must be able to read Python and its packages."""
    base, executable = os.path.realpath(sys.base_prefix), os.path.realpath(sys.executable)
    if os.path.relpath(executable, base).startswith(".."):
        return f"{executable} is not inside its own prefix {base}"
    from belljar.sandbox.local import users

    if users.find_first_uid() is not None:
        for path in (base, sys.prefix):
            if os.stat(path).st_mode & 0o005 != 0o005:
                return f"{path} is closed to other users"
    return ""
