"""How a vendor is reached: its names, its key and its address, as settings and environment tell."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from belljar.config import ApiSettings
from belljar.errors import BadSettings
from belljar.models import find
from belljar.vendors import registry
from belljar.vendors.vendor import VERSION, Vendor

VENDORS: Mapping[str, Vendor] = MappingProxyType({name: row for name, row in registry.VENDORS.items() if row.client})
"""Those that the library has a client for."""


def provider_named(name: str) -> str:
    """The provider that this name means, in any case and spelling of its aliases."""
    return registry.find_vendor(name).name


def key_for(provider: str, settings: ApiSettings) -> str | None:
    """The environment's key, or that of the file."""
    found = VENDORS[provider].key_in(settings.provider_variables)
    return found or (settings.openai_api_key if provider == "openai" else None)


def address_for(provider: str, settings: ApiSettings) -> str:
    """With the version of the API at its end; empty where the SDK alone knows it."""
    if provider == "belljar":
        return settings.gateway_url
    row = VENDORS[provider]
    return row.address_in(settings.provider_variables) or row.base_url


def strip_version(address: str) -> str:
    """For the SDKs that add the version themselves."""
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
