"""Gemini's generateContent, as AI Studio and Vertex speak it: asked, answered, refused."""

from __future__ import annotations

from belljar.dialects import bearer, names
from belljar.dialects.deltas import Decoder, ModelRequest
from belljar.dialects.gemini_faults import fault
from belljar.dialects.gemini_request import custom_names, encode
from belljar.dialects.gemini_signatures import issuer
from belljar.dialects.gemini_stream import GeminiDecoder
from belljar.dialects.premises import DAY, Premises
from belljar.dialects.quirks import Quirks

__all__ = ["LIST", "PATH", "PREMISES", "GeminiDecoder", "decoder", "encode", "fault", "headers"]

LIST = "/models?pageSize=1000"
PATH = "/models/{model}:streamGenerateContent?alt=sse"
PREMISES: Premises | None = Premises(
    upload="/upload/v1/files", resumable=True, life=2 * DAY, largest=2 << 30, inline=14 << 20
)
"""A request may have 20 MB, in which files stand as base64. Vertex has no place for uploads."""


def decoder(request: ModelRequest, quirks: Quirks, upstream: str) -> Decoder:
    """For the answer to this request; `upstream` names the server in errors."""
    return names.restoring(
        request,
        names.GEMINI,
        lambda sent: GeminiDecoder(upstream, issuer=issuer(quirks), custom=custom_names(sent)),
    )


def headers(key: str | None, base_url: str, quirks: Quirks) -> dict[str, str]:
    """AI Studio has keys; Vertex, whose address has project and location in it, takes tokens."""
    if quirks.name == "vertex":
        return bearer.headers(key, base_url, quirks)
    return {"x-goog-api-key": key} if key else {}
