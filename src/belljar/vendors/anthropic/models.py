"""Claude's generations, what each takes and does in its own way, and the models, whose rows derive from them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from belljar.vendors.model import AGENTS, HARD, TOUGH, Cost, Model, Speed, round_effort
from belljar.wire.responses import Reasoner

Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]

_EFFORTS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")


class ClaudeFamily(Struct, frozen=True, kw_only=True):
    """The defaults are what Claude 5 models have in common."""

    most: int = 128_000
    """Tokens of an answer where the caller sets no limit: the wire asks for one."""
    efforts: tuple[Effort, ...] = _EFFORTS
    """Values of `output_config.effort` that it takes, the least first."""
    thinks: Literal["never", "asked", "always"] = "asked"
    """Whether it decides by itself how much to think. What only thinks by a budget of tokens is not asked to."""
    forms: bool = True
    """It keeps to a schema, of its answer and of a tool's input."""
    samples: bool = False
    """It takes temperature and top_p, where the version of the wire does."""
    code_tool: str = "code_execution_20260521"
    """The newest version of the vendor's code execution that it takes, where the version of the wire does."""

    def effort(self, reasoner: Reasoner | None) -> Effort | None:
        """The value that comes nearest without being more than asked for; None where none is to be sent."""
        wanted = reasoner.effort if reasoner else None
        if wanted is None or (wanted == "none" and self.thinks != "always"):
            return None
        return round_effort(self.efforts, wanted)

    def write_thinking(self, reasoner: Reasoner | None) -> dict[str, Any] | None:
        """`thinking` for a caller who wants it, or who wants none of it; None where that is not to be said."""
        if reasoner is None or self.thinks == "never" or not (reasoner.effort or reasoner.summary):
            return None
        if reasoner.effort == "none":
            return {"type": "disabled"} if self.thinks == "asked" else None
        return {"type": "adaptive", "display": "summarized"} if reasoner.summary else {"type": "adaptive"}


_FIRST, _SECOND = "code_execution_20250825", "code_execution_20260120"
"""Code execution with files, and with a Python that keeps its variables."""
_EARLY = ClaudeFamily(most=4_096, efforts=(), thinks="never", forms=False, samples=True, code_tool=_FIRST)
_OLD = ClaudeFamily(most=64_000, efforts=(), thinks="never", forms=False, samples=True, code_tool=_FIRST)
_FOUR_FIVE = ClaudeFamily(most=64_000, efforts=(), thinks="never", samples=True, code_tool=_SECOND)
_ALWAYS = ClaudeFamily(thinks="always")

FAMILIES: tuple[tuple[str, ClaudeFamily], ...] = (
    ("claude-3-7", _OLD),
    ("claude-3-5", ClaudeFamily(most=8_192, efforts=(), thinks="never", forms=False, samples=True, code_tool=_FIRST)),
    ("claude-3", _EARLY),
    ("claude-2", _EARLY),
    ("claude-instant", _EARLY),
    ("claude-opus-4-1", ClaudeFamily(most=32_000, efforts=(), thinks="never", samples=True, code_tool=_FIRST)),
    (
        "claude-opus-4-5",
        ClaudeFamily(most=64_000, efforts=_EFFORTS[:3], thinks="never", samples=True, code_tool=_SECOND),
    ),
    ("claude-opus-4-6", ClaudeFamily(efforts=("low", "medium", "high", "max"), samples=True, code_tool=_SECOND)),
    ("claude-opus-4-7", ClaudeFamily(code_tool=_SECOND)),
    ("claude-opus-4-8", ClaudeFamily(code_tool=_SECOND)),
    (
        "claude-opus-4",
        ClaudeFamily(most=32_000, efforts=(), thinks="never", forms=False, samples=True, code_tool=_FIRST),
    ),
    ("claude-sonnet-4-5", _FOUR_FIVE),
    ("claude-sonnet-4-6", ClaudeFamily(efforts=_EFFORTS[:3], samples=True, code_tool=_SECOND)),
    ("claude-sonnet-4", _OLD),
    ("claude-haiku-4", replace(_FOUR_FIVE, code_tool=_FIRST)),
    ("claude-haiku", ClaudeFamily(most=64_000)),
    ("claude-opus-5-5", _ALWAYS),
    ("claude-fable", _ALWAYS),
    ("claude-mythos", _ALWAYS),
)
"""By the beginning of the name; the first that fits counts."""
_CURRENT = ClaudeFamily()
_OTHER = ClaudeFamily(most=8_192, efforts=(), thinks="never", forms=False, samples=True, code_tool=_FIRST)
"""A model of somebody else's who speaks this wire too."""


