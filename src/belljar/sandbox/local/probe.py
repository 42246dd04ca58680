"""What this host can enforce, what is missing, and the command that mends it."""

from __future__ import annotations

from pathlib import Path


def remedy(problem: str) -> str:
    return problem


def first_uid() -> int:
    """The first of the uids that sandboxes get when we are root: far from people's, but mapped here."""
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        inside, _, count = (int(part) for part in line.split())
        if inside <= 200_000 and inside + count >= 260_000:
            return 200_000
    return 1
