"""What a vendor's wire is to whoever asks a model over it: where it is spoken, and its pure translation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from belljar.errors import ProviderError
from belljar.vendors.deltas import Decoder
from belljar.vendors.hosted_sandbox import HostedSandbox
from belljar.vendors.request import ModelRequest
from belljar.vendors.server_profile import ServerProfile


class Dialect(Protocol):
    """The module `dialect` of a vendor's folder is one."""

    LIST: str
    """Where its models are listed."""
    PATH: str
    """Where it is asked; `{model}` stands for the name of the model."""
    SANDBOX: HostedSandbox | None
    """The sandbox in which it runs code itself, where it does."""

    def headers(self, key: str | None, base_url: str, quirks: ServerProfile, /) -> Mapping[str, str]:
        """What goes with every request beside what all wires have: how the key is shown, which version is spoken."""
        ...

    def encode(self, request: ModelRequest, quirks: ServerProfile, /) -> bytes: ...

    def decoder(self, request: ModelRequest, quirks: ServerProfile, upstream: str, /, *, keep: bool = False) -> Decoder:
        """For the answer to this request, fed once; `upstream` names the server in errors.

        With `keep` it gives the answer as the vendor wants it back, where the vendor wants more than our items hold.
        """
        ...

    def carried(self, model: str, quirks: ServerProfile, /) -> frozenset[str]:
        """What of a caller's wishes for sampling reaches a model: `Sampling`'s names, temperature, top_p, logprobs."""
        ...

    def fault(self, status: int, headers: Mapping[str, str], body: bytes, upstream: str, /) -> ProviderError:
        """The error that an answer other than 200 means. It says what is wrong; the remedy is whose who shows it."""
        ...
