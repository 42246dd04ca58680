"""Files: uploads go to the store piece by piece and leave nothing when they fail; downloads come back exact."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.server.conftest import FORM, Answer, Gateway, Opened, form

from belljar.gateway.server.options import Quota

PURPOSE = ('name="purpose"', b"user_data")


def upload(gateway: Gateway, name: str, content: bytes = b"x") -> Answer:
    return gateway.ask("POST", "/v1/files", form(PURPOSE, (f'name="file"; filename="{name}"', content)), FORM)


# -- uploads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.csv", "報告 1.xlsx", 'say "hi".txt', "100%.txt", "ü & ñ;=.csv", "'.txt", "𝄞.mid"])
def test_the_sdk_gets_back_what_it_sent(gateway: Gateway, name: str) -> None:
    content = bytes(range(256)) * 10
    with gateway.client() as client:
        file = client.files.create(file=(name, content, "text/csv"), purpose="user_data")
        assert (file.filename, file.bytes, file.purpose, file.status) == (name, len(content), "user_data", "processed")
        assert client.files.retrieve(file.id).filename == name
        assert [one.id for one in client.files.list()] == [file.id]
        assert client.files.content(file.id).read() == content
        assert client.files.delete(file.id).deleted
        with pytest.raises(openai.NotFoundError):
            client.files.retrieve(file.id)
    assert gateway.rooms.blobs.open == 0
    assert not gateway.rooms.blobs.kept


def test_a_path_is_a_file(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "データ.csv"
    path.write_bytes(b"a,b\n1,2\n")
    with gateway.client() as client:
        file = client.files.create(
            file=path, purpose="assistants", expires_after={"anchor": "created_at", "seconds": 3600}
        )
    assert file.filename == "データ.csv"
    assert file.expires_at == file.created_at + 3600


def test_a_large_file_never_is_whole_in_memory(gateway: Gateway) -> None:
    content = b"0123456789abcdef" * (5 << 16)
    with gateway.client() as client:
        file = client.files.create(file=("large.bin", content), purpose="user_data")
        assert hashlib.sha256(client.files.content(file.id).read()).digest() == hashlib.sha256(content).digest()
    hops = gateway.rooms.blobs.hops
    assert sum(hops) == len(content)
    assert len(hops) >= 4
    assert max(hops) <= 2 << 20


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        (form(('name="file"; filename="a"', b"x")), "purpose", "missing_required_parameter"),
        (form(PURPOSE), "file", "missing_required_parameter"),
        (form(('name="purpose"', b"fun"), ('name="file"; filename="a"', b"x")), "purpose", "invalid_value"),
        (form(PURPOSE, ('name="other"', b"1"), ('name="file"; filename="a"', b"x")), "other", "unknown_parameter"),
        (form(PURPOSE, ('name="other"; filename="a"', b"x")), "other", "unknown_parameter"),
        (form(PURPOSE, ('name="file"; filename=""', b"x")), "file", "invalid_value"),
        (form(PURPOSE, ('name="file"; filename=".."', b"x")), "file", "invalid_value"),
        (form(PURPOSE, ('name="file"; filename="a%0Ab"', b"x")), "file", "invalid_value"),
        (form(PURPOSE, ('name="file"', b"x")), "file", "invalid_type"),
        (form(PURPOSE, ('name="file"; filename="a"', b"x"), ('name="file"; filename="b"', b"x")), "file", None),
        (form(('name="purpose"', b"\xff"), ('name="file"; filename="a"', b"x")), "purpose", "invalid_value"),
        (form(('name="purpose"', b"x" * 70_000)), "purpose", "string_above_max_length"),
        (
            form(PURPOSE, ('name="expires_after[anchor]"', b"created_at"), ('name="file"; filename="a"', b"x")),
            "expires_after.seconds",
            "missing_required_parameter",
        ),
        (
            form(PURPOSE, ('name="expires_after[seconds]"', b"3600"), ('name="file"; filename="a"', b"x")),
            "expires_after.anchor",
            "missing_required_parameter",
        ),
        *(
            (
                form(
                    PURPOSE,
                    ('name="expires_after[anchor]"', anchor),
                    ('name="expires_after[seconds]"', seconds),
                    ('name="file"; filename="a"', b"x"),
                ),
                param,
                code,
            )
            for anchor, seconds, param, code in [
                (b"now", b"3600", "expires_after.anchor", "invalid_value"),
                (b"created_at", b"soon", "expires_after.seconds", "invalid_type"),
                (b"created_at", b"60", "expires_after.seconds", "integer_below_min_value"),
                (b"created_at", b"2592001", "expires_after.seconds", "integer_above_max_value"),
            ]
        ),
        (b"--XyZ\r\n", None, None),
        (b"nonsense", None, None),
        (b"", None, None),
    ],
)
def test_a_bad_form_names_its_field_and_leaves_nothing(
    gateway: Gateway, body: bytes, param: str | None, code: str | None
) -> None:
    answer = gateway.ask("POST", "/v1/files", body, FORM)
    assert answer.status == 400
    assert (answer.error["param"], answer.error["code"]) == (param, code)
    assert gateway.rooms.blobs.kept == {}
    assert gateway.rooms.blobs.open == 0
    assert gateway.rooms.records.files == {}


def test_a_file_is_sent_as_a_form(gateway: Gateway) -> None:
    assert gateway.ask("POST", "/v1/files", {"file": "x"}).status == 400
    assert gateway.ask("POST", "/v1/files", b"x", {"content-type": "multipart/form-data"}).status == 400


def test_folders_of_the_sender_are_left_behind(gateway: Gateway) -> None:
    for sent, kept in (("../../etc/passwd", "passwd"), ("C:\\\\me\\\\a.csv", "a.csv"), ("C:\\me\\a.csv", "a.csv")):
        assert upload(gateway, sent).json["filename"] == kept


def test_an_upload_over_the_limit_is_refused_before_it_is_sent(opened: Opened) -> None:
    gateway = opened(largest_upload=1 << 20)
    with gateway.wire() as wire:
        wire.send(
            b"POST /v1/files HTTP/1.1\r\nhost: localhost\r\ncontent-type: multipart/form-data; boundary=XyZ\r\n"
            b"content-length: 600000000\r\n\r\n"
        )
        answer = wire.answer()
    assert answer.status == 413
    assert str(1 << 20) in answer.error["message"]
    assert gateway.rooms.blobs.hops == []


def test_the_sdk_hears_that_its_upload_is_too_large(opened: Opened) -> None:
    gateway = opened(largest_upload=1 << 20)
    with gateway.client() as client, pytest.raises(openai.APIStatusError) as caught:
        client.files.create(file=("a.bin", b"x" * (24 << 20)), purpose="user_data")
    assert caught.value.status_code == 413
    assert gateway.rooms.blobs.kept == {}


def test_an_upload_of_unknown_length_is_refused_at_the_limit(opened: Opened) -> None:
    gateway = opened(largest_upload=100_000)
    body = form(PURPOSE, ('name="file"; filename="a"', b"x" * 100_001))
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    answer = gateway.ask("POST", "/v1/files", chunked, FORM | {"transfer-encoding": "chunked"})
    assert answer.status == 413
    assert gateway.rooms.blobs.kept == {}
    assert gateway.rooms.blobs.open == 0
    assert upload(gateway, "a", b"x" * 100_000).status == 200


def test_storage_is_bounded_by_the_quota(opened: Opened) -> None:
    gateway = opened(quota=Quota(bytes=100))
    assert upload(gateway, "a", b"x" * 60).status == 200
    refused = upload(gateway, "b", b"x" * 41)
    assert (refused.status, refused.error["code"]) == (429, "insufficient_quota")
    assert refused.headers["x-should-retry"] == "false"
    assert upload(gateway, "c", b"x" * 40).status == 200
    assert gateway.rooms.blobs.open == 0
    assert len(gateway.rooms.records.files) == 2


def test_a_client_that_goes_in_the_middle_leaves_nothing(gateway: Gateway) -> None:
    body = form(PURPOSE, ('name="file"; filename="a"', b"x" * (3 << 20)))
    with gateway.wire() as wire:
        head = f"content-type: {FORM['content-type']}\r\ncontent-length: {len(body)}\r\n"
        wire.send(f"POST /v1/files HTTP/1.1\r\nhost: localhost\r\n{head}\r\n".encode() + body[: 2 << 20])
        while not gateway.rooms.blobs.hops:
            assert gateway.ask("GET", "/healthz").status == 200
        assert gateway.rooms.blobs.open == 1
    while gateway.rooms.blobs.open:
        assert gateway.ask("GET", "/healthz").status == 200
    assert gateway.rooms.blobs.kept == {}
    assert gateway.rooms.records.files == {}


def test_an_upload_that_stalls_leaves_nothing(opened: Opened) -> None:
    gateway = opened(patience=0.1)
    body = form(PURPOSE, ('name="file"; filename="a"', b"x" * 100_000))
    with gateway.wire() as wire:
        head = f"content-type: {FORM['content-type']}\r\ncontent-length: {len(body)}\r\n"
        wire.send(f"POST /v1/files HTTP/1.1\r\nhost: localhost\r\n{head}\r\n".encode() + body[:50_000])
        assert wire.answer().status == 408
    assert gateway.rooms.blobs.kept == {}
    assert gateway.rooms.blobs.open == 0


def test_a_slow_upload_is_not_a_stalled_one(opened: Opened) -> None:
    gateway = opened(patience=1.0)
    body = form(PURPOSE, ('name="file"; filename="a"', b"slowly"))
    with gateway.wire() as wire:
        head = f"content-type: {FORM['content-type']}\r\ncontent-length: {len(body)}\r\n"
        wire.send(f"POST /v1/files HTTP/1.1\r\nhost: localhost\r\n{head}\r\n".encode())
        for at in range(0, len(body), 10):
            wire.send(body[at : at + 10])
            assert gateway.ask("GET", "/healthz").status == 200
        assert wire.answer().json["bytes"] == 6


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=300).filter(lambda data: b"XyZ" not in data),
    cuts=st.lists(st.integers(1, 500), max_size=4),
)
def test_any_content_in_any_split_over_the_wire(gateway: Gateway, content: bytes, cuts: list[int]) -> None:
    body = form(PURPOSE, ('name="file"; filename="a"', content))
    edges = [0, *sorted({cut % len(body) for cut in cuts}), len(body)]
    pieces = [body[start:stop] for start, stop in pairwise(edges) if stop > start]
    chunked = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    answer = gateway.ask("POST", "/v1/files", chunked, FORM | {"transfer-encoding": "chunked"})
    assert answer.json["bytes"] == len(content)
    assert gateway.ask("GET", f"/v1/files/{answer.json['id']}/content").body == content


# -- lists ------------------------------------------------------------------------------------------------------------


def test_lists_have_pages_and_purposes(gateway: Gateway) -> None:
    empty = gateway.ask("GET", "/v1/files").json
    assert empty == {"object": "list", "data": [], "first_id": "", "last_id": "", "has_more": False}
    ids = [upload(gateway, f"{n}.txt").json["id"] for n in range(3)]
    page = gateway.ask("GET", "/v1/files?limit=2").json
    assert ([file["id"] for file in page["data"]], page["has_more"]) == (ids[:2], True)
    assert (page["first_id"], page["last_id"]) == (ids[0], ids[1])
    assert gateway.ask("GET", "/v1/files?limit=3").json["has_more"] is False
    assert gateway.ask("GET", "/v1/files?purpose=batch").json["data"] == []


# -- downloads --------------------------------------------------------------------------------------------------------

CONTENT = bytes(range(100))


@pytest.fixture
def path(gateway: Gateway) -> str:
    return f"/v1/files/{upload(gateway, '報告 1.csv', CONTENT).json['id']}/content"


def test_headers_of_a_download(gateway: Gateway, path: str) -> None:
    answer = gateway.ask("GET", path)
    assert answer.status == 200
    assert answer.body == CONTENT
    expected = "attachment; filename=\"__ 1.csv\"; filename*=UTF-8''%E5%A0%B1%E5%91%8A%201.csv"
    assert answer.headers["content-disposition"] == expected
    assert answer.headers["content-length"] == "100"
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "sandbox"
    head = gateway.ask("HEAD", path)
    assert head.headers["content-length"] == "100"
    assert gateway.rooms.blobs.open == 0


@pytest.mark.parametrize(
    ("asked", "part", "told"),
    [
        ("bytes=0-9", CONTENT[:10], "bytes 0-9/100"),
        ("bytes=90-", CONTENT[90:], "bytes 90-99/100"),
        ("bytes=50-500", CONTENT[50:], "bytes 50-99/100"),
        ("bytes=-5", CONTENT[-5:], "bytes 95-99/100"),
        ("bytes=99-99", CONTENT[99:], "bytes 99-99/100"),
        ("bytes=-500", CONTENT, None),
        ("bytes=0-", CONTENT, None),
        ("bytes=0-1,5-6", CONTENT, None),
        ("bytes=9-5", CONTENT, None),
        ("lines=1-2", CONTENT, None),
        ("bytes=", CONTENT, None),
    ],
)
def test_ranges(gateway: Gateway, path: str, asked: str, part: bytes, told: str | None) -> None:
    answer = gateway.ask("GET", path, None, {"range": asked})
    assert answer.status == (206 if told else 200)
    assert answer.body == part
    assert answer.headers.get("content-range") == told
    assert answer.headers["content-length"] == str(len(part))


@pytest.mark.parametrize("asked", ["bytes=100-", "bytes=5000-6000", "bytes=-0"])
def test_a_range_outside_is_refused(gateway: Gateway, path: str, asked: str) -> None:
    answer = gateway.ask("GET", path, None, {"range": asked})
    assert answer.status == 416
    assert answer.headers["content-range"] == "bytes */100"
    assert answer.error["code"] == "range_not_satisfiable"


def test_a_range_of_what_has_changed_is_the_whole(gateway: Gateway, path: str) -> None:
    tag = gateway.ask("HEAD", path).headers["etag"]
    assert gateway.ask("GET", path, None, {"range": "bytes=0-1", "if-range": tag}).status == 206
    assert gateway.ask("GET", path, None, {"range": "bytes=0-1", "if-range": '"old"'}).status == 200
    same = gateway.ask("GET", path, None, {"if-none-match": tag})
    assert (same.status, same.body) == (304, b"")


def test_an_empty_file(gateway: Gateway) -> None:
    path = f"/v1/files/{upload(gateway, 'empty', b'').json['id']}/content"
    assert gateway.ask("GET", path).body == b""
    assert gateway.ask("GET", path, None, {"range": "bytes=0-"}).status == 416


def test_a_range_over_several_chunks(gateway: Gateway) -> None:
    content = b"".join(b"%07d\n" % n for n in range(400_000))
    path = f"/v1/files/{upload(gateway, 'long', content).json['id']}/content"
    answer = gateway.ask("GET", path, None, {"range": "bytes=1048570-2097160"})
    assert answer.body == content[1048570:2097161]


def test_content_that_is_gone_is_not_found(gateway: Gateway, path: str) -> None:
    gateway.rooms.blobs.kept.clear()
    answer = gateway.ask("GET", path)
    assert answer.status == 404
    assert answer.error["message"]


def test_who_stops_reading_keeps_nothing_open(gateway: Gateway) -> None:
    path = f"/v1/files/{upload(gateway, 'long', b'x' * (40 << 20)).json['id']}/content"
    with gateway.wire() as wire:
        wire.send(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        wire.head()
        assert gateway.rooms.blobs.open == 1
    while gateway.rooms.blobs.open:
        assert gateway.ask("GET", "/healthz").status == 200


def test_a_type_comes_back_as_it_was_told(gateway: Gateway) -> None:
    kinds: dict[str, Any] = {"text/html": "text/html", "nonsense": "application/octet-stream"}
    for sent, kept in kinds.items():
        body = form(PURPOSE, (f'name="file"; filename="a"\r\nContent-Type: {sent}', b"x"))
        id = gateway.ask("POST", "/v1/files", body, FORM).json["id"]
        assert gateway.ask("GET", f"/v1/files/{id}/content").headers["content-type"] == kept
