"""Large bodies: a thread reads them from their connection, and they end like any other, however they end."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.server.conftest import Gateway, Opened, Wire

from belljar.errors import InvalidRequest
from belljar.http_server.body_reader import LARGE, CutOff, Rest, Stalled

CONTENT = bytes(range(251)) * ((2 * LARGE) // 251)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def read(rest: Rest, size: int) -> bytes:
    buffer = memoryview(bytearray(size))
    found = b""
    while count := rest.read(buffer):
        found += buffer[:count]
    return found


# -- from a connection ------------------------------------------------------------------------------------------------


@given(
    early=st.binary(max_size=40),
    pieces=st.lists(st.binary(min_size=1, max_size=40), max_size=4),
    buffer=st.integers(1, 60),
)
def test_what_came_and_what_comes_make_up_the_body(early: bytes, pieces: list[bytes], buffer: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        body = early + b"".join(pieces)
        for piece in pieces:
            theirs.sendall(piece)
        theirs.sendall(b"the next request")
        assert read(Rest(ours, early, len(body), 5.0), buffer) == body
        assert ours.recv(100) == b"the next request"


def test_a_connection_that_ends_too_soon(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.sendall(b"half")
    theirs.close()
    with pytest.raises(CutOff):
        read(Rest(ours, b"", 8, 5.0), 100)


def test_a_connection_on_which_nothing_comes(ends: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(Stalled):
        read(Rest(ends[0], b"early", 8, 0.05), 100)


def test_whoever_waits_can_be_stopped(ends: tuple[socket.socket, socket.socket]) -> None:
    rest = Rest(ends[0], b"early", 8, 60.0)
    first = memoryview(bytearray(5))
    assert rest.read(first) == 5
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(read, rest, 100)
        rest.stop()
        assert isinstance(waiting.exception(10), CutOff)
    rest.close()
    rest.stop()


# -- over the wire ----------------------------------------------------------------------------------------------------


def begun(gateway: Gateway, wire: Wire, size: int = len(CONTENT), *more: str) -> None:
    """The head of an archive's upload."""
    id = gateway.ask("POST", "/v1/containers", {"name": "lab"}).json["id"]
    lines = (
        f"POST /v1/containers/{id}/files?extract=true HTTP/1.1",
        "host: localhost",
        "content-type: application/x-tar",
        f"content-length: {size}",
        *more,
    )
    wire.send("".join(f"{line}\r\n" for line in (*lines, "")).encode())


def test_a_large_body_is_kept_exactly_and_its_connection_closed(gateway: Gateway) -> None:
    with gateway.wire() as wire:
        begun(gateway, wire)
        wire.send(CONTENT)
        answer = wire.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert wire.closed()
    assert gateway.rooms.containers.extracted == [("archive", len(CONTENT))]
    assert gateway.rooms.blobs.kept == {hashlib.sha256(CONTENT).hexdigest(): CONTENT}
    assert gateway.rooms.blobs.open == 0


@pytest.mark.parametrize("headers", [{}, {"transfer-encoding": "chunked"}])
def test_a_small_body_and_one_of_unknown_length_leave_the_connection(gateway: Gateway, headers: dict[str, str]) -> None:
    id = gateway.ask("POST", "/v1/containers", {"name": "lab"}).json["id"]
    body = CONTENT if headers else CONTENT[: LARGE - 1]
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if headers else body
    with gateway.wire() as wire:
        path, told = f"/v1/containers/{id}/files?extract=true", {"content-type": "application/x-tar", **headers}
        assert wire.ask("POST", path, sent, told).status == 200
        assert wire.ask("GET", "/healthz").status == 200
    assert list(gateway.rooms.blobs.kept.values()) == [body]


def test_a_client_may_wait_for_leave_to_send(gateway: Gateway) -> None:
    with gateway.wire() as wire:
        begun(gateway, wire, len(CONTENT), "expect: 100-continue")
        assert wire.head().status == 100
        wire.send(CONTENT)
        assert wire.answer().status == 200
    assert list(gateway.rooms.blobs.kept.values()) == [CONTENT]


def test_too_large_a_body_is_told_before_it_is_sent(opened: Opened) -> None:
    gateway = opened(largest_upload=1 << 20)
    with gateway.wire() as wire:
        begun(gateway, wire)
        assert wire.answer().status == 413
    assert gateway.rooms.blobs.hops == []


def test_a_client_that_goes_in_the_middle_leaves_nothing(gateway: Gateway) -> None:
    with gateway.wire() as wire:
        begun(gateway, wire)
        wire.send(CONTENT[: LARGE // 2])
        while sum(gateway.rooms.blobs.hops) < LARGE // 2:
            assert gateway.ask("GET", "/healthz").status == 200
    while gateway.rooms.blobs.open:
        assert gateway.ask("GET", "/healthz").status == 200
    assert gateway.rooms.blobs.kept == {}


def test_a_body_that_stalls_is_given_up(opened: Opened) -> None:
    gateway = opened(patience=0.1)
    with gateway.wire() as wire:
        begun(gateway, wire)
        wire.send(CONTENT[: LARGE // 2])
        answer = wire.answer()
        assert (answer.status, answer.error["code"]) == (408, "request_timeout")
        assert answer.headers["connection"] == "close"
    assert gateway.rooms.blobs.kept == {}
    assert gateway.rooms.blobs.open == 0


def test_what_is_wrong_with_a_large_body_is_told(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*given: object) -> None:
        raise InvalidRequest("file: 'archive' cannot be read", param="file")

    monkeypatch.setattr(gateway.rooms.containers, "extract", refuse)
    with gateway.wire() as wire:
        begun(gateway, wire)
        wire.send(CONTENT)
        answer = wire.answer()
        assert (answer.status, answer.error["param"]) == (400, "file")
    assert gateway.rooms.blobs.open == 0
