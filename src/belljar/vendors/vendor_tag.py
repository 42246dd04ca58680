"""What a vendor wants back unread, marked with whose it is: no other vendor is ever sent it.

OpenAI's own may come unmarked, as callers may have it from there. It has no colon in it. It belongs to the id that the
item had there, while ours has another: `tag_reasoning` puts that id into the mark, `give_back` takes it out again. What
this gateway itself sealed is marked too; from another gateway, which is then the vendor, it is like OpenAI's.
"""

from __future__ import annotations

from msgspec import structs

from belljar.wire.items import Reasoning

OURS = "belljar"
_OPENAI = "openai"


def tag(vendor: str, sealed: str) -> str:
    """As we keep it."""
    return f"{vendor}:{sealed}"


def untag(vendor: str, kept: object) -> str | None:
    """As the vendor gave it; None if it is another's, or nothing."""
    if not isinstance(kept, str) or not kept.startswith(f"{vendor}:"):
        return None
    return kept.removeprefix(f"{vendor}:")


def is_tagged(kept: str) -> bool:
    return ":" in kept


def tag_reasoning(item: Reasoning) -> Reasoning:
    """Reasoning of OpenAI's as we keep it."""
    sealed = item.encrypted_content
    if not isinstance(sealed, str) or not isinstance(item.id, str):
        return item
    if is_tagged(sealed) and untag(OURS, sealed) is None:
        return item
    return structs.replace(item, encrypted_content=tag(_OPENAI, f"{item.id}:{sealed}"))


def give_back(item: Reasoning) -> Reasoning | None:
    """As OpenAI gave it; None if it is another's, or nothing."""
    sealed = item.encrypted_content
    if not isinstance(sealed, str):
        return None
    if not is_tagged(sealed):
        return item
    id, _, content = (untag(_OPENAI, sealed) or "").partition(":")
    return structs.replace(item, id=id, encrypted_content=content) if content else None
