"""A code interpreter for any model, under its owner's control: the public names, loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from belljar.errors import BelljarError, WinkError
    from belljar.sandbox.blocking import Sandbox
    from belljar.sandbox.session import AsyncSandbox

__version__ = "0.1.0"
__all__ = ["AsyncSandbox", "BelljarError", "Sandbox", "WinkError", "__version__"]

_HOMES = {
    "AsyncSandbox": "belljar.sandbox.session",
    "BelljarError": "belljar.errors",
    "Sandbox": "belljar.sandbox.blocking",
    "WinkError": "belljar.errors",
}

if not TYPE_CHECKING:  # a checker that saw this would believe in any name

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
