"""Which files this process has open: what a test leaves open, whatever the threads of others do meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PATIENCE = 30.0


def held() -> set[tuple[int, str]]:
    """By number, with what each is."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that lists them, and what others close meanwhile
            found.add((int(fd), os.readlink(f"/proc/self/fd/{fd}")))
    return found


@contextmanager
def none_left() -> Iterator[None]:
    """Nothing stays open that was not before. Others close theirs when they like, and open some for a moment."""
    before = held()
    yield
    deadline = time.monotonic() + PATIENCE
    while left := held() - before:
        assert time.monotonic() < deadline, f"left open: {sorted(left)}"
        time.sleep(0.01)
