"""Summaries that travel with the caller: sealed, so that only this gateway can read them and nobody can change them."""

from __future__ import annotations

import base64
import binascii
import os
from typing import TYPE_CHECKING

from belljar.errors import InvalidRequest
from belljar.gateway.store.base import Records

if TYPE_CHECKING:  # the library takes longer to load than the rest of the engine: only once something is sealed
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_MARK = "bj1."
_NONCE = 12


class Sealer:
    """Authenticated encryption under a key of the store; the owner is part of the seal."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def seal(self, text: str, owner: str) -> str:
        nonce = os.urandom(_NONCE)
        sealed = (await self._cipher()).encrypt(nonce, text.encode(), owner.encode())
        return _MARK + base64.urlsafe_b64encode(nonce + sealed).decode()

    async def open(self, sealed: str, owner: str, *, param: str) -> str:
        """The text; `InvalidRequest` for anything that this gateway did not seal for this owner."""
        from cryptography.exceptions import InvalidTag

        try:
            raw = base64.urlsafe_b64decode(sealed.removeprefix(_MARK).encode("ascii"))
            if not sealed.startswith(_MARK) or len(raw) <= _NONCE:
                raise ValueError
            return (await self._cipher()).decrypt(raw[:_NONCE], raw[_NONCE:], owner.encode()).decode()
        except (InvalidTag, ValueError, binascii.Error, UnicodeError):
            raise InvalidRequest(
                f"Invalid value for '{param}': this compaction was not made here, or was changed. Send the output of"
                " POST /v1/responses/compact back as it came.",
                param=param,
                fault="invalid_encrypted_content",
            ) from None

    async def _cipher(self) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(await self._records.secret("compaction"))
