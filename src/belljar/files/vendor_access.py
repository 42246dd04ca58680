"""How a vendor's Files API is reached: its address and its key, or the reason why it cannot be."""

from __future__ import annotations

from dataclasses import dataclass, field

from belljar.config import ApiSettings
from belljar.errors import BadSettings
from belljar.providers import vendor_settings


@dataclass(frozen=True, slots=True)
class Reach:
    address: str
    key: str | None = field(repr=False)


def reach(provider: str, api_key: str | None, base_url: str | None, settings: ApiSettings | None) -> Reach:
    """What is given counts before settings and environment; `BadSettings` names the key that is missing."""
    settings = settings or ApiSettings.load()
    key = api_key or vendor_settings.key_for(provider, settings)
    vendor = vendor_settings.VENDORS[provider]
    if key is None and vendor.needs_key:
        raise BadSettings(f"{provider}: there is no key; set {' or '.join(vendor.keys)}")
    return Reach(base_url or vendor_settings.address_for(provider, settings), key)
