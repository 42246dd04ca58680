"""How a vendor is reached: its names, its key and its address, as settings and environment tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

from belljar.config import ApiSettings
from belljar.errors import BadSettings, InvalidRequest
from belljar.models import find


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One row of the table."""

    keys: tuple[str, ...] = ()
    """Variables that may hold the key; the first that is set counts."""
    address: str | None = None
    """The variable that may hold another address."""
    base_url: str = ""
    """Where it is; the SDK's own default without."""
    model: str = ""
    """Asked for where none is named; without one the server's first."""
    aliases: tuple[str, ...] = ()
    needs_key: bool = True
    sdk: str = "openai"
    """The package that it is asked by."""
    extra: str = "openai"
    """What brings that package: `belljar[extra]`."""


VENDORS: Mapping[str, Vendor] = MappingProxyType(
    {
        "openai": Vendor(
            keys=("OPENAI_API_KEY",),
            address="OPENAI_BASE_URL",
            base_url="https://api.openai.com/v1",
            model="gpt-5.2",
        ),
        "anthropic": Vendor(
            keys=("ANTHROPIC_API_KEY",),
            address="ANTHROPIC_BASE_URL",
            base_url="https://api.anthropic.com",
            model="claude-sonnet-5-5",
            aliases=("claude",),
            sdk="anthropic",
            extra="anthropic",
        ),
        "gemini": Vendor(
            keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            address="GOOGLE_GEMINI_BASE_URL",
            model="gemini-3.8-flash",
            aliases=("ai_studio", "google"),
            sdk="google.genai",
            extra="gemini",
        ),
        "vertex": Vendor(
            address="GOOGLE_VERTEX_BASE_URL",
            model="gemini-3.8-flash",
            aliases=("vertex_ai",),
            needs_key=False,
            sdk="google.genai",
            extra="gemini",
        ),
        "xai": Vendor(
            keys=("XAI_API_KEY",),
            address="XAI_BASE_URL",
            base_url="https://api.x.ai/v1",
            model="grok-4.6",
            aliases=("grok",),
            extra="xai",
        ),
        "lm_studio": Vendor(
            keys=("LM_STUDIO_API_KEY",),
            address="LM_STUDIO_BASE_URL",
            base_url="http://127.0.0.1:1234/v1",
            aliases=("lmstudio", "local"),
            needs_key=False,
        ),
        "ollama": Vendor(
            keys=("OLLAMA_API_KEY",),
            address="OLLAMA_BASE_URL",
            base_url="http://127.0.0.1:11434/v1",
            needs_key=False,
        ),
        "vllm": Vendor(
            keys=("VLLM_API_KEY",), address="VLLM_BASE_URL", base_url="http://127.0.0.1:8000/v1", needs_key=False
        ),
        "belljar": Vendor(model="belljar", needs_key=False),
    }
)


def provider_named(name: str) -> str:
    """The provider that this name means, in any case and spelling of its aliases."""
    plain = name.strip().lower().replace("-", "_")
    for provider, vendor in VENDORS.items():
        if plain == provider or plain in vendor.aliases:
            return provider
    raise InvalidRequest(f"provider: {name!r} is not one of {', '.join(VENDORS)}", param="provider")


def key_for(provider: str, settings: ApiSettings) -> str | None:
    """The environment's key, or that of the file."""
    found = (settings.provider_variables.get(name, "").strip() for name in VENDORS[provider].keys)
    return next(filter(None, found), settings.openai_api_key if provider == "openai" else None)


def address_for(provider: str, settings: ApiSettings) -> str:
    vendor = VENDORS[provider]
    given = settings.provider_variables.get(vendor.address, "") if vendor.address else ""
    own = settings.gateway_url if provider == "belljar" else vendor.base_url
    return given.strip().rstrip("/") or own


def model_for(provider: str, settings: ApiSettings) -> str:
    """The model of the settings where it is this provider's, else the provider's own default; empty without one."""
    wanted = settings.model
    if wanted is not None:
        known = find(wanted)
        if provider == provider_named(settings.provider) or (known is not None and known.provider == provider):
            return wanted
    return VENDORS[provider].model


def sdk(provider: str) -> Any:
    """The package that a provider is asked by, imported when it is first needed."""
    module = VENDORS[provider].sdk
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or not module.startswith(missing.name):
            raise
        raise BadSettings(without_sdk(provider)) from None


def without_sdk(provider: str) -> str:
    """What is said where that package is missing."""
    vendor = VENDORS[provider]
    return f"the {vendor.sdk} package is not installed; run: pip install 'belljar[{vendor.extra}]'"
