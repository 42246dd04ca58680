"""Gemini's generations, what each takes and does in its own way, and the models, whose rows derive from them."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from belljar.vendors.model import AGENTS, HARD, MANY, MINIMAL_HIGH, TOUGH, Cost, Effort, Model, Speed, round_effort

Level: TypeAlias = Literal["MINIMAL", "LOW", "MEDIUM", "HIGH"]

LEVELS: tuple[Level, ...] = ("MINIMAL", "LOW", "MEDIUM", "HIGH")
_EFFORT_OF: dict[Level, Effort] = {"MINIMAL": "minimal", "LOW": "low", "MEDIUM": "medium", "HIGH": "high"}
_TOKENS_OF = {"none": 0, "minimal": 512, "low": 2_048, "medium": 8_192, "high": 24_576}


class GeminiFamily(Struct, frozen=True, kw_only=True):
    """The defaults are what Gemini 3 and later have in common."""

    levels: tuple[Level, ...] = LEVELS
    """Values of `thinkingLevel` that it takes, the least first."""
    budget: tuple[int, int] | None = None
    """The least and the most tokens of `thinkingBudget`, where it takes that instead."""
    signs: bool = True
    """It refuses a function call that comes back without a signature."""
    combines: bool = True
    """It takes functions together with a form of the answer and with its own code execution, and images in results."""

    @property
    def thinks(self) -> bool:
        return bool(self.levels) or self.budget is not None

    @property
    def efforts(self) -> tuple[Effort, ...]:
        """The same in our words."""
        if self.budget is not None:
            return MINIMAL_HIGH if self.budget[0] else ("none", *MINIMAL_HIGH)
        return tuple(_EFFORT_OF[level] for level in self.levels)

    def write_thinking(self, effort: Effort) -> dict[str, Any]:
        """The members of `thinkingConfig` that come nearest, rounded down; none where it does not think."""
        if self.budget is not None:
            least, most = self.budget
            return {"thinkingBudget": min(most, max(least, _TOKENS_OF.get(effort, most)))}
        level = round_effort(self.efforts, effort)
        return {} if level is None else {"thinkingLevel": level.upper()}


_BEFORE_THINKING = GeminiFamily(levels=(), signs=False, combines=False)
_LOW_TO_HIGH = GeminiFamily(levels=("LOW", "MEDIUM", "HIGH"))

FAMILIES: tuple[tuple[str, GeminiFamily], ...] = (
    ("gemma", _BEFORE_THINKING),
    ("gemini-1", _BEFORE_THINKING),
    ("gemini-2.0", _BEFORE_THINKING),
    ("gemini-2.5-flash-image", _BEFORE_THINKING),
    ("gemini-2.5-pro", GeminiFamily(budget=(128, 32_768), signs=False, combines=False)),
    ("gemini-2.5", GeminiFamily(budget=(0, 24_576), signs=False, combines=False)),
    ("gemini-3-pro", GeminiFamily(levels=("LOW", "HIGH"))),
    ("gemini-3.1-pro", _LOW_TO_HIGH),
    ("gemini-3.7-flash", _LOW_TO_HIGH),
    ("gemini-3.8-flash", _LOW_TO_HIGH),
    ("gemini-4-argon", _LOW_TO_HIGH),
)
"""By the beginning of the name; the first that fits counts."""
_CURRENT = GeminiFamily()


def family(model: str) -> GeminiFamily:
    """Of a model by its name, with `models/` or a publisher before it or not."""
    name = model.rpartition("/")[2]
    return next((found for beginning, found in FAMILIES if name.startswith(beginning)), _CURRENT)


def _gemini(id: str, name: str, use: str, speed: Speed, cost: Cost, *, legacy: bool = False) -> Model:
    return Model(
        id=id,
        name=name,
        provider="gemini",
        use=use,
        speed=speed,
        cost=cost,
        context=1_048_576,
        output=65_536,
        efforts=family(id).efforts,
        legacy=legacy,
    )


MODELS = (
    _gemini("gemini-4-argon", "Gemini 4 Argon", HARD, "medium", "high"),
    _gemini("gemini-3.8-flash", "Gemini 3.8 Flash", AGENTS, "fast", "medium"),
    _gemini("gemini-3.7-flash", "Gemini 3.7 Flash", AGENTS, "fast", "medium"),
    _gemini("gemini-3.6-flash", "Gemini 3.6 Flash", AGENTS, "fast", "medium"),
    _gemini("gemini-3.5-flash", "Gemini 3.5 Flash", AGENTS, "fast", "medium"),
    _gemini("gemini-3.5-flash-lite", "Gemini 3.5 Flash-Lite", MANY, "fast", "low"),
    _gemini("gemini-3.1-pro", "Gemini 3.1 Pro", TOUGH, "slow", "high"),
    _gemini("gemini-3.1-flash-lite", "Gemini 3.1 Flash-Lite", MANY, "fast", "low"),
    _gemini("gemini-3-pro", "Gemini 3 Pro", TOUGH, "slow", "high", legacy=True),
    _gemini("gemini-3-flash", "Gemini 3 Flash", AGENTS, "fast", "medium"),
    _gemini("gemini-2.5-pro", "Gemini 2.5 Pro", HARD, "medium", "high", legacy=True),
    _gemini("gemini-2.5-flash", "Gemini 2.5 Flash", AGENTS, "fast", "medium", legacy=True),
    _gemini("gemini-2.5-flash-lite", "Gemini 2.5 Flash-Lite", MANY, "fast", "low", legacy=True),
)
