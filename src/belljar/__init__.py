"""A code interpreter for any model, under its owner's control: the public names, loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from belljar.errors import BelljarError, WinkError
    from belljar.providers import AssistantResponse, BaseClient, ContextManager, create_client
    from belljar.sandbox.blocking import Sandbox
    from belljar.sandbox.session import AsyncSandbox

__version__ = "0.1.0"
__all__ = [
    "AssistantResponse",
    "AsyncSandbox",
    "BaseClient",
    "BelljarError",
    "ContextManager",
    "Sandbox",
    "WinkError",
    "__version__",
    "create_client",
]

_HOMES = {
    "AssistantResponse": "belljar.providers",
    "AsyncSandbox": "belljar.sandbox.session",
    "BaseClient": "belljar.providers",
    "BelljarError": "belljar.errors",
    "ContextManager": "belljar.providers",
    "Sandbox": "belljar.sandbox.blocking",
    "WinkError": "belljar.errors",
    "create_client": "belljar.providers",
}

if not TYPE_CHECKING:  # a checker that saw this would believe in any name

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
