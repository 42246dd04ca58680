"""Control groups: limits on what all processes of a sandbox use together, where the host allows them.

The ladder is version 2 (delegated or root), version 1, none. Without one, memory is bounded per process and watched;
`Groups.kind` says which it is.

Several Belljars may share a tree, from containers and process namespaces of their own. So the directory in which one
makes its groups is locked for as long as it lives, and the next start of any removes what nobody holds.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import signal
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from belljar.errors import Refused
from belljar.sandbox import owned_directories
from belljar.sandbox.local.launcher import ASIDE, remove_cgroup, step_back
from belljar.sandbox.local.messages import close_all

_OOM_KILL = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)
_USED = re.compile(rb"^usage_usec (\d+)$", re.MULTILINE)
_OURS = re.compile(r"belljar-\d+-[0-9a-f]{16}")
_SWEEPING = 0.5
"""Seconds that a start spends on what others left, however much of it there is: the next one goes on."""
_TCP = 64 << 20
"""Bytes that may wait in TCP sockets of a sandbox; what sends more waits."""
_LIMITS = ("memory.max", "memory.high", "cpu.max")


@dataclass(slots=True)
class Group:
    """The control group of one sandbox."""

    kind: Literal["v2", "v1"]
    memory: Path | None
    cpu: Path | None
    account: Path | None
    """Where processor time is counted, if anyone asked for it."""
    _events: int | None = None
    """Open for as long as the sandbox lives: it is read after every cell."""

    @property
    def directories(self) -> list[Path]:
        return list(dict.fromkeys(path for path in (self.memory, self.cpu, self.account) if path))

    @property
    def _door(self) -> str:
        # One thread moving itself takes no global lock; through cgroup.procs it waits for a grace period, 5-10 ms.
        # The interpreter has one thread when it enters. Version 2 has no such door but for threaded groups.
        return "tasks" if self.kind == "v1" else "cgroup.procs"

    def open_procs(self) -> list[int]:
        """Descriptors through which a process puts itself in."""
        doors: list[int] = []
        try:
            for path in self.directories:
                doors.append(os.open(path / self._door, os.O_WRONLY | os.O_CLOEXEC))
        except OSError:
            close_all(doors)
            raise
        return doors

    def watch(self) -> None:
        """Get ready to count kills."""
        if self.memory is not None:
            events = self.memory / ("memory.events" if self.kind == "v2" else "memory.oom_control")
            self._events = os.open(events, os.O_RDONLY | os.O_CLOEXEC)

    def oom_kills(self) -> int:
        """How often the kernel has killed something in here for want of memory."""
        if self._events is None:
            return 0
        try:
            found = _OOM_KILL.search(os.pread(self._events, 1024, 0))
        except OSError:  # someone has removed it, empty as it was
            return 0
        return int(found[1]) if found else 0

    def cpu_seconds(self) -> float | None:
        """Processor time of everything that ever ran in here; None where it is not counted."""
        if self.account is None:
            return None
        try:
            if self.kind == "v1":
                return int((self.account / "cpuacct.usage").read_bytes()) / 1e9
            found = _USED.search((self.account / "cpu.stat").read_bytes())
        except OSError:  # as above
            return None
        return int(found[1]) / 1e6 if found else None

    def kill(self) -> None:
        """Kill whatever is in here. By handle where the kernel cannot do it: a number may be another's by then."""
        for path in self.directories:
            with contextlib.suppress(OSError):
                if self.kind == "v2":
                    _write(path / "cgroup.kill", "1")
                    continue
                for pid in _words(path / "cgroup.procs"):
                    _kill(int(pid), path)

    def close(self) -> None:
        if self._events is not None:
            os.close(self._events)
            self._events = None

    def removed(self) -> bool:
        """Try to remove it; False while the kernel still counts a dying process in it."""
        for path in self.directories:
            try:
                path.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                return False
        return True


