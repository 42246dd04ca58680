"""How uvicorn serves the gateway: its knobs, and answers in our shape to what is not even HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from belljar.wire import ids
from belljar.wire.faults import Fault, body

_LARGEST_HEAD = 64 << 10
"""Bytes of an address and its headers together."""
_HEAD_PATIENCE = 30.0
"""Seconds that a client may take to send them."""
_KEEP_ALIVE = 75
"""Longer than the idle time of common load balancers: they, not we, must be the first to close."""


class Protocol(HttpToolsProtocol):
    """uvicorn's, with a bound on the size and time of a request's head, which it has not, and JSON for its refusals."""

    _head = 0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_no_more()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0
        if self._late is None:
            self._expect()

    def on_url(self, url: bytes) -> None:
        self._measure(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._measure(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._expect_no_more()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if self._head > _LARGEST_HEAD:
            self._refuse(431, f"The request's address and headers are larger than {_LARGEST_HEAD} bytes. Send less.")
        else:
            self._refuse(400, "This is not a valid HTTP request.")

    def _measure(self, size: int) -> None:
        self._head += size
        if self._head > _LARGEST_HEAD:
            raise ValueError("head too large")

    def _expect(self) -> None:
        self._late = self.loop.call_later(_HEAD_PATIENCE, self._give_up)

    def _expect_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        self._refuse(408, f"The request's headers did not come within {_HEAD_PATIENCE:g} seconds.")

    def _refuse(self, status: int, message: str) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            cycle.keep_alive = False  # What came before this is still being answered.
            return
        if cycle is None or cycle.response_complete or not cycle.response_started:
            data = body(Fault(status=status, type="invalid_request_error", message=message))
            told = [
                *self.server_state.default_headers,
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(data)),
                (b"x-request-id", ids.new_request().encode()),
                (b"connection", b"close"),
            ]
            head = b"".join(b"%b: %b\r\n" % header for header in told)
            self.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[status], head, data))
        self.transport.close()


def config(
    app: Any, host: str, port: int, *, largest_body: int = 32 << 20, drain: float = 10.0, **further: Any
) -> uvicorn.Config:
    """A server of one process. `drain` is how many seconds running requests have when it is told to stop."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Protocol,
        loop="uvloop",
        ws="websockets-sansio",
        ws_max_size=largest_body,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(drain)),
        **further,
    )
