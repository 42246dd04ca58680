"""Work that is tied to its client: when the client goes away, the work is called off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from belljar.http_server.request import Gone

_SOON = 0.05
"""Seconds before anybody watches: most work is done by then, and a task costs more than the rest of a request."""


class CancelOnDisconnect:
    """Inside, `watch` runs beside the work; when it returns, the work is cancelled and `Gone` raised in its place."""

    def __init__(self, watch: Callable[[], Awaitable[None]], *, after: float = _SOON) -> None:
        self._watch = watch
        self._after = after
        self._watcher: asyncio.Task[None] | None = None
        self._gone = False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._start = asyncio.get_running_loop().call_later(self._after, self._begin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._start.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if self._gone and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise Gone from None

    def _begin(self) -> None:
        self._watcher = asyncio.create_task(self._until())

    async def _until(self) -> None:
        await self._watch()
        self._gone = True
        self._task.cancel()
