"""Cells of earlier responses, told to the model again: from what was kept, or what the caller sent back."""

from __future__ import annotations

from collections.abc import Iterable

from belljar.wire.items import CellEnd, CodeInterpreterCall, Image, InputItem, Logs

_MOST = 8_000
"""Characters told again of one cell: it was read once already."""
_IMAGES = 4
"""Pictures shown again, the newest ones."""


def told(items: Iterable[InputItem]) -> dict[str, str]:
    """What each cell said, by the item's id."""
    return {item.id: _told(item) for item in items if type(item) is CodeInterpreterCall}


def shown(items: Iterable[InputItem]) -> dict[str, tuple[str, ...]]:
    """The newest pictures, by the item's id."""
    cells = [item for item in items if type(item) is CodeInterpreterCall]
    found: dict[str, tuple[str, ...]] = {}
    left = _IMAGES
    for item in reversed(cells):
        images = tuple(output.url for output in item.outputs or () if isinstance(output, Image))
        if images and left > 0:
            found[item.id] = images[:left]
            left -= len(images)
    return found


def _told(item: CodeInterpreterCall) -> str:
    if item.outputs is None:
        return "[The output of this call is not part of the conversation.]"
    text = "".join(output.logs for output in item.outputs if isinstance(output, Logs))
    if len(text) > _MOST:
        text = f"{text[: _MOST // 2]}\n[… {len(text) - _MOST} characters cut here …]\n{text[-_MOST // 2 :]}"
    parts = [text.rstrip("\n") or "[The code ran and printed nothing.]"]
    if isinstance(item.belljar, CellEnd) and item.belljar.files:
        links = "\n".join(f"- [{path}](sandbox:/mnt/data/{path})" for path in item.belljar.files)
        parts.append(f"Files made or changed:\n{links}")
    return "\n\n".join(parts)
