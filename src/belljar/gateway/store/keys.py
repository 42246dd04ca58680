"""Callers' keys: made once, kept as digests, looked up for every request."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from belljar.errors import OperatorError
from belljar.gateway.store.base import KeyRecord, Records
from belljar.wire import ids

LOCAL = "local"
"""The owner of everything where no keys are asked for."""
FRESH = 1.0
"""Seconds for which the table of keys is trusted: so long a new key may be unknown and a revoked one be good."""
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
    """The keys that are good now. Other processes add and revoke, so the table is read again every second."""

    def __init__(self, records: Records, *, clock: Callable[[], float] = time.time) -> None:
        self._records = records
        self._clock = clock
        self._table: Mapping[str, KeyRecord] = MappingProxyType({})
        self._read_at = float("-inf")

    async def check(self, plain: str) -> KeyRecord | None:
        """The record of this key, whose `id` is the owner of what its holder makes; None if it is not good."""
        if not _KEY.fullmatch(plain):
            return None
        now = self._clock()
        if not 0 <= now - self._read_at < FRESH:
            self._table = {key.digest: key for key in await self._records.keys() if key.revoked_at is None}
            self._read_at = now
        # How long this takes tells at most how much of a digest was right, from which nothing follows about a key.
        found = self._table.get(digest(plain))
        if found is not None and now - (found.last_used_at or 0) >= USED:
            await self._note(found, int(now))
        return found

    async def _note(self, key: KeyRecord, now: int) -> None:
        used = replace(key, last_used_at=now)
        self._table = {**self._table, key.digest: used}  # first, so that requests of the same moment write it once
        try:
            await self._records.put_key(used)
        except OperatorError:
            pass  # worth less than the answer to the caller, who may only want to read
