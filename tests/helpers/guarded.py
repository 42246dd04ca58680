"""`belljar`, watched: a program that writes down what kept its event loop from everybody else.

`python tests/helpers/guarded.py serve …` is `belljar serve …`. Time is the loop's own on the processor, not the
clock's: a busy machine is nobody's fault.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from typing import Any

import uvloop

from belljar.cli import main

BLOCKED = "the event loop was kept busy"
MOST = 1.0
"""Seconds of processor time without a break; starting takes about half of that."""


def watch(loop: asyncio.AbstractEventLoop) -> None:
    """From a thread of its own, for as long as there is a loop. Called by the thread that the loop runs in."""
    owner = threading.get_ident()
    clock = time.pthread_getcpuclockid(owner)

    def spent() -> float:
        return time.clock_gettime(clock)

    def guard() -> None:
        while not loop.is_closed():
            time.sleep(0.05)
            if not loop.is_running():
                continue
            done, begun, told = threading.Event(), spent(), False
            try:
                loop.call_soon_threadsafe(done.set)
            except RuntimeError:  # it was closed
                return
            while not done.wait(0.05) and loop.is_running():
                if spent() - begun > MOST and not told:
                    told = True
                    stack = "".join(traceback.format_stack(sys._current_frames()[owner]))
                    print(f"{BLOCKED} for {MOST:g} s of processor time:\n{stack}", file=sys.stderr, flush=True)

    threading.Thread(target=guard, daemon=True, name="loop-guard").start()


def install() -> None:
    make = uvloop.new_event_loop

    def watched(*given: Any) -> Any:
        loop = make(*given)
        watch(loop)
        return loop

    uvloop.new_event_loop = watched


if __name__ == "__main__":
    install()
    sys.exit(main())
