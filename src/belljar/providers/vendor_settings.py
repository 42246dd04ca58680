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
from belljar.vendors.reach import REACH, VERSION, Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One row of the table."""

    reach: Reach | None = None
    """Its variables and its address; without, the SDK or the settings know them."""
    model: str = ""
    """Asked for where none is named; without one the server's first."""
    aliases: tuple[str, ...] = ()
    needs_key: bool = True
    sdk: str = "openai"
    """The package that it is asked by."""
    extra: str = "openai"
    """What brings that package: `belljar[extra]`."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Variables that may hold the key."""
        return () if self.reach is None else self.reach.keys


VENDORS: Mapping[str, Vendor] = MappingProxyType(
    {
        "openai": Vendor(reach=REACH["openai"], model="gpt-5.2"),
        "anthropic": Vendor(
            reach=REACH["anthropic"],
            model="claude-sonnet-5-5",
            aliases=("claude",),
            sdk="anthropic",
            extra="anthropic",
        ),
        "gemini": Vendor(
            reach=REACH["gemini"],
            model="gemini-3.8-flash",
            aliases=("ai_studio", "google"),
            sdk="google.genai",
            extra="gemini",
        ),
        "vertex": Vendor(
            model="gemini-3.8-flash", aliases=("vertex_ai",), needs_key=False, sdk="google.genai", extra="gemini"
        ),
        "xai": Vendor(reach=REACH["xai"], model="grok-4.6", aliases=("grok",), extra="xai"),
        "lm_studio": Vendor(reach=REACH["lm_studio"], aliases=("lmstudio", "local"), needs_key=False),
        "ollama": Vendor(reach=REACH["ollama"], needs_key=False),
        "vllm": Vendor(reach=REACH["vllm"], needs_key=False),
        "belljar": Vendor(model="belljar", needs_key=False),
    }
)
_VERTEX = "GOOGLE_VERTEX_BASE_URL"


def provider_named(name: str) -> str:
    """The provider that this name means, in any case and spelling of its aliases."""
    plain = name.strip().lower().replace("-", "_")
    for provider, vendor in VENDORS.items():
        if plain == provider or plain in vendor.aliases:
            return provider
    raise InvalidRequest(f"provider: {name!r} is not one of {', '.join(VENDORS)}", param="provider")


def key_for(provider: str, settings: ApiSettings) -> str | None:
    """The environment's key, or that of the file."""
    reach = VENDORS[provider].reach
    found = None if reach is None else reach.key_in(settings.provider_variables)
    return found or (settings.openai_api_key if provider == "openai" else None)


def address_for(provider: str, settings: ApiSettings) -> str:
    """With the version of the API at its end; empty where the SDK alone knows it."""
    reach = VENDORS[provider].reach
    if reach is not None:
        return reach.address_in(settings.provider_variables) or reach.base_url
    if provider == "belljar":
        return settings.gateway_url
    return settings.provider_variables.get(_VERTEX, "").strip().rstrip("/")


def unversioned(address: str) -> str:
    """For the SDKs of Anthropic and Google, which add the version themselves."""
    return address.rstrip("/").removesuffix(VERSION)


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
