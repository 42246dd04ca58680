"""`@FrozenDataclass()`: a dataclass whose instances never change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def FrozenDataclass(*, kw_only: bool = False, order: bool = False) -> Callable[[type[T]], type[T]]:
    return dataclass(frozen=True, slots=True, kw_only=kw_only, order=order)
