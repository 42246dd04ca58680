"""What Gemini takes of a caller's wishes for sampling."""

from __future__ import annotations

from belljar.vendors.sampling import row

SAMPLING = row(
    "seed",
    stops=5,
    stop="stopSequences",
    top_k="topK",
    presence_penalty="presencePenalty",
    frequency_penalty="frequencyPenalty",
)
