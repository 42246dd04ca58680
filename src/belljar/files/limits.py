"""What each vendor's Files API takes and how long it keeps it, as of a date: checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from types import MappingProxyType

from belljar.vendors.registry import VENDORS
from belljar.vendors.vendor import MIB, FileLimits

__all__ = ["AS_OF", "LIMITS", "MIB", "OWN", "FileLimits", "format_size"]

OWN = 100 * MIB
"""Our own limit for one file, below most vendors': a slip of the hand should not send gigabytes."""

AS_OF = date(2026, 11, 15)


LIMITS: Mapping[str, FileLimits] = MappingProxyType(
    {name: row.file_limits for name, row in VENDORS.items() if row.file_limits is not None}
)


def format_size(size: int) -> str:
    """A number of bytes as people read it."""
    value = float(size)
    for unit in ("bytes", "KB", "MB"):
        if value < 1024:
            return f"{size} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GB"