@dataclass(slots=True)
class Groups:
    """Where this process may make control groups, and the directories there that are its own."""

    kind: Literal["v2", "v1", "none"] = "none"
    why: str = ""
    memory: Path | None = None
    cpu: Path | None = None
    account: Path | None = None
    _holds: dict[Path, int] = field(default_factory=dict)
    _making: threading.Lock = field(default_factory=threading.Lock)

    @property
    def directories(self) -> list[Path]:
        return list(dict.fromkeys(path for path in (self.memory, self.cpu, self.account) if path))

    def own(self) -> None:
        """Make our directories and hold them; again, if someone has removed them."""
        with self._making:
            for path in self.directories:
                hold = self._holds.get(path)
                if hold is None or not owned_directories.is_at(path, hold):
                    _, self._holds[path] = owned_directories.claim(partial(_make_directory, path))
                    close_all([hold] if hold is not None else [])
                    if self.kind == "v2":
                        _delegate(path, {"memory", "cpu"} if self.cpu else {"memory"})
                    if path == self.cpu:
                        _lower_weight(path, self.kind)

    def make(self, name: str, *, memory: int, cpus: float | None, metered: bool) -> Group | None:
        """A group with these limits; None where the host gives none."""
        if self.kind == "none":
            return None
        group = Group(
            kind=self.kind,
            memory=self.memory / name if self.memory else None,
            cpu=self.cpu / name if self.cpu else None,
            account=self.account / name if self.account and metered else None,
        )
        try:
            try:
                _fill(group, memory, cpus)
            except OSError as error:
                if not is_gone(error):
                    raise
                self.own()
                _fill(group, memory, cpus)
        except OSError as error:
            group.close()
            raise Refused(
                f"no control group could be made for the sandbox ({error.strerror}: {error.filename}). Groups named "
                "belljar-… are Belljar's own: nothing else may remove or change them while it runs"
            ) from error
        return group

    def close(self) -> None:
        for path in self.directories:
            remove_cgroup(str(path))
            step_back(str(path.parent))
        self.let_go()

    def let_go(self) -> None:
        """Of the descriptors only: a forked child's copies keep nothing."""
        close_all(list(self._holds.values()))
        self._holds.clear()


def is_gone(error: OSError) -> bool:
    """Whether it says that a group is not there any more, or is just being removed."""
    return error.errno in (errno.ENOENT, errno.ENODEV)


def new_name() -> str:
    """A name that is nobody else's, and that `sweep` knows."""
    return f"belljar-{os.getpid()}-{secrets.token_hex(8)}"


def _make_directory(path: Path) -> Path:
    path.mkdir(0o700, exist_ok=True)  # closed, or anyone could hold it
    return path


def _fill(group: Group, memory: int, cpus: float | None) -> None:
    for path in group.directories:
        path.mkdir(exist_ok=True)
    if group.memory:
        _limit_memory(group.memory, group.kind, memory)
        group.watch()
    if group.cpu and cpus is not None:
        _limit_cpu(group.cpu, group.kind, cpus)


def _write(path: Path, text: str, *, optional: bool = False) -> None:
    try:
        with path.open("w") as file:
            file.write(text)
    except OSError:
        if not optional:
            raise


