"""Callers' keys: made once, kept as digests, looked up for every request."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec.structs import replace

from belljar.errors import OperatorError
from belljar.gateway.store.base import KeyRecord, Records
from belljar.wire import ids

LOCAL = "local"
"""The owner of everything where no keys are asked for."""
FRESH = 1.0
"""Seconds for which what was found is trusted: so long a new key may be unknown and a revoked one be good."""
_MOST = 10_000
"""Keys that are remembered, good or not."""
USED = 60
"""Seconds between two notes of when a key was last used."""
_KEY = re.compile(r"bj-[A-Za-z0-9_-]{43}")


def new_key(name: str) -> tuple[str, KeyRecord]:
    """The key to tell its holder, once, and what is kept of it."""
    plain = f"bj-{secrets.token_urlsafe(32)}"
    return plain, KeyRecord(
        id=ids.new("key"), name=name, digest=digest(plain), shown=plain[-4:], created_at=int(time.time())
    )


def digest(plain: str) -> str:
    # Plain SHA-256: slow hashes make up for passwords that can be guessed, and nobody guesses 256 random bits.
    return hashlib.sha256(plain.encode()).hexdigest()


class Keyring:
    """The keys that are good now. Other processes add and revoke, so each is looked up again after a second."""

    def __init__(self, records: Records, *, clock: Callable[[], float] = time.time) -> None:
        self._records = records
        self._clock = clock
        self._seen: OrderedDict[str, tuple[float, KeyRecord | None]] = OrderedDict()
        """By digest: when it was looked up, and what was found."""
        self._needed = False
        self._looked_at = float("-inf")
        self._asking: dict[str, asyncio.Future[None]] = {}

    async def is_needed(self) -> bool:
        """Whether requests need a key: from the first one on that was ever made, for whoever shares this store.

        The last one revoked opens no door.
        """
        now = self._clock()
        if not self._needed and not 0 <= now - self._looked_at < FRESH:
            self._looked_at = now
            self._needed = bool(await self._records.keys())
        return self._needed

    async def check(self, plain: str) -> KeyRecord | None:
        """The record of this key, whose `id` is the owner of what its holder makes; None if it is not good."""
        if not _KEY.fullmatch(plain):
            return None
        now = self._clock()
        # How long this takes tells at most how much of a digest was right, from which nothing follows about a key.
        found = await self._find(digest(plain), now)
        if found is not None and now - (found.last_used_at or 0) >= USED:
            await self._note(found, int(now))
        return found

    async def _find(self, digest: str, now: float) -> KeyRecord | None:
        read_at, found = self._seen.get(digest, (float("-inf"), None))
        if 0 <= now - read_at < FRESH:
            return found
        asking = self._asking.get(digest)
        if asking is None:  # requests of the same moment ask once
            asking = self._asking[digest] = asyncio.ensure_future(self._ask(digest, now))
            asking.add_done_callback(lambda _: self._asking.pop(digest, None))
        await asyncio.shield(asking)
        return self._seen[digest][1] if digest in self._seen else None

    async def _ask(self, digest: str, now: float) -> None:
        found = await self._records.get_key(digest)
        self._remember(digest, now, None if found is None or found.revoked_at is not None else found)

    def _remember(self, digest: str, now: float, found: KeyRecord | None) -> None:
        self._seen[digest] = (now, found)
        self._seen.move_to_end(digest)
        if len(self._seen) > _MOST:
            self._seen.popitem(last=False)

    async def _note(self, key: KeyRecord, now: int) -> None:
        used = replace(key, last_used_at=now)
        self._remember(key.digest, now, used)  # first, so that requests of the same moment write it once
        try:
            await self._records.put_key(used)
        except OperatorError:
            pass  # worth less than the answer to the caller, who may only want to read
