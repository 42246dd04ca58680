"""Anthropic's Messages API: asked, answered, refused."""

from __future__ import annotations

from belljar.dialects import names
from belljar.dialects.anthropic_faults import fault
from belljar.dialects.anthropic_request import encode
from belljar.dialects.anthropic_stream import MessagesDecoder
from belljar.dialects.deltas import Decoder, ModelRequest
from belljar.dialects.premises import DAY, Premises
from belljar.dialects.quirks import Quirks

__all__ = ["LIST", "PATH", "PREMISES", "MessagesDecoder", "decoder", "encode", "fault", "headers"]

LIST = "/models?limit=1000"
PATH = "/messages"
PREMISES: Premises | None = Premises(
    upload="/files",
    fields=(("expires_in_seconds", str(DAY)),),
    life=DAY,
    largest=500 << 20,
    file="/files/{id}",
    keeps=True,
    where="at $INPUT_DIR/{name}",
)

_BEARER = "2026-10-21"
"""The version from which on the key is shown as most servers want it."""


def headers(key: str | None, base_url: str, quirks: Quirks) -> dict[str, str]:
    """What goes with every request to this address."""
    version = {"anthropic-version": quirks.version}
    if not key:
        return version
    shown = {"x-api-key": key} if quirks.version < _BEARER else {"authorization": f"Bearer {key}"}
    return version | shown


def decoder(request: ModelRequest, quirks: Quirks, upstream: str) -> Decoder:
    """For the answer to this request; `upstream` names the server in errors."""
    return names.restoring(request, names.LONG, lambda sent: MessagesDecoder(sent, quirks, upstream))
