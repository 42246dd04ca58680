"""Start a gateway inside `belljar chat`, for code that runs elsewhere than on this host when no gateway is running."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from belljar.cli.settings_flags import WHERE, load_settings
from belljar.config import ApiSettings, Settings
from belljar.errors import InvalidRequest

if TYPE_CHECKING:
    from belljar.openai import OpenAI
    from belljar.sandbox.remote import RemoteSource

_KNOCK = 1.0
"""Seconds that a gateway of this machine has to take a connection."""


@contextmanager
def own_gateway(args: argparse.Namespace) -> Iterator[OpenAI | None]:
    """Its client, or None where the provider is asked: another one, a gateway at --url, or the one that runs here."""
    settings = _settings_if_needed(args)
    if settings is None or not settings.runs_elsewhere:
        yield None
        return
    settings.check_gateway()
    from belljar.providers import vendor_settings
    from belljar.sandbox.default import settled_source

    vendor_settings.sdk("belljar")  # before anything is started, with the remedy
    cast("RemoteSource", settled_source(settings)).learn()  # one that is away is told now, and not by a model
    from belljar.openai import OpenAI

    pods: dict[str, Any] = {}
    if settings.sandbox_warm_pool is not None:
        pods = {"sandbox_warm_pool": settings.sandbox_warm_pool, "sandbox_namespace": settings.sandbox_namespace}
    with OpenAI.local(sandbox_url=settings.sandbox_url, **pods) as client:
        yield client


def _settings_if_needed(args: argparse.Namespace) -> Settings | None:
    from belljar.providers.vendor_settings import provider_named

    if provider_named(args.provider) != "belljar" or args.url is not None:
        given = next((name for name in WHERE if getattr(args, name) is not None), None)
        if given is not None:
            whose = "the gateway at --url" if args.url is not None else args.provider
            raise InvalidRequest(
                f"--{given.replace('_', '-')}: {whose} decides itself where code runs; leave one of them out"
            )
        return None
    settings = load_settings({name: getattr(args, name) for name in WHERE})
    told = any(getattr(args, name) is not None for name in WHERE)
    if not told and (not settings.runs_elsewhere or _is_answered(ApiSettings.load().gateway_url)):
        return None
    return settings


def _is_answered(url: str) -> bool:
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=_KNOCK):
            return True
    except OSError:
        return False
