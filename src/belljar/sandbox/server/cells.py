"""Cells: their outputs as lines, as they come, and no faster than the client reads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from belljar.errors import BelljarError, Lost
from belljar.http_server.reply import Stream
from belljar.sandbox.base import MIB, Cell
from belljar.sandbox.codec import encode_line, encode_output
from belljar.sandbox.server.leases import Access
from belljar.sandbox.server.lines import stream_lines
from belljar.sandbox.server.wording import encode_fault
from belljar.wire.faults import Fault

_AHEAD = MIB
"""Bytes that a cell may be ahead of its reader, before what we hand to the kernel."""

_log = logging.getLogger("belljar.sandbox.server")
_SOON = 0.002
"""Seconds after which a cell that says nothing is told to have begun. Most end sooner: all of it is one write then."""


def stream_cell(access: Access, cell: Cell, *, ping: float) -> Stream:
    """Run it to its end; a client that leaves interrupts it, and one that takes the sandbox over."""
    return stream_lines(_run(access, cell), ping=ping, trouble=_encode_trouble)


async def _run(access: Access, cell: Cell) -> AsyncGenerator[bytes, None]:
    waiting = _Waiting()
    running = asyncio.create_task(_feed(access, cell, waiting))
    soon = asyncio.get_running_loop().call_later(_SOON, waiting.wake)
    try:
        yield await waiting.take()
        while not waiting.finished:
            yield await waiting.take()
        await running
    finally:
        soon.cancel()
        if not running.done():
            running.cancel()
            await asyncio.wait({running})


async def _feed(access: Access, cell: Cell, waiting: _Waiting) -> None:
    """Outputs that are ready at once do not let anyone else run between them, so that they leave in one write.

    The sandbox is in use until the cell has ended, however slow its client reads.
    """
    try:
        with access.used():
            async with aclosing(access.sandbox.run(cell)) as outputs:
                async for output in outputs:
                    await waiting.put(encode_line(encode_output(output)))
    except BelljarError:
        raise
    except Exception as error:
        _log.exception("a cell failed")
        raise Lost("the sandbox failed; the server's log says how") from error
    finally:
        waiting.finish()


def _encode_trouble(fault: Fault) -> bytes:
    return encode_line({"type": "error", "error": encode_fault(fault)})


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

    def wake(self) -> None:
        """Let the client know that it will hear of them."""
        self._filled.set()

    def finish(self) -> None:
        self._done = True
        self._filled.set()

    async def take(self) -> bytes:
        """All of them, once there are any or will be none."""
        await self._filled.wait()
        self._filled.clear()
        lines, self._lines, self._size = self._lines, [], 0
        self._room.set()
        return b"".join(lines)

    @property
    def finished(self) -> bool:
        return self._done and not self._lines
