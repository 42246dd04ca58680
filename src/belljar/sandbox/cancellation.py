"""Wait for what must be done to its end, though whoever waits is cancelled."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def wait_to_end(task: asyncio.Future[T]) -> None:
    """Return when the task is done, however it ended; a cancellation that came meanwhile goes on from there."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # looked at, so that asyncio does not complain
        raise cancelled
