"""Chat completions, OpenAI's older wire that nearly every model server speaks: asked, answered, refused."""

from __future__ import annotations

from belljar.vendors import function_names
from belljar.vendors.bearer import headers
from belljar.vendors.chat.request import custom_names, encode
from belljar.vendors.chat.sampling import carried
from belljar.vendors.chat.stream import ChatDecoder
from belljar.vendors.chat.written_calls import holding
from belljar.vendors.deltas import Decoder
from belljar.vendors.errors import fault
from belljar.vendors.hosted_sandbox import HostedSandbox
from belljar.vendors.request import ModelRequest
from belljar.vendors.server_profile import ServerProfile

__all__ = ["LIST", "PATH", "SANDBOX", "ChatDecoder", "carried", "decoder", "encode", "fault", "headers"]

LIST = "/models"
PATH = "/chat/completions"
SANDBOX: HostedSandbox | None = None


def decoder(request: ModelRequest, quirks: ServerProfile, upstream: str, *, keep: bool = False) -> Decoder:
    """For the answer to this request; `upstream` names the server in errors."""

    def make(sent: ModelRequest) -> Decoder:
        return holding(sent, ChatDecoder(quirks, upstream, custom=custom_names(sent)))

    return function_names.restoring(request, function_names.CHAT, make)
