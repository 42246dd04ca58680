"""The Responses API, OpenAI's own wire and that of the few who speak it too: asked, answered, refused."""

from __future__ import annotations

from belljar.dialects.bearer import headers
from belljar.dialects.deltas import Decoder, ModelRequest
from belljar.dialects.faults import fault
from belljar.dialects.openai_request import encode
from belljar.dialects.openai_stream import ResponsesDecoder
from belljar.dialects.quirks import Quirks

__all__ = ["FILES", "LIST", "PATH", "ResponsesDecoder", "decoder", "encode", "fault", "headers"]

FILES: str | None = None
LIST = "/models"
PATH = "/responses"


def decoder(request: ModelRequest, quirks: Quirks, upstream: str) -> Decoder:
    """For the answer to this request; `upstream` names the server in errors."""
    return ResponsesDecoder(upstream)