def family(model: str) -> ClaudeFamily:
    """Of a model by its name, with a cloud's or a proxy's prefix before it or not."""
    at = model.find("claude")
    if at < 0:
        return _OTHER
    return next((found for beginning, found in FAMILIES if model.startswith(beginning, at)), _CURRENT)


def _claude(
    id: str, name: str, use: str, speed: Speed, cost: Cost, *, context: int = 1_000_000, legacy: bool = False
) -> Model:
    """Anthropic's version of late 2026 takes no temperature from anyone."""
    kind = family(id)
    return Model(
        id=id,
        name=name,
        provider="anthropic",
        use=use,
        speed=speed,
        cost=cost,
        context=context,
        output=kind.most,
        efforts=kind.efforts,
        effort="high" if kind.efforts else None,
        temperature=False,
        legacy=legacy,
    )


_QUICK = "Quick answers at scale"
_SHORT = 200_000

MODELS = (
    _claude("claude-fable-5-2", "Claude Fable 5.2", TOUGH, "slow", "high"),
    _claude("claude-mythos-5-2", "Claude Mythos 5.2", TOUGH, "slow", "high"),
    _claude("claude-opus-5-5", "Claude Opus 5.5", HARD, "medium", "high"),
    _claude("claude-sonnet-5-5", "Claude Sonnet 5.5", AGENTS, "medium", "medium"),
    _claude("claude-haiku-5-5", "Claude Haiku 5.5", _QUICK, "fast", "low"),
    _claude("claude-fable-5-1", "Claude Fable 5.1", TOUGH, "slow", "high"),
    _claude("claude-mythos-5-1", "Claude Mythos 5.1", TOUGH, "slow", "high"),
    _claude("claude-fable-5", "Claude Fable 5", TOUGH, "slow", "high"),
    _claude("claude-mythos-5", "Claude Mythos 5", TOUGH, "slow", "high"),
    _claude("claude-opus-5", "Claude Opus 5", HARD, "medium", "high"),
    _claude("claude-sonnet-5", "Claude Sonnet 5", AGENTS, "medium", "medium"),
    _claude("claude-opus-4-8", "Claude Opus 4.8", HARD, "medium", "high"),
    _claude("claude-opus-4-7", "Claude Opus 4.7", HARD, "medium", "high"),
    _claude("claude-opus-4-6", "Claude Opus 4.6", HARD, "medium", "high"),
    _claude("claude-sonnet-4-6", "Claude Sonnet 4.6", AGENTS, "medium", "medium"),
    _claude("claude-opus-4-5", "Claude Opus 4.5", HARD, "medium", "high", context=_SHORT, legacy=True),
    _claude("claude-sonnet-4-5", "Claude Sonnet 4.5", AGENTS, "medium", "medium", context=_SHORT, legacy=True),
    _claude("claude-haiku-4-5", "Claude Haiku 4.5", _QUICK, "fast", "low", context=_SHORT, legacy=True),
)

ENDING: Mapping[str, tuple[str, str]] = MappingProxyType({"claude-sonnet-4-5": ("2026-11-30", "claude-sonnet-5-5")})
"""What the SDK announces: the day, and our advice."""
