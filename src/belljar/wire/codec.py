"""Encode values as JSON and server-sent events, and decode JSON: the one encoder, the one decoder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, islice

import msgspec

from belljar.wire.events import Event
from belljar.wire.items import Carried, Json

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"


def _carry(value: object) -> object:
    if isinstance(value, Carried):
        return value.data
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


_encoder = msgspec.json.Encoder(enc_hook=_carry)
encode = _encoder.encode
"""Any of our values, as JSON bytes."""
DEEPEST = 200
"""Levels of others' JSON: what could be read only just could not be written again, inside the levels of an answer."""
MOST_VALUES = 200_000
"""Values of others' JSON: a decoder lets nobody else run while it makes them, and each takes 30 times its text."""
_PIECE = 1 << 18
"""Bytes that are looked at without a break: others get their turn in between."""
_SEARCHED = 1 << 20
_RUN = 32
"""Events that are encoded at once: more would gain nothing more, and keep the first of them waiting."""


class TooDeep(msgspec.DecodeError):
    """More than `DEEPEST` levels."""


class TooMany(msgspec.DecodeError):
    """More than `MOST_VALUES` values."""


def decode(text: bytes | str) -> Json:
    """A value from whoever wrote the text; raises `msgspec.DecodeError` whatever is wrong with it."""
    if len(text) > MOST_VALUES and _has_many(text.encode("utf-8", "replace") if isinstance(text, str) else text):
        raise TooMany(f"more than {MOST_VALUES} values")
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        raise TooDeep(f"nested deeper than {DEEPEST} levels") from None
    except UnicodeError as error:
        raise msgspec.DecodeError(str(error)) from None
    if _is_deep(text, value):
        raise TooDeep(f"nested deeper than {DEEPEST} levels")
    return value


def has_lone_surrogate(text: bytes) -> bool:
    """Whether half of a pair stands alone in it, escaped or as bytes: what makes a decoder fail in words of its own.

    Not told of a text that is too long to be searched while others wait.
    """
    if len(text) > _SEARCHED:
        return False
    escaped = text.replace(rb"\\", b"")
    return _LONE.search(_PAIR.sub(b"", escaped)) is not None


_PAIR = re.compile(rb"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}", re.IGNORECASE)
_LONE = re.compile(rb"\\ud[89a-f][0-9a-f]{2}|\xed[\xa0-\xbf]", re.IGNORECASE)


def _has_many(text: bytes) -> bool:
    """Whether there are more than `MOST_VALUES`: each stands after a bracket or a comma. Those in strings are none."""
    if sum(_count_starts(text, at, at + _PIECE) for at in range(0, len(text), _PIECE)) < MOST_VALUES:
        return False
    found, at, inside = 0, 0, False
    while at < len(text) and found < MOST_VALUES:
        piece = text[at : at + _PIECE]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # its last character escapes the next
            piece = text[at : at + _PIECE + 1]
        at += len(piece)
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[inside::2])
        found += _count_starts(outside, 0, len(outside))
        inside ^= len(parts) % 2 == 0
    return found >= MOST_VALUES


def _count_starts(text: bytes, start: int, end: int) -> int:
    return text.count(b",", start, end) + text.count(b"[", start, end) + text.count(b"{", start, end)


def _is_deep(text: bytes | str, value: Json) -> bool:
    opened = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if opened <= DEEPEST or type(value) not in (dict, list):
        return False
    level = [value]
    for _ in range(DEEPEST):
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) in (dict, list)
        ]
        if not level:
            return False
    return True


def sse(event: Event) -> bytes:
    """An event as one frame: its name, its JSON, LF only."""
    kind = type(event)
    return b"%b%b\n\n" % (_HEADS.get(kind) or _head(kind), encode(event))


def frames(events: Sequence[Event]) -> Iterator[tuple[int, bytes]]:
    """The frames of many events, several in a piece, with the number of the last in it.

    Those of one kind in a row are encoded at once, and their lines set apart: JSON on one line holds no line end.
    """
    if len(events) == 1:  # as where the model is slower than we are
        yield events[0].sequence_number, sse(events[0])
        return
    for kind, run in groupby(events, type):
        head = _HEADS.get(kind) or _head(kind)
        between = b"\n\n" + head
        while some := list(islice(run, _RUN)):
            if len(some) == 1:
                yield some[0].sequence_number, sse(some[0])
                continue
            lines = _encoder.encode_lines(some).split(b"\n")  # and an empty one at the end
            yield some[-1].sequence_number, (head + between.join(lines))[: -len(head)]


_HEADS: dict[type[Event], bytes] = {}
"""Frames begin alike for all events of a kind: made once, since a stream is mostly frames."""


def _head(kind: type[Event]) -> bytes:
    head = _HEADS[kind] = f"event: {kind.__struct_config__.tag}\ndata: ".encode()
    return head
