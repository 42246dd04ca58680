"""Anthropic's Messages API: asked, answered, refused."""

from __future__ import annotations

from belljar.vendors import function_names
from belljar.vendors.anthropic.errors import fault
from belljar.vendors.anthropic.request import encode
from belljar.vendors.anthropic.sampling import carried
from belljar.vendors.anthropic.stream import MessagesDecoder
from belljar.vendors.deltas import Decoder
from belljar.vendors.hosted_sandbox import DAY, HostedSandbox
from belljar.vendors.request import ModelRequest
from belljar.vendors.server_profile import ServerProfile

__all__ = ["LIST", "PATH", "SANDBOX", "MessagesDecoder", "carried", "decoder", "encode", "fault", "headers"]

LIST = "/models?limit=1000"
PATH = "/messages"
SANDBOX: HostedSandbox | None = HostedSandbox(
    upload="/files",
    fields=(("expires_in_seconds", str(DAY)),),
    life=DAY,
    largest=500 << 20,
    file="/files/{id}",
    keeps=True,
    where="at $INPUT_DIR/{name}",
)

_BEARER = "2026-10-21"
"""The version from which on the key is shown as most servers want it."""


def headers(key: str | None, base_url: str, quirks: ServerProfile) -> dict[str, str]:
    """What goes with every request to this address."""
    version = {"anthropic-version": quirks.version}
    if not key:
        return version
    shown = {"x-api-key": key} if quirks.version < _BEARER else {"authorization": f"Bearer {key}"}
    return version | shown


def decoder(request: ModelRequest, quirks: ServerProfile, upstream: str, *, keep: bool = False) -> Decoder:
    """For the answer to this request; `upstream` names the server in errors."""
    return function_names.restoring(
        request, function_names.LONG, lambda sent: MessagesDecoder(sent, quirks, upstream, keep=keep)
    )
