"""OpenAI's models: what each takes, and when its vendor ends it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from belljar.vendors.model import (
    CHEAP,
    CODING,
    HARD,
    LOW_HIGH,
    LOW_MAX,
    LOW_XHIGH,
    MANY,
    MINIMAL_HIGH,
    NONE_HIGH,
    NONE_MAX,
    NONE_XHIGH,
    TOUGH,
    Cost,
    Effort,
    Model,
    Speed,
    by_id,
)

_WIDE, _ANSWER = 1_050_000, 128_000


def _gpt(
    id: str,
    name: str,
    use: str,
    speed: Speed,
    cost: Cost,
    efforts: tuple[Effort, ...],
    effort: Effort,
    *,
    context: int = _WIDE,
    output: int = _ANSWER,
    legacy: bool = False,
) -> Model:
    """GPT-5 and later: all of them heed verbosity, and take a temperature only where thinking is off by itself."""
    return Model(
        id=id,
        name=name,
        provider="openai",
        use=use,
        speed=speed,
        cost=cost,
        context=context,
        output=output,
        efforts=efforts,
        effort=effort,
        verbosity=True,
        temperature=effort == "none",
        legacy=legacy,
    )


def _o(id: str, name: str, cost: Cost, *, vision: bool = True) -> Model:
    return Model(
        id=id,
        name=name,
        provider="openai",
        use="Reasoning, before GPT-5",
        speed="slow",
        cost=cost,
        context=200_000,
        output=100_000,
        efforts=LOW_HIGH,
        effort="medium",
        vision=vision,
        temperature=False,
        legacy=True,
    )


def _gpt4(id: str, name: str, use: str, speed: Speed, cost: Cost, context: int, output: int) -> Model:
    return Model(
        id=id,
        name=name,
        provider="openai",
        use=use,
        speed=speed,
        cost=cost,
        context=context,
        output=output,
        legacy=True,
    )


_PRO: tuple[Effort, ...] = ("medium", "high", "xhigh")

MODELS = (
    _gpt("gpt-6-astra", "GPT-6 Astra", TOUGH, "slow", "high", LOW_MAX, "medium"),
    _gpt("gpt-6.1-sol", "GPT-6.1 Sol", HARD, "medium", "high", LOW_MAX, "medium"),
    _gpt("gpt-6.1-terra", "GPT-6.1 Terra", CHEAP, "medium", "medium", NONE_MAX, "medium"),
    _gpt("gpt-6-sol", "GPT-6 Sol", HARD, "medium", "high", NONE_MAX, "medium"),
    _gpt("gpt-6-luna", "GPT-6 Luna", MANY, "fast", "low", NONE_MAX, "medium"),
    _gpt("gpt-5.6-sol", "GPT-5.6 Sol", HARD, "medium", "high", NONE_XHIGH, "medium"),
    _gpt("gpt-5.6-terra", "GPT-5.6 Terra", CHEAP, "medium", "medium", NONE_XHIGH, "medium"),
    _gpt("gpt-5.6-luna", "GPT-5.6 Luna", MANY, "fast", "low", NONE_XHIGH, "medium"),
    _gpt("gpt-5.5", "GPT-5.5", HARD, "medium", "high", NONE_XHIGH, "medium", context=1_000_000),
    _gpt("gpt-5.5-pro", "GPT-5.5 Pro", TOUGH, "slow", "high", _PRO, "high", context=1_000_000),
    _gpt("gpt-5.4", "GPT-5.4", HARD, "medium", "high", NONE_XHIGH, "none"),
    _gpt("gpt-5.4-pro", "GPT-5.4 Pro", TOUGH, "slow", "high", _PRO, "high"),
    _gpt("gpt-5.4-mini", "GPT-5.4 Mini", CHEAP, "fast", "medium", NONE_XHIGH, "none", context=400_000),
    _gpt("gpt-5.4-nano", "GPT-5.4 Nano", MANY, "fast", "low", NONE_XHIGH, "none", context=400_000),
    _gpt("gpt-5.2", "GPT-5.2", HARD, "medium", "high", NONE_XHIGH, "none", context=400_000),
    _gpt("gpt-5.2-pro", "GPT-5.2 Pro", TOUGH, "slow", "high", _PRO, "high", context=400_000),
    _gpt(
        "gpt-5.2-codex",
        "GPT-5.2 Codex",
        CODING,
        "medium",
        "high",
        LOW_XHIGH,
        "medium",
        context=400_000,
    ),
    _gpt("gpt-5.1", "GPT-5.1", HARD, "medium", "high", NONE_HIGH, "none", context=400_000, legacy=True),
    _gpt("gpt-5", "GPT-5", HARD, "medium", "high", MINIMAL_HIGH, "medium", context=400_000, legacy=True),
    _gpt("gpt-5-pro", "GPT-5 Pro", TOUGH, "slow", "high", ("high",), "high", context=400_000, legacy=True),
    _gpt("gpt-5-mini", "GPT-5 Mini", CHEAP, "fast", "medium", MINIMAL_HIGH, "medium", context=400_000),
    _gpt("gpt-5-nano", "GPT-5 Nano", MANY, "fast", "low", MINIMAL_HIGH, "medium", context=400_000),
    _o("o4-mini", "o4-mini", "medium"),
    _o("o3", "o3", "high"),
    _o("o3-mini", "o3-mini", "medium", vision=False),
    _o("o1", "o1", "high"),
    _gpt4("gpt-4.1", "GPT-4.1 (Legacy)", "Consider upgrading to GPT-5.4", "medium", "medium", 1_047_576, 32_768),
    _gpt4(
        "gpt-4.1-mini", "GPT-4.1 Mini (Legacy)", "Consider upgrading to GPT-5.4 Mini", "fast", "low", 1_047_576, 32_768
    ),
    _gpt4("gpt-4o", "GPT-4o (Legacy)", "Consider upgrading to GPT-5.2", "medium", "medium", 128_000, 16_384),
    _gpt4("gpt-4o-mini", "GPT-4o Mini (Legacy)", "Consider upgrading to GPT-5.4 Mini", "fast", "low", 128_000, 16_384),
)

BY_ID = by_id(*MODELS)

ENDING: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "o1-preview": ("2025-07-28", "gpt-5.4"),
        "gpt-4o-2024-05-13": ("2026-10-23", "gpt-5.2"),
        "o4-mini": ("2026-10-23", "gpt-5.4-mini"),
        "o3-mini": ("2026-10-23", "gpt-5.4-mini"),
        "o1": ("2026-10-23", "gpt-5.4"),
        "gpt-5": ("2026-12-11", "gpt-5.4"),
        "gpt-5-pro": ("2026-12-11", "gpt-5.4-pro"),
        "gpt-5-mini": ("2026-12-11", "gpt-5.4-mini"),
        "gpt-5-nano": ("2026-12-11", "gpt-6-luna"),
        "o3": ("2026-12-11", "gpt-5.4"),
        "gpt-4.1": ("2027-01-14", "gpt-5.4"),
        "gpt-4.1-mini": ("2027-01-14", "gpt-5.4-mini"),
        "gpt-4o": ("2027-01-14", "gpt-5.2"),
        "gpt-4o-mini": ("2027-01-14", "gpt-5.4-mini"),
        "gpt-5.1": ("2027-04-01", "gpt-5.4"),
        "gpt-5.4-nano": ("2027-04-01", "gpt-6-luna"),
    }
)
"""What the SDK announces: the day, and our advice. A snapshot may end before the others of its model do."""

_GPT_5 = re.compile(r"gpt-5(?!\d)")
_LATER_GPT = re.compile(r"gpt-([5-9]|[1-9]\d)(?!\d)")
_O_SERIES = re.compile(r"o[1-9](?![\w.])")


def is_gpt5(name: str) -> bool:
    """Of the GPT-5 family, whatever its minor version."""
    return _GPT_5.match(name) is not None


def is_verbose(name: str) -> bool:
    """Of a family whose models heed verbosity."""
    return _LATER_GPT.match(name) is not None


def reasons(name: str) -> bool:
    """Of a family whose models can be told how hard to think."""
    return (_LATER_GPT.match(name) or _O_SERIES.match(name)) is not None
