"""Upstreams that need no configuration: by the keys in the environment, and where local servers usually are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from belljar.config import Upstream
from belljar.net import is_on_this_machine
from belljar.vendors.registry import VENDORS


def find_by_key(environment: Mapping[str, str], configured: Sequence[Upstream] = ()) -> list[Upstream]:
    """The vendors that the environment has a key for, beside what is configured."""
    found = []
    for row in VENDORS.values():
        key = None if row.local else row.key_in(environment)
        if key:
            address = row.address_in(environment) or row.base_url
            found.append(Upstream(name=row.name, base_url=address, dialect=row.wire.name, api_key=key))
    return _drop_configured(configured, found)


def find_local(environment: Mapping[str, str], configured: Sequence[Upstream] = ()) -> list[Upstream]:
    """Where a server on this machine is worth looking for, beside what is configured. Nowhere else is looked."""
    sought: list[Upstream] = []
    for row in VENDORS.values():
        if not row.local:
            continue
        said = row.address_in(environment)
        address = said if _is_here(said) else ""
        # Who happens to listen at a usual port is shown no key.
        key = row.key_in(environment) if address else None
        one = Upstream(name=row.name, base_url=address or row.base_url, api_key=key)
        sought += _drop_configured((*configured, *sought), [one])
    return sought


def _is_here(address: str) -> bool:
    """Whether this is an address on this machine, and one that can be asked."""
    try:
        parts = urlsplit(address)
        return is_on_this_machine(address) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        return False


def _drop_configured(configured: Sequence[Upstream], found: Sequence[Upstream]) -> list[Upstream]:
    """Without what is configured already, which keeps its name and its address to itself."""
    names = {plain_name(upstream.name) for upstream in configured}
    addresses = {_normalise_address(upstream.base_url) for upstream in configured}
    return [
        one for one in found if plain_name(one.name) not in names and _normalise_address(one.base_url) not in addresses
    ]


def plain_name(name: str) -> str:
    """The same for each spelling of a server's name: lm_studio was lmstudio once, and people still write it so."""
    return name.replace("_", "")


def _normalise_address(base_url: str) -> str:
    """Spelled one way: a local server is the same under each of its names."""
    plain = base_url.rstrip("/").removesuffix("/v1").lower()
    return plain.replace("://localhost", "://127.0.0.1").replace("://[::1]", "://127.0.0.1")
