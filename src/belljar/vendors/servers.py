"""What each kind of model server takes and does in its own way, as a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct, structs

from belljar.vendors.call_ids import CHAT, NINE

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


class ServerProfile(Struct, frozen=True, kw_only=True):
    """One kind of server. The defaults are what most take."""

    name: str
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """How it calls the most tokens that an answer may have."""
    developer: bool = False
    """It tells the role `developer` from `system`; elsewhere there is only `system`, once and first."""
    members: frozenset[Member] = frozenset(["stream_options"])
    """Members of the body beyond the common ones that it takes; the others are left out."""
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
    version: str = "2026-10-21"
    """Of Anthropic's wire, where that is spoken."""
    eager: bool = False
    """There, a tool may ask for its input as it is written; elsewhere it comes in larger pieces."""
    code_tool: str = "code_execution_20260521"
    """There, the newest version of the vendor's own code execution; a model may take an older one only."""


GENERIC = ServerProfile(name="generic")

TABLE: Mapping[str, ServerProfile] = MappingProxyType(
    {
        row.name: row
        for row in (
            GENERIC,
            ServerProfile(
                name="openai",
                limit="max_completion_tokens",
                developer=True,
                members=frozenset(
                    [
                        "stream_options",
                        "parallel_tool_calls",
                        "reasoning_effort",
                        "verbosity",
                        "logprobs",
                        "service_tier",
                        "prompt_cache_key",
                        "safety_identifier",
                    ]
                ),
                strict=True,
                think_tags=False,
            ),
            # No json_object, and tool_choice only as a word.
            ServerProfile(
                name="lm_studio",
                formats=frozenset(["json_schema"]),
                choosing=frozenset(["none", "required"]),
            ),
            # tool_choice is passed over in silence.
            ServerProfile(
                name="ollama",
                members=frozenset(["stream_options", "reasoning_effort", "logprobs"]),
                choosing=frozenset(),
                reasoning="reasoning",
            ),
            ServerProfile(
                name="vllm",
                members=frozenset(["stream_options", "parallel_tool_calls", "reasoning_effort", "logprobs"]),
                reasoning="reasoning",
            ),
            # tool_choice only as a word: a tool that is named is passed over in silence, and any or none is called.
            ServerProfile(
                name="llama_cpp",
                members=frozenset(["stream_options", "parallel_tool_calls", "logprobs"]),
                choosing=frozenset(["none", "required"]),
                images="tool",
                reasoning="reasoning_content",
                drops_tools=True,
            ),
            # Refuses logprobs with a 400.
            ServerProfile(
                name="groq",
                limit="max_completion_tokens",
                members=frozenset(["stream_options", "parallel_tool_calls", "reasoning_effort", "service_tier"]),
            ),
            # Refuses a turn with tool calls that comes back without its reasoning.
            ServerProfile(
                name="deepseek",
                members=frozenset(["stream_options", "reasoning_effort", "logprobs"]),
                formats=frozenset(["json_object"]),
                reasoning="reasoning_content",
                think_tags=False,
            ),
            ServerProfile(
                name="openrouter",
                members=frozenset(
                    ["stream_options", "parallel_tool_calls", "reasoning_effort", "verbosity", "logprobs"]
                ),
                strict=True,
                reasoning="reasoning",
                think_tags=False,
            ),
            # Streams the arguments of calls, which Google's other door for Gemini does not.
            ServerProfile(name="vertex", think_tags=False),
            ServerProfile(
                name="alibaba",
                members=frozenset(["stream_options", "parallel_tool_calls", "logprobs"]),
                choosing=frozenset(["none", "named"]),
                think_tags=False,
            ),
            # Refuses members that it does not know; tells the usage unasked.
            ServerProfile(
                name="mistral",
                members=frozenset(["parallel_tool_calls"]),
                call_ids=NINE,
                ordered=True,
            ),
            ServerProfile(name="anthropic", strict=True, eager=True),
            # As its version was until 2026: takes temperature and top_p, wants another header, knows no form of answer.
            ServerProfile(
                name="anthropic-2023-06-01",
                version="2023-06-01",
                formats=frozenset(),
                code_tool="code_execution_20250825",
            ),
        )
    }
)

_HOSTS = MappingProxyType(
    {
        "openai.com": "openai",
        "openai.azure.com": "openai",
        "groq.com": "groq",
        "deepseek.com": "deepseek",
        "openrouter.ai": "openrouter",
        "mistral.ai": "mistral",
        "aliyuncs.com": "alibaba",
        "ollama.com": "ollama",
        "anthropic.com": "anthropic",
    }
)
_VERTEX = re.compile(r"([a-z0-9-]+-)?aiplatform(\.[a-z]+\.rep)?\.googleapis\.com")
"""Its host has the place in it."""
_MISTRALS = re.compile(r"mi[sx]tral|ministral|magistral|(dev|code|lean)stral|(pi|vo)xtral", re.IGNORECASE)
_PORTS = MappingProxyType({11434: "ollama", 1234: "lm_studio"})
_OWNERS = MappingProxyType(
    {"llamacpp": "llama_cpp", "me": "llama_cpp", "vllm": "vllm", "library": "ollama", "organization_owner": "lm_studio"}
)
"""What the `owned_by` of a list of models says of the server that wrote it; "me" is llama.cpp's in Python."""
_NAMES = MappingProxyType({"lmstudio": "lm_studio", "llamacpp": "llama_cpp", "dashscope": "alibaba", "qwen": "alibaba"})


def of_host(base_url: str) -> ServerProfile | None:
    """The row of the vendor whose host this is."""
    host = urlsplit(base_url).hostname or ""
    if _VERTEX.fullmatch(host):
        return TABLE["vertex"]
    for domain, row in _HOSTS.items():
        if host == domain or host.endswith(f".{domain}"):
            return TABLE[row]
    return None


def of_owners(owners: Iterable[str]) -> ServerProfile | None:
    """The row of the server that says in its list of models that these own them; None where that tells nothing."""
    rows = {_OWNERS[owner] for owner in owners if owner in _OWNERS}
    return TABLE[rows.pop()] if len(rows) == 1 else None


def guess(name: str, base_url: str) -> ServerProfile:
    """The row that an upstream's address tells, or its port, or else its name: until the server itself was asked."""
    vendor = of_host(base_url)
    if vendor is not None:
        return vendor
    port = urlsplit(base_url).port
    if port is not None and port in _PORTS:
        return TABLE[_PORTS[port]]
    letters = "".join(filter(str.isalpha, name.lower()))
    known = {**{row.replace("_", ""): row for row in TABLE}, **_NAMES}
    return next((TABLE[row] for word, row in known.items() if word in letters), GENERIC)


def for_model(quirks: ServerProfile, model: str) -> ServerProfile:
    """Mistral's models bring Mistral's rules along, wherever they are served: their chat templates check them."""
    if not _MISTRALS.search(model):
        return quirks
    mistral = TABLE["mistral"]
    return structs.replace(quirks, call_ids=mistral.call_ids, ordered=mistral.ordered)
