"""Bound what a sandbox has altogether and no limit of a process bounds: files, sockets, watches; memory if need be."""

from __future__ import annotations

import contextlib
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
_NOTHING = 0.001
"""Processor seconds in which nobody gets anywhere."""


class Excess(NamedTuple):
    """More than there may be."""

    why: str
    """Of what: for "processes were ended:"."""
    memory: bool = False


@dataclass(slots=True)
class Watcher:
    """Looks from process 1, now and then. A look at a sandbox in which nothing happened costs two system calls."""

    memory: int | None
    """The limit, where no control group counts it."""
    _last: int = -1
    """The newest process that there has been."""
    _known: list[int] = field(default_factory=list)
    _used: float = 0.0
    """Processor seconds of those, at the last real look."""

    def look(self, *, memory: bool) -> Excess | None:
        """Why the processes inside must end, if anything happened and they must; for their memory only if asked."""
        idle = usage.newest_pid() == self._last and usage.measure_clocks(self._known) - self._used < _NOTHING
        return None if idle else self.judge(memory=memory)

    def judge(self, *, memory: bool) -> Excess | None:
        """The same, whether anything happened or not."""
        self._last, self._known = usage.newest_pid(), usage.pids()
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
        return None


def _most_watches(pid: int, files: int) -> int:
    """Each epoll file may watch every other one. Who forbids a look at its files is taken for the worst."""
    epolls = files // 2
    with contextlib.suppress(PermissionError):
        epolls = usage.count_epolls(pid)
    return epolls * files
