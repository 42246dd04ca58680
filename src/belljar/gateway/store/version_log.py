"""What each version of a container changed, as it was before: enough to undo it, and so to see an older state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec import Struct

from belljar.gateway.store.base import Change, FileRef, Version


class Before(Struct, frozen=True, array_like=True, omit_defaults=True):
    """What a version changed, as it was before."""

    files: dict[str, FileRef | None] = {}
    """By path; None where there was none."""
    requirements: tuple[str, ...] | None = None
    """None where they stayed."""


encode = msgspec.msgpack.encode
decode = msgspec.msgpack.Decoder(Before).decode
encode_requirements = msgspec.json.encode
decode_requirements = msgspec.json.Decoder(tuple[str, ...]).decode


class Advance(NamedTuple):
    """What the row of a container becomes by a change, and what is kept of how it was before."""

    version: int
    requirements: bytes
    cells: int
    body: bytes
    sandbox: bytes | None
    """To be noted; None leaves what is."""


def advance(
    change: Change, version: int, requirements: bytes, cells: int, before: dict[str, FileRef | None]
) -> Advance | None:
    """Of a container that has these, and had the files `before` at the paths that changed; None where nothing did."""
    had = None if change.requirements is None else decode_requirements(requirements)
    if not before and not change.ran and had == change.requirements:
        return None
    if change.requirements is not None:
        requirements = encode_requirements(change.requirements)
    sandbox = change.seen.sandbox if change.seen is not None and change.seen.version == version else None
    return Advance(version + 1, requirements, cells + change.cells, encode(Before(before, had)), sandbox)


def undo(
    number: int, files: dict[str, FileRef], requirements: tuple[str, ...], cells: int, later: Iterable[bytes]
) -> Version:
    """The state at this number: today's `files` and `requirements`, with what came `later` undone, newest first."""
    for body in later:
        before = decode(body)
        for path, ref in before.files.items():
            if ref is None:
                files.pop(path, None)
            else:
                files[path] = ref
        if before.requirements is not None:
            requirements = before.requirements
    return Version(number=number, files=files, requirements=requirements, cells=cells)
