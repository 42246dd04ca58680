"""Steps: operations as generators that yield `Wait` where they need the kernel, and outputs where they have any."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from belljar.sandbox.outputs import Output

ENDING = 10.0
"""Seconds that what was killed may take to be gone, on a busy machine, before we no longer believe that it will be."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Come back when a descriptor of the box's `epoll` is ready, or after this many seconds."""

    seconds: float | None


T = TypeVar("T")
Steps: TypeAlias = Generator[Wait | list[Output], list[int], T]
"""Sent back after a `Wait`: the descriptors that are ready."""
