"""Give the guest's own functions a private copy of the builtins, so that no cell can break them.

A function takes its builtins from its module's `__builtins__` at the moment when it is defined. Guest modules
therefore call `protect(globals())` before their first definition.
"""

from __future__ import annotations

import builtins
import sys

_shared = vars(builtins)
_modules = sys.modules

_private = dict(_shared)
_names = _private.keys()


def protect(module: dict[str, object]) -> None:
    """Give the functions that this module will define the private copy."""
    module["__builtins__"] = _private


def keep() -> None:
    """Take what the guest itself added to the builtins into the copy."""
    _private.update(_shared)


def heal() -> None:
    """Put back the builtins and the two vital modules that a cell deleted; what it replaced stays replaced."""
    if not _names <= _shared.keys():
        for name in _names - _shared.keys():
            _shared[name] = _private[name]
    if _modules.get("sys") is not sys or _modules.get("builtins") is not builtins:
        _modules.update(sys=sys, builtins=builtins)


def restore() -> None:
    """Put back everything, also what a cell replaced: for when the standard library itself no longer works."""
    _shared.update(_private)
