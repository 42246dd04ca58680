"""The models of the four vendors as a table: what each takes and how much, and the questions asked of it.

A name that is not in the table is answered for by its family where the question has a safe answer, else with None.
The ids are those of the vendors' SDKs of late 2026. Windows and efforts were gathered second-hand and not tried against
any vendor, and `use`, `speed` and `cost` of rows outside the founding table are our own estimate. None is not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

Provider: TypeAlias = Literal["openai", "anthropic", "gemini", "xai"]
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Speed: TypeAlias = Literal["fast", "medium", "slow"]
Cost: TypeAlias = Literal["low", "medium", "high"]

_E = TypeVar("_E", bound=Effort)

EFFORTS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The least first."""


class Model(Struct, frozen=True, kw_only=True):
    """One model. The defaults are what nearly all of them have."""

    id: str
    name: str
    provider: Provider
    use: str
    speed: Speed = "medium"
    cost: Cost = "medium"
    context: int | None = None
    """Tokens of the conversation and the answer together."""
    output: int | None = None
    """Tokens of an answer at most."""
    efforts: tuple[Effort, ...] = ()
    """How hard it can be told to think, the least first; empty where it cannot be told."""
    effort: Effort | None = None
    """How hard it thinks when nothing is said."""
    verbosity: bool = False
    """`text.verbosity` is heeded."""
    vision: bool = True
    temperature: bool = True
    """Temperature and top_p are taken; where it can think, only while it does not."""
    strict: bool = True
    """Functions can be held to their schema."""
    runs: bool = True
    """Its vendor can run code for it."""
    legacy: bool = False
    """There is a better one for everything."""
    ends: str | None = None
    """The day on which its vendor shuts it down, where that is announced, such as 2026-12-11."""
    instead: str | None = None
    """The model to go on with then, which has no such day."""


# -- the rows ---------------------------------------------------------------------------------------------------------

_LOW_HIGH: tuple[Effort, ...] = ("low", "medium", "high")
_LOW_XHIGH: tuple[Effort, ...] = ("low", "medium", "high", "xhigh")
_LOW_MAX: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")
_NONE_HIGH: tuple[Effort, ...] = ("none", *_LOW_HIGH)
_NONE_XHIGH: tuple[Effort, ...] = ("none", *_LOW_XHIGH)
_NONE_MAX: tuple[Effort, ...] = ("none", *_LOW_MAX)
_MINIMAL_HIGH: tuple[Effort, ...] = ("minimal", *_LOW_HIGH)
_PRO: tuple[Effort, ...] = ("medium", "high", "xhigh")

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
        efforts=_LOW_HIGH,
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


_HARD = "Complex reasoning, agentic tasks, code generation"
_TOUGH = "Tough problems requiring extended thinking"
_CHEAP = "Cost-optimised reasoning and chat"
_MANY = "High throughput, simple tasks, classification"

