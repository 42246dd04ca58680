"""Parse items from JSON: as callers send and replay them, and as we stored them."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw

from belljar.errors import InvalidRequest
from belljar.wire import error_messages
from belljar.wire.conversion import fit
from belljar.wire.error_messages import at
from belljar.wire.images import check_picture
from belljar.wire.items import (
    CodeInterpreterCall,
    Compaction,
    CompactionTrigger,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputFile,
    InputImage,
    InputItem,
    InputText,
    ItemReference,
    ItemTypes,
    Json,
    Message,
    OtherItem,
    Part,
    Reasoning,
)

_LONGEST = 10_485_760
_Known: TypeAlias = (
    Message
    | Reasoning
    | FunctionCall
    | FunctionCallOutput
    | CustomToolCall
    | CustomToolCallOutput
    | CodeInterpreterCall
    | Compaction
    | CompactionTrigger
    | ItemReference
)
_all: msgspec.json.Decoder[list[InputItem]] = msgspec.json.Decoder(cast(Any, list[_Known]))
_one: msgspec.json.Decoder[InputItem] = msgspec.json.Decoder(cast(Any, _Known))
_each = msgspec.json.Decoder(list[Raw])


def read_input(value: Json, path: str) -> tuple[InputItem, ...]:
    """The `input` of a request: a list of items, or a text, which is one message of the user's."""
    if not isinstance(value, str):
        if not isinstance(value, list):
            raise error_messages.wrong_type(path, ["a string", "an array of objects"], value)
        return read_items(value, path)
    if len(value) > _LONGEST:
        raise error_messages.too_long(path, "string", _LONGEST, len(value))
    return (Message(role="user", content=(InputText(text=value),)),)


def read_items(value: Json, path: str) -> tuple[InputItem, ...]:
    if not isinstance(value, list):
        raise error_messages.wrong_type(path, ["an array of objects"], value)
    items = tuple([read_item(one, f"{path}[{n}]") for n, one in enumerate(value)])
    for item in items[:-1]:
        if type(item) is CompactionTrigger:
            raise InvalidRequest(
                f"Invalid value for '{path}': compaction_trigger must be the last input item.",
                param=path,
                fault="invalid_value",
            )
    return items


def read_item(value: Json, path: str) -> InputItem:
    """Keys that we do not know are let go: replayed items have those of their vendor and of later versions."""
    if not isinstance(value, dict):
        raise error_messages.wrong_type(path, ["an object"], value)
    if isinstance(id := value.get("id"), str) and "\0" in id:
        raise error_messages.has_nul(at(path, "id"))
    kind = value.get("type")
    if kind is None:
        kind = _guess_type(value, path)
    elif not isinstance(kind, str):
        raise error_messages.wrong_type(at(path, "type"), ["a string"], kind)
    if kind in ItemTypes.OTHER:
        return OtherItem(value)
    if kind not in ItemTypes.ITEMS:
        raise error_messages.not_one_of(at(path, "type"), kind, sorted([*ItemTypes.ITEMS, *ItemTypes.OTHER]))
    item = cast(InputItem, fit(value, ItemTypes.ITEMS[kind], path))
    if isinstance(item, Message):
        if not isinstance(item.content, str):
            _check_sources(item.content, at(path, "content"))
    elif isinstance(item, FunctionCallOutput | CustomToolCallOutput) and not isinstance(item.output, str):
        _check_sources(item.output, at(path, "output"))
    return item


def read_stored_items(body: bytes) -> list[InputItem]:
    """A JSON array of items that we wrote ourselves."""
    try:
        return _all.decode(body)
    except msgspec.ValidationError:
        return [_read_stored_item(raw) for raw in _each.decode(body)]


def _read_stored_item(raw: Raw) -> InputItem:
    try:
        return _one.decode(raw)
    except msgspec.ValidationError:
        return OtherItem(msgspec.json.decode(raw))


def _guess_type(value: dict[str, Json], path: str) -> str:
    """OpenAI lets these two do without a type."""
    if "role" in value:
        return "message"
    if value.keys() - {"type"} == {"id"}:
        return "item_reference"
    raise error_messages.missing(at(path, "type"))


def _check_sources(parts: tuple[Part, ...], path: str) -> None:
    for n, part in enumerate(parts):
        if isinstance(part, InputImage):
            if part.image_url is None and part.file_id is None:
                raise error_messages.missing(f"{path}[{n}].image_url", "An image needs 'image_url' or 'file_id'.")
            if part.image_url is not None:
                check_picture(part.image_url, f"{path}[{n}].image_url")
        elif isinstance(part, InputFile) and not any(
            source not in (UNSET, None) for source in (part.file_id, part.file_data, part.file_url)
        ):
            raise error_messages.missing(f"{path}[{n}].file_id", "A file needs 'file_id', 'file_data' or 'file_url'.")
