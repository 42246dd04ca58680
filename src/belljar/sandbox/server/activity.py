"""What is being done for clients at the moment: counted, so that a server that is to stop can wait for it."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Running:
    """`with running:` around a piece of work."""

    def __init__(self) -> None:
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __enter__(self) -> None:
        self._count += 1
        self._idle.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._count -= 1
        if not self._count:
            self._idle.set()

    def __bool__(self) -> bool:
        return bool(self._count)

    async def finish(self, seconds: float | None) -> bool:
        """Wait until nothing is left to do, or for so long; whether nothing is."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True
