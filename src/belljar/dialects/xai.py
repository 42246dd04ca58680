"""xAI's Responses API: OpenAI's wire, with its differences in what is sent and in the cells that it ran."""

from __future__ import annotations

from belljar.dialects import names
from belljar.dialects.bearer import headers
from belljar.dialects.deltas import Decoder, ModelRequest
from belljar.dialects.faults import fault
from belljar.dialects.premises import Premises
from belljar.dialects.quirks import Quirks
from belljar.dialects.xai_request import encode
from belljar.dialects.xai_stream import XaiDecoder

__all__ = ["LIST", "PATH", "PREMISES", "XaiDecoder", "decoder", "encode", "fault", "headers"]

LIST = "/models"
PATH = "/responses"
PREMISES: Premises | None = Premises(
    upload="/files", fields=(("purpose", "assistants"),), largest=48 << 20, file="/files/{id}"
)


def decoder(request: ModelRequest, quirks: Quirks, upstream: str) -> Decoder:
    """For the answer to this request; `upstream` names the server in errors."""
    return names.restoring(request, names.LONG, lambda sent: XaiDecoder(upstream))
