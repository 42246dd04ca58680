"""Resources that handlers are given besides their parameters, by type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast, overload

from belljar.errors import PromptValidationError
from belljar.runtime import Snapshotable

T = TypeVar("T")
D = TypeVar("D")
Class: TypeAlias = Callable[..., T]
"""`type[T]`, in words that checkers also let a protocol or an abstract class pass by."""


class ResourceRegistry:
    """Instances by the type that handlers ask for; made by `build`, never changed."""

    def __init__(self) -> None:
        self._held: Mapping[type, Any] = MappingProxyType({})

    @classmethod
    def build(cls, resources: Mapping[type, object | None]) -> ResourceRegistry:
        """None values are left out."""
        registry = cls()
        registry._held = MappingProxyType({key: held for key, held in resources.items() if held is not None})
        return registry

    @overload
    def get(self, resource_type: Class[T]) -> T | None: ...

    @overload
    def get(self, resource_type: Class[T], default: D) -> T | D: ...

    def get(self, resource_type: Any, default: object = None) -> Any:
        return self._held.get(resource_type, default)

    def __getitem__(self, resource_type: Class[T]) -> T:
        """For those that must be there; PromptValidationError names one that is not."""
        if resource_type not in self:
            named = getattr(resource_type, "__name__", resource_type)
            has = ", ".join(held.__name__ for held in self._held) or "none"
            raise PromptValidationError(
                f"resources: there is no {named}, only {has}; give one to evaluate(resources=ResourceRegistry.build(…))"
            )
        held: T = self._held[cast(Any, resource_type)]
        return held

    def __contains__(self, resource_type: object) -> bool:
        return resource_type in self._held

    def __len__(self) -> int:
        return len(self._held)

    def merge(self, other: ResourceRegistry) -> ResourceRegistry:
        """Both; where both have a type, the other's."""
        return ResourceRegistry.build({**self._held, **other._held})

    def snapshotable_resources(self) -> tuple[Snapshotable, ...]:
        """Those that a tool's failure puts back, each once."""
        found = {id(held): held for held in self._held.values() if isinstance(held, Snapshotable)}
        return tuple(found.values())
