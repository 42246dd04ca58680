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

from belljar.sandbox.local.launcher import remove_cgroup

_OOM_KILL = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)
_USED = re.compile(rb"^usage_usec (\d+)$", re.MULTILINE)
_OURS = re.compile(r"belljar-(\d+)-(\d+)-\d+")


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


class _Unusable(Exception):
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
    own = _own("")
    if own is None:
        raise _Unusable("no version 2 hierarchy")
    try:
        if "memory" not in (own / "cgroup.controllers").read_text().split():
            raise _Unusable(f"version 2: the memory controller is not delegated to {own.name or '/'}")
        sweep(own)
        ours = own / name
        ours.mkdir()
        try:
            _delegate(own, ours)
        except OSError:
            remove_cgroup(str(ours))
            raise
    except OSError as error:
        raise _Unusable(f"version 2: {error}") from None
    return Groups("v2", "", ours, ours, ours)


def _delegate(own: Path, ours: Path) -> None:
    """Let groups below `ours` have limits. Version 2 wants processes in leaves only, so this one steps aside."""
    wanted = [name for name in ("memory", "cpu") if name in (own / "cgroup.controllers").read_text().split()]
    enable = " ".join(f"+{name}" for name in wanted)
    enabled = set((own / "cgroup.subtree_control").read_text().split())
    if not enabled.issuperset(wanted):
        leaf = own / "belljar-host"
        alone = {int(pid) for pid in (own / "cgroup.procs").read_text().split()} == {os.getpid()}
        if alone:
            leaf.mkdir(exist_ok=True)
            _write(leaf / "cgroup.procs", str(os.getpid()))
        try:
            _write(own / "cgroup.subtree_control", enable)
        except OSError:
            if alone:
                _write(own / "cgroup.procs", str(os.getpid()), optional=True)
            raise
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
