"""How many tokens a request is, about: counted without the model's own tokenizer."""

from __future__ import annotations

import math
from collections.abc import Iterable

from belljar.wire.codec import encode
from belljar.wire.items import InputImage, InputItem, Message, Part

_BYTES = 4
_IMAGE = 765
"""A picture of 1024 by 1024 at high detail, as OpenAI counts it."""
_ITEM = 4


def estimate(items: Iterable[InputItem], *others: object) -> int:
    """Four bytes of text a token, some for each item, a flat rate for pictures."""
    total = sum(len(encode(other)) / _BYTES for other in others if other)
    for item in items:
        total += _ITEM
        if isinstance(item, Message):
            parts: tuple[Part, ...] = () if isinstance(item.content, str) else item.content
            total += len(item.content.encode()) / _BYTES if isinstance(item.content, str) else 0
            total += sum(_IMAGE if isinstance(part, InputImage) else _length(part) for part in parts)
        else:
            total += len(encode(item)) / _BYTES
    return max(1, math.ceil(total))


def _length(part: Part) -> float:
    return len(str(getattr(part, "text", "")).encode()) / _BYTES
