"""What servers of chat completions take of a caller's wishes for sampling."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from belljar.vendors.sampling import CHOSEN, Row, row
from belljar.vendors.server_profile import ServerProfile

_OPENAI = ("stop", "seed", "presence_penalty", "frequency_penalty", "logit_bias")
_OPEN = (*_OPENAI, "top_k", "min_p")

CHAT: Mapping[str, Row] = MappingProxyType(
    {
        # Of whom nothing is known: most likely one of the open servers, which take all of it.
        "generic": row(*_OPEN, "repetition_penalty", "chat_template_kwargs"),
        "openai": row(*_OPENAI, stops=4),
        "lm_studio": row(*_OPENAI, "top_k", repetition_penalty="repeat_penalty"),
        "ollama": row("stop", "seed", "presence_penalty", "frequency_penalty"),
        "vllm": row(*_OPEN, "repetition_penalty", "chat_template_kwargs"),
        "llama_cpp": row(*_OPEN, "chat_template_kwargs", repetition_penalty="repeat_penalty"),
        "groq": row("stop", "seed", stops=4),
        "deepseek": row("stop", "presence_penalty", "frequency_penalty", stops=16),
        "openrouter": row(*_OPEN, "repetition_penalty"),
        "vertex": row("stop", "seed", "presence_penalty", "frequency_penalty", stops=5),
        "alibaba": row("stop", "seed", "presence_penalty", "repetition_penalty", "top_k"),
        "mistral": row("stop", "presence_penalty", "frequency_penalty", seed="random_seed"),
    }
)
"""Servers of chat completions, by the names of `quirks`."""


def chat_row(quirks: ServerProfile) -> Row:
    return CHAT.get(quirks.name, CHAT["generic"])


def carried(model: str, quirks: ServerProfile) -> frozenset[str]:
    """What of a caller's wishes reaches a model, by our names: `Sampling`'s, temperature, top_p and logprobs."""
    return frozenset({*chat_row(quirks).names, *CHOSEN, *({"logprobs"} & quirks.members)})
