"""WebSocket /v1/responses: turns one after another, the same events without the framing of a stream."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, ClassVar, TypeAlias

import msgspec
from msgspec import Struct

from belljar.errors import BelljarError, HeldElsewhere, InvalidRequest
from belljar.gateway.engine.caller import Caller
from belljar.gateway.server.access_log import GONE, AccessLog
from belljar.gateway.server.interfaces import Engine
from belljar.gateway.server.options import ServerOptions
from belljar.gateway.server.quota import Quotas
from belljar.gateway.server.request import SMALL
from belljar.gateway.server.wording import stopping
from belljar.gateway.store.base import ResponseRecord
from belljar.http_server.asgi import STOPPING, Message, Receive, Send
from belljar.http_server.cancel_on_disconnect import CancelOnDisconnect
from belljar.http_server.reply import Answer, Stream
from belljar.http_server.request import Gone
from belljar.wire import error_messages, faults, ids, reading
from belljar.wire.codec import encode
from belljar.wire.events import Event, Failed
from belljar.wire.faults import Fault
from belljar.wire.requests import CreateResponse
from belljar.worker_threads import WorkerThreads

Check: TypeAlias = Callable[[], Awaitable[object]]
"""Whether the caller may still call: raises where not."""

_MOST_WAITING = 16
_MOST_OPEN = 32
"""Connections of one owner."""
_MOST_BYTES = 64 << 20
"""Of all messages that wait on them."""
_LARGEST_MEMORY = 64 << 20
_NORMAL, _REFUSED, _RESTART, _LATER = 1000, 1008, 1012, 1013
"""Why a connection is closed, in the words of RFC 6455."""
_log = logging.getLogger("belljar.server")


PassOn: TypeAlias = Callable[[HeldElsewhere, bytes], Awaitable[Answer]]
"""Ask the gateway that has what this one was asked for; raises where that cannot be."""


class SocketRequest(Struct, frozen=True):
    """A message of the client's: one turn, and the lane that it named for it."""

    request: CreateResponse
    lane: str | None
    body: dict[str, Any]
    """The same as POST /v1/responses takes it."""


def read_request(text: str) -> SocketRequest:
    """A `response.create`. Everything here is a stream, so `stream` says nothing; `background` has no place."""
    data = reading.read_json(text.encode())
    kind = data.pop("type", None)
    if kind is None:
        raise error_messages.missing("type")
    if kind != "response.create":
        raise error_messages.not_one_of("type", str(kind), ["response.create"])
    lane = data.pop("stream_id", None)
    if lane is not None and not isinstance(lane, str):
        raise error_messages.wrong_type("stream_id", ["a string"], lane)
    if data.pop("background", None):
        raise error_messages.unsupported("background", "Send it to POST /v1/responses.")
    if data.pop("generate", None) is False:
        raise error_messages.unsupported("generate", "Leave it out: every response.create is answered.")
    data.pop("stream_options", None)
    body = {**data, "stream": True}
    return SocketRequest(reading.read_response(dict(body)), lane, body)


class ResponseSocket:
    PATH: ClassVar = "/v1/responses"

    def __init__(
        self, engine: Engine, quotas: Quotas, access_log: AccessLog, options: ServerOptions, readers: WorkerThreads
    ) -> None:
        self._readers = readers
        self._open: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        """By owner: connections, and bytes of messages that wait."""
        self._engine = engine
        self._quotas = quotas
        self._access_log = access_log
        self._options = options

    def serves(self, path: str) -> bool:
        return path.removesuffix("/") == self.PATH

    async def serve(
        self, caller: Caller, receive: Receive, send: Send, *, check: Check, pass_on: PassOn | None = None
    ) -> None:
        """From the handshake to the end of the connection. Every turn is checked: a key may be revoked meanwhile."""
        await receive()
        await send({"type": "websocket.accept", "headers": [(b"x-request-id", caller.request_id.encode())]})
        sockets, owner = self._access_log.metrics.sockets, caller.owner
        session = _Session(
            self._engine,
            self._quotas,
            self._access_log,
            self._readers,
            caller,
            receive,
            send,
            check,
            pass_on,
            self._held,
        )
        sockets.add()
        self._open[owner] += 1
        try:
            if self._open[owner] > _MOST_OPEN:
                await session.refuse(_LATER, f"{_MOST_OPEN} connections are open already, the most for one key.")
            else:
                await session.run(self._options.socket_life)
        except Gone:
            pass
        finally:
            session.let_go()
            sockets.add(by=-1)
            self._open[owner] -= 1
            if not self._open[owner]:
                del self._open[owner]


