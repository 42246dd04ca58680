"""A client by the name of its provider."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from belljar.config import ApiSettings
from belljar.providers.base import BaseClient
from belljar.providers.tool_converters import Tool, ToolObject
from belljar.vendors.registry import find_vendor
from belljar.vendors.vendor import Vendor

if TYPE_CHECKING:
    from belljar.providers.anthropic_client import AnthropicClient
    from belljar.providers.belljar_client import BelljarClient
    from belljar.providers.chat_client import LMStudioClient, OllamaClient, VLLMClient
    from belljar.providers.gemini_client import GeminiClient, VertexClient
    from belljar.providers.openai_client import OpenAIClient
    from belljar.providers.xai_client import XAIClient


class _Options(TypedDict, total=False):
    """Of `create_client`, for the checker: a provider that is named gives its own client, with the SDK's in it."""

    model: str | None
    tools: Iterable[Tool | ToolObject]
    system: str
    client: Any
    api_key: str | None
    base_url: str | None
    settings: ApiSettings | None


@overload
def create_client(provider: Literal["openai"], **options: Unpack[_Options]) -> OpenAIClient: ...


@overload
def create_client(provider: Literal["anthropic"], **options: Unpack[_Options]) -> AnthropicClient: ...


@overload
def create_client(provider: Literal["gemini"], **options: Unpack[_Options]) -> GeminiClient: ...


@overload
def create_client(provider: Literal["vertex"], **options: Unpack[_Options]) -> VertexClient: ...


@overload
def create_client(provider: Literal["xai"], **options: Unpack[_Options]) -> XAIClient: ...


@overload
def create_client(provider: Literal["lm_studio"], **options: Unpack[_Options]) -> LMStudioClient: ...


@overload
def create_client(provider: Literal["ollama"], **options: Unpack[_Options]) -> OllamaClient: ...


@overload
def create_client(provider: Literal["vllm"], **options: Unpack[_Options]) -> VLLMClient: ...


@overload
def create_client(provider: Literal["belljar"], **options: Unpack[_Options]) -> BelljarClient: ...


@overload
def create_client(provider: str | None = None, **options: Unpack[_Options]) -> BaseClient: ...


def create_client(
    provider: str | None = None,
    *,
    model: str | None = None,
    tools: Iterable[Tool | ToolObject] = (),
    system: str = "",
    client: Any = None,
    api_key: str | None = None,
    base_url: str | None = None,
    settings: ApiSettings | None = None,
) -> BaseClient:
    """A client for the provider, or for that of the settings; `client` is one of its SDK's that you have already, and
    stays open when this one is closed. `tools` are `Tool[…]` objects, or dicts in Anthropic's form.
    """
    settings = settings or ApiSettings.load()
    made: BaseClient = _client_class(find_vendor(provider or settings.provider))(
        model=model, tools=tools, system=system, client=client, api_key=api_key, base_url=base_url, settings=settings
    )
    return made


def _client_class(row: Vendor) -> type[Any]:
    """A class that serves several vendors is made this one's."""
    module, _, name = row.client.partition(":")
    kind: type[Any] = getattr(import_module(module), name)
    return kind if getattr(kind, "provider", "") == row.name else type(name, (kind,), {"provider": row.name})


def get_provider_name(client: BaseClient) -> str:
    return client.provider
