"""Throttling: how long to wait for a provider that is overloaded, and when to give up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

_MANY = 64
"""Doublings, beyond any limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottlePolicy:
    """Waits grow twofold from `base_delay` to `max_delay`, at random between the two; what the provider says counts."""

    max_attempts: int = 5
    """With the first."""
    base_delay: timedelta = timedelta(milliseconds=500)
    max_delay: timedelta = timedelta(seconds=8)
    max_total_delay: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(
                f"ThrottlePolicy.max_attempts: {self.max_attempts} is below 1; for example 5, or 1 to never try again"
            )
        if not timedelta(0) <= self.base_delay <= self.max_delay <= self.max_total_delay:
            raise ValueError("ThrottlePolicy: delays must grow: base_delay <= max_delay <= max_total_delay")

    def delay(
        self, attempts: int, waited: timedelta, after: timedelta | None, uniform: Callable[[float, float], float]
    ) -> timedelta | None:
        """The wait after that many attempts; None: give up. `after` is what the provider asks for at least."""
        if attempts >= self.max_attempts:
            return None
        base = self.base_delay.total_seconds()
        longest = min(self.max_delay.total_seconds(), base * 2.0 ** min(attempts, _MANY))
        wait = max(timedelta(seconds=uniform(base, longest)), after or timedelta(0))
        return wait if waited + wait <= self.max_total_delay else None
