"""Conversations: a list of items under an id, which responses read and add to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec import structs

from belljar.errors import InvalidRequest, NotFound
from belljar.gateway.engine.caller import Caller
from belljar.gateway.engine.history import assign_ids
from belljar.gateway.engine.snapshots import filter_items
from belljar.gateway.store.base import ConversationRecord, ItemRecord, Page, Records
from belljar.wire import ids
from belljar.wire.codec import encode
from belljar.wire.items import CompactionTrigger, InputItem, ItemReference

_MOST = 20
"""Items that one request may add, as on OpenAI's wire."""


class Conversations:
    """What is not there, or somebody else's, is `NotFound`."""

    def __init__(self, records: Records, clock: Callable[[], float] = time.time) -> None:
        self._records = records
        self._clock = clock

    async def create(self, caller: Caller, metadata: dict[str, str], items: Sequence[InputItem]) -> ConversationRecord:
        rows = _build_rows(items)
        made = ConversationRecord(
            id=ids.new("conv"), owner=caller.owner, created_at=int(self._clock()), metadata=metadata
        )
        await self._records.create_conversation(made, rows)
        return made

    async def get(self, id: str, caller: Caller) -> ConversationRecord:
        found = await self._records.get_conversation(id, caller.owner)
        if found is None:
            raise _missing(id)
        return found

    async def update(self, id: str, caller: Caller, metadata: dict[str, str]) -> ConversationRecord:
        found = await self.get(id, caller)
        if not await self._records.update_conversation(id, caller.owner, metadata):
            raise _missing(id)
        return structs.replace(found, metadata=metadata)

    async def delete(self, id: str, caller: Caller) -> None:
        await self.get(id, caller)
        await self._records.delete_conversation(id, caller.owner)

    async def add_items(self, id: str, caller: Caller, items: Sequence[InputItem]) -> list[ItemRecord]:
        await self.get(id, caller)
        rows = _build_rows(items)
        await self._records.add_items(id, rows)
        return [_filter_row(row, ()) for row in rows]

    async def list_items(
        self, id: str, caller: Caller, page: Page, include: Sequence[str]
    ) -> tuple[list[ItemRecord], bool]:
        """And whether there are more."""
        await self.get(id, caller)
        rows = await self._records.list_items(id, page)
        return [_filter_row(row, include) for row in rows[: page.limit]], len(rows) > page.limit

    async def get_item(self, id: str, item_id: str, caller: Caller, include: Sequence[str]) -> ItemRecord:
        await self.get(id, caller)
        row = await self._records.get_item(id, item_id)
        if row is None:
            raise NotFound(f"Item with id '{item_id}' not found in conversation '{id}'.")
        return _filter_row(row, include)

    async def delete_item(self, id: str, item_id: str, caller: Caller) -> ConversationRecord:
        """The conversation that it was in."""
        found = await self.get(id, caller)
        if not await self._records.delete_item(id, item_id):
            raise NotFound(f"Item with id '{item_id}' not found in conversation '{id}'.")
        return found


def _build_rows(items: Sequence[InputItem]) -> list[ItemRecord]:
    if len(items) > _MOST:
        raise InvalidRequest(
            f"Invalid 'items': array too long. Expected an array with maximum length {_MOST}, but got an array with"
            f" length {len(items)} instead.",
            param="items",
            fault="array_above_max_length",
        )
    for number, item in enumerate(items):
        if isinstance(item, ItemReference | CompactionTrigger):
            raise InvalidRequest(
                f"Invalid value: 'items[{number}]' cannot be kept in a conversation; send the item itself.",
                param=f"items[{number}]",
                fault="invalid_value",
            )
    return [
        ItemRecord(id=str(getattr(item, "id", "")), body=encode(item)) for item in assign_ids(items, ids.new("resp"))
    ]


def _filter_row(row: ItemRecord, include: Sequence[str]) -> ItemRecord:
    [item] = filter_items([msgspec.json.decode(row.body)], frozenset(include))
    return ItemRecord(id=row.id, body=encode(item))


def _missing(id: str) -> NotFound:
    return NotFound(f"Conversation with id '{id}' not found.")
