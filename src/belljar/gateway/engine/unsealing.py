"""What callers bring back sealed, as the model reads it: summaries of a conversation, and its own reasoning."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, structs

from belljar.gateway.engine.sealing import Sealer
from belljar.vendors.vendor_tag import OURS, untag
from belljar.wire.items import Compaction, InputItem, InputText, Message, Reasoning, ReasoningText

_PREFIX = "Summary of the conversation so far:\n\n"
_SEALED = frozenset([Compaction, Reasoning])


async def unseal_items(
    items: Sequence[InputItem], sealer: Sealer, owner: str, *, first: int = 0
) -> tuple[InputItem, ...]:
    """The items, opened; `first` is where the caller's own input begins, for the fault."""
    if _SEALED.isdisjoint(map(type, items)):
        return tuple(items)
    shown: list[InputItem] = []
    for at, item in enumerate(items):
        param = f"input[{at - first}].encrypted_content" if at >= first else "previous_response_id"
        match item:
            case Compaction():
                text = await sealer.open(item.encrypted_content, owner, param=param)
                shown.append(Message(role="developer", content=(InputText(text=_PREFIX + text),)))
            case Reasoning(encrypted_content=str(sealed)) if untag(OURS, sealed) is not None:
                text = await sealer.open(sealed, owner, param=param, kind="reasoning")
                shown.append(structs.replace(item, content=(ReasoningText(text=text),), encrypted_content=UNSET))
            case _:
                shown.append(item)
    return tuple(shown)