class _Session:
    """One connection. Messages that come during a turn wait for it."""

    def __init__(
        self,
        engine: Engine,
        quotas: Quotas,
        access_log: AccessLog,
        readers: WorkerThreads,
        caller: Caller,
        receive: Receive,
        send: Send,
        check: Check,
        pass_on: PassOn | None,
        held: Counter[str],
    ) -> None:
        self._held = held
        self._bytes = 0
        """Those that wait here."""
        self._pass_on = pass_on
        self._readers = readers
        self._engine = engine
        self._quotas = quotas
        self._access_log = access_log
        self._owner = caller.owner
        self._live = caller.live
        self._receive = receive
        self._send = send
        self._check = check
        self._waiting: asyncio.Queue[Message] = asyncio.Queue()
        self._stopping = False
        self._memory: dict[str, ResponseRecord] = {}
        """Responses of this connection that are not stored."""
        self._last: Event | None = None
        """What the turn has told last."""

    async def run(self, life: float) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + life
        with CancelOnDisconnect(self._listen, after=0):
            while loop.time() < ends and not self._stopping:
                try:
                    async with asyncio.timeout_at(ends):
                        message = await self._waiting.get()
                except TimeoutError:
                    break
                if message is not STOPPING:
                    try:
                        await self._take_turn(message.get("text"))
                    finally:
                        self._count(-_measure(message))
            if not self._stopping:
                await self._send_fault(_build_expiry_fault(life))
            await self._close(_RESTART if self._stopping else _NORMAL)

    async def _listen(self) -> None:
        """Returns when the client has gone."""
        while (message := await self._receive())["type"] != "websocket.disconnect":
            if message is STOPPING:
                self._stopping = True
            held = self._held[self._owner]  # a large message alone is none too many
            if message is not STOPPING and held and held + _measure(message) > _MOST_BYTES:
                why = f"More than {_MOST_BYTES} bytes wait on the connections of this key. Wait for responses."
                await self.refuse(_REFUSED, why)
                return
            if self._stopping or self._waiting.qsize() < _MOST_WAITING:
                if message is not STOPPING:
                    self._count(_measure(message))
                self._waiting.put_nowait(message)
            else:
                await self._send_fault(_build_queue_fault())

    async def refuse(self, code: int, why: str) -> None:
        """Tell why there is no more to be had, and close."""
        fault = Fault(status=429, type="rate_limit_error", code="rate_limit_exceeded", message=why)
        await self._send_fault(fault)
        await self._close(code, why)

    def _count(self, size: int) -> None:
        self._bytes += size
        self._held[self._owner] += size

    def let_go(self) -> None:
        """What waits here waits no more."""
        self._count(-self._bytes)
        if not self._held[self._owner]:
            del self._held[self._owner]

    async def _take_turn(self, text: str | None) -> None:
        caller, began = Caller(self._owner, ids.new_request(), self._live), time.perf_counter()
        status = GONE
        try:
            status = await self._answer(text, caller)
        finally:
            self._access_log.note(caller, "WS", ResponseSocket.PATH, status, time.perf_counter() - began)

    async def _answer(self, text: str | None, caller: Caller) -> int:
        """One turn; the status that it would have had over HTTP."""
        asked: SocketRequest | None = None
        self._last = None
        fault: Fault | None = None
        try:
            if text is None:
                raise InvalidRequest("Messages are text frames that hold JSON; this one was binary.")
            await self._check()
            asked = await self._read(text)
            await self._quotas.count_request(self._owner)
            async with self._quotas.hold_response(self._owner):
                try:
                    await self._run(asked, caller)
                except HeldElsewhere as error:
                    fault = await self._relay(error, asked)
        except BelljarError as error:
            fault = faults.of(error)
        except Gone:
            raise
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            fault = stopping()  # it took longer than the server may; the task ends soon, either way
        except Exception:  # noqa: BLE001 - the last door: logged, and the caller learns nothing of our insides
            _log.exception("request %s broke", caller.request_id)
            fault = faults.unexpected(caller.request_id)
        if asked is not None and (fault is not None or isinstance(self._last, Failed)):
            self._memory.pop(asked.request.previous_response_id or "", None)
        if fault is not None:
            await self._send_fault(fault, asked.lane if asked else None, self._last)
        self._limit_memory()
        return fault.status if fault else 200

    async def _read(self, text: str) -> SocketRequest:
        if len(text) <= SMALL:
            return read_request(text)
        return await self._readers.run(self._owner, lambda: read_request(text))

    async def _run(self, asked: SocketRequest, caller: Caller) -> None:
        async with aclosing(self._engine.run(asked.request, caller, memory=self._memory)) as run:
            batch = await anext(run, None)
            while batch is not None:
                try:
                    told = [encode(event) for event in batch]
                except Exception as error:  # noqa: BLE001 - the run ends with it, and says so
                    batch = await run.athrow(error)
                    continue
                for event, data in zip(batch, told, strict=True):
                    await self._send_data(data, asked.lane)
                    self._last = event
                batch = await anext(run, None)

    async def _relay(self, error: HeldElsewhere, asked: SocketRequest) -> Fault | None:
        """A turn that another gateway has to answer: asked there over HTTP, and told as it comes.

        Not where it began already, nor where it needs what only this connection remembers, or would have to.
        """
        request = asked.request
        if self._pass_on is None or self._last or not request.store or request.previous_response_id in self._memory:
            raise error
        answer = await self._pass_on(error, encode(asked.body))
        assert isinstance(answer, Stream)
        rest = b""
        async with aclosing(answer.pieces) as pieces:
            async for piece in pieces:
                rest += piece
                if answer.status == 200:
                    *lines, rest = rest.split(b"\n")
                    for line in lines:
                        if line.startswith(b"data: {"):
                            await self._send_data(line.removeprefix(b"data: "), asked.lane)
        if answer.status == 200:
            return None
        told = msgspec.json.decode(rest)["error"]
        return Fault(status=answer.status, **{name: told[name] for name in ("type", "code", "message", "param")})

    async def _send_data(self, data: bytes, lane: str | None) -> None:
        if lane is not None:
            data = b'%b,"stream_id":%b}' % (data[:-1], encode(lane))
        try:
            await self._send({"type": "websocket.send", "text": data.decode()})
        except OSError:
            raise Gone from None

    async def _send_fault(self, fault: Fault, lane: str | None = None, after: Event | None = None) -> None:
        """An error: with a number where it breaks off a stream. Open Responses wants a code in each."""
        code = fault.code or fault.type
        error = {"type": fault.type, "code": code, "message": fault.message, "param": fault.param}
        told: dict[str, Any] = {"type": "error", "status": fault.status, "error": error}
        if after is not None:
            told["sequence_number"] = after.sequence_number + 1
        await self._send_data(encode(told), lane)

    async def _close(self, code: int, why: str = "") -> None:
        try:
            await self._send({"type": "websocket.close", "code": code, "reason": why})
        except OSError:
            raise Gone from None

    def _limit_memory(self) -> None:
        """Let the oldest go where the connection remembers too much."""
        weight = sum(len(record.input) + len(record.output) + len(record.body) for record in self._memory.values())
        while weight > _LARGEST_MEMORY:
            record = self._memory.pop(next(iter(self._memory)))
            weight -= len(record.input) + len(record.output) + len(record.body)


def _measure(message: Message) -> int:
    """Bytes of a message, as far as memory is concerned; never none."""
    return len(message.get("text") or message.get("bytes") or "") + 1


def _build_expiry_fault(life: float) -> Fault:
    return Fault(
        status=400,
        type="invalid_request_error",
        code="websocket_connection_limit_reached",
        message=f"This connection was open for {life / 60:g} minutes, the longest allowed. Open a new one to go on.",
    )


def _build_queue_fault() -> Fault:
    return Fault(
        status=429,
        type="rate_limit_error",
        code="rate_limit_exceeded",
        message=f"More than {_MOST_WAITING} messages wait on this connection. Wait for responses before you send more.",
    )
