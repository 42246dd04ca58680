"""What each vendor's Files API takes and how long it keeps it: data, as of a date, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from types import MappingProxyType

MIB = 1 << 20
OWN = 100 * MIB
"""Our own limit for one file, below most vendors': a slip of the hand should not send gigabytes."""

AS_OF = date(2026, 11, 15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """One row of the table."""

    largest: int | None
    """Bytes of one file; None where the server alone knows."""
    retention: timedelta | None
    """How long an upload lives that asks for nothing; None: until it is deleted."""
    lifetimes: tuple[timedelta, timedelta] | None
    """The shortest and the longest life that may be asked for."""
    source: str


LIMITS: Mapping[str, Limits] = MappingProxyType(
    {
        "openai": Limits(
            largest=512 * MIB,
            retention=None,
            lifetimes=(timedelta(hours=1), timedelta(days=30)),
            source="OpenAI's API reference; the 20 minutes of the founding table are a container's, not a file's",
        ),
        "anthropic": Limits(
            largest=500 * MIB,
            retention=None,
            lifetimes=(timedelta(hours=1), timedelta(days=90)),
            source="size: the founding table, unchecked since; lifetimes: Anthropic's SDK 2.8",
        ),
        "gemini": Limits(
            largest=2048 * MIB,
            retention=timedelta(hours=48),
            lifetimes=None,
            source="the founding table, unchecked since",
        ),
        "xai": Limits(
            largest=48 * MIB,
            retention=None,
            lifetimes=(timedelta(hours=1), timedelta(days=30)),
            source="xAI's REST reference (50 MB, kept until deleted); the 72 hours of the founding table are gone",
        ),
        "belljar": Limits(
            largest=None,
            retention=None,
            lifetimes=(timedelta(hours=1), timedelta(days=30)),
            source="our own gateway, whose operator sets the size",
        ),
    }
)


def shown(size: int) -> str:
    """A number of bytes as people read it."""
    value = float(size)
    for unit in ("bytes", "KB", "MB"):
        if value < 1024:
            return f"{size} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GB"
