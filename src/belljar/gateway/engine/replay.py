"""Cells of earlier responses, told to the model again: from what was kept, or what the caller sent back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import UNSET, structs

from belljar.wire.items import CellEnd, CodeInterpreterCall, Image, InputItem, InputText, Logs, Message

_MOST = 8_000
"""Characters told again of one cell: it was read once already."""
_IMAGES = 4
"""Pictures shown again, the newest ones."""


def list_call_outputs(items: Iterable[InputItem]) -> dict[str, str]:
    """What each cell said, by the item's id."""
    cells = (item for item in items if type(item) is CodeInterpreterCall)
    return {cell.id: cell.told if isinstance(cell.told, str) else _describe_outputs(cell) for cell in cells}


def add_notes(items: Iterable[InputItem]) -> tuple[InputItem, ...]:
    """The user's messages with what the model was told beside them."""
    return tuple(_add_note(item) if type(item) is Message and item.told is not UNSET else item for item in items)


def _add_note(item: Message) -> Message:
    said = (InputText(text=item.content),) if isinstance(item.content, str) else item.content
    return structs.replace(item, content=(*said, InputText(text=str(item.told))), told=UNSET)


def find_last_note(items: Iterable[InputItem]) -> str | None:
    """What the model was told last of its container."""
    notes = [item.told for item in items if type(item) is Message and isinstance(item.told, str)]
    return notes[-1] if notes else None


def attach_note(own: Sequence[InputItem], note: str) -> tuple[InputItem, ...]:
    """A request's items, of which the user's last message is to be told with a note."""
    last = max((at for at, item in enumerate(own) if _takes_note(item)), default=None)
    return tuple(
        structs.replace(item, told=note) if at == last and type(item) is Message else item
        for at, item in enumerate(own)
    )


def can_note(own: Iterable[InputItem]) -> bool:
    """Whether there is a message to tell a note with."""
    return any(map(_takes_note, own))


def _takes_note(item: InputItem) -> bool:
    return type(item) is Message and item.role == "user"


def list_call_images(items: Iterable[InputItem]) -> dict[str, tuple[str, ...]]:
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


def _describe_outputs(item: CodeInterpreterCall) -> str:
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
