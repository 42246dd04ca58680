"""Cells: their outputs as lines, as they come, and no faster than the client reads."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing

from aiohttp import web

from belljar.errors import BelljarError, Lost
from belljar.sandbox.base import MIB, Cell
from belljar.sandbox.codec import dump_line, tell_error, tell_output
from belljar.sandbox.server.http import Lines
from belljar.sandbox.server.leases import Lease

_AHEAD = MIB
"""Bytes that a cell may be ahead of its reader, before what we hand to the kernel."""
_log = logging.getLogger("belljar.sandbox.server")


async def stream(request: web.BaseRequest, lease: Lease, cell: Cell, *, ping: float) -> web.StreamResponse:
    """Run it to its end; a client that leaves cancels us, and that interrupts the cell."""
    with lease.used():
        lines = await Lines.begin(request)
        waiting = _Waiting()
        running = asyncio.create_task(_run(lease, cell, waiting))
        try:
            while not waiting.finished:
                taken = await waiting.take(ping)
                if taken is None:
                    await lines.write({})
                elif taken:
                    await lines.write_raw(taken)
        finally:
            running.cancel()
            await asyncio.wait({running})
    return await lines.end()


async def _run(lease: Lease, cell: Cell, waiting: _Waiting) -> None:
    """Outputs that are ready at once do not let anyone else run between them, so that they leave in one write."""
    try:
        async with aclosing(lease.sandbox.run(cell)) as outputs:
            async for output in outputs:
                await waiting.put(dump_line(tell_output(output)))
    except BelljarError as error:
        await waiting.put(_last(error))
    except Exception:  # noqa: BLE001 - the last door of a task
        _log.exception("a cell failed")
        await waiting.put(_last(Lost("the sandbox failed; the server's log says how")))
    finally:
        waiting.finish()


def _last(error: BelljarError) -> bytes:
    return dump_line({"type": "error", "error": tell_error(error)})


class _Waiting:
    """Lines that are on their way from the cell to the client."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._size = 0
        self._done = False
        self._filled = asyncio.Event()
        self._room = asyncio.Event()

    async def put(self, line: bytes) -> None:
        self._lines.append(line)
        self._size += len(line)
        self._filled.set()
        while self._size > _AHEAD:
            self._room.clear()
            await self._room.wait()

    def finish(self) -> None:
        self._done = True
        self._filled.set()

    async def take(self, seconds: float) -> bytes | None:
        """All of them, once there are any or will be none; None after so long without."""
        if not self._filled.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._filled.wait()
            except TimeoutError:
                return None
        self._filled.clear()
        lines, self._lines, self._size = self._lines, [], 0
        self._room.set()
        return b"".join(lines)

    @property
    def finished(self) -> bool:
        return self._done and not self._lines
