"""Seals: opened by whoever made them for the same owner, and by nobody else; nothing of the text is in sight."""

import asyncio
import base64
import os
import sys

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from belljar.errors import InvalidRequest
from belljar.gateway.engine.encryption import decrypt, encrypt
from belljar.gateway.engine.sealing import Kind, Sealer
from belljar.gateway.store.base import Records

KEY = bytes(range(32))
TEXT = "They spoke of Paris. 🗼"


class Kept:
    """As much of a store as a sealer asks for."""

    def __init__(self) -> None:
        self.keys: dict[str, bytes] = {}

    async def secret(self, name: str) -> bytes:
        return self.keys.setdefault(name, os.urandom(32))


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def sealer(kept: Records) -> Sealer:
    return Sealer(kept)


def opened(sealer: Sealer, sealed: str, owner: str = "ada", *, kind: Kind = "compaction") -> str:
    return asyncio.run(sealer.open(sealed, owner, param="input[0].encrypted_content", kind=kind))


# -- bytes ------------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=200), st.binary(max_size=40))
def test_what_is_encrypted_comes_back(data: bytes, bound: bytes) -> None:
    assert decrypt(KEY, encrypt(KEY, data, bound=bound), bound=bound) == data


@given(st.binary(min_size=1, max_size=100), st.data())
def test_a_bit_that_is_changed_is_found(data: bytes, choose: st.DataObject) -> None:
    sealed = bytearray(encrypt(KEY, data, bound=b"ada"))
    sealed[choose.draw(st.integers(0, len(sealed) - 1))] ^= 1 << choose.draw(st.integers(0, 7))
    with pytest.raises(ValueError, match="not what was sealed"):
        decrypt(KEY, bytes(sealed), bound=b"ada")


@given(st.binary(max_size=60), st.integers(0, 120))
def test_one_that_is_cut_is_found(data: bytes, length: int) -> None:
    sealed = encrypt(KEY, data, bound=b"ada")
    with pytest.raises(ValueError, match="not what was sealed"):
        decrypt(KEY, sealed[: min(length, len(sealed) - 1)], bound=b"ada")


@pytest.mark.parametrize(("key", "bound"), [(KEY[::-1], b"ada"), (KEY, b"bob"), (KEY, b""), (KEY, b"ad")])
def test_another_key_or_owner_opens_nothing(key: bytes, bound: bytes) -> None:
    with pytest.raises(ValueError, match="not what was sealed"):
        decrypt(key, encrypt(KEY, b"a secret", bound=b"ada"), bound=bound)


def test_nothing_moves_between_the_owner_and_the_rest() -> None:
    """Whose names run into each other are told apart."""
    sealed = encrypt(KEY, b"text", bound=b"ada")
    for bound, given_ in ((b"ada" + sealed[:1], sealed[1:]), (b"ad", b"a" + sealed)):
        with pytest.raises(ValueError, match="not what was sealed"):
            decrypt(KEY, given_, bound=bound)


def test_the_same_twice_has_nothing_in_common() -> None:
    data = bytes(1000)
    first, second = (encrypt(KEY, data, bound=b"") for _ in range(2))
    assert data[:20] not in first
    assert sum(a == b for a, b in zip(first, second, strict=True)) < 50
    assert len(first) == len(data) + 48


# -- as callers carry them --------------------------------------------------------------------------------------------


def test_a_summary_and_reasoning_come_back(sealer: Sealer) -> None:
    summary = asyncio.run(sealer.seal(TEXT, "ada"))
    thought = asyncio.run(sealer.make_thought_sealer("ada"))(TEXT)
    assert (opened(sealer, summary), opened(sealer, thought, kind="reasoning")) == (TEXT, TEXT)
    assert b"Paris" not in base64.urlsafe_b64decode(summary.removeprefix("bj2."))
    assert opened(sealer, asyncio.run(sealer.seal("", "ada"))) == ""


@pytest.mark.parametrize(
    "given_", ["", "bj2.", "bj2.%%%%", "bj2.AAAA", "bj1.AAAA", "bj1.", "bj2.é", "belljar:AAAA", "x"]
)
def test_what_is_no_seal_is_refused(sealer: Sealer, given_: str) -> None:
    for kind in ("compaction", "reasoning"):
        with pytest.raises(InvalidRequest, match="was not made here, or was changed") as caught:
            opened(sealer, given_, kind=kind)
        assert (caught.value.param, caught.value.fault) == ("input[0].encrypted_content", "invalid_encrypted_content")


def test_signs_between_are_no_seal(sealer: Sealer) -> None:
    summary = asyncio.run(sealer.seal(TEXT, "ada"))
    for changed in (summary + "\n", summary[:20] + " " + summary[20:], summary + "AAAA", summary[:-4]):
        with pytest.raises(InvalidRequest):
            opened(sealer, changed)


# -- seals of version 0.1 ---------------------------------------------------------------------------------------------


def earlier(kept: Kept, text: str, owner: str) -> str:
    """As that version made it."""
    nonce = os.urandom(12)
    sealed = AESGCM(asyncio.run(kept.secret("compaction"))).encrypt(nonce, text.encode(), owner.encode())
    return "bj1." + base64.urlsafe_b64encode(nonce + sealed).decode()


def test_an_earlier_seal_is_read_where_its_library_is_installed(sealer: Sealer, kept: Kept) -> None:
    sealed = earlier(kept, TEXT, "ada")
    assert opened(sealer, sealed) == TEXT
    for owner, given_ in (("bob", sealed), ("ada", sealed[:-8] + "AAAAAAA=")):
        with pytest.raises(InvalidRequest, match="was not made here, or was changed"):
            opened(sealer, given_, owner)


def test_an_earlier_seal_says_so_where_it_cannot_be_read(
    sealer: Sealer, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = earlier(kept, TEXT, "ada")
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(InvalidRequest, match=r"an earlier version .* again, or .*pip install cryptography") as caught:
        opened(sealer, sealed)
    assert caught.value.fault == "invalid_encrypted_content"