_OPENAI = (
    _gpt("gpt-6-astra", "GPT-6 Astra", _TOUGH, "slow", "high", _LOW_MAX, "medium"),
    _gpt("gpt-6.1-sol", "GPT-6.1 Sol", _HARD, "medium", "high", _LOW_MAX, "medium"),
    _gpt("gpt-6.1-terra", "GPT-6.1 Terra", _CHEAP, "medium", "medium", _NONE_MAX, "medium"),
    _gpt("gpt-6-sol", "GPT-6 Sol", _HARD, "medium", "high", _NONE_MAX, "medium"),
    _gpt("gpt-6-luna", "GPT-6 Luna", _MANY, "fast", "low", _NONE_MAX, "medium"),
    _gpt("gpt-5.6-sol", "GPT-5.6 Sol", _HARD, "medium", "high", _NONE_XHIGH, "medium"),
    _gpt("gpt-5.6-terra", "GPT-5.6 Terra", _CHEAP, "medium", "medium", _NONE_XHIGH, "medium"),
    _gpt("gpt-5.6-luna", "GPT-5.6 Luna", _MANY, "fast", "low", _NONE_XHIGH, "medium"),
    _gpt("gpt-5.5", "GPT-5.5", _HARD, "medium", "high", _NONE_XHIGH, "medium", context=1_000_000),
    _gpt("gpt-5.5-pro", "GPT-5.5 Pro", _TOUGH, "slow", "high", _PRO, "high", context=1_000_000),
    _gpt("gpt-5.4", "GPT-5.4", _HARD, "medium", "high", _NONE_XHIGH, "none"),
    _gpt("gpt-5.4-pro", "GPT-5.4 Pro", _TOUGH, "slow", "high", _PRO, "high"),
    _gpt("gpt-5.4-mini", "GPT-5.4 Mini", _CHEAP, "fast", "medium", _NONE_XHIGH, "none", context=400_000),
    _gpt("gpt-5.4-nano", "GPT-5.4 Nano", _MANY, "fast", "low", _NONE_XHIGH, "none", context=400_000),
    _gpt("gpt-5.2", "GPT-5.2", _HARD, "medium", "high", _NONE_XHIGH, "none", context=400_000),
    _gpt("gpt-5.2-pro", "GPT-5.2 Pro", _TOUGH, "slow", "high", _PRO, "high", context=400_000),
    _gpt(
        "gpt-5.2-codex",
        "GPT-5.2 Codex",
        "Agentic coding workflows, development tasks",
        "medium",
        "high",
        _LOW_XHIGH,
        "medium",
        context=400_000,
    ),
    _gpt("gpt-5.1", "GPT-5.1", _HARD, "medium", "high", _NONE_HIGH, "none", context=400_000, legacy=True),
    _gpt("gpt-5", "GPT-5", _HARD, "medium", "high", _MINIMAL_HIGH, "medium", context=400_000, legacy=True),
    _gpt("gpt-5-pro", "GPT-5 Pro", _TOUGH, "slow", "high", ("high",), "high", context=400_000, legacy=True),
    _gpt("gpt-5-mini", "GPT-5 Mini", _CHEAP, "fast", "medium", _MINIMAL_HIGH, "medium", context=400_000),
    _gpt("gpt-5-nano", "GPT-5 Nano", _MANY, "fast", "low", _MINIMAL_HIGH, "medium", context=400_000),
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


def _claude(
    id: str,
    name: str,
    use: str,
    speed: Speed,
    cost: Cost,
    efforts: tuple[Effort, ...] = _LOW_MAX,
    *,
    context: int = 1_000_000,
    output: int = 128_000,
    legacy: bool = False,
) -> Model:
    """Anthropic's version of late 2026 takes no temperature from anyone."""
    return Model(
        id=id,
        name=name,
        provider="anthropic",
        use=use,
        speed=speed,
        cost=cost,
        context=context,
        output=output,
        efforts=efforts,
        effort="high" if efforts else None,
        temperature=False,
        legacy=legacy,
    )


_AGENTS = "Agents and coding"
_QUICK = "Quick answers at scale"

_ANTHROPIC = (
    _claude("claude-fable-5-2", "Claude Fable 5.2", _TOUGH, "slow", "high"),
    _claude("claude-mythos-5-2", "Claude Mythos 5.2", _TOUGH, "slow", "high"),
    _claude("claude-opus-5-5", "Claude Opus 5.5", _HARD, "medium", "high"),
    _claude("claude-sonnet-5-5", "Claude Sonnet 5.5", _AGENTS, "medium", "medium"),
    _claude("claude-haiku-5-5", "Claude Haiku 5.5", _QUICK, "fast", "low", output=64_000),
    _claude("claude-fable-5-1", "Claude Fable 5.1", _TOUGH, "slow", "high"),
    _claude("claude-mythos-5-1", "Claude Mythos 5.1", _TOUGH, "slow", "high"),
    _claude("claude-fable-5", "Claude Fable 5", _TOUGH, "slow", "high"),
    _claude("claude-mythos-5", "Claude Mythos 5", _TOUGH, "slow", "high"),
    _claude("claude-opus-5", "Claude Opus 5", _HARD, "medium", "high"),
    _claude("claude-sonnet-5", "Claude Sonnet 5", _AGENTS, "medium", "medium"),
    _claude("claude-opus-4-8", "Claude Opus 4.8", _HARD, "medium", "high"),
    _claude("claude-opus-4-7", "Claude Opus 4.7", _HARD, "medium", "high"),
    _claude("claude-opus-4-6", "Claude Opus 4.6", _HARD, "medium", "high", (*_LOW_HIGH, "max")),
    _claude("claude-sonnet-4-6", "Claude Sonnet 4.6", _AGENTS, "medium", "medium", _LOW_HIGH),
    _claude(
        "claude-opus-4-5",
        "Claude Opus 4.5",
        _HARD,
        "medium",
        "high",
        _LOW_HIGH,
        context=200_000,
        output=64_000,
        legacy=True,
    ),
    _claude(
        "claude-sonnet-4-5",
        "Claude Sonnet 4.5",
        _AGENTS,
        "medium",
        "medium",
        (),
        context=200_000,
        output=64_000,
        legacy=True,
    ),
    _claude(
        "claude-haiku-4-5", "Claude Haiku 4.5", _QUICK, "fast", "low", (), context=200_000, output=64_000, legacy=True
    ),
)


def _gemini(
    id: str, name: str, use: str, speed: Speed, cost: Cost, efforts: tuple[Effort, ...], *, legacy: bool = False
) -> Model:
    return Model(
        id=id,
        name=name,
        provider="gemini",
        use=use,
        speed=speed,
        cost=cost,
        context=1_048_576,
        output=65_536,
        efforts=efforts,
        legacy=legacy,
    )


_GEMINI = (
    _gemini("gemini-4-argon", "Gemini 4 Argon", _HARD, "medium", "high", _LOW_HIGH),
    _gemini("gemini-3.8-flash", "Gemini 3.8 Flash", _AGENTS, "fast", "medium", _LOW_HIGH),
    _gemini("gemini-3.7-flash", "Gemini 3.7 Flash", _AGENTS, "fast", "medium", _LOW_HIGH),
    _gemini("gemini-3.6-flash", "Gemini 3.6 Flash", _AGENTS, "fast", "medium", _MINIMAL_HIGH),
    _gemini("gemini-3.5-flash", "Gemini 3.5 Flash", _AGENTS, "fast", "medium", _MINIMAL_HIGH),
    _gemini("gemini-3.5-flash-lite", "Gemini 3.5 Flash-Lite", _MANY, "fast", "low", _MINIMAL_HIGH),
    _gemini("gemini-3.1-pro", "Gemini 3.1 Pro", _TOUGH, "slow", "high", _LOW_HIGH),
    _gemini("gemini-3.1-flash-lite", "Gemini 3.1 Flash-Lite", _MANY, "fast", "low", _MINIMAL_HIGH),
    _gemini("gemini-3-pro", "Gemini 3 Pro", _TOUGH, "slow", "high", ("low", "high"), legacy=True),
    _gemini("gemini-3-flash", "Gemini 3 Flash", _AGENTS, "fast", "medium", _MINIMAL_HIGH),
    _gemini("gemini-2.5-pro", "Gemini 2.5 Pro", _HARD, "medium", "high", _MINIMAL_HIGH, legacy=True),
    _gemini("gemini-2.5-flash", "Gemini 2.5 Flash", _AGENTS, "fast", "medium", ("none", *_MINIMAL_HIGH), legacy=True),
    _gemini(
        "gemini-2.5-flash-lite", "Gemini 2.5 Flash-Lite", _MANY, "fast", "low", ("none", *_MINIMAL_HIGH), legacy=True
    ),
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


_CODING = "Agentic coding workflows, development tasks"
_FOUR = 2_000_000

_XAI = (
    _grok("grok-4.6", "Grok 4.6", _HARD, "medium", "high", 500_000, _LOW_HIGH),
    _grok("grok-4.5", "Grok 4.5", _HARD, "medium", "high", 500_000, _LOW_HIGH),
    _grok("grok-4.3", "Grok 4.3", _HARD, "medium", "medium", 1_000_000, _NONE_HIGH),
    _grok("grok-4.20", "Grok 4.20", _HARD, "medium", "medium", 1_000_000),
    _grok("grok-4.20-multi-agent", "Grok 4.20 Multi-Agent", _TOUGH, "slow", "high", 1_000_000),
    _grok("grok-4.20-non-reasoning", "Grok 4.20 Non-Reasoning", _MANY, "fast", "medium", 1_000_000),
    _grok("grok-build-0.1", "Grok Build 0.1", _CODING, "fast", "medium", 256_000),
    _grok("grok-code-fast-1", "Grok Code Fast 1", _CODING, "fast", "low", 256_000, vision=False, legacy=True),
    # Names that are retired and lead to Grok 4.3.
    _grok("grok-4", "Grok 4", _HARD, "medium", "high", 256_000, _NONE_HIGH, legacy=True),
    _grok("grok-4-1-fast", "Grok 4.1 Fast", _MANY, "fast", "low", _FOUR, _NONE_HIGH, legacy=True),
    _grok("grok-4-1-fast-reasoning", "Grok 4.1 Fast", _MANY, "fast", "low", _FOUR, _NONE_HIGH, legacy=True),
    _grok("grok-4-1-fast-non-reasoning", "Grok 4.1 Fast", _MANY, "fast", "low", _FOUR, _NONE_HIGH, legacy=True),
    _grok("grok-4-fast", "Grok 4 Fast", _MANY, "fast", "low", _FOUR, _NONE_HIGH, legacy=True),
    _grok("grok-4-fast-reasoning", "Grok 4 Fast", _MANY, "fast", "low", _FOUR, _NONE_HIGH, legacy=True),
    _grok("grok-4-fast-non-reasoning", "Grok 4 Fast", _MANY, "fast", "low", _FOUR, _NONE_HIGH, legacy=True),
    _grok("grok-3", "Grok 3", _HARD, "medium", "high", 131_072, _NONE_HIGH, vision=False, legacy=True),
    _grok(
        "grok-3-mini",
        "Grok 3 Mini",
        _CHEAP,
        "fast",
        "low",
        131_072,
        ("none", "low", "high"),
        vision=False,
        runs=False,
        legacy=True,
    ),
)

_ENDING: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "o1-preview": ("2025-07-28", "gpt-5.4"),
        "gpt-4o-2024-05-13": ("2026-10-23", "gpt-5.2"),
        "o4-mini": ("2026-10-23", "gpt-5.4-mini"),
        "o3-mini": ("2026-10-23", "gpt-5.4-mini"),
        "o1": ("2026-10-23", "gpt-5.4"),
        "claude-sonnet-4-5": ("2026-11-30", "claude-sonnet-5-5"),
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
"""What the vendors' SDKs announce: the day, and our advice. Gemini's and xAI's name no days. A snapshot may end before
the others of its model do.
"""


def _row(row: Model) -> Model:
    ends, instead = _ENDING.get(row.id, (None, None))
    return replace(row, ends=ends, instead=instead)


MODELS: Mapping[str, Model] = MappingProxyType({row.id: _row(row) for row in (*_OPENAI, *_ANTHROPIC, *_GEMINI, *_XAI)})
"""By id, the newest of each vendor first."""

_DATED = re.compile(r"[-@](\d{3,8}|\d{4}-\d{2}-\d{2}|latest|preview|preview-\d{2}-\d{4}|preview-customtools)")
"""What a name may have behind it and still be the same model."""
_GPT_5 = re.compile(r"gpt-5(?!\d)")
_LATER_GPT = re.compile(r"gpt-([5-9]|[1-9]\d)(?!\d)")
_O_SERIES = re.compile(r"o[1-9](?![\w.])")


# -- the questions ----------------------------------------------------------------------------------------------------


def find(name: str) -> Model | None:
    """The row of a model by its name: with its vendor before it or not, dated or not."""
    bare = name.rpartition("/")[2]
    row = MODELS.get(bare)
    if row is not None:
        return row
    fitting = [id for id in MODELS if bare.startswith(id) and _DATED.fullmatch(bare, len(id))]
    return MODELS[max(fitting, key=len)] if fitting else None


def get_models_by_provider(provider: str) -> list[Model]:
    """The newest first; empty for a provider that is not in the table."""
    return [row for row in MODELS.values() if row.provider == provider]


def is_gpt5_model(name: str) -> bool:
    """Of the GPT-5 family, whatever its minor version."""
    return _GPT_5.match(name.rpartition("/")[2]) is not None


def is_reasoning_model(name: str) -> bool:
    """It can be told how hard to think."""
    row = find(name)
    return bool(row.efforts) if row is not None else _reasons(name)


def supports_verbosity(name: str) -> bool:
    row = find(name)
    return row.verbosity if row is not None else _LATER_GPT.match(name.rpartition("/")[2]) is not None


def supports_vision(name: str) -> bool | None:
    """Whether it sees images; None where it is not in the table."""
    row = find(name)
    return None if row is None else row.vision


def ending(name: str) -> str | None:
    """What a user of the model is told where its vendor has announced its end; None where that has not been."""
    row = find(name)
    own = _ENDING.get(name.rpartition("/")[2]) or (_ENDING.get(row.id) if row is not None else None)
    return f"{name} is shut down by its vendor on {own[0]}; use {own[1]}" if own is not None else None


def nearest_effort(name: str, effort: Effort) -> Effort | None:
    """The effort to ask a model for, rounded down; None where it cannot be told. Unknown models get what was said."""
    row = find(name)
    return effort if row is None else round_effort(row.efforts, effort)


def round_effort(efforts: Sequence[_E], wanted: Effort) -> _E | None:
    """Of what is taken, the most that is not more than wanted, or else the least: more costs money.

    Only who wants no thinking gets `none`, which is not less of it but another thing. None where nothing is taken.
    """
    same = next((one for one in efforts if one == wanted), None)
    thinking = [one for one in efforts if one != "none"]
    lower = [one for one in thinking if EFFORTS.index(one) < EFFORTS.index(wanted)]
    return same or next(reversed(lower), next(iter(thinking), None))


def _reasons(name: str) -> bool:
    bare = name.rpartition("/")[2]
    return (_LATER_GPT.match(bare) or _O_SERIES.match(bare)) is not None
