"""What a blob is called, what is said of one that is not there, and how long one that nobody names is kept."""

from __future__ import annotations

import re

from belljar.errors import NotFound

_NAME = re.compile(r"[0-9a-f]{64}")
HOUR = 3600.0
"""Seconds after which a blob that no record names was forgotten by whoever wrote it."""
RECENT = 300.0
"""Seconds within which every finished blob gets its record, by far."""


def is_name(name: str) -> bool:
    """Whether it can be that of a whole blob."""
    return _NAME.fullmatch(name) is not None


def no_content(name: str) -> NotFound:
    return NotFound(f"There is no content {name!r}: it was deleted.")


def damaged_content(name: str, found: str) -> NotFound:
    return NotFound(f"The content {name!r} is damaged, {found}; send the file again.")
