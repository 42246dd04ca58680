"""Every vendor and kind of model server by its name, one row each, and whose server an address or a name means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import MappingProxyType
from urllib.parse import urlsplit

from belljar.errors import InvalidRequest
from belljar.vendors.anthropic import vendor as anthropic
from belljar.vendors.chat import servers
from belljar.vendors.gemini import vendor as gemini
from belljar.vendors.installed import load_vendors
from belljar.vendors.openai import vendor as openai
from belljar.vendors.vendor import CHAT, GENERIC, FileLimits, Vendor, Wire
from belljar.vendors.xai import vendor as xai

_GATEWAY = Vendor(
    name="belljar",
    title="Belljar",
    wire=openai.WIRE,
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

_OWN = (openai.VENDOR, anthropic.VENDOR, gemini.VENDOR, gemini.VERTEX, xai.VENDOR, *servers.VENDORS, _GATEWAY)

VENDORS: Mapping[str, Vendor] = MappingProxyType({row.name: row for row in (*_OWN, *load_vendors(_OWN))})
"""Our own, and those that other packages bring."""

KINDS: Mapping[str, Vendor] = MappingProxyType(
    {
        row.name: row
        for row in (GENERIC, openai.VENDOR, *servers.VENDORS, gemini.VERTEX, *VENDORS.values(), anthropic.OF_2023)
    }
)
"""What a setting may call `quirks`: every vendor, a server of which nothing is known, and wires as they were once.

The order decides whose server it is where a name has two of them in it.
"""

WIRES: Mapping[str, Wire] = MappingProxyType(
    {wire.name: wire for wire in (CHAT, *(row.wire for row in VENDORS.values()))}
)
"""What a setting may call `dialect`: the wires that are spoken."""


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


def vendor_of_owners(owners: Iterable[str]) -> Vendor | None:
    """The server that says in its list of models that these own them; None where that tells nothing."""
    said = frozenset(owners)
    rows = [row for row in VENDORS.values() if said.intersection(row.owners)]
    return rows[0] if len(rows) == 1 else None


def guess_vendor(name: str, base_url: str) -> Vendor:
    """The row that an upstream's address tells, or its port, or else its name: until the server itself was asked."""
    vendor = vendor_of_host(base_url)
    if vendor is not None:
        return vendor
    port = urlsplit(base_url).port
    by_port = {urlsplit(row.base_url).port: row for row in VENDORS.values() if row.own_port}
    if port in by_port:
        return by_port[port]
    letters = "".join(filter(str.isalpha, name.lower()))
    known = {row.name: row for row in KINDS.values()} | {
        alias: row for row in servers.VENDORS for alias in row.aliases if alias != "local"
    }
    return next((row for word, row in known.items() if word.replace("_", "") in letters), GENERIC)
