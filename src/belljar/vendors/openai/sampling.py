"""What the Responses API takes of a caller's wishes for sampling."""

from __future__ import annotations

from belljar.vendors.sampling import CHOSEN

SAMPLING_NAMES = CHOSEN | {"logprobs"}
"""What of them reaches a model, by our names."""
