"""What a kind of model server takes and does in its own way over OpenAI's wires: the columns of one row."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from belljar.vendors.call_ids import CHAT
from belljar.vendors.sampling import Row, row

Member: TypeAlias = Literal[
    "stream_options",
    "parallel_tool_calls",
    "reasoning_effort",
    "verbosity",
    "logprobs",
    "service_tier",
    "prompt_cache_key",
    "safety_identifier",
]
Choosing: TypeAlias = Literal["none", "required", "named"]


OPENAI_SAMPLING = ("stop", "seed", "presence_penalty", "frequency_penalty", "logit_bias")
OPEN_SAMPLING = (*OPENAI_SAMPLING, "top_k", "min_p")
"""What the servers of open models take beside what OpenAI does."""


class ServerProfile(Struct, frozen=True, kw_only=True):
    """One kind of server. The defaults are what most take."""

    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """How it calls the most tokens that an answer may have."""
    developer: bool = False
    """It tells the role `developer` from `system`; elsewhere there is only `system`, once and first."""
    members: frozenset[Member] = frozenset(["stream_options"])
    """Members of the body beyond the common ones that it takes; the others are left out."""
    sampling: Row = row(*OPEN_SAMPLING, "repetition_penalty", "chat_template_kwargs")
    """What it takes of a caller's wishes for sampling. Who is not known is most likely one of the open servers."""
    strict: bool = False
    """Function tools may ask for arguments that fit their schema."""
    formats: frozenset[Literal["json_object", "json_schema"]] = frozenset(["json_object", "json_schema"])
    """Values of `response_format.type` that it takes beside text."""
    choosing: frozenset[Choosing] = frozenset(["none", "required", "named"])
    """Values of `tool_choice` that it heeds beside auto."""
    images: Literal["tool", "user"] = "user"
    """Where images that a tool made may be shown: in the tool's message, or only in a user's that follows."""
    reasoning: Literal["reasoning_content", "reasoning"] | None = None
    """Where it wants the reasoning back that led to tool calls; nowhere without."""
    think_tags: bool = True
    """Its models may write reasoning into their text, between <think> tags."""
    drops_tools: bool = False
    """Tools reach its models only if their chat template has a place for them, and it does not say whether."""
    call_ids: str = CHAT
    """What ids of calls it takes on the wire of chat completions, as a pattern for the whole of one."""
    ordered: bool = False
    """Whoever speaks after a tool is the assistant, and orders come only first or before a user's words."""
