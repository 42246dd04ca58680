"""Bound what a sandbox has altogether and no limit of a process bounds: files, sockets, watches, time between cells."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from belljar.sandbox.local import usage

FILES = 16_384
"""Open files of all processes together: the kernel's table of them is the whole machine's."""
SOCKETS = 2_048
"""However full a control group is, the kernel lets each socket hold some 40 KiB."""
WATCHES = 16_384
"""Of files by epoll, at most: the kernel counts them for the user, whose own programs have to share the count."""
_FEW = 64
"""Open files of a process of which nobody asks what they are."""
_OFTEN, _RARELY = 0.5, 4.0
"""Seconds between looks while something happens, and when nothing has for long: waking up is most of a look."""
_NOTHING = 0.001
"""Processor seconds in which nobody gets anywhere."""


class Excess(NamedTuple):
    """More than there may be."""

    why: str
    """Of what: for "processes were ended:"."""
    memory: bool = False
    interpreter: bool = False
    """Whether it is the interpreter's own, which must go too."""


_REFILL = 600.0
"""Seconds in which an allowance fills up: of 60 s, what is left running may have a tenth of a processor for good."""


@dataclass(slots=True)
class Allowance:
    """Processor time for what cells left running: so many seconds, filled up as time goes by. Pure."""

    most: float
    left: float
    before: bool = False
    """Whether it was used up, and has not been full again since."""

    def spend(self, used: float, elapsed: float) -> Excess | None:
        """The first time what the code started must go; if that does not help, it is the interpreter that uses it."""
        self.left = min(self.most, self.left + self.most * elapsed / _REFILL) - used
        if self.left > 0:
            self.before = self.before and self.left < self.most
            return None
        again, self.before, self.left = self.before, True, self.most / 2
        return Excess(f"they used more than {self.most:g} s of processor time between cells", interpreter=again)


def make_allowance(most: float | None) -> Allowance | None:
    return None if most is None else Allowance(most, most)


class Turns:
    """Whether a cell runs, as the host says without waking anybody."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._count = 0

    def read(self) -> int:
        """How often one has begun or ended: odd while one runs."""
        with contextlib.suppress(BlockingIOError):
            self._count += os.eventfd_read(self._fd)
        return self._count


@dataclass(slots=True)
class Watcher:
    """Looks from process 1, now and then. A look at a sandbox in which nothing happened costs two system calls."""

    memory: int | None
    """The limit, where no control group counts it."""
    turns: Turns
    idle: Allowance | None
    pause: float = _OFTEN
    """Seconds until the next look."""
    _turn: int = -1
    """As of the last look at processor time; -1 while a cell ran."""
    _meter: usage.Meter = field(default_factory=usage.Meter)
    _looked: float = field(default_factory=time.monotonic)
    _newest: usage.NewestPid = field(default_factory=usage.NewestPid)
    _last: int = -1
    """The newest process that there has been."""
    _known: list[int] = field(default_factory=list)
    _used: float = 0.0
    """Processor seconds of those, at the last real look."""

    def look(self, *, memory: bool) -> Excess | None:
        """Why the processes inside must end, if anything happened and they must; for their memory only if asked."""
        idle = self._newest.read() == self._last and usage.measure_clocks(self._known) - self._used < _NOTHING
        self.pause = min(2 * self.pause, _RARELY) if idle else _OFTEN
        return None if idle else self.judge(memory=memory)

    def judge(self, *, memory: bool) -> Excess | None:
        """The same, whether anything happened or not."""
        self._last, self._known = self._newest.read(), usage.pids()
        self._used = usage.measure_clocks(self._known)
        if (sockets := usage.count_sockets()) > SOCKETS:
            return Excess(f"they had {sockets:,} sockets, and a sandbox may have {SOCKETS:,}")
        counts = {pid: usage.count_files(pid) for pid in self._known}
        if (files := sum(counts.values())) > FILES:
            return Excess(f"they had {files:,} files open together, and a sandbox may have {FILES:,}")
        if sum(_most_watches(pid, files) for pid, files in counts.items() if files > _FEW) > WATCHES:
            return Excess(f"they could watch more than {WATCHES:,} files by epoll, which is what a sandbox may")
        if memory and self.memory is not None and usage.memory(self.memory) > self.memory:
            return Excess(f"they used more than the {self.memory >> 20} MiB of memory it may have", memory=True)
        return self._judge_idle()

    def _judge_idle(self) -> Excess | None:
        """Count what is used while no cell runs, as far as it was between two looks without one."""
        turn = self.turns.read()
        if self.idle is None or turn % 2:
            self._turn = -1
            return None
        spent, before, self._looked = usage.measure_processes(), self._looked, time.monotonic()
        if turn != self._turn:
            self._turn = turn
            self._meter.begin(spent)
        used, self._meter.used = self._meter.look(spent), 0.0
        return self.idle.spend(used, self._looked - before)


def _most_watches(pid: int, files: int) -> int:
    """Each epoll file may watch every other one. Who forbids a look at its files is taken for the worst."""
    epolls = files // 2
    with contextlib.suppress(PermissionError):
        epolls = usage.count_epolls(pid)
    return epolls * files
