"""What a process leaves on the host: its descendants, descriptors, control groups, mounts and temporary files."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Traces:
    """All of it as plain values, to be compared before and after."""

    processes: tuple[str, ...]
    descriptors: tuple[tuple[str, int], ...]
    cgroups: tuple[str, ...]
    mounts: tuple[str, ...]
    temporary: tuple[str, ...]


def of(pid: int | None = None) -> Traces:
    """The traces of a process, this one by default."""
    pid = pid or os.getpid()
    return Traces(
        processes=tuple(sorted(f"{child} {_name(child)}" for child in descendants(pid))),
        descriptors=tuple(sorted(_descriptors(pid).items())),
        cgroups=cgroups(pid),
        mounts=_mounts(),
        temporary=tuple(sorted(os.listdir(tempfile.gettempdir()))),
    )


def cgroups(pid: int) -> tuple[str, ...]:
    """The control groups that a process made, those below them included; others may come and go meanwhile."""
    found = [path for path, _, _ in os.walk(CGROUPS) if f"/belljar-{pid}-" in path]
    return tuple(sorted(found))


def descendants(pid: int) -> list[int]:
    """Every process that has this one among its parents; the dead that nobody asked for count too."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        more = children.get(left.pop(), [])
        found += more
        left += more
    return found


def _mounts() -> tuple[str, ...]:
    """Where a jail builds its root, and below: none of its own may be seen here. Others mount elsewhere meanwhile."""
    built = {"/", "/proc", "/tmp", *(f"/tmp/{name}" for name in os.listdir("/"))}
    points = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return tuple(sorted(point for point in points if "/".join(point.split("/")[:3]) in built or point in built))


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _descriptors(pid: int) -> Counter[str]:
    """Open descriptors by what they are; the numbers in `socket:[123]` say nothing."""
    kinds: Counter[str] = Counter()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(entry.path)
        except OSError:
            continue
        if target != f"/proc/{pid}/fd":
            kinds[target.partition(":[")[0]] += 1
    return kinds


def resident(pid: int | None = None) -> int:
    """Bytes of memory that are this process's own now."""
    for line in Path(f"/proc/{pid or os.getpid()}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    return 0
