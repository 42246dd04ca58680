"""`belljar models`: list the providers that can be used from here and their models, or why one cannot be used."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http.client import HTTPException
from importlib.util import find_spec
from typing import TYPE_CHECKING

from belljar.cli.command_parser import add_command
from belljar.visible import visible

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from belljar.config import ApiSettings
    from belljar.vendors.vendor import Vendor

_SHOWN = 4
_PATIENCE = 5.0
"""Seconds: a gateway that is asked looks around first."""
_LARGEST = 16 << 20
_EXAMPLES = """\
examples:
  belljar models
  belljar models --json | jq -r '.[] | select(.usable) | .provider'
"""


def configure(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "models",
        help="show which providers and models can be used here",
        description="Show which providers can be used from here, and why the others cannot. No vendor is asked.",
        examples=_EXAMPLES,
    )
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    parser.set_defaults(main=main)


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    provider: str
    usable: bool
    models: tuple[str, ...]
    """Its default first."""
    why: str = ""
    """Why it cannot be used, with the remedy."""


def main(args: argparse.Namespace) -> int:
    from belljar.config import ApiSettings
    from belljar.providers.vendor_settings import VENDORS

    settings = ApiSettings.load()
    found = [_look(provider, settings) for provider in VENDORS]
    if args.json:
        print(json.dumps([asdict(one) for one in found], indent=2))
        return 0
    width = max(len(one.provider) for one in found)
    for one in sorted(found, key=lambda one: not one.usable):
        more = f" and {len(one.models) - _SHOWN} more" if len(one.models) > _SHOWN else ""
        told = ", ".join(one.models[:_SHOWN]) + more if one.usable else one.why
        print(f"{'✓' if one.usable else '✗'} {one.provider:<{width}}  {visible(told)}")  # names are the server's
    return 0


def _look(provider: str, settings: ApiSettings) -> ProviderStatus:
    from belljar.models import get_models_by_provider
    from belljar.providers import vendor_settings

    vendor = vendor_settings.VENDORS[provider]
    if not _is_installed(vendor.sdk):
        return ProviderStatus(provider, False, (), vendor_settings.without_sdk(provider))
    if vendor.needs_key and vendor_settings.key_for(provider, settings) is None:
        return ProviderStatus(provider, False, (), f"no key; set {' or '.join(vendor.keys)}")
    if vendor.models:
        return _by_login(vendor, settings)
    if vendor.needs_key:
        rows = sorted(get_models_by_provider(provider), key=lambda row: row.ends is not None)  # those that stay first
        known = [row.id for row in rows if row.id != vendor.model]
        return ProviderStatus(provider, True, (vendor.model, *known))
    return _local(vendor, vendor_settings.address_for(provider, settings), vendor_settings.key_for(provider, settings))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _by_login(vendor: Vendor, settings: ApiSettings) -> ProviderStatus:
    """Without a key of its own: the SDK alone knows whether it finds a project and its credentials."""
    from belljar.errors import BelljarError
    from belljar.models import get_models_by_provider
    from belljar.providers import create_client

    try:
        create_client(vendor.name, settings=settings)
    except BelljarError:
        return ProviderStatus(vendor.name, False, (), vendor.login_hint)
    return ProviderStatus(vendor.name, True, tuple(model.id for model in get_models_by_provider(vendor.models)))


def _local(vendor: Vendor, address: str, key: str | None) -> ProviderStatus:
    """A server of one's own: what it lists. A gateway that is asked looks for model servers again."""
    from belljar.gateway.upstream import model_lists
    from belljar.gateway.upstream.endpoint import explain_no_models

    provider, dialect = vendor.name, vendor.dialect()
    try:
        status, body = _get(f"{address}{dialect.list_path}", dialect.headers(key))
    except TimeoutError:
        return ProviderStatus(provider, False, (), f"{address}: it took longer than {_PATIENCE:g} s")
    except (OSError, HTTPException, ValueError):
        start = "; start one: belljar serve" if provider == "belljar" else ""
        return ProviderStatus(provider, False, (), f"nobody answers at {address}{start}")
    listed = model_lists.judge(status, body)
    if isinstance(listed, model_lists.MissingList):
        keys = vendor.keys if listed.locked else ()
        return ProviderStatus(provider, False, (), f"{address}: {listed.why}" + "".join(f"; set {key}" for key in keys))
    if not listed:
        return ProviderStatus(provider, False, (), f"{address}: {explain_no_models(vendor)}")
    return ProviderStatus(provider, True, tuple(listed))


def _get(url: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Status and body, whatever the status is."""
    import urllib.error
    import urllib.request

    request = urllib.request.Request(url, headers=dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            return answer.status, answer.read(_LARGEST)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(_LARGEST)
    except urllib.error.URLError as error:
        raise error.reason if isinstance(error.reason, OSError) else error from None
