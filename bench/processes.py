"""What /proc says of processes and memory."""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_SCHEDULED = 2
"""Which of a process's clocks: see clock_getcpuclockid(3)."""


class Process(NamedTuple):
    """A process and when it began: a number alone may come again."""

    pid: int
    began: str


def descendants(root: int) -> set[Process]:
    """All processes below one, in whatever pid namespace."""
    children: dict[int, list[Process]] = defaultdict(list)
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children[int(fields[1])].append(Process(int(entry.name), fields[19]))
    found: set[Process] = set()
    waiting = [root]
    while waiting:
        below = children[waiting.pop()]
        found.update(below)
        waiting += [process.pid for process in below]
    return found


def exists(process: Process) -> bool:
    """Whether there is any trace of it, dead but unburied counting as one. Our own dead are buried here."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    fields = _stat(process.pid)
    return bool(fields) and fields[19] == process.began


def _stat(pid: int) -> list[str]:
    """The fields after the name: state, parent, …, and the start time as number 19."""
    try:
        return (_PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def available() -> int:
    """Bytes that could be given to new processes without swapping."""
    return _field(_PROC / "meminfo", "MemAvailable:")


def footprint(process: Process) -> int:
    """A process's own bytes: private pages and page tables. `PermissionError` where that is not ours to see."""
    home = _PROC / str(process.pid)
    rollup = home / "smaps_rollup"
    return _field(rollup, "Private_Clean:") + _field(rollup, "Private_Dirty:") + _field(home / "status", "VmPTE:")


def high_water(pid: int) -> int:
    """The most bytes of memory that a process has had so far."""
    return _field(_PROC / f"{pid}/status", "VmHWM:")


def _field(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


def spent(pid: int) -> float:
    """Seconds of processor time that a process has used so far; `OSError` where it is gone.

    By its own clock, which every process has, and not by /proc, whose hundredths of a second may be none at all.
    """
    return time.clock_gettime((~pid << 3) | _SCHEDULED)
