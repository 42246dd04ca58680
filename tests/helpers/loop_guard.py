"""A watch over an event loop: tells what kept it from everybody else, by working or by waiting for something.

A busy machine is nobody's fault. So work is the loop's own time on the processor, not the clock's; and it waits only
while it sleeps though there is something to do, not while others have the processor.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

BLOCKED = "the event loop was kept from everybody else"
MOST = 1.0
"""Seconds without a break; starting a gateway takes about half of that."""
STEP = 0.02
_sleep = time.sleep  # a test may have put another in its place, for its own thread


def watch(loop: asyncio.AbstractEventLoop, tell: Callable[[str], object], most: float = MOST) -> None:
    """From a thread of its own, for as long as there is a loop. Called by the thread that the loop runs in."""
    owner = threading.get_ident()
    clock = time.pthread_getcpuclockid(owner)
    status = Path(f"/proc/self/task/{threading.get_native_id()}/stat")

    def sleeps() -> bool:
        return status.read_bytes().rpartition(b")")[2].split()[0] in (b"S", b"D")

    def look() -> None:
        done, begun, asleep, told = threading.Event(), time.clock_gettime(clock), 0, False
        ended: list[float] = []

        def end() -> None:
            ended.append(time.thread_time())
            done.set()

        loop.call_soon_threadsafe(end)
        while not done.wait(STEP) and loop.is_running():
            asleep = asleep + 1 if sleeps() else 0
            worked, waited = time.clock_gettime(clock) - begun, asleep * STEP
            if max(worked, waited) > most and not told:
                told = True
                how = f"{worked:.2f} s of work" if worked > most else f"{waited:.2f} s of waiting"
                tell(f"{BLOCKED} by {how}:\n{''.join(traceback.format_stack(sys._current_frames()[owner]))}")
        if ended and not told and ended[0] - begun > most:  # by something that let not even this thread look
            tell(f"{BLOCKED} by {ended[0] - begun:.2f} s of work in one step")

    def guard() -> None:
        while not loop.is_closed():
            _sleep(most / 5)
            if loop.is_running():
                try:
                    look()
                except (RuntimeError, OSError):  # it was closed, or its thread ended
                    return

    threading.Thread(target=guard, daemon=True, name="loop-guard").start()


def install(most: float) -> None:
    """Over every loop of this program, which tells by standard error."""
    make = uvloop.new_event_loop

    def watched(*given: Any) -> Any:
        loop = make(*given)
        watch(loop, lambda told: print(told, file=sys.stderr, flush=True), most)
        return loop

    uvloop.new_event_loop = watched
