"""What handlers are handed besides their parameters, by type."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar, overload

from belljar.runtime import Snapshotable

T = TypeVar("T")
D = TypeVar("D")


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
    def get(self, resource_type: type[T]) -> T | None: ...

    @overload
    def get(self, resource_type: type[T], default: D) -> T | D: ...

    def get(self, resource_type: type[T], default: D | None = None) -> T | D | None:
        held: T | D | None = self._held.get(resource_type, default)
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
