"""Throttling: how long an evaluation waits for a provider that is overloaded, and when it gives up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from belljar.vendors.retry import RetryLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottlePolicy:
    """Waits grow twofold from `base_delay` to `max_delay`, at random between the two, and last at least as long as the
    provider asks for.
    """

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

    @property
    def limits(self) -> RetryLimits:
        """The same in seconds."""
        return RetryLimits(
            tries=self.max_attempts,
            first=self.base_delay.total_seconds(),
            longest=self.max_delay.total_seconds(),
            total=self.max_total_delay.total_seconds(),
        )
