"""Run a box's steps, blocking in threads or awaiting in asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator

from belljar.sandbox.cancellation import wait_to_end
from belljar.sandbox.local.box import Box
from belljar.sandbox.local.steps import Steps, Wait
from belljar.sandbox.outputs import Output


def run_blocking(box: Box, steps: Steps[None]) -> Iterator[Output]:
    """Yield the outputs; waits in the calling thread."""
    ready: list[int] | None = None
    while (step := _take_step(steps, ready)) is not None:
        ready = []
        if isinstance(step, Wait):
            ready = _ready(box, step.seconds)
        else:
            yield from step


def _take_step(steps: Steps[None], ready: list[int] | None) -> Wait | list[Output] | None:
    """The next step, or the first where nothing is `ready` yet; None at the end."""
    try:
        return next(steps) if ready is None else steps.send(ready)
    except StopIteration:
        return None


def _ready(box: Box, seconds: float | None) -> list[int]:
    try:
        return [fd for fd, _ in box.epoll.poll(seconds)]
    except (OSError, ValueError):  # closed by someone else meanwhile, which the steps will tell
        return []


async def run_async(box: Box, steps: Steps[None], ready: list[int] | None = None) -> AsyncGenerator[Output, None]:
    """Yield the outputs; the loop goes on meanwhile. With `ready`, steps that have begun go on."""
    loop = asyncio.get_running_loop()
    while (step := _take_step(steps, ready)) is not None:
        ready = []
        if isinstance(step, Wait):
            await _readable(loop, box, step.seconds)
            ready = _ready(box, 0)
        else:
            for output in step:
                yield output


async def _readable(loop: asyncio.AbstractEventLoop, box: Box, seconds: float | None) -> None:
    """Wait for the box's epoll descriptor, which is itself readable when one of those in it is."""
    woken: asyncio.Future[None] = loop.create_future()
    fd = box.epoll.fileno()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    def leave() -> None:
        loop.remove_reader(fd)
        wake()

    loop.add_reader(fd, wake)
    box.leave = leave
    timer = loop.call_later(seconds, wake) if seconds is not None else None
    try:
        await woken
    finally:
        if box.leave is leave:
            box.leave = None
            loop.remove_reader(fd)
        if timer is not None:
            timer.cancel()


def finish(box: Box, steps: Steps[None]) -> None:
    """Run steps that have no outputs, blocking."""
    for _ in run_blocking(box, steps):
        pass


async def finish_async(box: Box, steps: Steps[None], ready: list[int] | None = None) -> None:
    """Run steps to their end, outputs or not. A cancellation waits until then: nothing may be left half done."""
    task = asyncio.ensure_future(_drain(box, steps, ready))
    await wait_to_end(task)
    task.result()


async def _drain(box: Box, steps: Steps[None], ready: list[int] | None) -> None:
    async for _ in run_async(box, steps, ready):
        pass
