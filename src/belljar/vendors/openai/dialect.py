"""The Responses API, OpenAI's own wire and that of the few who speak it too: asked, answered, refused."""

from __future__ import annotations

from collections.abc import Mapping

from belljar.errors import ProviderError
from belljar.vendors import bearer, function_names
from belljar.vendors.deltas import Decoder
from belljar.vendors.errors import fault
from belljar.vendors.hosted_sandbox import DAY, HostedSandbox
from belljar.vendors.openai.request import encode
from belljar.vendors.openai.sampling import SAMPLING_NAMES
from belljar.vendors.openai.stream import ResponsesDecoder
from belljar.vendors.openai.vendor import VENDOR
from belljar.vendors.request import ModelRequest
from belljar.vendors.vendor import Vendor


class OpenAIDialect:
    """With those members of the body that a server takes."""

    path = "/responses"
    list_path = "/models"
    sandbox: HostedSandbox | None = HostedSandbox(
        upload="/files",
        fields=(
            ("purpose", "user_data"),
            ("expires_after[anchor]", "created_at"),
            ("expires_after[seconds]", str(DAY)),
        ),
        life=DAY,
        largest=512 << 20,
        file="/containers/{container}/files/{id}",
        placing="/containers/{container}/files",
        keeps=True,
        where="at /mnt/data/{id}-{name}",
    )

    def __init__(self, vendor: Vendor = VENDOR, server: str = VENDOR.title) -> None:
        self._members = vendor.profile.members
        self._server = server

    def headers(self, key: str | None) -> dict[str, str]:
        return bearer.headers(key)

    def encode(self, request: ModelRequest) -> bytes:
        return encode(request, self._members)

    def decoder(self, request: ModelRequest, *, keep: bool = False) -> Decoder:
        return function_names.restore_names(
            request, function_names.LONG, lambda sent: ResponsesDecoder(self._server, keep=keep)
        )

    def sampling_names(self, model: str) -> frozenset[str]:
        return SAMPLING_NAMES

    def fault(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        return fault(status, headers, body, self._server)
