"""How the words of an answer are chosen, in each server's own terms: which of a caller's wishes its wire carries."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from belljar.vendors.anthropic.models import family
from belljar.vendors.server_profile import ServerProfile
from belljar.wire.requests import Sampling

_NO_SAMPLING = "2026-10-21"
"""The version of Anthropic's wire from which on temperature, top_p and top_k are refused."""


class Row(Struct, frozen=True):
    """One kind of server: its names for those of our `Sampling` that it takes."""

    names: Mapping[str, str]
    stops: int | None = None
    """How many stop sequences it takes; the gateway itself keeps the rest."""


def _row(*same: str, stops: int | None = None, **other: str) -> Row:
    return Row(MappingProxyType({**{name: name for name in same}, **other}), stops)


_OPENAI = ("stop", "seed", "presence_penalty", "frequency_penalty", "logit_bias")
_OPEN = (*_OPENAI, "top_k", "min_p")
NONE = _row()

CHAT: Mapping[str, Row] = MappingProxyType(
    {
        # Of whom nothing is known: most likely one of the open servers, which take all of it.
        "generic": _row(*_OPEN, "repetition_penalty", "chat_template_kwargs"),
        "openai": _row(*_OPENAI, stops=4),
        "lm_studio": _row(*_OPENAI, "top_k", repetition_penalty="repeat_penalty"),
        "ollama": _row("stop", "seed", "presence_penalty", "frequency_penalty"),
        "vllm": _row(*_OPEN, "repetition_penalty", "chat_template_kwargs"),
        "llama_cpp": _row(*_OPEN, "chat_template_kwargs", repetition_penalty="repeat_penalty"),
        "groq": _row("stop", "seed", stops=4),
        "deepseek": _row("stop", "presence_penalty", "frequency_penalty", stops=16),
        "openrouter": _row(*_OPEN, "repetition_penalty"),
        "vertex": _row("stop", "seed", "presence_penalty", "frequency_penalty", stops=5),
        "alibaba": _row("stop", "seed", "presence_penalty", "repetition_penalty", "top_k"),
        "mistral": _row("stop", "presence_penalty", "frequency_penalty", seed="random_seed"),
    }
)
"""Servers of chat completions, by the names of `quirks`."""
GEMINI = _row(
    "seed",
    stops=5,
    stop="stopSequences",
    top_k="topK",
    presence_penalty="presencePenalty",
    frequency_penalty="frequencyPenalty",
)
ANTHROPIC = _row(stop="stop_sequences", top_k="top_k")


def chat_row(quirks: ServerProfile) -> Row:
    return CHAT.get(quirks.name, CHAT["generic"])


def members(asked: Sampling, row: Row) -> dict[str, Any]:
    """The members of a body that say it. A stop of nothing but space is left out, as some refuse it."""
    said = asked.given()
    if "stop" in said:
        said["stop"] = [one for one in said["stop"] if not one.isspace()][: row.stops]
    return {row.names[name]: value for name, value in said.items() if name in row.names and value != []}


def claude_samples(model: str, quirks: ServerProfile) -> bool:
    """Whether temperature, top_p and top_k may be sent at all."""
    return quirks.version < _NO_SAMPLING and family(model).samples


def carried(dialect: str, quirks: ServerProfile, model: str) -> frozenset[str]:
    """What of a caller's wishes reaches a model, by our names: `Sampling`'s, temperature, top_p and logprobs."""
    both = {"temperature", "top_p"}
    match dialect:
        case "chat":
            return frozenset({*chat_row(quirks).names, *both, *({"logprobs"} & quirks.members)})
        case "openai" | "xai":
            return frozenset({*both, "logprobs"})
        case "gemini":
            return frozenset({*GEMINI.names, *both})
        case "anthropic":
            return frozenset({*ANTHROPIC.names, *both} if claude_samples(model, quirks) else {"stop"})
        case _:
            return frozenset()
