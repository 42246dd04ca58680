"""Responses that were read last, in memory: a conversation goes on from those that it has just been through."""

from __future__ import annotations

from collections import OrderedDict

from belljar.gateway.store.base import ResponseRecord

MOST = 16 << 20
"""Bytes that are kept."""
_FINAL = frozenset({"completed", "incomplete", "failed", "cancelled"})


class Recent:
    """Only such as will not change any more. Whether they are still there the store is asked first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._size = 0
        self._kept: OrderedDict[str, ResponseRecord] = OrderedDict()

    def get(self, id: str) -> ResponseRecord | None:
        record = self._kept.get(id)
        if record is not None:
            self._kept.move_to_end(id)
        return record

    def chain(self, id: str) -> dict[str, ResponseRecord]:
        """The response and those before it, as far as they are known, by their ids."""
        known: dict[str, ResponseRecord] = {}
        at: str | None = id
        while at is not None and at not in known and (record := self.get(at)) is not None:
            known[at] = record
            at = record.previous_id
        return known

    def add(self, record: ResponseRecord) -> None:
        if record.status not in _FINAL:
            return
        if (before := self._kept.pop(record.id, None)) is not None:  # two have read it at once
            self._size -= _size(before)
        self._kept[record.id] = record
        self._size += _size(record)
        while self._size > self._most:
            self._size -= _size(self._kept.popitem(last=False)[1])


def _size(record: ResponseRecord) -> int:
    return len(record.input) + len(record.output) + len(record.body)
