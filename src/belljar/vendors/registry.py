"""Every vendor and kind of model server by its name: one row each, and its dialect, loaded when first used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from importlib import import_module
from types import MappingProxyType
from typing import cast
from urllib.parse import urlsplit

from belljar.errors import InvalidRequest
from belljar.vendors.anthropic import vendor as anthropic
from belljar.vendors.chat import servers
from belljar.vendors.dialect import Dialect
from belljar.vendors.gemini import vendor as gemini
from belljar.vendors.openai import vendor as openai
from belljar.vendors.server_profile import GENERIC, ServerProfile
from belljar.vendors.vendor import FileLimits, Vendor
from belljar.vendors.xai import vendor as xai

_GATEWAY = Vendor(
    name="belljar",
    title="Belljar",
    dialect="openai",
    needs_key=False,
    model="belljar",
    runs_code=True,
    client="belljar.providers.belljar_client:BelljarClient",
    files="belljar.files.openai_files:GatewayFiles",
    file_limits=FileLimits(
        largest=None,
        lifetimes=(timedelta(hours=1), timedelta(days=30)),
        source="our own gateway, whose operator sets the size",
    ),
)
"""A gateway of ours, as the library asks it; the settings know where it is."""

VENDORS: Mapping[str, Vendor] = MappingProxyType(
    {
        row.name: row
        for row in (
            openai.VENDOR,
            anthropic.VENDOR,
            gemini.VENDOR,
            gemini.VERTEX,
            xai.VENDOR,
            *servers.VENDORS,
            _GATEWAY,
        )
    }
)

PROFILES: Mapping[str, ServerProfile] = MappingProxyType(
    {row.name: row for row in (GENERIC, openai.PROFILE, *servers.PROFILES, gemini.PROFILE, *anthropic.PROFILES)}
)
"""What a setting may call `quirks`. A vendor without a row is as most are."""

DIALECTS: Mapping[str, str] = MappingProxyType(
    {
        "chat": "belljar.vendors.chat.dialect",
        "openai": "belljar.vendors.openai.dialect",
        "anthropic": "belljar.vendors.anthropic.dialect",
        "gemini": "belljar.vendors.gemini.dialect",
        "xai": "belljar.vendors.xai.dialect",
    }
)
"""The wires that are spoken, by the modules that translate them."""


def dialect_of(name: str) -> Dialect:
    """The wire of this name: its module is loaded here, as whoever only looks at the rows needs no decoder."""
    return cast(Dialect, import_module(DIALECTS[name]))


_SEES = re.compile("|".join([servers.SEES, *(row.sees for row in VENDORS.values() if row.sees)]), re.IGNORECASE)


def sees_pictures(model: str) -> bool:
    """Whether a model of this name is likely to see: one that cannot would refuse the whole conversation."""
    return _SEES.search(model) is not None


def find_vendor(name: str) -> Vendor:
    """The vendor that this name means to the library, in any case and spelling of its aliases."""
    plain = name.strip().lower().replace("-", "_")
    offered = [row for row in VENDORS.values() if row.client]
    for row in offered:
        if plain == row.name or plain in row.aliases:
            return row
    raise InvalidRequest(f"provider: {name!r} is not one of {', '.join(row.name for row in offered)}", param="provider")


def vendor_of_host(base_url: str) -> Vendor | None:
    """The vendor whose host this is; None where anybody may be there."""
    host = (urlsplit(base_url).hostname or "").lower()
    for row in VENDORS.values():
        if row.host_pattern and re.fullmatch(row.host_pattern, host):
            return row
        if any(host == domain or host.endswith(f".{domain}") for domain in row.hosts):
            return row
    return None


def profile_of_host(base_url: str) -> ServerProfile | None:
    """The row of the vendor whose host this is."""
    vendor = vendor_of_host(base_url)
    return None if vendor is None else PROFILES.get(vendor.name)


def profile_of_owners(owners: Iterable[str]) -> ServerProfile | None:
    """The row of the server that says in its list of models that these own them; None where that tells nothing."""
    said = frozenset(owners)
    rows = [row.name for row in VENDORS.values() if said.intersection(row.owners)]
    return PROFILES[rows[0]] if len(rows) == 1 else None


def guess_profile(name: str, base_url: str) -> ServerProfile:
    """The row that an upstream's address tells, or its port, or else its name: until the server itself was asked."""
    vendor = profile_of_host(base_url)
    if vendor is not None:
        return vendor
    port = urlsplit(base_url).port
    by_port = {urlsplit(row.base_url).port: row.name for row in VENDORS.values() if row.own_port}
    if port in by_port:
        return PROFILES[by_port[port]]
    letters = "".join(filter(str.isalpha, name.lower()))
    known = {row.replace("_", ""): row for row in PROFILES} | {
        alias.replace("_", ""): row.name for row in servers.VENDORS for alias in row.aliases if alias != "local"
    }
    return next((PROFILES[row] for word, row in known.items() if word in letters), GENERIC)
