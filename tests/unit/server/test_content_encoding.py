"""Packed bodies are read as if they were plain, and no more of a bomb is unpacked than is read anyway."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.server.conftest import FORM, Gateway, Opened, form

from belljar.errors import InvalidRequest
from belljar.http_server import content_encoding

OK = b'{"model": "m", "input": "hi"}'
GZIP = {"content-encoding": "gzip", "content-type": "application/json"}


PACKERS = {"gzip": "gzip", "zstd": "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"}


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("spelled", [str.lower, str.upper, " {} ".format])
def test_a_packed_body_is_read(gateway: Gateway, name: str, spelled: Callable[[str], str]) -> None:
    packer: Any = import_module(PACKERS[name])
    answer = gateway.ask("POST", "/v1/responses", packer.compress(OK), {**GZIP, "content-encoding": spelled(name)})
    assert (answer.status, gateway.rooms.engine.asked[-1].model) == (200, "m")


def test_an_upload_may_be_packed_too(gateway: Gateway) -> None:
    parts = form(('name="purpose"', b"user_data"), ('name="file"; filename="a.txt"', b"a" * 5000))
    answer = gateway.ask("POST", "/v1/files", gzip.compress(parts), {**FORM, "content-encoding": "gzip"})
    assert (answer.status, answer.json["bytes"]) == (200, 5000)


PACKED = gzip.compress(OK)
BROKEN = {
    "nothing": b"",
    "no gzip": b"x",
    "plain": OK,
    "cut": PACKED[:-1],
    "without its sum": PACKED[:-8],
    "more after it": PACKED + b"more",
    "of nothing": gzip.compress(b""),
}


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_not_packed_as_it_says_is_the_callers_fault(gateway: Gateway, how: str) -> None:
    answer = gateway.ask("POST", "/v1/responses", BROKEN[how], GZIP)
    assert answer.status == 400
    assert "not valid gzip" in answer.error["message"] or "is empty" in answer.error["message"]


@pytest.mark.parametrize("name", PACKERS)
def test_a_bomb_is_too_large(opened: Opened, name: str) -> None:
    gateway = opened(largest_body=1 << 20)
    packer: Any = import_module(PACKERS[name])
    bomb = packer.compress(json.dumps({"model": "m", "input": "a" * (64 << 20)}).encode())
    assert len(bomb) < 1 << 20
    answer = gateway.ask("POST", "/v1/responses", bomb, {**GZIP, "content-encoding": name})
    assert (answer.status, answer.error["code"]) == (413, None)


@pytest.mark.parametrize("name", PACKERS)
def test_a_piece_is_never_larger_than_it_may_be(name: str) -> None:
    unpacker = content_encoding.unpacker(name)
    assert unpacker is not None
    packer: Any = import_module(PACKERS[name])
    pieces = [unpacker.feed(packer.compress(b"a" * (5 * content_encoding.PIECE)))]
    while unpacker.waiting:
        pieces.append(unpacker.feed(b""))
    assert max(map(len, pieces)) == content_encoding.PIECE
    assert sum(map(len, pieces)) == 5 * content_encoding.PIECE
    assert unpacker.over


@pytest.mark.parametrize("name", PACKERS)
@given(data=st.binary(), size=st.integers(1, 7))
def test_any_bytes_in_any_pieces(name: str, data: bytes, size: int) -> None:
    packer: Any = import_module(PACKERS[name])
    sent, unpacker, found = packer.compress(data), content_encoding.unpacker(name), b""
    assert unpacker is not None
    for at in range(0, len(sent), size):
        found += unpacker.feed(sent[at : at + size])
    assert (found, unpacker.over) == (data, True)


@pytest.mark.parametrize("name", PACKERS)
@given(data=st.binary(min_size=1))
def test_any_garbage_is_refused_or_not_over(name: str, data: bytes) -> None:
    unpacker = content_encoding.unpacker(name)
    assert unpacker is not None
    try:
        unpacker.feed(data)
    except InvalidRequest:
        return
    assert not unpacker.over
