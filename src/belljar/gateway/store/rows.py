"""Records as rows: the columns of a table are the fields of its record, in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from belljar.gateway.store.base import (
    ContainerFileRecord,
    ContainerRecord,
    ConversationRecord,
    FileRecord,
    ItemRecord,
    KeyRecord,
    ResponseRecord,
)

R = TypeVar("R", bound=msgspec.Struct)
Row: TypeAlias = tuple[Any, ...]
_NOTHING: Mapping[str, Any] = MappingProxyType({})

_metadata = msgspec.json.Decoder(dict[str, str]).decode
_requirements = msgspec.json.Decoder(tuple[str, ...]).decode


class Table(Generic[R]):
    """How the records of one kind are read and written."""

    def __init__(
        self,
        name: str,
        record: type[R],
        read: Callable[[Row], R],
        *,
        write: Mapping[str, Callable[[Any], object]] = _NOTHING,
        key: tuple[str, ...] = ("id",),
        once: tuple[str, ...] = (),
        order: tuple[str, ...] = ("created_at", "n"),
    ) -> None:
        """`write` turns the fields that SQLite has no type for.

        Of two records with the same `key` there is one row, whose fields in `once` stay as they were first written.
        """
        fields = record.__struct_fields__
        changed = ", ".join(f"{one} = excluded.{one}" for one in fields if one not in (*key, *once))
        self.name = name
        self.read = read
        self.order = order
        self.columns = ", ".join(fields)
        self.select = f"SELECT {self.columns} FROM {name}"
        self.insert = f"INSERT INTO {name} ({self.columns}) VALUES ({', '.join('?' * len(fields))})"
        conflict = f"ON CONFLICT ({', '.join(key)}) DO"
        self.add = f"{self.insert} {conflict} NOTHING"
        self.upsert = f"{self.insert} {conflict} UPDATE SET {changed}"
        self._turned = tuple((fields.index(field), turn) for field, turn in write.items())

    def write(self, record: R) -> Sequence[object]:
        values = msgspec.structs.astuple(record)
        if not self._turned:
            return values
        turned: list[object] = list(values)
        for place, turn in self._turned:
            turned[place] = turn(turned[place])
        return turned


# Written out, as a chain is read through the first of these: by field names from a loop it takes six times as long.


def _response(row: Row) -> ResponseRecord:
    return ResponseRecord(
        id=row[0],
        owner=row[1],
        created_at=row[2],
        status=row[3],
        background=bool(row[4]),
        previous_id=row[5],
        conversation_id=row[6],
        container_id=row[7],
        container_version=row[8],
        input=row[9],
        output=row[10],
        body=row[11],
        holder=row[12],
    )


def _conversation(row: Row) -> ConversationRecord:
    return ConversationRecord(id=row[0], owner=row[1], created_at=row[2], metadata=_metadata(row[3]))


def _item(row: Row) -> ItemRecord:
    return ItemRecord(id=row[0], body=row[1])


def _container(row: Row) -> ContainerRecord:
    return ContainerRecord(
        id=row[0],
        owner=row[1],
        name=row[2],
        created_at=row[3],
        last_active_at=row[4],
        memory=row[5],
        minutes=row[6],
        auto=bool(row[7]),
        network=row[8],
        requirements=_requirements(row[9]),
        cells=row[10],
        deleted=bool(row[11]),
        hosted=row[12],
        version=row[13],
        holder=row[14],
        epoch=row[15],
        sandbox=row[16],
    )


def _container_file(row: Row) -> ContainerFileRecord:
    return ContainerFileRecord(
        id=row[0],
        container_id=row[1],
        path=row[2],
        created_at=row[3],
        size=row[4],
        modified=row[5],
        source=row[6],
        blob=row[7],
        type=row[8],
    )


def _file(row: Row) -> FileRecord:
    return FileRecord(
        id=row[0],
        owner=row[1],
        filename=row[2],
        purpose=row[3],
        created_at=row[4],
        size=row[5],
        blob=row[6],
        type=row[7],
        expires_at=row[8],
    )


def _key(row: Row) -> KeyRecord:
    return KeyRecord(
        id=row[0],
        name=row[1],
        digest=row[2],
        shown=row[3],
        created_at=row[4],
        last_used_at=row[5],
        revoked_at=row[6],
    )


_encode = msgspec.json.encode

RESPONSES = Table("responses", ResponseRecord, _response)
CONVERSATIONS = Table("conversations", ConversationRecord, _conversation, write={"metadata": _encode})
ITEMS = Table("items", ItemRecord, _item, order=("n",))
CONTAINERS = Table("containers", ContainerRecord, _container, write={"requirements": _encode})
CONTAINER_FILES = Table(
    "container_files", ContainerFileRecord, _container_file, key=("container_id", "path"), once=("id", "created_at")
)
FILES = Table("files", FileRecord, _file)
KEYS = Table("keys", KeyRecord, _key)
