"""Directories owned by a process while it lives: marked by a file lock, so that the kernel frees them however it ends.

Everybody who sees the directory sees the lock, from whatever container or process namespace; the number of a process
says nothing there, or names another one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_STALE = 3600.0
"""Seconds after which work in progress is none, whoever seems to hold it."""


def claim(make: Callable[[], Path]) -> tuple[Path, int]:
    """Make a directory and own it; where it is, and the descriptor that holds it."""
    while True:
        path = make()
        try:
            hold = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:  # swept before it was ours
            continue
        try:
            fcntl.flock(hold, fcntl.LOCK_EX)
        except BaseException:
            os.close(hold)
            raise
        if is_at(path, hold):
            return path, hold
        os.close(hold)


def let_go(hold: int) -> None:
    """The end of an ownership. By hand: a fork elsewhere may have copied the descriptor."""
    fcntl.flock(hold, fcntl.LOCK_UN)
    os.close(hold)


@contextmanager
def check_abandoned(path: Path) -> Iterator[bool]:
    """Whether its owner is gone, or there never was one; within the context nobody else comes to own it.

    One that is closed to us, or no longer there, is nobody's business of ours: False.
    """
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        yield try_lock(lock)
    finally:
        os.close(lock)


@contextmanager
def work(parent: Path) -> Iterator[tuple[Path, int]]:
    """A new directory for work in progress, and the descriptor that holds it; it goes with the context.

    Should this process not live to see that, whoever works here next removes it.
    """
    path, hold = claim(lambda: Path(tempfile.mkdtemp(dir=parent)))
    try:
        yield path, hold
    finally:
        shutil.rmtree(path, ignore_errors=True)
        let_go(hold)
        sweep(parent)


def sweep(parent: Path) -> None:
    """Remove the work of the dead."""
    for path in parent.iterdir():
        remove_if_abandoned(path, path)


def remove_if_abandoned(path: Path, holder: Path) -> None:
    """Remove a directory unless someone has the lock on `holder`, or it is too old for anyone to want it."""
    with contextlib.suppress(OSError), check_abandoned(holder) as dead:  # it may be gone already
        if dead or time.time() - path.stat().st_mtime > _STALE:
            shutil.rmtree(path, ignore_errors=True)


def try_lock(descriptor: int) -> bool:
    """Whether we have the lock now, without waiting."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_at(path: Path, descriptor: int) -> bool:
    """Whether the path still leads to what the descriptor has open."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