def _kill(pid: int, group: Path) -> None:
    with contextlib.suppress(OSError):  # it has gone, or we do not see it (0)
        handle = os.pidfd_open(pid)
        try:
            if str(pid) in _words(group / "cgroup.procs"):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def _limit_memory(path: Path, kind: str, memory: int) -> None:
    if kind == "v2":
        _write(path / "memory.max", str(memory))
        _write(path / "memory.swap.max", "0", optional=True)
    else:
        _write(path / "memory.limit_in_bytes", str(memory))
        _write(path / "memory.memsw.limit_in_bytes", str(memory), optional=True)
        # Buffers of TCP are counted apart, and by nobody unless there is a limit; everything else of sockets is above.
        _write(path / "memory.kmem.tcp.limit_in_bytes", str(min(memory // 4, _TCP)), optional=True)


def _limit_cpu(path: Path, kind: str, cpus: float) -> None:
    period = 100_000
    quota = max(1000, int(cpus * period))
    if kind == "v2":
        _write(path / "cpu.max", f"{quota} {period}", optional=True)
    else:
        _write(path / "cpu.cfs_period_us", str(period))
        _write(path / "cpu.cfs_quota_us", str(quota))


def _lower_weight(path: Path, kind: str) -> None:
    """Half of what one process of the host has, for all sandboxes together; among each other they are alike.

    So the host answers while they are busy, and one with many processes takes no more from another than one with few.
    """
    if kind == "v2":
        _write(path / "cpu.weight", "50", optional=True)
    else:
        _write(path / "cpu.shares", "512", optional=True)


def detect() -> Groups:
    """Find the strongest rung of the ladder that works, make our own directory there, sweep what a crash left."""
    name = new_name()
    reasons = []
    for attempt in (_version2, _version1):
        try:
            groups = attempt(name)
        except _Unusable as error:
            reasons.append(str(error))
            continue
        for path in groups.directories:
            sweep(path.parent)
        return groups
    return Groups(why="; ".join(reasons))


class _Unusable(ValueError):
    pass


def find_own_group(controller: str) -> Path | None:
    """This process's own group in the hierarchy of a controller ("" for version 2)."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split()[:3]
        root, point = left.split()[3:5]
        if kind == "cgroup2":
            mounts.setdefault("", (root, point))
        elif kind == "cgroup":
            for option in options.split(","):
                mounts.setdefault(option, (root, point))
    if controller not in mounts:
        return None
    root, point = mounts[controller]
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            inner = os.path.relpath(path, root)
            return None if inner.startswith("..") else Path(point, inner)
    return None


def _version1(name: str) -> Groups:
    memory = find_own_group("memory")
    if memory is None:
        raise _Unusable("no version 1 memory controller")
    cpu, account = find_own_group("cpu"), find_own_group("cpuacct")
    return _claim_groups(Groups("v1", "", memory / name, cpu and cpu / name, account and account / name))


def _version2(name: str) -> Groups:
    try:
        parent, controllers = place({os.getpid()})
    except (OSError, _Unusable) as error:
        raise _Unusable(f"version 2: {error}") from None
    ours = parent / name
    return _claim_groups(Groups("v2", "", ours, ours if "cpu" in controllers else None, ours))


def _claim_groups(groups: Groups) -> Groups:
    try:
        groups.own()
    except OSError as error:
        groups.close()
        raise _Unusable(f"version {groups.kind[1:]}: {error}") from None
    return groups


def place(selves: set[int]) -> tuple[Path, set[str]]:
    """Where in version 2 groups with limits can be made, and the controllers they can have.

    It wants processes in leaves only, but for the root group. So either nobody is in our group but `selves`, who can
    step aside, or the groups are made beside ours, unless that would free them from a limit that ours has.
    """
    own = find_own_group("")
    if own is None:
        raise _Unusable("not mounted, or not ours to see")
    if own.name == ASIDE:  # where an earlier source of this process, or of the one that started it, has stepped
        own = own.parent
    controllers = {"memory", "cpu"} & {*_words(own / "cgroup.controllers")}
    if "memory" not in controllers:
        raise _Unusable(f"the memory controller is not delegated to {own.name}")
    others = {int(pid) for pid in _words(own / "cgroup.procs")} - selves
    if others and (own / "cgroup.type").exists() and not controllers.issubset(_words(own / "cgroup.subtree_control")):
        own, controllers = _place_beside(own, controllers, f"{own.name} has {len(others)} other processes in it")
    elif not os.access(own / "cgroup.procs", os.W_OK):
        raise _Unusable(f"{own.name} is not ours to divide")
    return own, controllers


def _place_beside(own: Path, controllers: set[str], why: str) -> tuple[Path, set[str]]:
    if not all(_words(own / name)[0] == "max" for name in _LIMITS if (own / name).exists()):
        raise _Unusable(f"{why}, and limits that a group beside it would not have")
    above = own.parent
    enabled = above / "cgroup.subtree_control"  # not there above the hierarchy's root, or above what a container sees
    controllers = controllers & {*_words(enabled)} if enabled.exists() else set()
    if "memory" not in controllers or not os.access(above / "cgroup.procs", os.W_OK):
        raise _Unusable(f"{why}, so none below it can have limits, nor may we make one beside it")
    return above, controllers


def _words(path: Path) -> list[str]:
    return path.read_text().split()


def _delegate(ours: Path, controllers: set[str]) -> None:
    """Let groups below `ours` have limits; this process steps aside if it must."""
    parent = ours.parent
    enable = " ".join(f"+{name}" for name in controllers)
    if not controllers.issubset(_words(parent / "cgroup.subtree_control")):
        if _words(parent / "cgroup.procs") == [str(os.getpid())]:
            aside = parent / ASIDE
            aside.mkdir(exist_ok=True)
            _write(aside / "cgroup.procs", str(os.getpid()))
        _write(parent / "cgroup.subtree_control", enable)
    _write(ours / "cgroup.subtree_control", enable)


def sweep(parent: Path) -> None:
    """Remove groups whose owner is gone, in whichever process namespace it lived."""
    deadline = time.monotonic() + _SWEEPING
    for name in os.listdir(parent):
        if _OURS.fullmatch(name) and time.monotonic() < deadline:
            with owned_directories.check_abandoned(parent / name) as dead:
                if dead:
                    remove_cgroup(str(parent / name), deadline)
