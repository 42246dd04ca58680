"""User ids of sandboxes: one of its own for each where we may, otherwise ours for all."""

from __future__ import annotations

import os
from pathlib import Path

from belljar.sandbox.local import linux

COUNT = 50_000
"""So many users are taken in turn."""

_FIRST = 200_000
_NEEDED = (
    linux.CAP_CHOWN,
    linux.CAP_DAC_OVERRIDE,
    linux.CAP_KILL,
    linux.CAP_SETGID,
    linux.CAP_SETUID,
    linux.CAP_SYS_PTRACE,
    linux.CAP_SYS_ADMIN,
)


def find_first_uid() -> int | None:
    """The first uid for sandboxes; None where they all are us.

    Root in a container often lacks the rights to switch users, or has too few users mapped. A user namespace confines
    there as it does for anyone.
    """
    if os.geteuid() != 0 or not linux.capable(*_NEEDED):
        return None
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        inside, _, count = (int(part) for part in line.split())
        for first in (_FIRST, 10_000):  # far from people's if we can choose
            if inside <= first and inside + count >= first + COUNT:
                return first
    return None
