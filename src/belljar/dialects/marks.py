"""What a vendor wants back unread, marked with whose it is: no other vendor is ever sent it.

OpenAI's own goes unmarked, as callers may have it from there. It has no colon in it.
"""

from __future__ import annotations


def marked(vendor: str, sealed: str) -> str:
    """As we keep it."""
    return f"{vendor}:{sealed}"


def unmarked(vendor: str, kept: object) -> str | None:
    """As the vendor gave it; None if it is another's, or nothing."""
    if not isinstance(kept, str) or not kept.startswith(f"{vendor}:"):
        return None
    return kept.removeprefix(f"{vendor}:")


def is_marked(kept: str) -> bool:
    return ":" in kept
