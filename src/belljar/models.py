"""The vendors' models as a table: limits and abilities of each, and functions that look them up.

A name that is not in the table is answered for by its family where the question has a safe answer, else with None.
The ids are those of the vendors' SDKs of late 2026. Windows and efforts were gathered second-hand and not tried against
any vendor, and `use`, `speed` and `cost` of rows outside the founding table are our own estimate. None is not known.
The rows stand in the vendors' folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from belljar.vendors.anthropic import models as anthropic
from belljar.vendors.model import EFFORTS, Cost, Effort, Model, Speed, find_row, nearest_effort_of, round_effort
from belljar.vendors.openai import models as openai
from belljar.vendors.registry import VENDORS

__all__ = [
    "EFFORTS",
    "MODELS",
    "Cost",
    "Effort",
    "Model",
    "Speed",
    "ending",
    "find",
    "get_models_by_provider",
    "is_gpt5_model",
    "is_reasoning_model",
    "nearest_effort",
    "round_effort",
    "supports_verbosity",
    "supports_vision",
]

_ENDING = {**openai.ENDING, **anthropic.ENDING}
"""What vendors announce; Gemini's and xAI's name no days."""


def _row(row: Model) -> Model:
    ends, instead = _ENDING.get(row.id, (None, None))
    return replace(row, ends=ends, instead=instead)


MODELS: Mapping[str, Model] = MappingProxyType(
    {row.id: _row(row) for vendor in VENDORS.values() for row in vendor.model_rows}
)
"""By id, the newest of each vendor first."""

# -- the questions ----------------------------------------------------------------------------------------------------


def find(name: str) -> Model | None:
    """The row of a model by its name: with its vendor before it or not, dated or not."""
    return find_row(MODELS, name)


def get_models_by_provider(provider: str) -> list[Model]:
    """The newest first; empty for a provider that is not in the table."""
    return [row for row in MODELS.values() if row.provider == provider]


def is_gpt5_model(name: str) -> bool:
    """Of the GPT-5 family, whatever its minor version."""
    return openai.is_gpt5(name.rpartition("/")[2])


def is_reasoning_model(name: str) -> bool:
    """It can be told how hard to think."""
    row = find(name)
    return bool(row.efforts) if row is not None else openai.reasons(name.rpartition("/")[2])


def supports_verbosity(name: str) -> bool:
    row = find(name)
    return row.verbosity if row is not None else openai.is_verbose(name.rpartition("/")[2])


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
    return nearest_effort_of(MODELS, name, effort)
