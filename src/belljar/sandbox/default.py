"""The process's own source of sandboxes, for callers who bring none.

Starting the jail and importing the data stack takes a second or two; every `Sandbox()` of a program shares one. This
is the only module-level state in the room: made on first use, ended with the process.
"""

from __future__ import annotations

import atexit
import os
import threading

from belljar.config import Settings
from belljar.sandbox.local.source import LocalSource, Options

_lock = threading.Lock()
_source: tuple[int, LocalSource] | None = None


def options(settings: Settings, *, warm: int | None = None, preload: bool = True) -> Options:
    """A local source as the settings want it."""
    return Options(
        cache=settings.cache_dir,
        most=settings.max_sandboxes,
        warm=settings.warm if warm is None else warm,
        preload=preload,
        layers=settings.layers(),
        variables=dict(settings.fetch_variables),
    )


def default_source() -> LocalSource:
    """The shared source; a forked child gets one of its own."""
    global _source
    with _lock:
        if _source is None or _source[0] != os.getpid():
            made = LocalSource(options(Settings.load()))
            atexit.register(made.shut)
            _source = (os.getpid(), made)
        return _source[1]
