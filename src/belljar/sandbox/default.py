"""The process's own source of sandboxes, for callers who bring none.

Starting the jail and importing the data stack takes a second or two; every `Sandbox()` of a program shares one. This
is the only module-level state in the room: made on first use, ended with the process.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING

from belljar.config import Settings
from belljar.sandbox.local import probe

if TYPE_CHECKING:
    from belljar.sandbox.local.source import LocalSource, Options

_lock = threading.Lock()
_source: tuple[int, LocalSource] | None = None


def options(settings: Settings, *, warm: int | None = None, preload: bool = True) -> Options:
    """A local source as the settings want it."""
    probe.check_platform()
    from belljar.sandbox.local.source import Options
    from belljar.sandbox.packages import LayerPolicy

    return Options(
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


def default_source() -> LocalSource:
    """The shared source; a forked child gets one of its own."""
    global _source
    with _lock:
        if _source is None or _source[0] != os.getpid():
            made = local_source(Settings.load())
            atexit.register(made.shut)
            _source = (os.getpid(), made)
        return _source[1]
