"""Files, containers, conversations, models and lists as they look on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from belljar.gateway.server.ports import ModelInfo
from belljar.gateway.store.base import ContainerFileRecord, ContainerRecord, ConversationRecord, FileRecord, ItemRecord
from belljar.wire.codec import encode


class _Named(Struct):
    id: str


_named = msgspec.json.Decoder(_Named)


def file(record: FileRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "object": "file",
        "bytes": record.size,
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "filename": record.filename,
        "purpose": record.purpose,
        "status": "processed",
        "status_details": None,
    }


def container(record: ContainerRecord, status: str) -> dict[str, Any]:
    return {
        "id": record.id,
        "object": "container",
        "name": record.name,
        "created_at": record.created_at,
        "status": status,
        "last_active_at": record.last_active_at,
        "expires_after": {"anchor": "last_active_at", "minutes": record.minutes},
        "memory_limit": record.memory,
        "network_policy": _network(record.network),
    }


def container_file(record: ContainerFileRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "object": "container.file",
        "container_id": record.container_id,
        "created_at": record.created_at,
        "bytes": record.size,
        "path": f"/mnt/data/{record.path}",
        "source": record.source,
    }


def conversation(record: ConversationRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "object": "conversation",
        "created_at": record.created_at,
        "metadata": record.metadata,
    }


def model(info: ModelInfo) -> dict[str, Any]:
    return {"id": info.id, "object": "model", "created": info.created, "owned_by": info.owned_by}


def deleted(id: str, kind: str) -> bytes:
    return encode({"id": id, "object": kind, "deleted": True})


def page(data: Sequence[dict[str, Any]], has_more: bool) -> bytes:
    """A list. The ids of an empty one are empty: the SDK's types and the specification want texts there."""
    first, last = (data[0]["id"], data[-1]["id"]) if data else ("", "")
    return encode({"object": "list", "data": data, "first_id": first, "last_id": last, "has_more": has_more})


def page_of_items(items: Sequence[ItemRecord], has_more: bool) -> bytes:
    """A list of items that are JSON already."""
    first, last = (items[0].id, items[-1].id) if items else ("", "")
    data = [Raw(item.body) for item in items]
    return encode({"object": "list", "data": data, "first_id": first, "last_id": last, "has_more": has_more})


def item(body: bytes) -> ItemRecord:
    """An item in JSON, with the id that is in it."""
    return ItemRecord(id=_named.decode(body).id, body=body)


def _network(policy: bytes) -> dict[str, Any]:
    """Without its secrets."""
    told: dict[str, Any] = msgspec.json.decode(policy)
    return {key: told[key] for key in ("type", "allowed_domains") if key in told}
