"""Chat completions, OpenAI's older wire that nearly every model server speaks: asked, answered, refused."""

from __future__ import annotations

from belljar.dialects import names
from belljar.dialects.bearer import headers
from belljar.dialects.chat_request import custom_names, encode
from belljar.dialects.chat_stream import ChatDecoder
from belljar.dialects.deltas import Decoder, ModelRequest
from belljar.dialects.faults import fault
from belljar.dialects.holding import holding
from belljar.dialects.premises import Premises
from belljar.dialects.quirks import Quirks

__all__ = ["LIST", "PATH", "PREMISES", "ChatDecoder", "decoder", "encode", "fault", "headers"]

LIST = "/models"
PATH = "/chat/completions"
PREMISES: Premises | None = None


def decoder(request: ModelRequest, quirks: Quirks, upstream: str) -> Decoder:
    """For the answer to this request; `upstream` names the server in errors."""

    def make(sent: ModelRequest) -> Decoder:
        return holding(sent, ChatDecoder(quirks, upstream, custom=custom_names(sent)))

    return names.restoring(request, names.CHAT, make)
