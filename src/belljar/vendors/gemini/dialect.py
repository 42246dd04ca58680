"""Gemini's generateContent, as AI Studio and Vertex speak it: asked, answered, refused."""

from __future__ import annotations

from belljar.vendors import bearer, function_names
from belljar.vendors.deltas import Decoder
from belljar.vendors.gemini.errors import fault
from belljar.vendors.gemini.request import custom_names, encode
from belljar.vendors.gemini.sampling import carried
from belljar.vendors.gemini.signatures import issuer
from belljar.vendors.gemini.stream import GeminiDecoder
from belljar.vendors.hosted_sandbox import DAY, HostedSandbox
from belljar.vendors.request import ModelRequest
from belljar.vendors.server_profile import ServerProfile

__all__ = ["LIST", "PATH", "SANDBOX", "GeminiDecoder", "carried", "decoder", "encode", "fault", "headers"]

LIST = "/models?pageSize=1000"
PATH = "/models/{model}:streamGenerateContent?alt=sse"
SANDBOX: HostedSandbox | None = HostedSandbox(
    upload="/upload/v1/files", resumable=True, life=2 * DAY, largest=2 << 30, inline=14 << 20
)
"""A request may have 20 MB, in which files stand as base64. Vertex has no place for uploads."""


def decoder(request: ModelRequest, quirks: ServerProfile, upstream: str, *, keep: bool = False) -> Decoder:
    """For the answer to this request; `upstream` names the server in errors."""
    return function_names.restoring(
        request,
        function_names.GEMINI,
        lambda sent: GeminiDecoder(upstream, issuer=issuer(quirks), custom=custom_names(sent), keep=keep),
    )


def headers(key: str | None, base_url: str, quirks: ServerProfile) -> dict[str, str]:
    """AI Studio has keys; Vertex, whose address has project and location in it, takes tokens."""
    if quirks.name == "vertex":
        return bearer.headers(key, base_url, quirks)
    return {"x-goog-api-key": key} if key else {}
