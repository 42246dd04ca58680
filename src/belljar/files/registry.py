"""Which Files API belongs to which service, and why there is none where there is none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TypeAlias

from belljar.errors import BelljarError, InvalidRequest
from belljar.files.base import FilesApi, FilesApiProvider
from belljar.files.limits import OWN
from belljar.providers.base import BaseClient
from belljar.providers.factory import get_provider_name
from belljar.providers.vendor_settings import provider_named
from belljar.vendors.registry import VENDORS

Factory: TypeAlias = Callable[[], FilesApiProvider]


def _factory(path: str) -> Factory:
    module, _, name = path.partition(":")
    found: Factory = getattr(import_module(module), name)
    return found


FACTORIES: Mapping[str, Factory] = MappingProxyType(
    {name: _factory(row.files) for name, row in VENDORS.items() if row.files}
)
_log = logging.getLogger(__name__)


class FilesApiRegistry:
    """Factories by the name of the service, or any of its aliases. A factory is called anew each time it is asked."""

    def __init__(self, factories: Mapping[str, Factory] = FACTORIES) -> None:
        self._factories = dict(factories)

    def register(self, service_type: str, factory: Factory) -> None:
        """From now on this is the service's; whoever was before is not."""
        self._factories[_plain(service_type)] = factory

    def get(self, service_type: str | None) -> FilesApiProvider | None:
        """The service's Files API. None, and a line in the log, where it has none or cannot be reached from here."""
        if service_type is None:
            return None
        try:
            return self._make_provider(service_type)
        except BelljarError as error:
            _log.info("no Files API for %s: %s", service_type, error)
            return None

    def of_client(self, client: BaseClient, *, largest: int | None = OWN) -> FilesApiProvider | None:
        """The Files API of the service that a client talks to, by the client's own connection where it is ours."""
        service, sdk = get_provider_name(client), getattr(client, "client", None)
        factory = self._factories.get(service)
        if sdk is not None and isinstance(factory, type) and issubclass(factory, FilesApi):
            return factory(client=sdk, largest=largest)
        return self.get(service)

    def why_not(self, service_type: str) -> str | None:
        """What is in the way, with its remedy; None where nothing is."""
        try:
            made = self._make_provider(service_type)
        except BelljarError as error:
            return str(error)
        close = getattr(made, "close", None)
        if close is not None:
            close()
        return None

    def _make_provider(self, service_type: str) -> FilesApiProvider:
        name = _plain(service_type)
        if name in self._factories:
            return self._factories[name]()
        row = VENDORS.get(name)
        why = "" if row is None else row.without_files
        why = why or f"{service_type}: no Files API is known; register_files_api_provider gives it one"
        raise InvalidRequest(why, param="service_type")


def _plain(service_type: str) -> str:
    """One name for all aliases; a service of the caller's own keeps its name."""
    try:
        return provider_named(service_type)
    except InvalidRequest:
        return service_type


_shared = FilesApiRegistry()


def register_files_api_provider(service_type: str, factory: Factory) -> None:
    """For the whole process; a `FilesApiRegistry` of your own keeps it to yourself."""
    _shared.register(service_type, factory)


def get_files_api_provider(service_type: str | None) -> FilesApiProvider | None:
    """The Files API of a service; None where it has none, never an exception."""
    return _shared.get(service_type)


def files_api_of(client: BaseClient, *, largest: int | None = OWN) -> FilesApiProvider | None:
    """The Files API of the service that a client talks to, by the same connection; None where it has none.

    `largest` is how many bytes of one file are sent unasked; with None the service alone decides.
    """
    return _shared.of_client(client, largest=largest)


def why_no_files_api(service_type: str) -> str | None:
    """What is in the way of `get_files_api_provider`, with its remedy; None where nothing is."""
    return _shared.why_not(service_type)
