"""Recorded answers, and ways to play them to a decoder."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from belljar.vendors.deltas import Decoder, Delta

RECORDINGS = Path(__file__).parents[2] / "recordings"


def chunks(name: str) -> list[str]:
    """The events of a recorded stream."""
    return (RECORDINGS / name).read_text(encoding="utf-8").splitlines()


def stream(payloads: Iterable[str], *, done: bool = True, end: str = "\n") -> bytes:
    """As it goes over the wire."""
    lines = [f"data: {payload}{end}{end}" for payload in [*payloads, *(["[DONE]"] if done else [])]]
    return "".join(lines).encode()


def bodies(name: str, kind: str) -> Iterator[bytes]:
    """The recorded answers of one kind of object, whole."""
    for exchange in yaml.safe_load((RECORDINGS / name).read_text(encoding="utf-8"))["interactions"]:
        body = exchange["response"].get("parsed_body") or {}
        if body.get("object") == kind:
            yield json.dumps(body).encode()


def play(make: Callable[[], Decoder], data: bytes, cuts: Iterable[int] = ()) -> list[Delta]:
    """What the decoder makes of it, cut at these places."""
    decoder = make()
    found: list[Delta] = []
    at = 0
    for cut in sorted({*cuts, len(data)}):
        found += decoder.feed(data[at:cut])
        at = cut
    return found + decoder.close()


def joined(deltas: Iterable[Delta], kind: type[Any]) -> str:
    """All the text of one kind of delta."""
    return "".join(delta.text for delta in deltas if isinstance(delta, kind))


def outline(deltas: Iterable[Delta]) -> list[str]:
    """The kinds of delta in their order, each run once."""
    names: list[str] = []
    for delta in deltas:
        if not names or names[-1] != type(delta).__name__:
            names.append(type(delta).__name__)
    return names


def cuts_of(size: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, size), max_size=30)
