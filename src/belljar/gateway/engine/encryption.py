"""Encrypt and authenticate bytes with the standard library alone: a keystream of SHAKE-256 under HMAC-SHA256. Pure.

Encrypt-then-MAC in its textbook form (docs/decisions/0023): each message has a random nonce, which makes a keystream of
its own; the tag is over all of it and checked, in constant time, before anything is decrypted. Encryption and tag have
keys of their own, derived from the one that is given, which may then be used elsewhere for something else.
"""

from __future__ import annotations

import hashlib
import hmac
import os

_NONCE = 16
"""Bytes at random: 2^64 messages under a key before two are likely to share one, which would betray both."""
_TAG = 32


def encrypt(key: bytes, data: bytes, *, bound: bytes) -> bytes:
    """Nonce, tag and ciphertext; `bound` is not part of it, and must be the same to open it."""
    nonce = os.urandom(_NONCE)
    hidden = _mix(key, nonce, data)
    return nonce + _tag(key, nonce, hidden, bound) + hidden


def decrypt(key: bytes, sealed: bytes, *, bound: bytes) -> bytes:
    """The data; `ValueError` for anything that was not made with this key and bound to this."""
    nonce, tag, hidden = sealed[:_NONCE], sealed[_NONCE : _NONCE + _TAG], sealed[_NONCE + _TAG :]
    if not hmac.compare_digest(tag, _tag(key, nonce, hidden, bound)):
        raise ValueError("not what was sealed")
    return _mix(key, nonce, hidden)


def _mix(key: bytes, nonce: bytes, data: bytes) -> bytes:
    """Data and keystream, one upon the other; its own inverse."""
    stream = hashlib.shake_256(_derive(key, b"encrypt") + nonce).digest(len(data))
    # As two large numbers: byte by byte it would take 50 times as long.
    return (int.from_bytes(data) ^ int.from_bytes(stream)).to_bytes(len(data))


def _tag(key: bytes, nonce: bytes, hidden: bytes, bound: bytes) -> bytes:
    # Its length goes first, so that nothing can move between what it is bound to and the rest.
    said = b"".join((len(bound).to_bytes(8), bound, nonce, hidden))
    return hmac.digest(_derive(key, b"authenticate"), said, "sha256")


def _derive(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"belljar seal 2: " + purpose, "sha256")
