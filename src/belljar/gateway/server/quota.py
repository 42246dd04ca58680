"""What each key may still use: requests a minute, responses at once, bytes stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from belljar.errors import OverQuota
from belljar.gateway.server.options import Quota
from belljar.gateway.store.base import Records
from belljar.http_server.request import Refusal
from belljar.wire.faults import Fault

_MINUTE = 60.0


class Quotas:
    """Counted in this process; bytes are asked of the store."""

    def __init__(
        self,
        quota: Quota,
        records: Records,
        clock: Callable[[], float],
        background: Callable[[str], int] = lambda owner: 0,
    ) -> None:
        """`background` tells how many responses of an owner go on without anybody waiting for them."""
        self._quota = quota
        self._records = records
        self._clock = clock
        self._background = background
        self._spent: dict[str, tuple[float, float]] = {}
        """By owner: how many requests of the minute are used up, and when that was so. It drains as time goes by."""
        self._running: dict[str, int] = {}

    def request(self, owner: str) -> None:
        """Count one; `OverQuota` says when there is room again."""
        most = self._quota.requests
        if most is None:
            return
        now = self._clock()
        spent, at = self._spent.get(owner, (0.0, now))
        spent = max(0.0, spent - (now - at) * most / _MINUTE)
        if spent + 1 > most:
            after = (spent + 1 - most) * _MINUTE / most
            raise OverQuota(
                f"Rate limit reached: this key may send {most} requests a minute. Try again in {after:.1f} seconds.",
                after=after,
            )
        self._spent[owner] = (spent + 1, now)

    def response(self, owner: str) -> AbstractContextManager[None]:
        """A response in progress, as long as somebody waits for it."""
        most = self._quota.responses
        return nullcontext() if most is None else self._one_of(most, owner)

    @contextmanager
    def _one_of(self, most: int, owner: str) -> Iterator[None]:
        running = self._running.get(owner, 0)
        if running + self._background(owner) >= most:
            raise OverQuota(
                f"Rate limit reached: this key may have {most} responses in progress. Wait until one is done.",
                after=1.0,
            )
        self._running[owner] = running + 1
        try:
            yield
        finally:
            left = self._running.pop(owner) - 1
            if left:
                self._running[owner] = left

    async def room(self, owner: str) -> int | None:
        """Bytes that may still be stored; None for any number."""
        most = self._quota.bytes
        return None if most is None else max(0, most - await self._records.bytes_of(owner))

    def full(self) -> Refusal:
        """There is no room for what was sent, and waiting makes none."""
        message = (
            f"Storage quota exceeded: this key may store {self._quota.bytes} bytes. Delete files or containers first."
        )
        return Refusal(
            Fault(
                status=429,
                type="insufficient_quota",
                code="insufficient_quota",
                message=message,
                retryable=False,
            )
        )
