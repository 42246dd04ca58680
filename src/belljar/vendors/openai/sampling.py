"""What the Responses API takes of a caller's wishes for sampling."""

from __future__ import annotations

from belljar.vendors.sampling import CHOSEN
from belljar.vendors.server_profile import ServerProfile


def carried(model: str, quirks: ServerProfile) -> frozenset[str]:
    """What of a caller's wishes reaches a model, by our names."""
    return CHOSEN | {"logprobs"}
