"""Measure what the processes of a sandbox use, from /proc: memory, files, and processor time for each cell."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_ROUNDED = 2 / TICKS
"""The most by which the time of waited-for children can be short: it is two counts of whole ticks, rounded down."""
_PROCESS_CLOCK = 2
"""CPUCLOCK_SCHED: what all threads of a process have used, in nanoseconds; anyone who sees the process may read it."""


class Stat(NamedTuple):
    """What /proc/PID/stat says."""

    state: bytes
    parent: int
    """0 where it is outside."""
    reaped: float
    """Processor seconds of the children that it waited for, and of theirs."""
    started: int
    """In ticks after boot."""
    threads: int
    resident: int


def pids() -> list[int]:
    """All processes inside but the first."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def stat(pid: int) -> Stat | None:
    """None where it has gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        reaped = (int(fields[13]) + int(fields[14])) / TICKS
        return Stat(fields[0], int(fields[1]), reaped, int(fields[19]), int(fields[17]), int(fields[21]) * _PAGE)
    except (OSError, IndexError):
        return None


class NewestPid:
    """The number that the last process or thread inside was given. Its file is kept open: it is read for ever."""

    def __init__(self) -> None:
        self._file = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> int:
        return int(os.pread(self._file, 128, 0).split()[4])


def interpreter() -> int | None:
    """The process that runs the cells: the first of those whose parent is outside, and the only one there should be."""
    outside = [(seen.started, pid) for pid in pids() if (seen := stat(pid)) is not None and seen.parent == 0]
    return min(outside)[1] if outside else None


# -- memory -----------------------------------------------------------------------------------------------------

_EXACTLY = 0.5
"""Processor seconds that a look may spend on exact figures; then the rough ones count, which are never less."""
_MAPPING = 384
"""What the kernel keeps for a mapping, which is in no process's size: its record, its places in a tree and in lists."""
_FREE_SOCKETS, _SOCKET = 64, 416 << 10
"""What waits in a socket is in no process's size either, nor told by the kernel: from some on each counts for all that
it may hold.
"""


def memory(limit: int) -> int:
    """Bytes that all of them have together, with what waits in their sockets; never less than the truth.

    Rough first, at a few microseconds a process. Exact for one after the other, which takes milliseconds where a
    process has many mappings, only while the sum is above the limit: nobody gains time by being slow to look at.
    """
    rough = {pid: most for pid in pids() if (most := _rough_memory(pid))}
    total = sum(rough.values()) + _socket_memory()
    deadline = time.thread_time() + _EXACTLY
    for pid, most in sorted(rough.items(), key=lambda item: -item[1]):
        if total <= limit or time.thread_time() > deadline:
            break
        total -= most - min(most, _exact_memory(pid, most))
    return total


def _rough_memory(pid: int) -> int:
    """All that it shares with others counts in full, and each page that it could map as a mapping of its own."""
    for place in _places(pid):
        try:
            with open(f"{place}/statm", "rb") as file:
                size, resident, *_ = file.read().split()
        except OSError:
            continue
        if resident != b"0":
            return int(resident) * _PAGE + int(size) * _MAPPING
    return 0


def _exact_memory(pid: int, otherwise: int) -> int:
    """The proportional share, so that what all sandboxes share with the zygote is not counted in each."""
    for place in _places(pid):
        try:
            return _share(place) + _count_mappings(place) * _MAPPING
        except PermissionError:
            return otherwise  # it has forbidden a look inside (PR_SET_DUMPABLE): all of it counts
        except OSError:
            continue
    return 0


def _places(pid: int) -> Iterator[str]:
    """Where the first thread has ended and others live on, the process shows nothing and they show all of it."""
    yield f"/proc/{pid}"
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        if int(thread) != pid:
            yield f"/proc/{pid}/task/{thread}"


def _share(place: str) -> int:
    with open(f"{place}/smaps_rollup", "rb") as file:
        for line in file:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) << 10
    return 0


def _count_mappings(place: str) -> int:
    with open(f"{place}/maps", "rb", buffering=0) as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 16), b""))


