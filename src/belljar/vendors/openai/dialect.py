"""The Responses API, OpenAI's own wire and that of the few who speak it too: asked, answered, refused."""

from __future__ import annotations

from belljar.vendors import function_names
from belljar.vendors.bearer import headers
from belljar.vendors.deltas import Decoder
from belljar.vendors.errors import fault
from belljar.vendors.hosted_sandbox import DAY, HostedSandbox
from belljar.vendors.openai.request import encode
from belljar.vendors.openai.sampling import carried
from belljar.vendors.openai.stream import ResponsesDecoder
from belljar.vendors.request import ModelRequest
from belljar.vendors.server_profile import ServerProfile

__all__ = ["LIST", "PATH", "SANDBOX", "ResponsesDecoder", "carried", "decoder", "encode", "fault", "headers"]

LIST = "/models"
PATH = "/responses"
SANDBOX: HostedSandbox | None = HostedSandbox(
    upload="/files",
    fields=(("purpose", "user_data"), ("expires_after[anchor]", "created_at"), ("expires_after[seconds]", str(DAY))),
    life=DAY,
    largest=512 << 20,
    file="/containers/{container}/files/{id}",
    placing="/containers/{container}/files",
    keeps=True,
    where="at /mnt/data/{id}-{name}",
)


def decoder(request: ModelRequest, quirks: ServerProfile, upstream: str, *, keep: bool = False) -> Decoder:
    """For the answer to this request; `upstream` names the server in errors. `keep`: it has a `verbatim`."""
    return function_names.restoring(request, function_names.LONG, lambda sent: ResponsesDecoder(upstream, keep=keep))
