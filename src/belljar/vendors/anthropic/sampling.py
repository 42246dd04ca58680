"""What Claude takes of a caller's wishes for sampling, by the version of the wire."""

from __future__ import annotations

from belljar.vendors.anthropic.models import family
from belljar.vendors.sampling import CHOSEN, row
from belljar.vendors.server_profile import ServerProfile

_NO_SAMPLING = "2026-10-21"
"""The version of the wire from which on temperature, top_p and top_k are refused."""
SAMPLING = row(stop="stop_sequences", top_k="top_k")


def takes_sampling(model: str, quirks: ServerProfile) -> bool:
    """Whether temperature, top_p and top_k may be sent at all."""
    return quirks.version < _NO_SAMPLING and family(model).samples


def carried(model: str, quirks: ServerProfile) -> frozenset[str]:
    """What of a caller's wishes reaches a model, by our names."""
    return CHOSEN.union(SAMPLING.names) if takes_sampling(model, quirks) else frozenset({"stop"})
