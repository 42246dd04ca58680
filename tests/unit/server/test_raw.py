"""What arrives on a socket need not be a request; what is one need not come at once."""

from __future__ import annotations

import socket

import pytest
from tests.unit.server.conftest import Gateway, Opened, Wire

from belljar.http_server import uvicorn_protocol

BODY = b'{"model":"m","input":"hi"}'
POST = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(BODY)


@pytest.mark.parametrize(
    "garbage",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100,
        b"GET /v1/models HTTP/9.9\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: a\0b\r\n\r\n",
    ],
)
def test_what_is_no_request_is_answered_in_our_shape_and_hung_up_on(gateway: Gateway, garbage: bytes) -> None:
    with gateway.wire() as wire:
        wire.send(garbage)
        answer = wire.answer()
        assert answer.status == 400
        assert answer.error["type"] == "invalid_request_error"
        assert answer.headers["x-request-id"].startswith("req_")
        assert answer.headers["connection"] == "close"
        assert wire.closed()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 70_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"x: yyyyyyyy\r\n" * 8000 + b"\r\n",
    ],
    ids=["address", "header", "headers"],
)
def test_a_huge_head_is_refused(gateway: Gateway, head: bytes) -> None:
    with gateway.wire() as wire:
        wire.send(head)
        answer = wire.answer()
    assert answer.status == 431
    assert answer.error["type"] == "invalid_request_error"


def test_a_large_head_is_fine(gateway: Gateway) -> None:
    assert gateway.ask("GET", "/healthz", None, {"x": "y" * 60_000}).status == 200


def test_half_a_head_is_waited_for_and_then_refused(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_protocol, "_HEAD_PATIENCE", 0.05)
    with gateway.wire() as wire:
        wire.send(b"GET /healthz HTTP/1.1\r\nhost: loc")
        answer = wire.answer()
        assert answer.status == 408
        assert answer.error["message"]
        assert wire.closed()


def test_a_silent_connection_is_not_kept(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_protocol, "_HEAD_PATIENCE", 0.05)
    with gateway.wire() as wire:
        assert wire.answer().status == 408


def test_patience_for_heads_is_not_patience_for_answers(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_protocol, "_HEAD_PATIENCE", 0.05)
    with gateway.wire() as wire:
        wire.send(POST)
        with gateway.wire() as other:
            assert other.answer().status == 408  # Longer than that has now passed for the first one too.
        wire.send(BODY)
        assert wire.answer().status == 200


def test_a_head_byte_by_byte(gateway: Gateway) -> None:
    with gateway.wire() as wire:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in POST + BODY:
            wire.send(bytes([byte]))
        assert wire.answer().status == 200


def test_chunks_of_any_size(gateway: Gateway) -> None:
    chunks = b"".join(b"%x;ext=1\r\n%b\r\n" % (1, BODY[at : at + 1]) for at in range(len(BODY)))
    answer = gateway.ask("POST", "/v1/responses", chunks + b"0\r\ntrailer: x\r\n\r\n", {"transfer-encoding": "chunked"})
    assert answer.status == 200


def test_a_broken_chunk_is_refused(gateway: Gateway) -> None:
    with gateway.wire() as wire:
        wire.send(b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")
        answer = wire.answer()
        assert answer.status == 400
        assert answer.error["message"]
        assert wire.closed()


def test_requests_in_one_go_are_answered_in_order(gateway: Gateway) -> None:
    with gateway.wire() as wire:
        wire.send((POST + BODY) + b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n" + (POST + BODY))
        assert wire.answer().json["object"] == "response"
        assert wire.answer().json == {"status": "ok"}
        assert wire.answer().json["object"] == "response"


def test_garbage_after_a_request_does_not_take_its_answer(gateway: Gateway) -> None:
    with gateway.wire() as wire:
        wire.send(POST + BODY + b"\x00\x01garbage\r\n\r\n")
        answer = wire.answer()
        assert answer.status == 200
        assert answer.headers["connection"] == "close"
        assert wire.closed()


def test_a_connection_is_used_again_after_a_fault(gateway: Gateway) -> None:
    with gateway.wire() as wire:
        for _ in range(2):
            assert wire.ask("POST", "/v1/responses", b"{").status == 400
            assert wire.ask("GET", "/v1/nothing", b"unread").status == 404
            assert wire.ask("POST", "/v1/responses", BODY).status == 200


def test_an_old_client_gets_its_answer_and_no_more(gateway: Gateway) -> None:
    with gateway.wire() as wire:
        wire.send(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert wire.answer().status == 200
        assert wire.closed()


def test_who_asks_first_hears_no_before_sending(opened: Opened) -> None:
    gateway = opened(largest_body=1000)
    head = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n"
    with gateway.wire() as wire:
        wire.send(head % 100_000)
        assert wire.answer().status == 413
    with gateway.wire() as wire:
        wire.send(head % len(BODY))
        assert wire.head().status == 100
        wire.send(BODY)
        assert wire.answer().status == 200


def test_a_body_that_stalls_is_given_up(opened: Opened) -> None:
    gateway = opened(patience=0.05)
    with gateway.wire() as wire:
        wire.send(POST + BODY[:-1])
        answer = wire.answer()
        assert answer.status == 408
        assert answer.error["code"] == "request_timeout"
        assert answer.headers["connection"] == "close"


def test_a_body_that_never_comes_whole_is_nobodys_error(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    with gateway.wire() as wire:
        wire.send(POST + BODY[:-1])
    assert gateway.ask("GET", "/healthz").status == 200
    assert 'status="499"' in settled(gateway)
    assert caplog.text == ""


def test_head_has_the_headers_of_get_and_no_body(gateway: Gateway) -> None:
    for path in ("/healthz", "/v1/models", "/v1/responses/resp_1", "/v1/responses/resp_1?stream=true"):
        with gateway.wire() as wire:
            asked = wire.ask("HEAD", path)
            assert asked.status == 200
            assert int(asked.headers["content-length"]) > 0
            assert wire.ask("GET", "/healthz").json == {"status": "ok"}


def test_a_path_that_is_not_utf8_names_nothing(gateway: Gateway) -> None:
    answer = gateway.ask("GET", "/v1/files/%ff%fe")
    assert answer.status == 404
    assert answer.error["message"]


def settled(gateway: Gateway) -> str:
    """The metrics, once nothing but asking for them is in flight."""
    while True:
        text = gateway.ask("GET", "/metrics").body.decode()
        if "belljar_http_requests_in_flight 1\n" in text:
            return text


def test_wires_close(gateway: Gateway) -> None:
    with Wire(gateway.host.port) as wire:
        wire.send(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert wire.answer().status == 200
        assert wire.closed()
