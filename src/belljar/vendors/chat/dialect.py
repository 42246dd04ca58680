"""Chat completions, OpenAI's older wire that nearly every model server speaks: asked, answered, refused."""

from __future__ import annotations

from collections.abc import Mapping

from belljar.errors import ProviderError
from belljar.vendors import bearer, function_names
from belljar.vendors.chat.request import custom_names, encode
from belljar.vendors.chat.stream import ChatDecoder
from belljar.vendors.chat.written_calls import find_calls_in_text
from belljar.vendors.deltas import Decoder
from belljar.vendors.errors import fault
from belljar.vendors.hosted_sandbox import HostedSandbox
from belljar.vendors.request import ModelRequest
from belljar.vendors.sampling import CHOSEN
from belljar.vendors.vendor import GENERIC, Vendor


class ChatDialect:
    """As the profile of a server says."""

    path = "/chat/completions"
    list_path = "/models"
    sandbox: HostedSandbox | None = None

    def __init__(self, vendor: Vendor = GENERIC, server: str = GENERIC.title) -> None:
        self._profile = vendor.profile
        self._server = server

    def headers(self, key: str | None) -> dict[str, str]:
        return bearer.headers(key)

    def encode(self, request: ModelRequest) -> bytes:
        return encode(request, self._profile)

    def decoder(self, request: ModelRequest, *, keep: bool = False) -> Decoder:
        def make(sent: ModelRequest) -> Decoder:
            return find_calls_in_text(sent, ChatDecoder(self._profile, self._server, custom=custom_names(sent)))

        return function_names.restore_names(request, function_names.CHAT, make)

    def sampling_names(self, model: str) -> frozenset[str]:
        return frozenset({*self._profile.sampling.names, *CHOSEN, *({"logprobs"} & self._profile.members)})

    def fault(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        return fault(status, headers, body, self._server)