def _socket_memory() -> int:
    return max(0, count_sockets() - _FREE_SOCKETS) * _SOCKET


# -- files ------------------------------------------------------------------------------------------------------


def count_sockets() -> int:
    """Of this network namespace, also those that are on their way through others or that nobody has any more."""
    try:
        with open("/proc/net/sockstat", "rb") as file:
            return int(file.readline().split()[2])
    except (OSError, IndexError):  # this kernel does not tell
        return 0


def count_files(pid: int) -> int:
    """How many it has open; told by the kernel since 6.2, else counted, which it can forbid."""
    for place in _places(pid):
        with contextlib.suppress(OSError):
            if found := os.stat(f"{place}/fd").st_size or len(os.listdir(f"{place}/fd")):
                return found
    return 0


def count_epolls(pid: int) -> int:
    """How many of its files watch others. PermissionError where it has forbidden to look."""
    count = 0
    for place in _places(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for name in os.listdir(f"{place}/fd"):
                with contextlib.suppress(FileNotFoundError):
                    count += os.readlink(f"{place}/fd/{name}") == "anon_inode:[eventpoll]"
            if count:
                break
    return count


# -- processor time ---------------------------------------------------------------------------------------------


class Spent(NamedTuple):
    """Processor seconds of one process."""

    own: float
    reaped: float
    """Of the children that it waited for, and of theirs: up to `_ROUNDED` less than the truth."""


Key: TypeAlias = tuple[int, int]
"""A process: its number, which is used again, and its start."""


def measure_processes() -> dict[Key, Spent]:
    """Of every process inside.

    What they waited for is read before what they used themselves: a child that is still there for the second reading
    had not been waited for at the first, so that nothing is in both. One that goes between the two is in neither, so
    then both are made again, unless there is no end to it.
    """
    found: dict[Key, Spent] = {}
    for _ in range(8):
        waited = {(pid, seen.started): seen.reaped for pid in pids() if (seen := stat(pid)) is not None}
        found = {key: Spent(own, reaped) for key, reaped in waited.items() if (own := _clock(key[0])) is not None}
        if len(found) == len(waited):
            break
    return found


def measure_clocks(known: Iterable[int]) -> float:
    """Processor seconds that these have used, as far as they are still there."""
    return sum(_clock(pid) or 0.0 for pid in known)


def _clock(pid: int) -> float | None:
    try:
        return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)
    except OSError:
        return None  # it has gone


class Meter:
    """Processor seconds that everything inside has used since a moment: never more than that, and hardly less.

    A process's time moves to its parent when that waits for it. What was counted while the process lived must not be
    counted a second time then; nor what it had used before the moment, however late its parent waits for it. What
    nobody waits for and nobody saw alive is not counted at all: the kernel forgets it.
    """

    def __init__(self) -> None:
        self.used = 0.0
        self._seen: dict[Key, Spent] = {}
        self._moving = 0.0
        """Of processes that were gone at the last look, what no parent had by then: the parent was read before."""

    def begin(self, now: Mapping[Key, Spent]) -> None:
        """Count from here."""
        self.look(now)
        self.used = 0.0
        self._seen = {key: Spent(one.own, one.reaped + _ROUNDED) for key, one in now.items()}

    def look(self, now: Mapping[Key, Spent]) -> float:
        """Add what has been used since the last look; the sum."""
        nothing = Spent(0.0, 0.0)
        gone = sum(one.own + one.reaped + _ROUNDED for key, one in self._seen.items() if key not in now)
        own = reaped = 0.0
        seen = {}
        for key, one in now.items():
            before = self._seen.get(key, nothing)
            own += max(0.0, one.own - before.own)
            reaped += max(0.0, one.reaped - before.reaped)
            seen[key] = Spent(one.own, max(one.reaped, before.reaped))
        moved = min(reaped, self._moving + gone)
        self.used += own + reaped - moved
        # A parent that took it over may be among those that are gone now: then it moves on, to a parent of theirs.
        self._moving = self._moving + gone - moved if gone else 0.0
        self._seen = seen
        return self.used
