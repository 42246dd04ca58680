"""Kinds of model servers that speak chat completions: how each is reached, and what it takes, one row each."""

from __future__ import annotations

import re

from msgspec import structs

from belljar.vendors.call_ids import NINE
from belljar.vendors.sampling import row
from belljar.vendors.server_profile import OPEN_SAMPLING, OPENAI_SAMPLING, ServerProfile
from belljar.vendors.vendor import Vendor


def _vendor(name: str, title: str, base_url: str, host: str, profile: ServerProfile) -> Vendor:
    variable = name.upper()
    return Vendor(
        name=name,
        title=title,
        keys=(f"{variable}_API_KEY",),
        address=f"{variable}_BASE_URL",
        base_url=base_url,
        hosts=(host,),
        profile=profile,
    )


def _server(
    name: str,
    title: str,
    port: int,
    *,
    profile: ServerProfile,
    aliases: tuple[str, ...] = (),
    hosts: tuple[str, ...] = (),
    owners: tuple[str, ...] = (),
    client: str = "",
    load_hint: str = "load one there",
    own_port: bool = False,
) -> Vendor:
    variable = name.upper()
    return Vendor(
        name=name,
        title=title,
        aliases=aliases,
        keys=(f"{variable}_API_KEY",),
        address=f"{variable}_BASE_URL",
        base_url=f"http://127.0.0.1:{port}/v1",
        needs_key=False,
        local=True,
        own_port=own_port,
        hosts=hosts,
        owners=owners,
        load_hint=load_hint,
        client=client and f"belljar.providers.chat_client:{client}",
        profile=profile,
    )


_MISTRAL = _vendor(
    "mistral",
    "Mistral",
    "https://api.mistral.ai/v1",
    "mistral.ai",
    # Refuses members that it does not know; tells the usage unasked.
    ServerProfile(
        members=frozenset(["parallel_tool_calls"]),
        sampling=row("stop", "presence_penalty", "frequency_penalty", seed="random_seed"),
        call_ids=NINE,
        ordered=True,
    ),
)

VENDORS: tuple[Vendor, ...] = (
    _vendor(
        "groq",
        "Groq",
        "https://api.groq.com/openai/v1",
        "groq.com",
        # Refuses logprobs with a 400.
        ServerProfile(
            limit="max_completion_tokens",
            members=frozenset(["stream_options", "parallel_tool_calls", "reasoning_effort", "service_tier"]),
            sampling=row("stop", "seed", stops=4),
        ),
    ),
    _vendor(
        "deepseek",
        "DeepSeek",
        "https://api.deepseek.com/v1",
        "deepseek.com",
        # Refuses a turn with tool calls that comes back without its reasoning.
        ServerProfile(
            members=frozenset(["stream_options", "reasoning_effort", "logprobs"]),
            sampling=row("stop", "presence_penalty", "frequency_penalty", stops=16),
            formats=frozenset(["json_object"]),
            reasoning="reasoning_content",
            think_tags=False,
        ),
    ),
    _vendor(
        "openrouter",
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        "openrouter.ai",
        ServerProfile(
            members=frozenset(["stream_options", "parallel_tool_calls", "reasoning_effort", "verbosity", "logprobs"]),
            sampling=row(*OPEN_SAMPLING, "repetition_penalty"),
            strict=True,
            reasoning="reasoning",
            think_tags=False,
        ),
    ),
    _MISTRAL,
    Vendor(
        name="alibaba",
        title="Alibaba Cloud",
        aliases=("dashscope", "qwen"),
        hosts=("aliyuncs.com",),
        profile=ServerProfile(
            members=frozenset(["stream_options", "parallel_tool_calls", "logprobs"]),
            sampling=row("stop", "seed", "presence_penalty", "repetition_penalty", "top_k"),
            choosing=frozenset(["none", "named"]),
            think_tags=False,
        ),
    ),
    _server(
        "lm_studio",
        "LM Studio",
        1234,
        aliases=("lmstudio", "local"),
        owners=("organization_owner",),
        client="LMStudioClient",
        load_hint="load one in LM Studio, or run: lms load",
        own_port=True,
        # No json_object, and tool_choice only as a word.
        profile=ServerProfile(
            sampling=row(*OPENAI_SAMPLING, "top_k", repetition_penalty="repeat_penalty"),
            formats=frozenset(["json_schema"]),
            choosing=frozenset(["none", "required"]),
        ),
    ),
    _server(
        "ollama",
        "Ollama",
        11434,
        hosts=("ollama.com",),
        owners=("library",),
        client="OllamaClient",
        load_hint="run: ollama pull NAME",
        own_port=True,
        # tool_choice is passed over in silence.
        profile=ServerProfile(
            members=frozenset(["stream_options", "reasoning_effort", "logprobs"]),
            sampling=row("stop", "seed", "presence_penalty", "frequency_penalty"),
            choosing=frozenset(),
            reasoning="reasoning",
        ),
    ),
    _server(
        "vllm",
        "vLLM",
        8000,
        owners=("vllm",),
        client="VLLMClient",
        profile=ServerProfile(
            members=frozenset(["stream_options", "parallel_tool_calls", "reasoning_effort", "logprobs"]),
            reasoning="reasoning",
        ),
    ),
    _server(
        "llama_cpp",
        "llama.cpp",
        8080,
        aliases=("llamacpp",),
        owners=("llamacpp", "me"),  # the second is what llama.cpp's server in Python says
        # tool_choice only as a word: a tool that is named is passed over in silence, and any or none is called.
        profile=ServerProfile(
            members=frozenset(["stream_options", "parallel_tool_calls", "logprobs"]),
            sampling=row(*OPEN_SAMPLING, "chat_template_kwargs", repetition_penalty="repeat_penalty"),
            choosing=frozenset(["none", "required"]),
            images="tool",
            reasoning="reasoning_content",
            drops_tools=True,
        ),
    ),
)

SEES = (
    r"vision|(?<![a-z])vl(?![a-z])|internvl|llava|pixtral|minicpm-?v|moondream|omni|llama-?4|llama-?3\.2.*(11b|90b)"
    r"|mistral-(small|medium|large)-?(3|latest)|qwen-?3\.[5-9]"
)
"""A pattern for a part of the names of open models that see pictures, whoever serves them."""

_MISTRALS = re.compile(r"mi[sx]tral|ministral|magistral|(dev|code|lean)stral|(pi|vo)xtral", re.IGNORECASE)


def for_model(profile: ServerProfile, model: str) -> ServerProfile:
    """Mistral's models bring Mistral's rules along, wherever they are served: their chat templates check them."""
    if not _MISTRALS.search(model):
        return profile
    return structs.replace(profile, call_ids=_MISTRAL.profile.call_ids, ordered=_MISTRAL.profile.ordered)
