"""Anthropic's Messages API: asked, answered, refused."""

from __future__ import annotations

from collections.abc import Mapping

from belljar.errors import ProviderError
from belljar.vendors import bearer, function_names
from belljar.vendors.anthropic.errors import fault
from belljar.vendors.anthropic.request import encode
from belljar.vendors.anthropic.sampling import sampling_names
from belljar.vendors.anthropic.stream import MessagesDecoder
from belljar.vendors.anthropic.vendor import VENDOR
from belljar.vendors.anthropic.wire_version import version_of
from belljar.vendors.deltas import Decoder
from belljar.vendors.hosted_sandbox import DAY, HostedSandbox
from belljar.vendors.request import ModelRequest
from belljar.vendors.vendor import Vendor


class AnthropicDialect:
    """In the version that a server speaks."""

    path = "/messages"
    list_path = "/models?limit=1000"
    sandbox: HostedSandbox | None = HostedSandbox(
        upload="/files",
        fields=(("expires_in_seconds", str(DAY)),),
        life=DAY,
        largest=500 << 20,
        file="/files/{id}",
        keeps=True,
        where="at $INPUT_DIR/{name}",
    )

    def __init__(self, vendor: Vendor = VENDOR, server: str = VENDOR.title) -> None:
        self._version = version_of(vendor)
        self._server = server

    def headers(self, key: str | None) -> dict[str, str]:
        version = {"anthropic-version": self._version.version}
        if self._version.bearer:
            return version | bearer.headers(key)
        return version | ({"x-api-key": key} if key else {})

    def encode(self, request: ModelRequest) -> bytes:
        return encode(request, self._version)

    def decoder(self, request: ModelRequest, *, keep: bool = False) -> Decoder:
        return function_names.restore_names(
            request, function_names.LONG, lambda sent: MessagesDecoder(sent, self._version, self._server, keep=keep)
        )

    def sampling_names(self, model: str) -> frozenset[str]:
        return sampling_names(model, self._version)

    def fault(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        return fault(status, headers, body, self._server)
