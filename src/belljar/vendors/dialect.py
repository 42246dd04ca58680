"""What a vendor's wire is to whoever asks a model over it: where it is spoken, and its pure translation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from belljar.errors import ProviderError
from belljar.vendors.deltas import Decoder
from belljar.vendors.hosted_sandbox import HostedSandbox
from belljar.vendors.request import ModelRequest


class Dialect(Protocol):
    """A wire as one server speaks it, made by `Vendor.dialect`. Nothing of it changes after that."""

    path: str
    """Where it is asked; `{model}` stands for the name of the model."""
    list_path: str
    """Where its models are listed."""
    sandbox: HostedSandbox | None
    """The sandbox in which it runs code itself, where it does."""

    def headers(self, key: str | None) -> Mapping[str, str]:
        """What goes with every request beside what all wires have: how the key is shown, which version is spoken."""
        ...

    def encode(self, request: ModelRequest) -> bytes: ...

    def decoder(self, request: ModelRequest, *, keep: bool = False) -> Decoder:
        """For the answer to this request, fed once.

        With `keep` it gives the answer as the vendor wants it back, where the vendor wants more than our items hold.
        """
        ...

    def sampling_names(self, model: str) -> frozenset[str]:
        """What of a caller's wishes for sampling reaches a model: `Sampling`'s names, temperature, top_p, logprobs."""
        ...

    def fault(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The error that an answer other than 200 means. It says what is wrong; the remedy is whose who shows it."""
        ...
