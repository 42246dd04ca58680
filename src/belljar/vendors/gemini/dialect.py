"""Gemini's generateContent, as AI Studio and Vertex speak it: asked, answered, refused."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from belljar.errors import ProviderError
from belljar.vendors import bearer, function_names
from belljar.vendors.deltas import Decoder
from belljar.vendors.gemini.errors import fault
from belljar.vendors.gemini.request import custom_names, encode
from belljar.vendors.gemini.sampling import SAMPLING
from belljar.vendors.gemini.service import service_of
from belljar.vendors.gemini.stream import GeminiDecoder
from belljar.vendors.gemini.vendor import VENDOR
from belljar.vendors.hosted_sandbox import DAY, HostedSandbox
from belljar.vendors.request import ModelRequest
from belljar.vendors.sampling import CHOSEN
from belljar.vendors.vendor import Vendor

_SANDBOX = HostedSandbox(upload="/upload/v1/files", resumable=True, life=2 * DAY, largest=2 << 30, inline=14 << 20)
"""A request may have 20 MB, in which files stand as base64."""


class GeminiDialect:
    """By the service that a server is."""

    path = "/models/{model}:streamGenerateContent?alt=sse"
    list_path = "/models?pageSize=1000"

    def __init__(self, vendor: Vendor = VENDOR, server: str = VENDOR.title) -> None:
        self._service = service_of(vendor)
        self._server = server
        self.sandbox: HostedSandbox | None = (
            _SANDBOX if self._service.takes_uploads else structs.replace(_SANDBOX, upload=None)
        )

    def headers(self, key: str | None) -> dict[str, str]:
        if self._service.bearer:
            return bearer.headers(key)
        return {"x-goog-api-key": key} if key else {}

    def encode(self, request: ModelRequest) -> bytes:
        return encode(request, self._service)

    def decoder(self, request: ModelRequest, *, keep: bool = False) -> Decoder:
        return function_names.restore_names(
            request,
            function_names.GEMINI,
            lambda sent: GeminiDecoder(self._server, issuer=self._service.issuer, custom=custom_names(sent), keep=keep),
        )

    def sampling_names(self, model: str) -> frozenset[str]:
        return CHOSEN.union(SAMPLING.names)

    def fault(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        return fault(status, headers, body, self._server)
