"""Split text into pieces as models stream it."""

from __future__ import annotations

import re


def words(text: str) -> list[str]:
    """Words with the space before them."""
    return re.findall(r"\s*\S+|\s+$", text)


def chunks(text: str) -> list[str]:
    """Eight characters at a time, as argument JSON comes."""
    return [text[at : at + 8] for at in range(0, len(text), 8)]
