"""The frames between host and guest: any split gives the same, any bytes give frames or `Malformed`, nothing grows."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.sandbox.guest import frames

KINDS = sorted(frames.KINDS)
FRAMES = st.lists(st.tuples(st.sampled_from(KINDS), st.binary(max_size=200)), max_size=8)


def paired(text: str) -> str:
    """Two surrogates that belong together are one character to JSON."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


ANY_TEXT = st.text(st.one_of(st.characters(), st.characters(categories=["Cs"])), max_size=30).map(paired)
"""Any code point, lone surrogates among them."""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)
MIME = st.sampled_from(["text/plain", "text/html", "image/png", "application/json", "x/y", ""]) | ANY_TEXT
BUNDLES = st.dictionaries(MIME, ANY_TEXT | st.binary(max_size=300), max_size=5)


def split(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


def decode(chunks: Iterable[bytes], **options: int) -> list[tuple[int, bytes]]:
    decoder = frames.FrameDecoder(**options)
    return [frame for chunk in chunks for frame in decoder.feed(chunk)]


def decode_until_malformed(chunks: Iterable[bytes], **options: int) -> tuple[list[tuple[int, bytes]], bool]:
    decoder, seen = frames.FrameDecoder(**options), []
    try:
        for chunk in chunks:
            for frame in decoder.feed(chunk):
                seen.append(frame)
    except frames.Malformed:
        return seen, True
    return seen, False


@given(FRAMES, st.lists(st.integers(min_value=0), max_size=20))
def test_any_split_gives_the_same_frames(sent: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = b"".join(frames.encode(kind, payload) for kind, payload in sent)
    assert decode(split(data, cuts)) == sent
    assert decode([data]) == sent
    assert decode([bytes([byte]) for byte in data]) == sent


@given(FRAMES, st.binary(max_size=300), st.lists(st.integers(min_value=0), max_size=20))
def test_any_bytes_give_frames_or_malformed_however_they_are_split(
    good: list[tuple[int, bytes]], noise: bytes, cuts: list[int]
) -> None:
    data = b"".join(frames.encode(kind, payload) for kind, payload in good) + noise
    whole = decode_until_malformed([data])
    assert whole[0][: len(good)] == good
    assert decode_until_malformed(split(data, cuts)) == whole
    for kind, payload in whole[0]:
        for read in (frames.decode_json, frames.decode_bundle, frames.decode_text):
            try:
                assert isinstance(read(payload), dict | tuple)
            except frames.Malformed:
                pass
        assert kind in frames.KINDS


@given(st.binary(max_size=64), st.integers(0, 40))
def test_the_buffer_is_never_larger_than_a_frame(data: bytes, most: int) -> None:
    decoder = frames.FrameDecoder(max_payload=most)
    try:
        for byte in data * 20:
            for _, payload in decoder.feed(bytes([byte])):
                assert len(payload) <= most
            assert len(decoder._buffer) <= most + 5
    except frames.Malformed:
        pass


@pytest.mark.parametrize("length", [frames.MAX_PAYLOAD + 1, 2**31, 2**32 - 1])
def test_a_frame_that_is_too_large_is_refused_by_its_header(length: int) -> None:
    with pytest.raises(frames.Malformed, match=f"frame of {length} bytes"):
        decode([struct.pack("<IB", length, frames.DISPLAY)])


@pytest.mark.parametrize("kind", sorted(set(range(256)) - frames.KINDS))
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(frames.Malformed, match=f"unknown frame kind {kind}"):
        decode([struct.pack("<IB", 0, kind)])


@given(st.dictionaries(ANY_TEXT, JSON, max_size=5), st.sampled_from(KINDS))
def test_json_comes_back_as_it_was(value: dict[str, object], kind: int) -> None:
    [(found, payload)] = decode([frames.encode_json(kind, value)])
    assert (found, frames.decode_json(payload)) == (kind, value)


@pytest.mark.parametrize("text", ["\ud800", "a\udcffb", "\udbff\udc00", "𝄞", "\0", "\u2028", "ä" * 100_000])
def test_odd_text_survives(text: str) -> None:
    [(_, payload)] = decode([frames.encode_json(frames.DONE, {"note": text})])
    assert frames.decode_json(payload)["note"] == paired(text)
    [(_, payload)] = decode([frames.encode_text(frames.RUN, 7, text)])
    assert frames.decode_text(payload) == (7, text)


@given(st.integers(0, 2**32 - 1), ANY_TEXT, st.sampled_from([frames.RUN, frames.OK, frames.PATHS]))
def test_texts_come_back_as_they_were(number: int, text: str, kind: int) -> None:
    [(found, payload)] = decode([frames.encode_text(kind, number, text)])
    assert (found, frames.decode_text(payload)) == (kind, (number, text))


@pytest.mark.parametrize("payload", [b"", b"\0\0\0", b"\0\0\0\0\xff", b"\0\0\0\0\xed\xa0", b"\0\0\0\0\xf4\x90\x80\x80"])
def test_what_is_no_text_is_malformed(payload: bytes) -> None:
    with pytest.raises(frames.Malformed):
        frames.decode_text(payload)


@given(BUNDLES, st.sampled_from([frames.DISPLAY, frames.RESULT]))
def test_bundles_come_back_as_they_were(bundle: dict[str, str | bytes], kind: int) -> None:
    [(found, payload)] = decode([frames.encode_bundle(kind, bundle)])
    assert (found, frames.decode_bundle(payload)) == (kind, bundle)


@given(BUNDLES, st.integers(min_value=0), st.binary(max_size=8))
def test_a_damaged_bundle_is_a_bundle_or_malformed(bundle: dict[str, str | bytes], place: int, damage: bytes) -> None:
    [(_, payload)] = decode([frames.encode_bundle(frames.DISPLAY, bundle)])
    place %= len(payload) + 1
    damaged = payload[:place] + damage + payload[place + len(damage) :]
    for data in (damaged, payload[:place], payload[:place] + damage):
        try:
            seen = frames.decode_bundle(data)
        except frames.Malformed:
            continue
        assert sum(len(form) for form in seen.values()) <= len(data) * 6


def header(text: str, rest: bytes = b"") -> bytes:
    return struct.pack("<I", len(text)) + text.encode() + rest


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0\0\0",
        struct.pack("<I", 100) + b"{}",
        struct.pack("<I", 2**32 - 1),
        header("[]"),
        header("{}"),
        header('{"text": {}}'),
        header('{"text": [], "blobs": []}'),
        header('{"text": {"a": 1}, "blobs": []}'),
        header('{"text": {}, "blobs": [["a"]]}'),
        header('{"text": {}, "blobs": [["a", -1]]}', b"xx"),
        header('{"text": {}, "blobs": [["a", 3]]}', b"xx"),
        header('{"text": {}, "blobs": [["a", 1.0]]}', b"xx"),
        header('{"text": {}, "blobs": [["a", true]]}', b"xx"),
        header('{"text": {}, "blobs": [[1, 1]]}', b"xx"),
        header('{"text": {}, "blobs": [["a", 2], ["b", 1]]}', b"xx"),
        header("[" * 100_000),
        header('{"a": ' * 100_000),
    ],
)
def test_what_is_no_bundle_is_malformed(payload: bytes) -> None:
    with pytest.raises(frames.Malformed):
        frames.decode_bundle(payload)


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"1", b"null", b'"x"', b"{", b"\xff", b"[" * 200_000, b'{"a": ' * 200_000, b"9" * 10_000]
)
def test_what_is_no_object_is_malformed(payload: bytes) -> None:
    with pytest.raises(frames.Malformed):
        frames.decode_json(payload)


def test_a_huge_number_is_malformed_or_a_value() -> None:
    try:
        assert frames.decode_json(b'{"a": ' + b"9" * 10_000 + b"}")
    except frames.Malformed:
        pass
