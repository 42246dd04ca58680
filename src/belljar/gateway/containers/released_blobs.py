"""Blobs that containers name no more: removed as soon as nobody can be about to name them, and not only by the hour."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from time import monotonic

from belljar.gateway.store.base import Blobs, Records
from belljar.gateway.store.blob_names import RECENT


class ReleasedBlobs:
    """Those of this process. One that is forgotten with it is found by the sweep of all blobs."""

    def __init__(self, records: Records, blobs: Blobs) -> None:
        self._records = records
        self._blobs = blobs
        self._waiting: deque[tuple[float, tuple[str, ...]]] = deque()
        """From when on they may go, the earliest first."""

    def add(self, names: Iterable[str]) -> None:
        """What was replaced, deleted or refused; other records may name the same bytes."""
        if some := tuple(dict.fromkeys(names)):
            self._waiting.append((monotonic() + RECENT, some))

    async def remove(self) -> None:
        """Those whose time has come, unless a record names them."""
        due: set[str] = set()
        while self._waiting and self._waiting[0][0] <= monotonic():
            due.update(self._waiting.popleft()[1])
        if due:
            await self._blobs.remove_unused(self._records, due)
