"""Identify as one of the model servers that people run: their model lists and status pages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, field

LOADING = b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
"""What llama.cpp answers, with status 503, while it reads its model."""


class Kind(Struct, frozen=True):
    """One of them."""

    owner: str
    """Whose its models are, in its list."""
    pages: Mapping[str, bytes] = field(default_factory=dict)
    """What it answers to a GET of these paths."""
    null: bool = False
    """Whether a list of nothing is written as null."""


KINDS: Mapping[str | None, Kind] = MappingProxyType(
    {
        None: Kind("loopback"),
        "ollama": Kind("library", {"/api/version": b'{"version":"0.32.15"}'}, null=True),
        "lm_studio": Kind("organization_owner", {"/api/v0/models": b'{"object":"list","data":[]}'}),
        "vllm": Kind("vllm", {"/version": b'{"version":"0.17.0"}'}),
        "llama_cpp": Kind("llamacpp"),
    }
)


def list_models(kind: Kind, models: Sequence[str]) -> bytes:
    """GET /v1/models."""
    data = [{"id": name, "object": "model", "created": 1, "owned_by": kind.owner} for name in models]
    return json.dumps({"object": "list", "data": data or (None if kind.null else [])}).encode()
