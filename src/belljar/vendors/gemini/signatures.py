"""Signatures of Gemini's thoughts: opaque, on one part of the answer, and to be sent back on the same one.

They travel as JSON behind the mark of who issued them, since AI Studio and Vertex refuse each other's: one on a call,
on code or on a thought as the sealed content of the reasoning item before it, one on text with the message.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from belljar.vendors.vendor_tag import tag, untag

SKIPPED = "skip_thought_signature_validator"
"""What Google wants for a call that its model did not make, or whose signature was not kept."""


class Signed(Struct, frozen=True):
    """A signature and the kind of part that it was on."""

    on: Literal["text", "thought", "call", "code"]
    signature: str


_decode = msgspec.json.Decoder(Signed).decode


def pack_signature(by: str, signed: Signed) -> str:
    """As it is kept."""
    return tag(by, msgspec.json.encode(signed).decode())


def unpack_signature(by: str, kept: object) -> Signed | None:
    """The signature in what was kept, if it is one of this issuer's."""
    content = untag(by, kept)
    if content is None:
        return None
    try:
        return _decode(content)
    except (msgspec.DecodeError, RecursionError):  # the caller's own invention
        return None
