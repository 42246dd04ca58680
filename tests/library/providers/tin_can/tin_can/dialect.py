"""Tin Can's wire: asked, answered, refused."""

from __future__ import annotations

from collections.abc import Mapping

from belljar.errors import ProviderError
from belljar.vendors import function_names
from belljar.vendors.deltas import Decoder
from belljar.vendors.hosted_sandbox import HostedSandbox
from belljar.vendors.request import ModelRequest
from belljar.vendors.vendor import Vendor

from .errors import fault
from .request import NAMES, encode
from .stream import TinCanDecoder


class TinCanDialect:
    path = "/say?to={model}"
    list_path = "/models"
    sandbox: HostedSandbox | None = None

    def __init__(self, vendor: Vendor, server: str) -> None:
        self._server = server

    def headers(self, key: str | None) -> dict[str, str]:
        return {"x-can-key": key} if key else {}

    def encode(self, request: ModelRequest) -> bytes:
        return encode(request)

    def decoder(self, request: ModelRequest, *, keep: bool = False) -> Decoder:
        return function_names.restore_names(request, NAMES, lambda sent: TinCanDecoder(self._server))

    def sampling_names(self, model: str) -> frozenset[str]:
        return frozenset()

    def fault(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        return fault(status, headers, body, self._server)
