"""Encode and decode the frames between host and guest: a sans-I/O codec used by both sides.

A frame is `<u32 little-endian payload length><u8 kind><payload>`. Payloads are JSON objects, but for two forms:

- `<u32 cell><text>`: RUN with the code; OK, which ends a cell, with a short result if it has one; and PATHS, ahead of
  a RUN, with the host's part of `sys.path`, as PATH has it. Most cells need no more, and JSON would cost them dearly.
- MIME bundles (DISPLAY, RESULT), which carry binary: `<u32 header length><JSON header><blob><blob>…`, where the header
  is `{"text": {mime: str}, "blobs": [[mime, size], …]}`.

The guest is not trusted: everything it can send is bounded before it is stored, and anything malformed is one
exception, `Malformed`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping

from . import private_builtins

private_builtins.protect(globals())

RUN, HELLO, DISPLAY, RESULT, DONE, OK, PATHS = 1, 2, 3, 4, 5, 6, 7
KINDS = frozenset({RUN, HELLO, DISPLAY, RESULT, DONE, OK, PATHS})

MAX_PAYLOAD = 32 * 1024 * 1024
# Bound now, and with builtins of its own: in the guest a cell may replace any of these.
_dumps = json.JSONEncoder(separators=(",", ":")).encode
_loads = json.JSONDecoder().decode
_HEADER = struct.Struct("<IB")
_LENGTH = struct.Struct("<I")


class Malformed(ValueError):
    """The peer sent something that is not a frame."""


def encode(kind: int, payload: bytes) -> bytes:
    """One frame, ready to send."""
    return _HEADER.pack(len(payload), kind) + payload


def encode_json(kind: int, value: Mapping[str, object]) -> bytes:
    """A frame that carries a JSON object; lone surrogates survive as escapes."""
    return encode(kind, _dumps(value).encode("ascii"))


def encode_text(kind: int, number: int, text: str) -> bytes:
    """A frame that carries a cell's number and a text; lone surrogates survive."""
    return encode(kind, _LENGTH.pack(number) + text.encode("utf-8", "surrogatepass"))


def encode_bundle(kind: int, bundle: Mapping[str, str | bytes]) -> bytes:
    """A frame that carries a MIME bundle."""
    text = {mime: data for mime, data in bundle.items() if isinstance(data, str)}
    blobs = [(mime, data) for mime, data in bundle.items() if isinstance(data, bytes)]
    header = _dumps({"text": text, "blobs": [(mime, len(data)) for mime, data in blobs]}).encode("ascii")
    return encode(kind, b"".join((_LENGTH.pack(len(header)), header, *(data for _, data in blobs))))


def decode_json(payload: bytes) -> dict[str, object]:
    """The JSON object of a payload."""
    try:
        value = _loads(payload.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Malformed("not a JSON object")
    return value


def decode_text(payload: bytes) -> tuple[int, str]:
    """The number and the text of a payload."""
    if len(payload) < _LENGTH.size:
        raise Malformed("text without a cell's number")
    try:
        return _LENGTH.unpack_from(payload)[0], str(payload[_LENGTH.size :], "utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8: {error}") from None


def decode_bundle(payload: bytes) -> dict[str, str | bytes]:
    """The MIME bundle of a payload."""
    if len(payload) < _LENGTH.size:
        raise Malformed("bundle without a header")
    end = _LENGTH.size + _LENGTH.unpack_from(payload)[0]
    if end > len(payload):
        raise Malformed("bundle header longer than its frame")
    header = decode_json(payload[_LENGTH.size : end])
    text, blobs = header.get("text"), header.get("blobs")
    if not isinstance(text, dict) or not isinstance(blobs, list):
        raise Malformed("bundle header without text or blobs")
    bundle: dict[str, str | bytes] = {}
    for mime, data in text.items():
        if not isinstance(data, str):
            raise Malformed("bundle text is not a string")
        bundle[mime] = data
    for entry in blobs:
        match entry:
            case [str(mime), int(size)] if 0 <= size <= len(payload) - end and not isinstance(size, bool):
                bundle[mime] = payload[end : end + size]
                end += size
            case _:
                raise Malformed("bundle blob does not fit its frame")
    return bundle


class FrameDecoder:
    """Bytes in any split, frames out."""

    def __init__(self, max_payload: int = MAX_PAYLOAD) -> None:
        self._buffer = bytearray()
        self._max = max_payload

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Take bytes; give the frames that are complete with them."""
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            length, kind = _HEADER.unpack_from(self._buffer)
            if kind not in KINDS:
                raise Malformed(f"unknown frame kind {kind}")
            if length > self._max:
                raise Malformed(f"frame of {length} bytes; at most {self._max} are taken")
            if len(self._buffer) < _HEADER.size + length:
                return
            payload = bytes(self._buffer[_HEADER.size : _HEADER.size + length])
            del self._buffer[: _HEADER.size + length]
            yield kind, payload
