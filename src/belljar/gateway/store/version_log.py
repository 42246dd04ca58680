"""What each version of a container changed, as it was before: enough to undo it, and so to see an older state."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from belljar.gateway.store.base import FileRef, Version


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
