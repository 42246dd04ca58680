"""What each key may still use: requests a minute, responses at once, bytes stored."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Protocol

from belljar.errors import BelljarError, OverQuota, StoreUnavailable
from belljar.gateway.server.options import Quota
from belljar.gateway.store.base import Records

_MINUTE = 60.0
_SLICES = 10
_SETTLE = 0.1
"""Seconds after which a response is tried again before it is refused: its place comes back one commit after the last
event of the one before, and whoever has read that may be quicker."""
_AGAIN = 1.0
"""Seconds between two tries to give a place back to a store that does not answer, and for which one is waited for."""


class Member(Protocol):
    """A gateway among those that share its store."""

    id: str

    def now(self) -> float:
        """The time by which all of them go."""
        ...


class Quotas:
    """Counted in this process, or by the store where several gateways share it.

    Of a minute's requests a gateway takes a tenth at a time, and spends it without asking. So a key never sends more
    than it may; spread over several gateways, it may be refused while the others still have some of their last slice.
    Of responses at once it takes one place after the other; those of a gateway that died are free once it is known to.
    """

    def __init__(
        self,
        quota: Quota,
        records: Records,
        clock: Callable[[], float],
        *,
        shared: Member | None = None,
    ) -> None:
        """`shared` is this gateway where it may be one of several."""
        self._quota = quota
        self._records = records
        self._clock = clock
        self._spent: dict[str, tuple[float, float]] = {}
        """By owner: how many requests of the minute are used up, and when that was so. It drains as time goes by."""
        self._running: dict[str, int] = {}
        self._giving: set[asyncio.Task[None]] = set()
        """Places on their way back."""
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
            await self._spend(owner, most, self._shared.now())

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

    def hold_response(self, owner: str) -> AbstractAsyncContextManager[None]:
        """A response in progress; `OverQuota` where its owner has as many as there may be."""
        most = self._quota.responses
        if most is None:
            return nullcontext()
        return self._hold_here(most, owner) if self._shared is None else self._hold_place(most, owner, self._shared.id)

    @asynccontextmanager
    async def _hold_here(self, most: int, owner: str) -> AsyncIterator[None]:
        running = self._running.get(owner, 0)
        if running >= most:
            raise _too_many_at_once(most)
        self._running[owner] = running + 1
        try:
            yield
        finally:
            left = self._running.pop(owner) - 1
            if left:
                self._running[owner] = left

    @asynccontextmanager
    async def _hold_place(self, most: int, owner: str, gateway_id: str) -> AsyncIterator[None]:
        place = secrets.token_hex(8)
        taken: bool | None = None
        """None as long as it is not known."""

        def take() -> asyncio.Task[bool]:
            return asyncio.create_task(self._records.take_place(owner, place, gateway_id, most))

        taking = take()
        try:
            taken = await asyncio.shield(taking)
            if not taken:
                await asyncio.sleep(_SETTLE)
                taking, taken = take(), None
                taken = await asyncio.shield(taking)
            if not taken:
                raise _too_many_at_once(most)
            yield
        finally:
            if taken is not False:
                giving = asyncio.create_task(self._give(owner, place, taking))
                self._giving.add(giving)
                giving.add_done_callback(self._giving.discard)
                await asyncio.wait({giving}, timeout=_AGAIN)

    async def _give(self, owner: str, place: str, taking: asyncio.Task[bool]) -> None:
        """Give it back, also one whose caller went away while it was asked for."""
        await asyncio.wait({taking})
        while True:
            try:
                return await self._records.give_place(owner, place)
            except StoreUnavailable:
                await asyncio.sleep(_AGAIN)
            except BelljarError:  # the store is closed, and what this gateway had is free
                return None

    @property
    def bytes(self) -> int | None:
        """That an owner may store; None for any number."""
        return self._quota.bytes

    async def count_bytes_left(self, owner: str) -> int | None:
        """Bytes that may still be stored; None for any number."""
        most = self._quota.bytes
        return None if most is None else max(0, most - await self._records.bytes_of(owner))


def _too_many_at_once(most: int) -> OverQuota:
    return OverQuota(
        f"Rate limit reached: this key may have {most} responses in progress. Wait until one is done.", after=1.0
    )


def _too_many(most: int, after: float) -> OverQuota:
    return OverQuota(
        f"Rate limit reached: this key may send {most} requests a minute. Try again in {after:.1f} seconds.",
        after=after,
    )
