"""Records as the objects of the API: files, containers, conversations, models, and pages of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from belljar.gateway.containers.names import MOUNT
from belljar.gateway.server.interfaces import ModelInfo
from belljar.gateway.store.base import ContainerFileRecord, ContainerRecord, ConversationRecord, FileRecord, ItemRecord
from belljar.wire import answers
from belljar.wire.answers import Deleted, DeletedKind, ListedModel, ListPage, Row
from belljar.wire.codec import encode
from belljar.wire.containers import Container, ContainerFile, Network
from belljar.wire.conversations import Conversation
from belljar.wire.files import File
from belljar.wire.requests import ExpiresAfter
from belljar.wire.tools import Tier


class _WithId(Struct):
    id: str


_with_id = msgspec.json.Decoder(_WithId)
_network = msgspec.json.Decoder(Network)  # which passes over secrets


def build_file(record: FileRecord) -> File:
    return File(
        id=record.id,
        bytes=record.size,
        created_at=record.created_at,
        filename=record.filename,
        purpose=record.purpose,
        expires_at=UNSET if record.expires_at is None else record.expires_at,
    )


def build_container(record: ContainerRecord, status: str) -> Container:
    return Container(
        id=record.id,
        created_at=record.created_at,
        name=record.name,
        status=cast(Any, status),
        last_active_at=record.last_active_at,
        expires_after=ExpiresAfter(anchor="last_active_at", minutes=record.minutes),
        memory_limit=cast(Tier, record.memory),
        network_policy=_network.decode(record.network),
    )


def build_container_file(record: ContainerFileRecord) -> ContainerFile:
    return ContainerFile(
        id=record.id,
        container_id=record.container_id,
        created_at=record.created_at,
        bytes=record.size,
        path=f"{MOUNT}{record.path}",
        source=cast(Any, record.source),
    )


def build_conversation(record: ConversationRecord) -> Conversation:
    return Conversation(id=record.id, created_at=record.created_at, metadata=record.metadata)


def build_model(info: ModelInfo) -> ListedModel:
    return ListedModel(id=info.id, created=info.created, owned_by=info.owned_by)


def encode_deleted(id: str, kind: DeletedKind) -> bytes:
    return encode(Deleted(id=id, object=kind))


def encode_page(rows: Sequence[Row], limit: int, shown: Callable[[Row], object]) -> bytes:
    """A page of a list, of rows that may be one more than it holds."""
    return encode(answers.page(rows, limit, shown))


def encode_item_page(items: Sequence[ItemRecord], has_more: bool) -> bytes:
    """A list of items that are JSON already."""
    first, last = (items[0].id, items[-1].id) if items else ("", "")
    data = tuple([Raw(item.body) for item in items])
    return encode(ListPage(data=data, first_id=first, last_id=last, has_more=has_more))


def read_item(body: bytes) -> ItemRecord:
    """An item in JSON, with the id that is in it."""
    return ItemRecord(id=_with_id.decode(body).id, body=body)
