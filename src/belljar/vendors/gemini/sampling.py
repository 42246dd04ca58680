"""What Gemini takes of a caller's wishes for sampling."""

from __future__ import annotations

from belljar.vendors.sampling import CHOSEN, row
from belljar.vendors.server_profile import ServerProfile

SAMPLING = row(
    "seed",
    stops=5,
    stop="stopSequences",
    top_k="topK",
    presence_penalty="presencePenalty",
    frequency_penalty="frequencyPenalty",
)


def carried(model: str, quirks: ServerProfile) -> frozenset[str]:
    """What of a caller's wishes reaches a model, by our names."""
    return CHOSEN.union(SAMPLING.names)
