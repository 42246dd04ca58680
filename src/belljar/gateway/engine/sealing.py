"""What travels with the caller: sealed, so that only this gateway can read it and nobody can change it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from belljar.errors import InvalidRequest
from belljar.gateway.engine.encryption import decrypt, encrypt
from belljar.gateway.store.base import Records
from belljar.vendors.vendor_tag import OURS, tag

Kind: TypeAlias = Literal["compaction", "reasoning"]
"""Each under a key of its own, so that none is taken for the other."""

_MARKS: Mapping[Kind, str] = MappingProxyType({"compaction": "bj2.", "reasoning": tag(OURS, "")})
_REMEDIES: Mapping[Kind, str] = MappingProxyType(
    {
        "compaction": "Send the output of POST /v1/responses/compact back as it came.",
        "reasoning": "Send the item back as it came, or leave it out.",
    }
)
_EARLIER = "bj1."
"""Summaries of version 0.1, which are AES-GCM of a library that is no dependency any more."""


class Sealer:
    """Authenticated encryption under a key of the store; the owner is part of the seal."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def seal(self, text: str, owner: str) -> str:
        """A summary of what was said."""
        return _seal_text(await self._get_key("compaction"), "compaction", text, owner)

    async def make_thought_sealer(self, owner: str) -> Callable[[str], str]:
        """How reasoning is sealed for this owner: a function without I/O, as it is called in the middle of a stream."""
        key = await self._get_key("reasoning")
        return lambda text: _seal_text(key, "reasoning", text, owner)

    async def open(self, sealed: str, owner: str, *, param: str, kind: Kind = "compaction") -> str:
        """The text; `InvalidRequest` for anything that this gateway did not seal for this owner."""
        key = await self._get_key(kind)
        try:
            if kind == "compaction" and sealed.startswith(_EARLIER):
                return _open_earlier(key, _decode_text(sealed, _EARLIER), owner)
            return decrypt(key, _decode_text(sealed, _MARKS[kind]), bound=owner.encode()).decode()
        except ImportError:
            why = (
                "this compaction was made by an earlier version of the gateway. Compact the conversation again, or have"
                " the operator install what reads it: pip install cryptography"
            )
        except ValueError:
            why = f"this {kind} was not made here, or was changed. {_REMEDIES[kind]}"
        raise InvalidRequest(f"Invalid value for '{param}': {why}", param=param, fault="invalid_encrypted_content")

    async def _get_key(self, kind: Kind) -> bytes:
        return await self._records.secret(kind)


def _seal_text(key: bytes, kind: Kind, text: str, owner: str) -> str:
    sealed = encrypt(key, text.encode(errors="replace"), bound=owner.encode())
    return _MARKS[kind] + base64.urlsafe_b64encode(sealed).decode()


def _decode_text(sealed: str, mark: str) -> bytes:
    """The bytes after the mark; `ValueError` where it is another, or they are none."""
    if not sealed.startswith(mark):
        raise ValueError(f"not marked {mark}")
    return base64.b64decode(sealed[len(mark) :].encode("ascii"), altchars=b"-_", validate=True)


def _open_earlier(key: bytes, sealed: bytes, owner: str) -> str:
    """`ImportError` where nothing is installed that can; whoever upgrades in place still has it."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(sealed[:12], sealed[12:], owner.encode()).decode()
    except InvalidTag:
        raise ValueError("not what was sealed") from None
