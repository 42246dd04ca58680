"""A client by the name of its provider."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from belljar.config import ApiSettings
from belljar.providers.access import provider_named
from belljar.providers.base import BaseClient
from belljar.providers.tool_converters import Tool

_CLIENTS = {
    "openai": ("openai_client", "OpenAIClient"),
    "anthropic": ("anthropic_client", "AnthropicClient"),
    "gemini": ("gemini_client", "GeminiClient"),
    "vertex": ("gemini_client", "VertexClient"),
    "xai": ("xai_client", "XAIClient"),
    "lm_studio": ("chat_client", "LMStudioClient"),
    "ollama": ("chat_client", "OllamaClient"),
    "vllm": ("chat_client", "VLLMClient"),
    "belljar": ("belljar_client", "BelljarClient"),
}


def create_client(
    provider: str | None = None,
    *,
    model: str | None = None,
    tools: Sequence[Tool] = (),
    system: str = "",
    client: Any = None,
    api_key: str | None = None,
    base_url: str | None = None,
    settings: ApiSettings | None = None,
) -> BaseClient:
    """A client for the provider, or for that of the settings; `client` is one of its SDK's that you have already."""
    settings = settings or ApiSettings.load()
    module, name = _CLIENTS[provider_named(provider or settings.provider)]
    made: BaseClient = getattr(import_module(f"belljar.providers.{module}"), name)(
        model=model, tools=tools, system=system, client=client, api_key=api_key, base_url=base_url, settings=settings
    )
    return made


def get_provider_name(client: BaseClient) -> str:
    return client.provider
