"""One HTTP request and its answer, over raw ASGI messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeAlias

from belljar.errors import InvalidRequest, TooLarge
from belljar.gateway.engine.caller import Caller
from belljar.gateway.server import content_encoding
from belljar.gateway.server.body_reader import CONNECTION, LARGE, Rest
from belljar.gateway.server.query import Query
from belljar.wire import ids, reading
from belljar.wire.faults import Fault, body
from belljar.wire.items import Json

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

JSON = b"application/json"
_PLAIN = "identity"
EVENTS = b"text/event-stream; charset=utf-8"
_VERSION = (b"openai-version", b"2020-10-01")
_SKIPPED = 1 << 16
"""Bytes of an unread body that the server may skip to reach the next request; above, the connection is closed."""
_LINGER = 2.0
"""Seconds that we go on reading after refusing a body, so that the client gets to read why."""


class Gone(Exception):
    """The client went away: nobody reads an answer any more."""


class Refusal(Exception):
    """An error of the protocol itself, with its answer: nothing in our tree of errors stands for it."""

    def __init__(self, fault: Fault, headers: Headers = ()) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.headers = headers


class Request:
    """What was asked, and the means to answer it once."""

    __slots__ = (
        "_began",
        "_patience",
        "_query",
        "_read",
        "_receive",
        "_send",
        "_unpacker",
        "always",
        "caller",
        "finished",
        "headers",
        "id",
        "last",
        "method",
        "params",
        "path",
        "scope",
        "status",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, patience: float) -> None:
        self._began = time.perf_counter()
        self._receive = receive
        self._send = send
        self._patience = patience
        self._query: Query | None = None
        self._read = 0
        self._unpacker: content_encoding.Unpacker | None = None
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["raw_path"].decode("ascii", "replace")
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.id = ids.new_request()
        self.params: dict[str, str] = {}
        self.caller = Caller("", self.id)
        self.always: Headers = ()
        """Headers of any answer to this request."""
        self.finished = False
        """The whole body was read."""
        self.last = False
        """The connection ends with the answer."""
        self.status = 0
        """What was answered; 0 before."""

    # -- asked --------------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self._began

    @property
    def query(self) -> Query:
        if self._query is None:
            self._query = Query(self.scope["query_string"])
        return self._query

    @property
    def content_type(self) -> bytes:
        """Without parameters; empty where there is none."""
        return self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()

    @property
    def encoding(self) -> str:
        """How the body is packed."""
        return self.headers.get(b"content-encoding", b"").decode("latin-1").strip().lower() or _PLAIN

    @property
    def length(self) -> int | None:
        """The body's, where the client told."""
        told = self.headers.get(b"content-length")
        return int(told) if told is not None else None

    async def read(self) -> bytes:
        """The next bytes of the body; none at its end."""
        if self.encoding == _PLAIN:
            return await self._bytes()
        if self._unpacker is None:
            self._unpacker = content_encoding.unpacker(self.encoding)
            if self._unpacker is None:
                raise Refusal(content_encoding.unknown(self.encoding), (content_encoding.ACCEPTED,))
        while True:
            data = b"" if self._unpacker.waiting else await self._bytes()
            if not data and not self._unpacker.waiting:
                if not self._unpacker.over:
                    raise content_encoding.cut_short(self.encoding)
                return b""
            if piece := self._unpacker.feed(data):
                return piece

    async def _bytes(self) -> bytes:
        """The next bytes as they come; none at the end."""
        while not self.finished:
            message = await self._receive_in_time()
            if message["type"] == "http.disconnect":
                raise Gone
            self.finished = not message.get("more_body", False)
            if data := message.get("body", b""):
                self._read += len(data)
                return data  # type: ignore[no-any-return]
        return b""

    def take(self) -> Rest | None:
        """What `read` has not given of a large body, for a thread to read; None where there is little or no telling."""
        if self.encoding != _PLAIN:
            return None
        given = self.scope.get("extensions", {}).get(CONNECTION)
        left = (self.length or 0) - self._read
        if given is None or left < LARGE:
            return None
        connection, early = given["take"]()
        self.last = True
        return Rest(connection, early, left, self._patience)

    async def body(self, limit: int) -> bytes:
        """All of it."""
        if (self.length or 0) > limit:
            raise _too_large(limit)
        data = await self.read()
        if not self.finished or self._unpacker is not None:
            pieces, size = [data], len(data)
            while piece := await self.read():
                pieces.append(piece)
                size += len(piece)
                if size > limit:
                    raise _too_large(limit)
            data = b"".join(pieces)
        if len(data) > limit:
            raise _too_large(limit)
        return data

    async def json(self, limit: int) -> dict[str, Json]:
        """The body as a JSON object."""
        kind = self.content_type
        if kind and kind != JSON and not kind.endswith(b"+json"):
            raise InvalidRequest(
                f"Unsupported content type: '{kind.decode('latin-1')}'. Send the body as 'application/json'."
            )
        return reading.read_json(await self.body(limit))

    async def gone(self) -> None:
        """Returns when the client has gone away."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    # -- answered -----------------------------------------------------------------------------------------------------

    async def reply(self, status: int, data: bytes, *, type: bytes = JSON, headers: Headers = ()) -> None:
        """Answer, whole."""
        await self.open(status, ((b"content-type", type), (b"content-length", b"%d" % len(data)), *headers))
        await self._send({"type": "http.response.body", "body": data})

    async def refuse(self, fault: Fault, headers: Headers = ()) -> None:
        """Answer with an error. A large body that is still to come is not waited for, but the client is heard out."""
        data = body(fault)
        headers = (
            (b"content-type", JSON),
            (b"content-length", b"%d" % len(data)),
            *fault.headers(),
            *headers,
        )
        unread = 0 if self.finished else self.length
        if unread is None and b"transfer-encoding" not in self.headers:
            unread = 0
        if unread is not None and unread <= _SKIPPED:
            await self.open(fault.status, headers)
            await self._send({"type": "http.response.body", "body": data})
            return
        self.last = True
        await self.open(fault.status, headers)
        await self.write(data)
        try:
            async with asyncio.timeout(_LINGER):
                while await self._bytes():
                    pass
        except (TimeoutError, Gone, Refusal):
            pass
        await self.close()

    async def open(self, status: int, headers: Headers) -> None:
        """Begin an answer that is written piece by piece."""
        self.status = status
        told = [
            *headers,
            (b"x-request-id", self.id.encode()),
            (b"openai-processing-ms", b"%d" % (self.seconds * 1000)),
            _VERSION,
            *self.always,
        ]
        if self.last:
            told.append((b"connection", b"close"))
        await self._send({"type": "http.response.start", "status": status, "headers": told})

    def write(self, data: bytes) -> Awaitable[None]:
        """To be awaited; not a coroutine of its own, since a stream writes thousands of times."""
        return self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def close(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def _receive_in_time(self) -> Message:
        """By hand what `asyncio.timeout` does: it would cost a small request a tenth of its time."""
        task, stalled = asyncio.current_task(), False
        assert task is not None

        def stall() -> None:
            nonlocal stalled
            stalled = True
            task.cancel()

        timer = asyncio.get_running_loop().call_later(self._patience, stall)
        try:
            return await self._receive()
        except asyncio.CancelledError:
            if stalled and task.uncancel() == 0:
                raise self.stalled() from None
            raise
        finally:
            timer.cancel()

    def stalled(self) -> Refusal:
        message = f"The request's body stalled: nothing came for {self._patience:g} seconds. Send it again."
        fault = Fault(status=408, type="invalid_request_error", code="request_timeout", message=message)
        self.last = True
        return Refusal(fault)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The request's body is larger than {limit} bytes, the most that is accepted. Send less at once.")


def stopping() -> Fault:
    """The server ends before the request does."""
    return Fault(
        status=503,
        type="server_error",
        code="shutting_down",
        message="The gateway is shutting down. Send the request again in a moment.",
        retry_after=1.0,
    )
