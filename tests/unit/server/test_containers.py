"""Containers and their files, conversations, models, health: the shapes that the SDK reads."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from tests.unit.server.conftest import FORM, Gateway, Opened, form

from belljar.errors import BelljarError, TooLarge
from belljar.gateway.server.options import Quota

# -- containers -------------------------------------------------------------------------------------------------------


def test_the_life_of_a_container(gateway: Gateway) -> None:
    with gateway.client() as client:
        made = client.containers.create(
            name="lab", memory_limit="4g", expires_after={"anchor": "last_active_at", "minutes": 5}
        )
        assert (made.object, made.name, made.status, made.memory_limit) == ("container", "lab", "running", "4g")
        assert made.expires_after is not None
        assert made.expires_after.minutes == 5
        assert made.network_policy is not None
        assert made.network_policy.type == "disabled"
        assert client.containers.retrieve(made.id).id == made.id
        assert [one.id for one in client.containers.list()] == [made.id]
        assert [one.id for one in client.containers.list(name="other")] == []
        client.containers.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            client.containers.retrieve(made.id)


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({}, "name", "missing_required_parameter"),
        ({"name": 5}, "name", "invalid_type"),
        ({"name": "a", "memory_limit": "8g"}, "memory_limit", "invalid_value"),
        ({"name": "a", "file_ids": ["file-x"]}, "file_ids[0]", "invalid_value"),
        ({"name": "a", "nonsense": 1}, "nonsense", "unknown_parameter"),
    ],
)
def test_a_bad_container(gateway: Gateway, body: dict[str, Any], param: str, code: str) -> None:
    answer = gateway.ask("POST", "/v1/containers", body)
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, param, code)
    assert gateway.rooms.containers.kept == {}


def test_what_is_deleted_says_so(gateway: Gateway) -> None:
    id = gateway.ask("POST", "/v1/containers", {"name": "a"}).json["id"]
    deleted = gateway.ask("DELETE", f"/v1/containers/{id}").json
    assert deleted == {"id": id, "object": "container.deleted", "deleted": True}


def test_pages_of_containers(gateway: Gateway) -> None:
    ids = [gateway.ask("POST", "/v1/containers", {"name": str(n)}).json["id"] for n in range(3)]
    page = gateway.ask("GET", "/v1/containers?limit=2").json
    assert (page["first_id"], page["last_id"], page["has_more"]) == (ids[0], ids[1], True)
    with gateway.client() as client:
        assert client.containers.list(limit=3).has_more is False


def test_files_of_a_container(gateway: Gateway) -> None:
    with gateway.client() as client:
        container = client.containers.create(name="lab")
        made = client.containers.files.create(container.id, file=("報告 1.csv", b"a,b"))
        assert (made.path, made.bytes, made.source) == ("/mnt/data/報告 1.csv", 3, "user")
        assert client.containers.files.retrieve(made.id, container_id=container.id).path == made.path
        assert [one.id for one in client.containers.files.list(container.id)] == [made.id]
        assert client.containers.files.content.retrieve(made.id, container_id=container.id).read() == b"a,b"
        client.containers.files.delete(made.id, container_id=container.id)
        with pytest.raises(openai.NotFoundError) as caught:
            client.containers.files.retrieve(made.id, container_id=container.id)
        assert f"File {made.id} not found on container {container.id}." in str(caught.value)


def test_uploaded_files_are_placed_by_id_in_every_way(gateway: Gateway) -> None:
    with gateway.client() as client:
        file = client.files.create(file=("a.csv", b"a,b"), purpose="user_data")
        container = client.containers.create(name="lab", file_ids=[file.id])
        as_json = client.containers.files.create(container.id, file_id=file.id)
        path = f"/v1/containers/{container.id}/files"
        as_form = gateway.ask("POST", path, form(('name="file_id"', file.id.encode())), FORM)
        assert as_json.path == "/mnt/data/a.csv"
        assert as_form.json["path"] == "/mnt/data/a.csv"
        assert len(client.containers.files.list(container.id).data) == 3
    assert len(gateway.rooms.blobs.kept) == 1


@pytest.mark.parametrize(
    ("body", "headers", "param"),
    [
        (form(), FORM, "file"),
        (form(('name="file_id"', b"file-x")), FORM, "file_id"),
        (form(('name="file_id"', b"x"), ('name="file"; filename="a"', b"x")), FORM, "file_id"),
        (form(('name="other"', b"x"), ('name="file"; filename="a"', b"x")), FORM, "other"),
        (form(('name="extract"', b"perhaps"), ('name="file"; filename="a"', b"x")), FORM, "extract"),
        (b"{}", {}, "file_id"),
        (b'{"file_id": 5}', {}, "file_id"),
        (b'{"file_id": "file-x"}', {}, "file_id"),
        (b'{"file_id": "file-x", "path": "y"}', {}, "path"),
        (b"PK...", {"content-type": "application/zip"}, "extract"),
    ],
)
def test_a_bad_file_for_a_container(gateway: Gateway, body: bytes, headers: dict[str, str], param: str) -> None:
    id = gateway.ask("POST", "/v1/containers", {"name": "lab"}).json["id"]
    answer = gateway.ask("POST", f"/v1/containers/{id}/files", body, headers)
    assert (answer.status, answer.error["param"]) == (400, param)
    assert gateway.rooms.containers.files[id] == []
    assert gateway.rooms.blobs.open == 0


@pytest.mark.parametrize("way", ["query", "field", "placed", "body"])
def test_archives_are_unpacked_when_asked(gateway: Gateway, way: str) -> None:
    id = gateway.ask("POST", "/v1/containers", {"name": "lab"}).json["id"]
    path = f"/v1/containers/{id}/files"
    archive = ('name="file"; filename="all.zip"', b"PK...")
    if way == "query":
        answer = gateway.ask("POST", f"{path}?extract=true", form(archive), FORM)
    elif way == "field":
        answer = gateway.ask("POST", path, form(archive, ('name="extract"', b"true")), FORM)
    elif way == "body":
        answer = gateway.ask("POST", f"{path}?extract=true", b"PK...", {"content-type": "application/zip"})
    else:
        file = gateway.ask("POST", "/v1/files", form(('name="purpose"', b"user_data"), archive), FORM).json["id"]
        answer = gateway.ask("POST", f"{path}?extract=true", {"file_id": file})
    assert [one["path"] for one in answer.json["data"]] == ["/mnt/data/1.txt", "/mnt/data/2.txt"]
    assert gateway.rooms.containers.extracted == [("archive" if way == "body" else "all.zip", 5)]


def test_faults_of_a_container_have_their_status(gateway: Gateway) -> None:
    id = gateway.ask("POST", "/v1/containers", {"name": "lab"}).json["id"]

    async def full(*given: object, **further: object) -> Any:
        raise TooLarge("file: a has 2 GiB; 1 GiB are the most for one file")

    gateway.rooms.containers.put_file = full  # type: ignore[method-assign]
    answer = gateway.ask("POST", f"/v1/containers/{id}/files", form(('name="file"; filename="a"', b"x")), FORM)
    assert answer.status == 413
    assert issubclass(TooLarge, BelljarError)


def test_files_of_containers_count_for_the_quota(opened: Opened) -> None:
    gateway = opened(quota=Quota(bytes=10))
    id = gateway.ask("POST", "/v1/containers", {"name": "lab"}).json["id"]
    answer = gateway.ask("POST", f"/v1/containers/{id}/files", form(('name="file"; filename="a"', b"x" * 11)), FORM)
    assert answer.error["code"] == "insufficient_quota"


# -- conversations ----------------------------------------------------------------------------------------------------

HELLO: Any = {"type": "message", "role": "user", "content": "hello"}


def test_the_life_of_a_conversation(gateway: Gateway) -> None:
    with gateway.client() as client:
        made = client.conversations.create(metadata={"a": "b"}, items=[HELLO])
        assert made.metadata == {"a": "b"}
        assert client.conversations.retrieve(made.id).id == made.id
        assert client.conversations.update(made.id, metadata={"c": "d"}).metadata == {"c": "d"}
        added = client.conversations.items.create(made.id, items=[HELLO, HELLO])
        assert [one.id for one in added.data] == ["msg_0", "msg_1"]
        page = client.conversations.items.list(made.id, limit=2, include=["message.output_text.logprobs"])
        assert (len(page.data), page.has_more, page.last_id) == (2, True, "msg_0")
        assert client.conversations.items.retrieve("msg_1", conversation_id=made.id).id == "msg_1"
        assert client.conversations.items.delete("msg_1", conversation_id=made.id).id == made.id
        assert client.conversations.delete(made.id).object == "conversation.deleted"
        with pytest.raises(openai.NotFoundError):
            client.conversations.retrieve(made.id)


def test_an_empty_conversation_has_an_empty_page(gateway: Gateway) -> None:
    with gateway.client() as client:
        made = client.conversations.create()
        assert list(client.conversations.items.list(made.id)) == []


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("", {"metadata": {"a": 5}}, "metadata.a"),
        ("", {"items": "hello"}, "items"),
        ("", {"items": [5]}, "items[0]"),
        ("", {"name": "x"}, "name"),
        ("/{id}", {}, "metadata"),
        ("/{id}/items", {}, "items"),
        ("/{id}/items", {"items": [{"type": "nonsense"}]}, "items[0].type"),
    ],
)
def test_a_bad_conversation(gateway: Gateway, path: str, body: dict[str, Any], param: str) -> None:
    id = gateway.ask("POST", "/v1/conversations", {}).json["id"]
    answer = gateway.ask("POST", f"/v1/conversations{path.format(id=id)}", body)
    assert (answer.status, answer.error["param"]) == (400, param)


# -- models and health ------------------------------------------------------------------------------------------------


def test_models(gateway: Gateway) -> None:
    with gateway.client() as client:
        assert [model.id for model in client.models.list()] == ["belljar", "lab/qwen 3"]
        assert client.models.retrieve("belljar").owned_by == "here"
        assert client.models.retrieve("lab/qwen 3").id == "lab/qwen 3"
        with pytest.raises(openai.NotFoundError) as caught:
            client.models.retrieve("absent")
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert gateway.ask("GET", "/v1/models/lab/qwen%203").json["id"] == "lab/qwen 3"


def test_health(gateway: Gateway) -> None:
    assert gateway.ask("GET", "/healthz").json == {"status": "ok"}
    assert gateway.ask("GET", "/readyz").json == {"status": "ready"}
    gateway.rooms.health.found = ["no sandbox can be made"]
    answer = gateway.ask("GET", "/readyz")
    assert (answer.status, answer.json["problems"]) == (503, ["no sandbox can be made"])


def test_metrics_are_text(gateway: Gateway) -> None:
    answer = gateway.ask("GET", "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b"\nbelljar_http_requests_in_flight 1\n" in answer.body
