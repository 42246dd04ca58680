"""The Responses API, OpenAI's own wire and that of the few who speak it too: asked, answered, refused."""

from __future__ import annotations

from belljar.dialects import names
from belljar.dialects.bearer import headers
from belljar.dialects.deltas import Decoder, ModelRequest
from belljar.dialects.faults import fault
from belljar.dialects.openai_request import encode
from belljar.dialects.openai_stream import ResponsesDecoder
from belljar.dialects.premises import DAY, Premises
from belljar.dialects.quirks import Quirks

__all__ = ["LIST", "PATH", "PREMISES", "ResponsesDecoder", "decoder", "encode", "fault", "headers"]

LIST = "/models"
PATH = "/responses"
PREMISES: Premises | None = Premises(
    upload="/files",
    fields=(("purpose", "user_data"), ("expires_after[anchor]", "created_at"), ("expires_after[seconds]", str(DAY))),
    life=DAY,
    largest=512 << 20,
    file="/containers/{container}/files/{id}",
    placing="/containers/{container}/files",
    keeps=True,
    where="at /mnt/data/{id}-{name}",
)


def decoder(request: ModelRequest, quirks: Quirks, upstream: str) -> Decoder:
    """For the answer to this request; `upstream` names the server in errors."""
    return names.restoring(request, names.LONG, lambda sent: ResponsesDecoder(upstream))
