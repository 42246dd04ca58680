"""uvicorn's connections with what they lack: bounds on a head, answers in our shape to what is not even HTTP."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import TYPE_CHECKING, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from belljar.http_server import handshake
from belljar.http_server.asgi import HURRY, STOPPING, Headers, Message
from belljar.http_server.body_reader import CONNECTION, LARGE
from belljar.http_server.sender import Wording
from belljar.http_server.uvicorn_hooks import hook
from belljar.wire import ids
from belljar.wire.faults import Fault

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

_LARGEST_HEAD = 64 << 10
"""Bytes of an address and its headers together."""
_LARGE_DIGITS = len(str(LARGE))
_HEAD_PATIENCE = 30.0
"""Seconds that a client may take to send them."""
_TOGETHER = 1 << 16
"""Bytes that are worth a write of their own, and not worth copying."""
_AHEAD = 16
"""Requests that may wait behind one which is being answered, before their connection is read no further."""


_BEHIND = 4 << 20
"""Bytes that a client need not have read yet."""
_CATCH_UP = 10.0
"""Seconds in which one that is further behind has to read half of them, while something goes on that it is told of."""
_STALLED = 60.0
"""Seconds in which it has to read anything at all, otherwise."""


class SlowReader:
    """A client that is behind: what it has not read is kept up to a bound, and then it has a while to catch up.

    Whoever does not is cut off. So nothing that is done for a client waits for it for long, and sandboxes are not held
    by those who do not read.
    """

    __slots__ = ("_loop", "_size", "_timer", "_transport", "hurried")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, *, hurried: bool = False) -> None:
        transport.set_write_buffer_limits(high=_BEHIND, low=_BEHIND // 2)
        self._transport = transport
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._size = 0
        self.hurried = hurried
        """Something goes on while the answer is read; else any progress will do, as with a file."""

    def pause(self) -> None:
        """It is too far behind."""
        self._size = self._transport.get_write_buffer_size()
        self._timer = self._loop.call_later(_CATCH_UP if self.hurried else _STALLED, self._look)

    def resume(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        if not self.hurried and self._transport.get_write_buffer_size() < self._size:
            self.pause()
        else:
            self._transport.abort()


class WriteBuffer:
    """A transport that writes at once what comes at once: each write is a system call, and wakes the client."""

    __slots__ = ("_held", "_loop", "_size", "abort", "get_extra_info", "is_closing", "transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.transport = transport
        self.abort = transport.abort
        self.get_extra_info = transport.get_extra_info
        self.is_closing = transport.is_closing
        self._loop = loop
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self.flush)
        self._held.append(data)
        self._size += len(data)
        if self._size >= _TOGETHER:
            self.flush()

    def close(self) -> None:
        self.flush()
        self.transport.close()

    def flush(self) -> None:
        held, size, self._held, self._size = self._held, self._size, [], 0
        if not held or self.is_closing():
            return
        if size < _TOGETHER:
            self.transport.write(b"".join(held))
        else:
            self.transport.writelines(held)


class Protocol(HttpToolsProtocol):
    """uvicorn's, with a bound on the size and time of a request's head, which it has not, and JSON for its refusals."""

    wording: ClassVar[Wording]
    """How the application words errors."""
    _head = 0
    _late: asyncio.TimerHandle | None = None
    _data = b""
    """What is being read."""
    _unwanted = False
    """The request offers to go on in a protocol that we do not speak."""
    _answering: RequestResponseCycle | None = None
    """The one whose turn it is; `cycle` is the one that came last."""

    @hook
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._output = WriteBuffer(transport, self.loop)
        self._reader = SlowReader(transport, self.loop)
        self.transport = self._output  # type: ignore[assignment]
        self._expect()

    @hook
    def eof_received(self) -> None:
        self._output.flush()  # the loop closes the connection next

    @hook
    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader.pause()

    @hook
    def resume_writing(self) -> None:
        self._reader.resume()
        super().resume_writing()

    @hook
    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_no_more()
        self._reader.resume()
        super().connection_lost(exc)
        answering = self._answering
        if answering is not None and not answering.response_complete:
            answering.disconnected = True
            answering.message_event.set()

    @hook
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0
        if self._late is None:
            self._expect()

    @hook
    def on_url(self, url: bytes) -> None:
        self._head += len(url)
        if self._head > _LARGEST_HEAD:
            raise ValueError("head too large")
        super().on_url(url)

    @hook
    def on_header(self, name: bytes, value: bytes) -> None:
        self._head += len(name) + len(value)
        if self._head > _LARGEST_HEAD:
            raise ValueError("head too large")
        super().on_header(name, value)
        if len(value) >= _LARGE_DIGITS and name.lower() == b"content-length":
            self.scope["extensions"] = {CONNECTION: {"take": self._take}}

    @hook
    def on_headers_complete(self) -> None:
        self._expect_no_more()
        self._unwanted = self.parser.should_upgrade() and not self._should_upgrade()
        if not self._unwanted:
            super().on_headers_complete()
            if self.pipeline and len(self.pipeline) < _AHEAD:
                self.flow.resume_reading()  # or the end of the connection would be read only after the answer's

    @hook
    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        self._reader.hurried = False
        cycle.scope[HURRY] = self._hurry  # type: ignore[literal-required]
        super()._start_asgi_task(cycle, app)

    @hook
    def on_message_complete(self) -> None:
        if not self._unwanted:
            super().on_message_complete()

    @hook
    def handle_websocket_upgrade(self) -> None:
        headers = b"".join(b"%b: %b\r\n" % header for header in self.scope["headers"])
        fault = handshake.fault(b"GET %b HTTP/1.1\r\n%b\r\n" % (self.url, headers))
        if fault is None:
            self._output.flush()
            self.transport = self._output.transport
            super().handle_websocket_upgrade()
        else:
            self._refuse(fault, handshake.VERSION)

    def _hurry(self) -> None:
        self._reader.hurried = True

    def _take(self) -> tuple[socket.socket, bytes]:
        """The connection, which the loop reads no more, and what it has read of the body and not yet told of."""
        self.flow.pause_reading()
        early, self.cycle.body = bytes(self.cycle.body), bytearray()
        return socket.socket(fileno=os.dup(self.transport.get_extra_info("socket").fileno())), early

    # -- upgrades -----------------------------------------------------------------------------------------------------

    @hook
    def data_received(self, data: bytes) -> None:
        self._data = data
        super().data_received(data)
        self._data = b""

    @hook
    def _should_upgrade(self) -> bool:
        return super()._should_upgrade() and self.parser.get_method() == b"GET"

    @hook
    def _unsupported_upgrade_warning(self) -> None:
        """Some clients offer HTTP/2 with every request. The parser stops at their heads and takes no body for one.

        So another one reads the request, without the offer.
        """
        stopped = sys.exception()
        assert isinstance(stopped, httptools.HttpParserUpgrade)
        if self.parser.get_method() == b"CONNECT":
            self._refuse(_bad(405, "Not allowed to CONNECT. This is no proxy: ask for a path of its own."))
            return
        line = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        headers = b"".join(b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade")
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._unwanted = False
        self.data_received(b"%b%b\r\n%b" % (line, headers, self._data[stopped.args[0] :]))

    @hook
    def send_400_response(self, msg: str) -> None:
        if self._head > _LARGEST_HEAD:
            message = f"The request's address and headers are larger than {_LARGEST_HEAD} bytes. Send less."
            self._refuse(_bad(431, message))
        else:
            self._refuse(_bad(400, "This is not a valid HTTP request."))

    def _expect(self) -> None:
        self._late = self.loop.call_later(_HEAD_PATIENCE, self._give_up)

    def _expect_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        self._refuse(_bad(408, f"The request's headers did not come within {_HEAD_PATIENCE:g} seconds."))

    def _refuse(self, fault: Fault, headers: Headers = ()) -> None:
        if self._ends_later():
            return
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            data = self.wording.body(fault)
            told = [
                *self.server_state.default_headers,
                *headers,
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(data)),
                (b"x-request-id", ids.new_request().encode()),
                (b"connection", b"close"),
            ]
            head = b"".join(b"%b: %b\r\n" % header for header in told)
            self.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[fault.status], head, data))
        self.transport.close()

    def _ends_later(self) -> bool:
        """Whether requests that came whole before this are still to be answered: then the last ends the connection."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            return False
        if cycle.more_body:
            if not self.pipeline:
                return False
            self.pipeline.popleft()  # it is the newest, and never to be whole
            assert self._answering is not None
            cycle = self.cycle = self.pipeline[0][0] if self.pipeline else self._answering
        cycle.keep_alive = False
        return True


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's, which cuts off what runs when the server ends, and logs that a refused handshake was forgotten."""

    @hook
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._reader = SlowReader(transport, self.loop, hurried=True)

    @hook
    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader.pause()

    @hook
    def resume_writing(self) -> None:
        self._reader.resume()
        super().resume_writing()

    @hook
    def connection_lost(self, exc: Exception | None) -> None:
        self._reader.resume()
        super().connection_lost(exc)

    @hook
    def shutdown(self) -> None:
        if self.handshake_complete and not self.close_sent:
            self.queue.put_nowait(STOPPING)  # type: ignore[arg-type]
        else:
            super().shutdown()

    @hook
    async def send(self, message: Message) -> None:  # type: ignore[override]
        await super().send(message)  # type: ignore[arg-type]
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True


def _bad(status: int, message: str) -> Fault:
    return Fault(status=status, type="invalid_request_error", message=message)
