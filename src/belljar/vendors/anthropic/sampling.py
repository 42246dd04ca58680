"""What Claude takes of a caller's wishes for sampling, by the version of the wire."""

from __future__ import annotations

from belljar.vendors.anthropic.models import family
from belljar.vendors.anthropic.wire_version import WireVersion
from belljar.vendors.sampling import CHOSEN, row

SAMPLING = row(stop="stop_sequences", top_k="top_k")


def takes_sampling(model: str, version: WireVersion) -> bool:
    """Whether temperature, top_p and top_k may be sent at all."""
    return version.samples and family(model).samples


def sampling_names(model: str, version: WireVersion) -> frozenset[str]:
    """What of a caller's wishes reaches a model, by our names."""
    return CHOSEN.union(SAMPLING.names) if takes_sampling(model, version) else frozenset({"stop"})
