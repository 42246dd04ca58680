"""Tin Can's models."""

from __future__ import annotations

from belljar.vendors.model import Model

MODELS = (
    Model(id="tin-2", name="Tin 2", provider="tin_can", use="Talking far", context=8_000, vision=False, runs=False),
    Model(id="tin-1", name="Tin 1", provider="tin_can", use="Talking near", context=4_000, vision=False, runs=False),
)
