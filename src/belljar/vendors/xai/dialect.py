"""xAI's Responses API: OpenAI's wire, with its differences in what is sent and in the cells that it ran."""

from __future__ import annotations

from belljar.vendors import function_names
from belljar.vendors.bearer import headers
from belljar.vendors.deltas import Decoder
from belljar.vendors.errors import fault
from belljar.vendors.hosted_sandbox import HostedSandbox
from belljar.vendors.openai.sampling import carried
from belljar.vendors.request import ModelRequest
from belljar.vendors.server_profile import ServerProfile
from belljar.vendors.xai.request import encode
from belljar.vendors.xai.stream import XaiDecoder

__all__ = ["LIST", "PATH", "SANDBOX", "XaiDecoder", "carried", "decoder", "encode", "fault", "headers"]

LIST = "/models"
PATH = "/responses"
SANDBOX: HostedSandbox | None = HostedSandbox(
    upload="/files", fields=(("purpose", "assistants"),), largest=48 << 20, file="/files/{id}"
)


def decoder(request: ModelRequest, quirks: ServerProfile, upstream: str, *, keep: bool = False) -> Decoder:
    """For the answer to this request; `upstream` names the server in errors. `keep`: it has a `verbatim`."""
    return function_names.restoring(request, function_names.LONG, lambda sent: XaiDecoder(upstream, keep=keep))
