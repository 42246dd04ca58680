"""One HTTP request as it was asked: its head, and its body as it comes, unpacked, in time and no larger than wanted."""

from __future__ import annotations

import asyncio
import time

from belljar.errors import TooLarge
from belljar.http_server import content_encoding
from belljar.http_server.asgi import Headers, Message, Receive, Scope
from belljar.http_server.body_reader import CONNECTION, LARGE, Rest
from belljar.http_server.query import Query
from belljar.wire import ids
from belljar.wire.faults import Fault

_PLAIN = "identity"


class Gone(Exception):
    """The client went away: nobody reads an answer any more."""


class ProtocolRefusal(Exception):
    """An error of the protocol itself, with its answer: nothing in our tree of errors stands for it."""

    def __init__(self, fault: Fault, headers: Headers = ()) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.headers = headers


class Request:
    """What was asked. Handlers return their answer; see `sender`."""

    __slots__ = (
        "_began",
        "_patience",
        "_query",
        "_read",
        "_receive",
        "_unpacker",
        "always",
        "finished",
        "headers",
        "id",
        "last",
        "method",
        "params",
        "path",
        "scope",
        "verbatim",
    )

    def __init__(self, scope: Scope, receive: Receive, *, patience: float) -> None:
        self._began = time.perf_counter()
        self._receive = receive
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
        self.always: Headers = ()
        """Headers of any answer to this request."""
        self.finished = False
        """The whole body was read."""
        self.last = False
        """The connection ends with the answer."""
        self.verbatim = False
        """The body is wanted as it comes, packed or not."""

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
        """How the body is packed, for whoever reads it."""
        if self.verbatim:
            return _PLAIN
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
                raise ProtocolRefusal(content_encoding.unknown(self.encoding), (content_encoding.ACCEPTED,))
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

    async def gone(self) -> None:
        """Returns when the client has gone away."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def skip(self, seconds: float) -> None:
        """Read on for so long, without looking: a client that still sends reads no answer."""
        try:
            async with asyncio.timeout(seconds):
                while await self._bytes():
                    pass
        except (TimeoutError, Gone, ProtocolRefusal):
            pass

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

    def stalled(self) -> ProtocolRefusal:
        message = f"The request's body stalled: nothing came for {self._patience:g} seconds. Send it again."
        fault = Fault(status=408, type="invalid_request_error", code="request_timeout", message=message)
        self.last = True
        return ProtocolRefusal(fault)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The request's body is larger than {limit} bytes, the most that is accepted. Send less at once.")
