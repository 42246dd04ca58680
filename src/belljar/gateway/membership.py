"""This gateway among those that share its store: its id, its heartbeat, and the time that all of them go by.

A gateway that was silent for longer than it said is taken for dead by the others, and what it held is theirs. It may
only have been stopped for a while. So it judges itself first, and more strictly, by a clock that nobody can set: past
`SUSPECT` of its time it is suspended, begins nothing and acknowledges nothing, and it comes back under a new id, which
holds nothing. What it does all the same under the old one, the store refuses (`Fenced`): safety rests on that alone.

| state     | event                                  | what happens                                     | next      |
|-----------|----------------------------------------|--------------------------------------------------|-----------|
| joined    | a beat is kept in time                 | the store's time is taken over                   | joined    |
| joined    | no beat was kept for too long          | nothing is begun; `lost` is told what it held     | suspended |
| joined    | the store says that it is taken for dead | the same                                       | suspended |
| suspended | a beat under a new id is kept          |                                                  | joined    |
| any       | leave                                  | its row goes, and what it held is anybody's      | left      |
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from belljar.errors import BelljarError, StoreUnavailable
from belljar.gateway.store.base import GatewayRecord, Records
from belljar.wire import ids

LIFE = 6.0
"""Seconds after its last beat at which a gateway is taken for dead."""
SUSPECT = LIFE - 1.0
"""Seconds after the beginning of its last beat at which it holds itself suspended: the others wait for longer."""
_ALONE = 100 * 365 * 86_400.0
"""Seconds for which the only gateway of a store lives: whoever comes after it has the lock of the directory."""
_log = logging.getLogger("belljar.gateway")


class Membership:
    """One gateway's place among the others. `id` names it, and is another after a suspension."""

    def __init__(
        self,
        records: Records,
        *,
        address: str = "",
        alone: bool = True,
        version: str = "",
        life: float = LIFE,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`alone` says that nobody else has this store: then nothing beats, and those before are forgotten."""
        self.id = ids.new("gw")
        self.alone = alone
        self._records = records
        self._address = address
        self._version = version
        self._life = _ALONE if alone else life
        self._suspect = life * SUSPECT / LIFE
        self._monotonic = monotonic
        self._beaten_at = float("-inf")
        """By our clock: when the last beat that was kept began."""
        self._store_time = (0.0, 0.0)
        """The store's time, and ours at that moment."""
        self._lost: list[Callable[[], Awaitable[None]]] = []

    @property
    def address(self) -> str:
        return self._address

    @property
    def suspended(self) -> bool:
        return not self.alone and self._monotonic() - self._beaten_at >= self._suspect

    def check(self) -> None:
        """Before something is begun or acknowledged: `StoreUnavailable` while others may take this one for dead."""
        if self.suspended:
            raise StoreUnavailable(
                "the store has not answered this gateway for a while; try again in a moment", after=1.0
            )

    def now(self) -> float:
        """The store's time, as far as it can be told without asking: no two gateways differ by more than an answer."""
        if self.alone:
            return time.time()
        store, ours = self._store_time
        return store + self._monotonic() - ours

    async def find(self, gateway_id: str) -> GatewayRecord | None:
        """Another gateway, if it lives."""
        if self.alone or gateway_id == self.id:
            return None
        return next((one for one in await self._records.get_gateways() if one.id == gateway_id), None)

    def on_loss(self, act: Callable[[], Awaitable[None]]) -> None:
        """Have this done whenever what is held here is no longer ours."""
        self._lost.append(act)

    async def join(self) -> None:
        """Be there for the others. The only one of a store forgets those before it: they ended, however."""
        if self.alone:
            for before in await self._records.get_gateways():
                await self._records.leave(before.id)
        await self._beat()

    async def keep_beating(self) -> None:
        """Until cancelled; a store that does not answer is asked again and again."""
        while not self.alone:
            await asyncio.sleep(self._life / 3)
            await self.beat()

    async def beat(self) -> None:
        """Once: suspend, or come back, if need be."""
        try:
            if self.suspended:
                await self._return()
            elif not await self._beat():
                self._beaten_at = float("-inf")
                await self._return()
        except BelljarError as error:
            _log.warning("this gateway's heartbeat was not kept: %s", error)

    async def leave(self) -> None:
        """The end: as far as the store can still be told."""
        with suppress(BelljarError):
            await self._records.leave(self.id)

    async def _beat(self) -> bool:
        began = self._monotonic()
        record = GatewayRecord(id=self.id, address=self._address, version=self._version)
        store = await self._records.beat(record, self._life)
        if store is None:
            return False
        self._store_time = (store, began)
        self._beaten_at = began
        return True

    async def _return(self) -> None:
        """Under a new id; what was held under the old one is given up first."""
        _log.error("gateway %s was silent for too long, and gives up what it held", self.id)
        for act in self._lost:
            try:
                await act()
            except Exception:  # noqa: BLE001 - the others have to be told as well
                _log.exception("giving up failed")
        with suppress(BelljarError):
            await self._records.leave(self.id)
        self.id = ids.new("gw")
        if await self._beat():
            _log.warning("this gateway is back as %s", self.id)
