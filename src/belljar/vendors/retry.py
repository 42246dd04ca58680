"""When to ask a vendor again, and after how long: rules without I/O, the same for gateway, adapters and files."""

from __future__ import annotations

from msgspec import Struct

from belljar.errors import BelljarError, ProviderError

_MANY = 64
"""Doublings, beyond any limit."""


class RetryLimits(Struct, frozen=True, kw_only=True):
    """How often and how long. Times are in seconds."""

    tries: int = 3
    """With the first."""
    first: float = 0.5
    """The shortest pause of our own."""
    longest: float = 8.0
    """The longest pause of our own."""
    total: float = 30.0
    """All pauses together. A server that wants a longer one is told of to the caller, who can decide."""


def is_passing(error: BelljarError) -> bool:
    """Whether the same request may succeed later: as the answer itself tells, or else by the kind of error."""
    if isinstance(error, ProviderError) and error.again is not None:
        return error.again
    return error.retryable is True


def choose_pause(error: BelljarError, tries: int, waited: float, limits: RetryLimits, *, chance: float) -> float | None:
    """Seconds to wait after that many tries and so long a wait before them; None: give up. `chance` is from 0 to 1.

    Pauses of our own grow twofold, at random between the first and that; what the vendor asks for is the least. Those
    whom it sent away together do not come back together.
    """
    if tries >= limits.tries or not is_passing(error):
        return None
    grown = min(limits.longest, limits.first * 2.0 ** min(tries, _MANY))
    own = limits.first + (grown - limits.first) * chance
    asked: float | None = getattr(error, "after", None)
    if waited + max(own, asked or 0.0) > limits.total:
        return None
    return own if asked is None or asked <= own else asked + chance * limits.first / 2
