"""xAI's Responses API: OpenAI's wire, with its differences in what is sent and in the cells that it ran."""

from __future__ import annotations

from belljar.vendors import function_names
from belljar.vendors.deltas import Decoder
from belljar.vendors.hosted_sandbox import DAY, HostedSandbox
from belljar.vendors.openai.dialect import OpenAIDialect
from belljar.vendors.request import ModelRequest
from belljar.vendors.vendor import Vendor
from belljar.vendors.xai.request import encode
from belljar.vendors.xai.stream import XaiDecoder
from belljar.vendors.xai.vendor import VENDOR


class XaiDialect(OpenAIDialect):
    """With those members of the body that a server takes."""

    sandbox: HostedSandbox | None = HostedSandbox(
        upload="/files",
        fields=(("expires_after", str(DAY)), ("purpose", "assistants")),
        life=DAY,
        largest=48 << 20,
        file="/files/{id}",
    )
    """Seconds to live are a plain number there, and stand before the file."""

    def __init__(self, vendor: Vendor = VENDOR, server: str = VENDOR.title) -> None:
        super().__init__(vendor, server)

    def encode(self, request: ModelRequest) -> bytes:
        return encode(request, self._members)

    def decoder(self, request: ModelRequest, *, keep: bool = False) -> Decoder:
        return function_names.restore_names(
            request, function_names.LONG, lambda sent: XaiDecoder(self._server, keep=keep)
        )
