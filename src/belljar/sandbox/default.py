"""Choose where sandboxes come from when the caller brings no source: a server, pods, or this host's jail.

Starting the jail and importing the data stack takes a second or two; every `Sandbox()` of a program shares one. This
is the only module-level state in the room: made on first use, ended with the process.
"""

from __future__ import annotations

import atexit
import os
import secrets
import threading
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from belljar.config import Settings, WarmPools, Wrong, sandbox_address
from belljar.errors import InvalidRequest
from belljar.sandbox.local import probe

if TYPE_CHECKING:
    from belljar.sandbox.kubernetes import ClaimSource
    from belljar.sandbox.local.source import JailOptions, LocalSource
    from belljar.sandbox.remote import RemoteSource, ServersSource

    Elsewhere: TypeAlias = RemoteSource | ServersSource | ClaimSource
    """Where code runs that does not run on this host."""

S = TypeVar("S")

_PATIENCE = 3.0
"""Seconds that a person waits for a sandbox server that does not answer."""

_lock = threading.Lock()
_source: tuple[int, LocalSource] | None = None


def options(settings: Settings, *, warm: int | None = None, preload: bool = True) -> JailOptions:
    """A local source as the settings want it."""
    probe.check_platform()
    from belljar.sandbox.local.source import JailOptions
    from belljar.sandbox.packages import LayerPolicy

    return JailOptions(
        cache=settings.cache_dir,
        packages=settings.packages,
        most=settings.max_sandboxes,
        warm=settings.warm if warm is None else warm,
        preload=preload,
        layers=LayerPolicy(
            index=settings.index,
            find_links=settings.find_links,
            offline=settings.offline,
            max_count=settings.requirements_count,
            max_bytes=settings.requirements_size,
            timeout=settings.requirements_timeout,
            allow=None if settings.allow is None else frozenset(settings.allow),
            exclude_newer=settings.exclude_newer,
        ),
        variables=dict(settings.fetch_variables),
    )


def local_source(settings: Settings, *, warm: int | None = None, preload: bool = True) -> LocalSource:
    """A source of its own; `CannotConfine` on a platform that has no jail, before anything of it is imported."""
    wanted = options(settings, warm=warm, preload=preload)
    from belljar.sandbox.local.source import LocalSource

    return LocalSource(wanted)


def remote_source(
    settings: Settings, urls: tuple[str, ...], *, patience: float | None = None
) -> RemoteSource | ServersSource:
    """The sandbox server there, or several, with the token of the settings."""
    from belljar.sandbox.remote import RemoteSource, ServersSource  # and with it aiohttp, which nobody else needs

    patience = settings.claim_timeout if patience is None else patience
    if len(urls) > 1:
        return ServersSource(urls, token=settings.sandbox_token, patience=patience)
    return RemoteSource(urls[0], token=settings.sandbox_token, patience=patience)


def claimed_source(settings: Settings, pools: WarmPools) -> ClaimSource:
    """Pods of those warm pools of Kubernetes, for this process alone."""
    from belljar.sandbox.kubernetes import ClaimSource
    from belljar.sandbox.kubernetes.access import find_access

    return ClaimSource(
        find_access(),
        namespace=settings.sandbox_namespace,
        pools=pools,
        deployment=f"own-{secrets.token_hex(8)}",
        port=settings.sandbox_port,
        token=settings.sandbox_token,
        patience=settings.claim_timeout,
        most=settings.max_sandboxes,
    )


def settled_source(settings: Settings, *, preload: bool = True) -> LocalSource | Elsewhere:
    """Where a command's code runs, as the settings say. A person waits: not long for a server that is away."""
    if settings.warm_pools is not None:
        return claimed_source(settings, settings.warm_pools)
    if settings.sandbox_url is None:
        return local_source(settings, warm=0, preload=preload)
    return remote_source(settings, settings.sandbox_url, patience=min(settings.claim_timeout, _PATIENCE))


def chosen_source(given: S | str | None, *, needs: str) -> tuple[S | LocalSource | Elsewhere, bool]:
    """Where a sandbox comes from, and whether that is made for this one alone, and so ends with it.

    A server by its address, a source of the caller's, else the server or pool of the settings, else the shared jail.
    `needs` is the method that is asked of it.
    """
    if isinstance(given, str):
        return remote_source(Settings.load(), (_address(given),)), True
    if given is None:
        source = _default_source()
        return source, source is not (_source and _source[1])
    if not hasattr(given, needs):
        raise InvalidRequest(
            f"source: {given!r} is no source of sandboxes (it has no {needs}); give the address of a sandbox server, a "
            "RemoteSource, or nothing for this host's own jail",
            param="source",
        )
    return given, False


def _address(url: str) -> str:
    try:
        return sandbox_address(url)
    except Wrong as wrong:
        raise InvalidRequest(f"source: {'it' if wrong.hidden else repr(url)} is not {wrong}", param="source") from None


def _default_source() -> LocalSource | Elsewhere:
    """The server or pool of the settings, or the shared jail; a forked child gets one of its own."""
    global _source
    with _lock:
        if _source is None or _source[0] != os.getpid():
            settings = Settings.load()
            if settings.warm_pools is not None:
                return claimed_source(settings, settings.warm_pools)
            if settings.sandbox_url is not None:
                return remote_source(settings, settings.sandbox_url)
            made = local_source(settings)
            atexit.register(made.shut)
            _source = (os.getpid(), made)
        return _source[1]
