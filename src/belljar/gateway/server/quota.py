"""What each key may still use: requests a minute, responses at once, bytes stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from belljar.errors import OverQuota
from belljar.gateway.server.options import Quota
from belljar.gateway.store.base import Records

_MINUTE = 60.0
_SLICES = 10


class Quotas:
    """Counted in this process, or in slices that the store gives where several gateways share it; bytes by the store.

    Of a minute's requests a gateway takes a tenth at a time, and spends it without asking. So a key never sends more
    than it may; spread over several gateways, it may be refused while the others still have some of their last slice.
    """

    def __init__(
        self,
        quota: Quota,
        records: Records,
        clock: Callable[[], float],
        background: Callable[[str], int] = lambda owner: 0,
        *,
        shared: Callable[[], float] | None = None,
    ) -> None:
        """`background` tells how many responses of an owner go on without anybody waiting for them.

        `shared` is the time by which all gateways of a store go, where there are several.
        """
        self._quota = quota
        self._records = records
        self._clock = clock
        self._background = background
        self._spent: dict[str, tuple[float, float]] = {}
        """By owner: how many requests of the minute are used up, and when that was so. It drains as time goes by."""
        self._running: dict[str, int] = {}
        self._shared = shared
        self._slices: dict[str, tuple[int, int]] = {}
        """By owner: the minute, and how many of the requests taken for it are left."""

    async def count_request(self, owner: str) -> None:
        """Count one; `OverQuota` says when there is room again."""
        most = self._quota.requests
        if most is None:
            return
        if self._shared is None:
            self._count_here(owner, most)
        else:
            await self._spend(owner, most, self._shared())

    async def _spend(self, owner: str, most: int, now: float) -> None:
        minute = int(now // _MINUTE)
        of, left = self._slices.get(owner, (minute, 0))
        if of != minute:
            left = 0
        if not left:
            left = await self._records.spend_requests(owner, minute, max(1, most // _SLICES), most)
        if not left:
            raise _too_many(most, (minute + 1) * _MINUTE - now)
        self._slices[owner] = (minute, left - 1)

    def _count_here(self, owner: str, most: int) -> None:
        now = self._clock()
        spent, at = self._spent.get(owner, (0.0, now))
        spent = max(0.0, spent - (now - at) * most / _MINUTE)
        if spent + 1 > most:
            after = (spent + 1 - most) * _MINUTE / most
            raise _too_many(most, after)
        self._spent[owner] = (spent + 1, now)

    def hold_response(self, owner: str) -> AbstractContextManager[None]:
        """A response in progress, as long as somebody waits for it."""
        most = self._quota.responses
        return nullcontext() if most is None else self._hold_one(most, owner)

    @contextmanager
    def _hold_one(self, most: int, owner: str) -> Iterator[None]:
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

    @property
    def bytes(self) -> int | None:
        """That an owner may store; None for any number."""
        return self._quota.bytes

    async def count_bytes_left(self, owner: str) -> int | None:
        """Bytes that may still be stored; None for any number."""
        most = self._quota.bytes
        return None if most is None else max(0, most - await self._records.bytes_of(owner))


def _too_many(most: int, after: float) -> OverQuota:
    return OverQuota(
        f"Rate limit reached: this key may send {most} requests a minute. Try again in {after:.1f} seconds.",
        after=after,
    )
