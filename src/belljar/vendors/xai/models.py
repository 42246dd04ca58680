"""xAI's models: what each takes."""

from __future__ import annotations

from belljar.vendors.model import (
    CHEAP,
    CODING,
    HARD,
    LOW_HIGH,
    MANY,
    NONE_HIGH,
    TOUGH,
    Cost,
    Effort,
    Model,
    Speed,
    by_id,
)


def _grok(
    id: str,
    name: str,
    use: str,
    speed: Speed,
    cost: Cost,
    context: int,
    efforts: tuple[Effort, ...] = (),
    *,
    vision: bool = True,
    runs: bool = True,
    legacy: bool = False,
) -> Model:
    return Model(
        id=id,
        name=name,
        provider="xai",
        use=use,
        speed=speed,
        cost=cost,
        context=context,
        efforts=efforts,
        vision=vision,
        runs=runs,
        legacy=legacy,
    )


_FOUR = 2_000_000

MODELS = (
    _grok("grok-4.6", "Grok 4.6", HARD, "medium", "high", 500_000, LOW_HIGH),
    _grok("grok-4.5", "Grok 4.5", HARD, "medium", "high", 500_000, LOW_HIGH),
    _grok("grok-4.3", "Grok 4.3", HARD, "medium", "medium", 1_000_000, NONE_HIGH),
    _grok("grok-4.20", "Grok 4.20", HARD, "medium", "medium", 1_000_000),
    _grok("grok-4.20-multi-agent", "Grok 4.20 Multi-Agent", TOUGH, "slow", "high", 1_000_000),
    _grok("grok-4.20-non-reasoning", "Grok 4.20 Non-Reasoning", MANY, "fast", "medium", 1_000_000),
    _grok("grok-build-0.1", "Grok Build 0.1", CODING, "fast", "medium", 256_000),
    _grok("grok-code-fast-1", "Grok Code Fast 1", CODING, "fast", "low", 256_000, vision=False, legacy=True),
    # Names that are retired and lead to Grok 4.3.
    _grok("grok-4", "Grok 4", HARD, "medium", "high", 256_000, NONE_HIGH, legacy=True),
    _grok("grok-4-1-fast", "Grok 4.1 Fast", MANY, "fast", "low", _FOUR, NONE_HIGH, legacy=True),
    _grok("grok-4-1-fast-reasoning", "Grok 4.1 Fast", MANY, "fast", "low", _FOUR, NONE_HIGH, legacy=True),
    _grok("grok-4-1-fast-non-reasoning", "Grok 4.1 Fast", MANY, "fast", "low", _FOUR, NONE_HIGH, legacy=True),
    _grok("grok-4-fast", "Grok 4 Fast", MANY, "fast", "low", _FOUR, NONE_HIGH, legacy=True),
    _grok("grok-4-fast-reasoning", "Grok 4 Fast", MANY, "fast", "low", _FOUR, NONE_HIGH, legacy=True),
    _grok("grok-4-fast-non-reasoning", "Grok 4 Fast", MANY, "fast", "low", _FOUR, NONE_HIGH, legacy=True),
    _grok("grok-3", "Grok 3", HARD, "medium", "high", 131_072, NONE_HIGH, vision=False, legacy=True),
    _grok(
        "grok-3-mini",
        "Grok 3 Mini",
        CHEAP,
        "fast",
        "low",
        131_072,
        ("none", "low", "high"),
        vision=False,
        runs=False,
        legacy=True,
    ),
)

BY_ID = by_id(*MODELS)
