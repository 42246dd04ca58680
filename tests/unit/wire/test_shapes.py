"""Containers, files, conversations and lists of them have the keys that the official client's types ask for."""

import json
from typing import Any

import pytest
from openai.types import ContainerCreateResponse, FileDeleted, FileObject
from openai.types.containers import FileCreateResponse
from openai.types.conversations import Conversation as SdkConversation
from openai.types.conversations import ConversationDeletedResource
from pydantic import BaseModel

from belljar.wire import codec
from belljar.wire.answers import Deleted, ListPage, page
from belljar.wire.containers import Container, ContainerFile, Network
from belljar.wire.conversations import Conversation
from belljar.wire.files import File
from belljar.wire.requests import ExpiresAfter

CONTAINER = Container(
    id="cntr_1",
    created_at=1,
    name="n",
    status="running",
    last_active_at=2,
    expires_after=ExpiresAfter(anchor="last_active_at", minutes=20),
    memory_limit="1g",
)
FILE = File(id="file-1", bytes=3, created_at=1, filename="a.csv", purpose="user_data")


@pytest.mark.parametrize(
    ("value", "written", "type_"),
    [
        (
            CONTAINER,
            {
                "id": "cntr_1",
                "object": "container",
                "created_at": 1,
                "name": "n",
                "status": "running",
                "last_active_at": 2,
                "expires_after": {"anchor": "last_active_at", "minutes": 20},
                "memory_limit": "1g",
                "network_policy": {"type": "disabled"},
            },
            ContainerCreateResponse,
        ),
        (
            ContainerFile(
                id="cfile_1", container_id="cntr_1", created_at=1, bytes=3, path="/mnt/data/a.csv", source="assistant"
            ),
            {
                "id": "cfile_1",
                "object": "container.file",
                "container_id": "cntr_1",
                "created_at": 1,
                "bytes": 3,
                "path": "/mnt/data/a.csv",
                "source": "assistant",
            },
            FileCreateResponse,
        ),
        (
            FILE,
            {
                "id": "file-1",
                "object": "file",
                "bytes": 3,
                "created_at": 1,
                "filename": "a.csv",
                "purpose": "user_data",
                "status": "processed",
            },
            FileObject,
        ),
        (
            Deleted(id="file-1", object="file"),
            {"id": "file-1", "object": "file", "deleted": True},
            FileDeleted,
        ),
        (
            Conversation(id="conv_1", created_at=1, metadata={"a": "b"}),
            {"id": "conv_1", "object": "conversation", "created_at": 1, "metadata": {"a": "b"}},
            SdkConversation,
        ),
        (
            Deleted(id="conv_1", object="conversation.deleted"),
            {"id": "conv_1", "object": "conversation.deleted", "deleted": True},
            ConversationDeletedResource,
        ),
    ],
)
def test_what_is_written(value: object, written: dict[str, Any], type_: type[BaseModel]) -> None:
    assert json.loads(codec.encode(value)) == written
    type_.model_validate(written, strict=True)


def test_what_is_there_only_sometimes() -> None:
    network = Network(type="allowlist", allowed_domains=("pypi.org",))
    assert json.loads(codec.encode(network)) == {"type": "allowlist", "allowed_domains": ["pypi.org"]}
    file = File(id="file-1", bytes=0, created_at=1, filename="a", purpose="batch", expires_at=9)
    assert json.loads(codec.encode(file))["expires_at"] == 9


@pytest.mark.parametrize(
    ("rows", "limit", "ids", "first", "last", "more"),
    [
        ([], 2, [], "", "", False),
        (["a"], 2, ["a"], "a", "a", False),
        (["a", "b"], 2, ["a", "b"], "a", "b", False),
        (["a", "b", "c"], 2, ["a", "b"], "a", "b", True),
    ],
)
def test_a_page(rows: list[str], limit: int, ids: list[str], first: str, last: str, more: bool) -> None:
    conversations = [Conversation(id=id, created_at=0) for id in rows]
    made: ListPage[str] = page(conversations, limit, lambda row: row.id)
    assert json.loads(codec.encode(made)) == {
        "object": "list",
        "data": ids,
        "first_id": first,
        "last_id": last,
        "has_more": more,
    }
