"""Threads for what would hold an event loop up: long looks at a workspace, and descriptors that are slow to close.

They end with their work: a program that forks has none of ours, but for moments.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from belljar.sandbox.local.steps import Steps, Wait

T = TypeVar("T")

_AT_ONCE = 2
_PATIENCE = 1.0
_places = threading.Semaphore(_AT_ONCE)


def _forget() -> None:
    """A forked child has none of its parent's threads, which would give their places back."""
    global _places
    _places = threading.Semaphore(_AT_ONCE)


os.register_at_fork(after_in_child=_forget)


def close_later(fd: int) -> None:
    """Close a descriptor for which the kernel waits for all processors, some milliseconds."""
    if sys.is_finalizing():  # a thread that is started now never runs, and would be waited for
        os.close(fd)
        return
    try:
        threading.Thread(target=os.close, args=(fd,), name="belljar-closer", daemon=True).start()
    except RuntimeError:  # no room for a thread
        os.close(fd)


class _Bell:
    """An eventfd that a thread rings, if it is still there."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._open = True
        self._lock = threading.Lock()

    def ring(self, _: object) -> None:
        with self._lock:
            if self._open:
                os.eventfd_write(self.fd, 1)

    def close(self) -> None:
        with self._lock:
            self._open = False
            os.close(self.fd)


def run_aside(epoll: select.epoll, job: Callable[[], T]) -> Steps[T]:
    """Run a job in a thread, waiting for it as for anything else in `epoll`. Two such jobs run at once, others wait."""
    done: Future[T] = Future()
    places = _places

    def work() -> None:
        with places:
            try:
                result = job()
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                done.set_exception(error)
            else:
                done.set_result(result)

    bell = _Bell()
    try:
        epoll.register(bell.fd, select.EPOLLIN)
        done.add_done_callback(bell.ring)
        try:
            threading.Thread(target=work, name="belljar-files", daemon=True).start()
        except RuntimeError:  # as above
            work()
        while not done.done():
            yield Wait(_PATIENCE)
        return done.result()
    finally:
        with suppress(OSError, ValueError):  # the sandbox was closed meanwhile, and its epoll with it
            epoll.unregister(bell.fd)
        bell.close()
