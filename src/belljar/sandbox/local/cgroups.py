"""Control groups: a hard limit on what all processes of a sandbox use together, where the host lets us have one.

The ladder is version 2 (delegated or root), version 1, none. Without one, memory is bounded per process and watched;
`Groups.kind` says which it is.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from belljar.sandbox.local.launcher import ASIDE, remove_cgroup, step_back

_OOM_KILL = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)
_USED = re.compile(rb"^usage_usec (\d+)$", re.MULTILINE)
_OURS = re.compile(r"belljar-(\d+)-(\d+)-\d+")
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
        return [os.open(path / self._door, os.O_WRONLY | os.O_CLOEXEC) for path in self.directories]

    def watch(self) -> None:
        """Get ready to count kills."""
        if self.memory is not None:
            events = self.memory / ("memory.events" if self.kind == "v2" else "memory.oom_control")
            self._events = os.open(events, os.O_RDONLY | os.O_CLOEXEC)

    def oom_kills(self) -> int:
        """How often the kernel has killed something in here for want of memory."""
        if self._events is None:
            return 0
        text = os.pread(self._events, 1024, 0)
        found = _OOM_KILL.search(text)
        return int(found[1]) if found else 0

    def cpu_seconds(self) -> float | None:
        """Processor time of everything that ever ran in here; None where it is not counted."""
        if self.account is None:
            return None
        if self.kind == "v1":
            return int((self.account / "cpuacct.usage").read_bytes()) / 1e9
        found = _USED.search((self.account / "cpu.stat").read_bytes())
        return int(found[1]) / 1e6 if found else None

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
    """Where this process may make control groups, and those it has made."""

    kind: Literal["v2", "v1", "none"] = "none"
    why: str = ""
    memory: Path | None = None
    cpu: Path | None = None
    account: Path | None = None

    @property
    def directories(self) -> list[Path]:
        return list(dict.fromkeys(path for path in (self.memory, self.cpu, self.account) if path))

    def make(self, name: str, *, memory: int, cpus: float | None, metered: bool) -> Group | None:
        """A group with these limits; None where the host gives none."""
        if self.kind == "none":
            return None
        group = Group(
            kind=self.kind,
            memory=self.memory / name if self.memory else None,
            cpu=self.cpu / name if self.cpu and (cpus is not None or self.kind == "v2") else None,
            account=self.account / name if self.account and metered else None,
        )
        for path in group.directories:
            path.mkdir()
        if group.memory:
            _limit_memory(group.memory, self.kind, memory)
            group.watch()
        if group.cpu and cpus is not None:
            _limit_cpu(group.cpu, self.kind, cpus)
        return group

    def close(self) -> None:
        for path in self.directories:
            remove_cgroup(str(path))
            step_back(str(path.parent))


def _write(path: Path, text: str, *, optional: bool = False) -> None:
    try:
        with path.open("w") as file:
            file.write(text)
    except OSError:
        if not optional:
            raise


def _limit_memory(path: Path, kind: str, memory: int) -> None:
    if kind == "v2":
        _write(path / "memory.max", str(memory))
        _write(path / "memory.swap.max", "0", optional=True)
    else:
        _write(path / "memory.limit_in_bytes", str(memory))
        _write(path / "memory.memsw.limit_in_bytes", str(memory), optional=True)


def _limit_cpu(path: Path, kind: str, cpus: float) -> None:
    period = 100_000
    quota = max(1000, int(cpus * period))
    if kind == "v2":
        _write(path / "cpu.max", f"{quota} {period}", optional=True)
    else:
        _write(path / "cpu.cfs_period_us", str(period))
        _write(path / "cpu.cfs_quota_us", str(quota))


def detect(serial: int) -> Groups:
    """Find the strongest rung of the ladder that works, make our own directory there, sweep what a crash left."""
    name = f"belljar-{os.getpid()}-{_started(os.getpid())}-{serial}"
    reasons = []
    for attempt in (_version2, _version1):
        try:
            return attempt(name)
        except _Unusable as error:
            reasons.append(str(error))
    return Groups(why="; ".join(reasons))


class _Unusable(ValueError):
    pass


def _own(controller: str) -> Path | None:
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
    memory = _own("memory")
    if memory is None:
        raise _Unusable("no version 1 memory controller")
    places = [memory, _own("cpu"), _own("cpuacct")]
    try:
        for place in dict.fromkeys(places):
            if place is not None:
                sweep(place)
                (place / name).mkdir()
    except OSError as error:
        raise _Unusable(f"version 1: {error}") from None
    return Groups("v1", "", *(place / name if place else None for place in places))


def _version2(name: str) -> Groups:
    try:
        parent, controllers = place({os.getpid()})
        sweep(parent)
        ours = parent / name
        ours.mkdir()
        try:
            _delegate(parent, ours, controllers)
        except OSError:
            remove_cgroup(str(ours))
            step_back(str(parent))
            raise
    except (OSError, _Unusable) as error:
        raise _Unusable(f"version 2: {error}") from None
    return Groups("v2", "", ours, ours if "cpu" in controllers else None, ours)


def place(selves: set[int]) -> tuple[Path, set[str]]:
    """Where in version 2 groups with limits can be made, and the controllers they can have.

    It wants processes in leaves only, but for the root group. So either nobody is in our group but `selves`, who can
    step aside, or the groups are made beside ours, unless that would free them from a limit that ours has.
    """
    own = _own("")
    if own is None:
        raise _Unusable("not mounted, or not ours to see")
    if own.name == ASIDE:  # where an earlier source of this process, or of the one that started it, has stepped
        own = own.parent
    controllers = {"memory", "cpu"} & {*_words(own / "cgroup.controllers")}
    if "memory" not in controllers:
        raise _Unusable(f"the memory controller is not delegated to {own.name}")
    others = {int(pid) for pid in _words(own / "cgroup.procs")} - selves
    if others and (own / "cgroup.type").exists() and not controllers.issubset(_words(own / "cgroup.subtree_control")):
        own, controllers = _beside(own, controllers, f"{own.name} has {len(others)} other processes in it")
    elif not os.access(own / "cgroup.procs", os.W_OK):
        raise _Unusable(f"{own.name} is not ours to divide")
    return own, controllers


def _beside(own: Path, controllers: set[str], why: str) -> tuple[Path, set[str]]:
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


def _delegate(parent: Path, ours: Path, controllers: set[str]) -> None:
    """Let groups below `ours` have limits; this process steps aside if it must."""
    enable = " ".join(f"+{name}" for name in controllers)
    if not controllers.issubset(_words(parent / "cgroup.subtree_control")):
        if _words(parent / "cgroup.procs") == [str(os.getpid())]:
            aside = parent / ASIDE
            aside.mkdir(exist_ok=True)
            _write(aside / "cgroup.procs", str(os.getpid()))
        _write(parent / "cgroup.subtree_control", enable)
    _write(ours / "cgroup.subtree_control", enable)


def sweep(parent: Path) -> None:
    """Remove groups whose owner is gone."""
    for entry in os.scandir(parent):
        found = _OURS.fullmatch(entry.name)
        if found and _started(int(found[1])) != int(found[2]):
            remove_cgroup(entry.path)


def _started(pid: int) -> int:
    """When a process started, in ticks since boot: tells a reused pid from the one meant. 0 if there is none."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0
