"""Deadlines: the time at which an evaluation must be over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from belljar.errors import DeadlineExceededError
from belljar.runtime.events import now

_LEAST = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Deadline:
    """`expires_at` is aware of its time zone and at least a second ahead."""

    expires_at: datetime
    clock: Callable[[], datetime] = field(default=now, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.expires_at.utcoffset() is None:
            raise ValueError(f"Deadline.expires_at: {self.expires_at} has no time zone; use datetime.now(UTC) + …")
        if self.remaining() < _LEAST:
            raise ValueError(
                f"Deadline.expires_at: {self.expires_at} is not at least a second ahead; use datetime.now(UTC) + …"
            )

    def remaining(self, now: datetime | None = None) -> timedelta:
        """Negative once it has passed."""
        return self.expires_at - (now or self.clock())

    def check(self) -> None:
        if self.remaining() <= timedelta(0):
            raise DeadlineExceededError(f"the deadline {self.expires_at.isoformat()} has passed")
