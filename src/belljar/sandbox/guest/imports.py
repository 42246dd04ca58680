"""Import hooks: run a function after a module is imported, and provide stand-ins for missing modules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from . import private_builtins

private_builtins.protect(globals())


class _Acting(Loader):
    """The real loader, then an action."""

    def __init__(self, loader: Loader, action: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._action = action

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            self._action(module)
        except Exception:  # noqa: BLE001 - an odd version of the module must still be importable
            pass


class Watcher(MetaPathFinder):
    """Runs an action once its module has been imported; at once if it already is."""

    def __init__(self, actions: Mapping[str, Callable[[ModuleType], None]]) -> None:
        self._actions = {}
        for name, action in actions.items():
            module = sys.modules.get(name)
            if module is None:
                self._actions[name] = action
            else:
                action(module)
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        action = self._actions.pop(fullname, None)
        if action is None:
            return None
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            self._actions[fullname] = action
            return None
        spec.loader = _Acting(spec.loader, action)
        return spec


class _Building(Loader):
    def __init__(self, fill: Callable[[ModuleType], None]) -> None:
        self._fill = fill

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        self._fill(module)


class StandIns(MetaPathFinder):
    """Modules that are made here when nobody else has them."""

    def __init__(self, modules: Mapping[str, Callable[[ModuleType], None]]) -> None:
        self._modules = dict(modules)
        sys.meta_path.append(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        fill = self._modules.get(fullname)
        if fill is None:
            return None
        is_package = any(name.startswith(f"{fullname}.") for name in self._modules)
        return ModuleSpec(fullname, _Building(fill), is_package=is_package)
