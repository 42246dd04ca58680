"""Requests for a WebSocket that cannot be: what is wrong with them, found before they are handed over."""

from __future__ import annotations

from collections.abc import Iterator

from websockets.http11 import Request
from websockets.server import ServerProtocol

from belljar.http_server.asgi import Headers
from belljar.wire.faults import Fault

VERSION: Headers = ((b"sec-websocket-version", b"13"),)
"""The only one there is; whoever speaks another is to be told."""


def fault(head: bytes) -> Fault | None:
    """Why the library that serves WebSockets would refuse this request, which it does in words of its own."""
    trial = ServerProtocol()
    trial.receive_data(head)
    for request in trial.events_received():
        if isinstance(request, Request) and trial.accept(request).status_code == 101:
            return None
    return Fault(
        status=400,
        type="invalid_request_error",
        code="invalid_handshake",
        message=f"Invalid WebSocket handshake: {'; '.join(_causes(trial.handshake_exc))}. Connect with a WebSocket "
        "client (RFC 6455, version 13).",
    )


def _causes(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield str(error)
        error = error.__cause__
