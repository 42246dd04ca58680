"""A WebSocket handshake that cannot be is answered as every other bad request is."""

from __future__ import annotations

import logging
import socket
from typing import Any

import pytest
from tests.unit.server.conftest import Gateway, Opened

GOOD = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in GOOD.items() if key != name}


BAD: dict[str, tuple[dict[str, str], str]] = {
    "no key": (without("sec-websocket-key"), "missing Sec-WebSocket-Key"),
    "an empty key": ({**GOOD, "sec-websocket-key": ""}, "Sec-WebSocket-Key"),
    "a key that is not base64": ({**GOOD, "sec-websocket-key": "?????"}, "?????"),
    "a key that is too short": ({**GOOD, "sec-websocket-key": "c2hvcnQ="}, "c2hvcnQ="),
    "no version": (without("sec-websocket-version"), "missing Sec-WebSocket-Version"),
    "an old version": ({**GOOD, "sec-websocket-version": "8"}, "invalid Sec-WebSocket-Version header: 8"),
    "nonsense for a version": ({**GOOD, "sec-websocket-version": "thirteen"}, "thirteen"),
    "a key twice": ({**GOOD, "Sec-WebSocket-Key": GOOD["sec-websocket-key"]}, "multiple values"),
    "two upgrades": ({**GOOD, "Upgrade": "h2c", "UPGRADE": "websocket"}, "Upgrade"),
    "a bad subprotocol": ({**GOOD, "sec-websocket-protocol": "a b, @"}, "Sec-WebSocket-Protocol"),
    "a body": ({**GOOD, "content-length": "5"}, "body"),
    "many headers": ({**GOOD, **{f"x-{n}": "y" for n in range(200)}}, "headers"),
    "a long header": ({**GOOD, "x": "y" * 10_000}, "line too long"),
}


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/elsewhere"])
@pytest.mark.parametrize(("headers", "word"), BAD.values(), ids=BAD.keys())
def test_a_handshake_that_cannot_be(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, headers: dict[str, str], word: str, path: str
) -> None:
    with gateway.wire() as wire:
        answer = wire.ask("GET", path, b"12345" if "content-length" in headers else None, headers)
        assert wire.closed()
    assert answer.status == 400
    assert (answer.error["type"], answer.error["code"]) == ("invalid_request_error", "invalid_handshake")
    assert word.lower() in answer.error["message"].lower()
    assert "WebSocket client" in answer.error["message"]
    assert answer.headers["x-request-id"].startswith("req_")
    assert answer.headers["connection"] == "close"
    assert answer.headers["sec-websocket-version"] == "13"
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


NO_HANDSHAKES: dict[str, dict[str, str]] = {
    "no upgrade": {},
    "an upgrade without its connection": {"upgrade": "websocket"},
    "an upgrade to something else": {**GOOD, "upgrade": "h2c"},
    "no upgrade but the rest": without("upgrade"),
}


@pytest.mark.parametrize("headers", NO_HANDSHAKES.values(), ids=NO_HANDSHAKES.keys())
def test_a_get_that_is_no_handshake(gateway: Gateway, headers: dict[str, str]) -> None:
    answer = gateway.ask("GET", "/v1/responses", None, headers)
    assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "OPTIONS, POST"


OFFERS = {
    "HTTP/2, as Java's client": {
        "connection": "Upgrade, HTTP2-Settings",
        "upgrade": "h2c",
        "http2-settings": "AAEAAEA",
    },
    "TLS": {"connection": "upgrade", "upgrade": "TLS/1.2, HTTP/1.1"},
    "a WebSocket": GOOD,
}
BODY = b'{"model":"m","input":"hi"}'


@pytest.mark.parametrize("split", [1, 40, 10_000])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS.keys())
def test_an_offer_to_speak_something_else_is_passed_over(
    gateway: Gateway, offer: dict[str, str], chunked: bool, split: int
) -> None:
    framing = {"transfer-encoding": "chunked"} if chunked else {"content-length": str(len(BODY))}
    headers = {"host": "localhost", **offer, "content-type": "application/json", **framing}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY) if chunked else BODY
    sent = f"POST /v1/responses HTTP/1.1\r\n{head}\r\n".encode() + body
    with gateway.wire() as wire:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(2):
            for at in range(0, len(sent), split):
                wire.send(sent[at : at + split])
            assert wire.answer().json["object"] == "response"
        wire.send(sent + b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert wire.answer().json["object"] == "response"
        assert wire.answer().json == {"status": "ok"}


@pytest.mark.parametrize("headers", [{}, {"connection": "upgrade", "upgrade": "h2c"}, GOOD])
def test_it_is_no_proxy(gateway: Gateway, headers: dict[str, str]) -> None:
    with gateway.wire() as wire:
        answer = wire.ask("CONNECT", "example.org:443", None, headers)
        assert (answer.status, answer.headers["connection"]) == (405, "close")
        assert "CONNECT" in answer.error["message"]
        assert wire.closed()


def test_a_handshake_that_breaks_says_so(
    opened: Opened, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = opened(keys=True)

    async def broken(plain: str) -> Any:
        raise RuntimeError("the insides")

    monkeypatch.setattr(gateway.rooms.keys, "check", broken)
    answer = gateway.ask("GET", "/v1/responses", None, {**GOOD, "authorization": "Bearer bj-good"})
    assert (answer.status, answer.error["type"]) == (500, "server_error")
    assert "insides" not in answer.error["message"]
    assert answer.headers["x-request-id"] in caplog.text


def test_a_good_one_is_accepted(gateway: Gateway) -> None:
    with gateway.wire() as wire:
        wire.send(b"GET /v1/responses HTTP/1.1\r\nhost: localhost\r\n")
        wire.send("".join(f"{name}: {value}\r\n" for name, value in GOOD.items()).encode() + b"\r\n")
        answer = wire.head()
    assert answer.status == 101
    assert answer.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def test_a_refused_one_is_no_trouble_of_ours(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    assert opened(keys=True).ask("GET", "/v1/responses", None, GOOD).status == 401
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
