"""A source that is used in many ways and closed, in a process of its own: what is there before is there afterwards.

In a process that others share, their descriptors and processes come and go meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

from tests import traces
from tests.helpers.coroutine_tests import until

from belljar.sandbox.base import Cell, SandboxSource, Spec
from belljar.sandbox.local.source import JailOptions, LocalSource


async def leave_nothing(cache: Path, warm: int) -> None:
    await asyncio.to_thread(int)  # the loop's own thread pool, which stays
    before = traces.of()
    await _use_in_many_ways(
        LocalSource(JailOptions(cache=cache, warm=warm, warm_spec=Spec(packages="none"), preload=False))
    )
    gc.collect()
    seen = before

    def same() -> bool:
        nonlocal seen
        seen = traces.of()
        return seen == before

    try:
        await until(same, "all is as it was before")
    except AssertionError as error:
        raise AssertionError(f"before: {before}\nnow: {seen}") from error


async def _use_in_many_ways(source: SandboxSource) -> None:
    async with source.acquire(Spec(packages="none")) as one, source.acquire(Spec(packages="none")) as other:
        for code in ("1", "import os; os._exit(1)", "2", "open('x', 'w'); import ctypes; ctypes.string_at(0)"):
            _ = [output async for output in one.run(Cell(code))]
        await other.restart()
        await other.files.write("x", b"")
    for delay in (0.0, 0.001, 0.002, 0.005, 0.01, 0.02):
        task = asyncio.create_task(_use(source))
        await asyncio.sleep(delay)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await source.close()


async def _use(source: SandboxSource) -> None:
    async with source.acquire(Spec(packages="none")) as sandbox:
        _ = [output async for output in sandbox.run(Cell("import time; time.sleep(10)"))]
