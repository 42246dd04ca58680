"""Every effort for every family of models, and what it has to be on the wire: what the model takes, rounded down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.parity.faces import FACES, Asking, Face, Faces
from tests.parity.rows import Row

from belljar.models import EFFORTS, MODELS, find
from belljar.vendors.anthropic import models as anthropic_models
from belljar.vendors.gemini import models as gemini_models

NOTHING = "nothing"
_UNLISTED = {
    "openai": ("gpt-99",),
    "anthropic": (
        "claude-3-7-sonnet-20250219", "claude-3-5-haiku-20241022", "claude-opus-4-1", "claude-opus-4-20250514",
        "claude-sonnet-4-20250514", "claude-nine-9",
    ),
    "gemini": ("gemma-3-27b-it", "gemini-2.0-flash", "gemini-2.5-flash-image", "gemini-9-flash"),
    "xai": ("grok-99",),
    "lm_studio": ("qwen3-8b",),
    "ollama": ("qwen3-8b", "gpt-oss:20b"),
    "vllm": ("qwen3-8b",),
}  # fmt: skip
"""Of families that the table of models does not have, and of none at all."""


@dataclass(frozen=True, kw_only=True)
class Efforts(Row):
    """All efforts for one model."""

    @property
    def faces(self) -> list[Face]:
        return [face for face in FACES[self.vendor] if face != "files"]

    @property
    def wanted(self) -> dict[str, str]:
        """What each effort is to be on the wire."""
        return {effort: _WANTED[self.vendor](self.id, effort) for effort in EFFORTS}


def told(faces: Faces, row: Efforts) -> dict[str, str]:
    """What is otherwise than it should be, by face."""
    wanted = row.wanted
    found: dict[str, str] = {}
    for face in row.faces:
        got = {effort: _sent(faces, face, row, effort) for effort in EFFORTS}
        wrong = [f"{effort}: {got[effort]}" for effort in EFFORTS if got[effort] != wanted[effort]]
        if wrong:
            found[face] = ", ".join(wrong)
    return found


def _sent(faces: Faces, face: Face, row: Efforts, effort: str) -> str:
    outcome = faces.ask(face, row.vendor, Asking(model=row.id, effort=effort))
    assert outcome.seen is None, outcome.seen
    [sent] = outcome.sent
    return _READ.get(row.vendor, _of_chat)(sent.json)


# -- what is wanted ---------------------------------------------------------------------------------------------------


def rounded(efforts: Sequence[str], wanted: str) -> str:
    """The most that is not more than wanted, or else the least; only who wants no thinking gets none."""
    if wanted in efforts:
        return wanted
    thinking = [one for one in efforts if one != "none"]
    lower = [one for one in thinking if _rank(one) <= _rank(wanted)]
    return lower[-1] if lower else thinking[0]


def _rank(effort: str) -> int:
    return [str(one) for one in EFFORTS].index(effort)


def _plain(model: str, effort: str) -> str:
    """By the table of models; one that is not in it gets what was said."""
    row = find(model)
    if row is None:
        return effort
    return rounded(row.efforts, effort) if row.efforts else NOTHING


def _anthropic(model: str, effort: str) -> str:
    """An effort implies that the model decides how much to think, where it can; with none it does not think."""
    kind = anthropic_models.family(model)
    if effort == "none" and kind.thinks != "always":
        return "disabled" if kind.thinks == "asked" else NOTHING
    if not kind.efforts:
        return NOTHING
    thinking = " adaptive" if kind.thinks != "never" and effort != "none" else ""
    return rounded(kind.efforts, effort) + thinking


def _gemini(model: str, effort: str) -> str:
    kind = gemini_models.family(model)
    if kind.budget is not None:
        return str(kind.write_thinking(effort)["thinkingBudget"])  # type: ignore[arg-type]
    if not kind.levels:
        return NOTHING
    return rounded([level.lower() for level in kind.levels], effort)


def _chat(takes: bool) -> Any:
    return lambda model, effort: effort if takes else NOTHING


_WANTED: dict[str, Any] = {
    "openai": _plain,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "xai": _plain,
    "lm_studio": _chat(False),
    "ollama": _chat(True),
    "vllm": _chat(True),
}

# -- what was sent ----------------------------------------------------------------------------------------------------


def _of_responses(body: Any) -> str:
    return str(body.get("reasoning", {}).get("effort", NOTHING))


def _of_anthropic(body: Any) -> str:
    parts = (body.get("output_config", {}).get("effort"), body.get("thinking", {}).get("type"))
    return " ".join(filter(None, parts)) or NOTHING


def _of_gemini(body: Any) -> str:
    told = body["generationConfig"].get("thinkingConfig", {})
    found = {name.replace("_", "").lower(): value for name, value in told.items()}
    return str(found.get("thinkingbudget", found.get("thinkinglevel", NOTHING))).lower()


def _of_chat(body: Any) -> str:
    return str(body.get("reasoning_effort", NOTHING))


_READ = {"openai": _of_responses, "xai": _of_responses, "anthropic": _of_anthropic, "gemini": _of_gemini}


def _families() -> list[Efforts]:
    """One model of each family: those that take the same by the table of models are to get the same."""
    found: dict[object, Efforts] = {}
    for vendor, unlisted in _UNLISTED.items():
        listed = [row.id for row in MODELS.values() if row.provider == vendor]
        for row in (Efforts(id=model, vendor=vendor) for model in (*listed, *unlisted)):
            known = find(row.id)
            found.setdefault((vendor, *row.wanted.values(), known and known.efforts), row)
    return list(found.values())


EFFORT_ROWS = tuple(_families())
