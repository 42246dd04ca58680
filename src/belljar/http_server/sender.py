"""The one place that answers: it sends the values that handlers return, and puts what they raise into words."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Protocol

from belljar.errors import BelljarError
from belljar.http_server.asgi import HURRY, Headers, Send
from belljar.http_server.cancel_on_disconnect import CancelOnDisconnect
from belljar.http_server.reply import Answer, Ping, Reply, Stream
from belljar.http_server.request import Gone, ProtocolRefusal, Request
from belljar.wire.faults import Fault

_SKIPPED = 1 << 16
"""Bytes of an unread body that the server may skip to reach the next request; above, the connection is closed."""
_LINGER = 2.0
"""Seconds that we go on reading after refusing a body, so that the client gets to read why."""
_CLOSE = (b"connection", b"close")
_log = logging.getLogger("belljar.server")


class Wording(Protocol):
    """How an API words what every server has to say."""

    def common(self, request: Request) -> Headers:
        """Headers of every answer."""
        ...

    def refusal(self, error: BelljarError) -> ProtocolRefusal:
        """The answer to an error of ours."""
        ...

    def unexpected(self, request: Request) -> Fault:
        """To any other: the log has it, the client learns nothing of our insides."""
        ...

    def stopping(self) -> Fault:
        """The server ends before the request does."""
        ...

    def body(self, fault: Fault) -> bytes: ...


class Sender:
    """Answers one request, once."""

    __slots__ = ("_heard", "_request", "_send", "_wording", "status")

    def __init__(self, request: Request, send: Send, wording: Wording) -> None:
        self._request = request
        self._send = send
        self._wording = wording
        self._heard = 0.0
        self.status = 0
        """What was answered; 0 before."""

    async def answer(
        self, answering: Awaitable[Answer], instead: Callable[[BelljarError], Awaitable[Answer]] | None = None
    ) -> None:
        """Send what a handler returns, or why it does not. `Gone` where nobody waits for it any more.

        `instead` may have another answer to an error of ours, as long as nothing was sent; else it raises one.
        """
        try:
            await self.send(await answering)
        except BelljarError as error:
            if instead is not None and not self.status:
                await self.answer(instead(error))
            else:
                refusal = self._wording.refusal(error)
                await self._refuse(refusal.fault, refusal.headers)
        except ProtocolRefusal as refusal:
            await self._refuse(refusal.fault, refusal.headers)
        except asyncio.CancelledError:
            # Only the server's own end cancels a request; the task ends here either way.
            await self._refuse(self._wording.stopping())
        except Gone:
            raise
        except Exception:  # noqa: BLE001 - the last door: logged, and the caller learns nothing of our insides
            _log.exception("request %s broke", self._request.id)
            await self._refuse(self._wording.unexpected(self._request))

    async def send(self, answer: Answer) -> None:
        """One answer, whole or as it comes."""
        if isinstance(answer, Stream):
            await self._stream(answer)
            return
        data = answer.body
        if data is None:
            await self._open(answer.status, answer.headers)
            await self._close()
        else:
            await self._open(answer.status, _described(answer, data))
            await self._send({"type": "http.response.body", "body": data})

    async def refuse(self, fault: Fault, headers: Headers = ()) -> None:
        """Answer with an error. A large body that is still to come is not waited for, but the client is heard out."""
        data, request = self._wording.body(fault), self._request
        reply = Reply(fault.status, data, headers=(*fault.headers(), *headers))
        unread = 0 if request.finished else request.length
        if unread is None and b"transfer-encoding" not in request.headers:
            unread = 0
        if unread is not None and unread <= _SKIPPED:
            await self.send(reply)
            return
        request.last = True
        await self._open(fault.status, _described(reply, data))
        await self._write(data)
        await request.skip(_LINGER)
        await self._close()

    async def _refuse(self, fault: Fault, headers: Headers = ()) -> None:
        if self.status:
            _log.error("request %s broke in the middle of its answer: %s", self._request.id, fault.message)
        else:
            await self.refuse(fault, headers)

    # -- streams ------------------------------------------------------------------------------------------------------

    async def _stream(self, stream: Stream) -> None:
        request, unsent = self._request, b""
        if request.method == "HEAD":
            await stream.pieces.aclose()
            await self._open(stream.status, stream.headers)
            await self._close()
            return
        if stream.live and (hurry := request.scope.get(HURRY)) is not None:
            hurry()
        clock = asyncio.get_running_loop().time
        self._heard = clock()
        ping = stream.ping
        watch = request.gone if ping is None else lambda: self._watch(ping)
        try:
            async with aclosing(stream.pieces) as pieces:
                with CancelOnDisconnect(watch):
                    async for piece in pieces:
                        if not self.status:
                            await self._open(stream.status, stream.headers)
                        if unsent := piece:
                            self._heard = clock()
                            await self._write(unsent)
                            unsent = b""
                    if not self.status:
                        await self._open(stream.status, stream.headers)
        except Gone:
            raise
        except asyncio.CancelledError:
            # Only the server's own end cancels a request; the client is told, and the task ends here either way.
            if not self.status or stream.trouble is None:
                raise
            await self._write(unsent + stream.trouble(self._wording.stopping()))
        except Exception as error:
            if not self.status or stream.trouble is None:
                raise
            if isinstance(error, BelljarError):
                _log.warning("stream of request %s broke off: %s: %s", request.id, type(error).__name__, error)
            else:
                _log.exception("stream of request %s broke", request.id)
            await self._write(stream.trouble(self._fault(error)))
        await self._close()

    async def _watch(self, ping: Ping) -> None:
        """Returns when the client has gone; until then, breaks long silences. A piece sets no timer of its own."""
        clock = asyncio.get_running_loop().time
        while True:
            try:
                async with asyncio.timeout_at(self._heard + ping.seconds):
                    return await self._request.gone()
            except TimeoutError:
                if clock() < self._heard + ping.seconds:
                    continue
                self._heard = clock()
                if self.status:
                    await self._write(ping.frame)

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, BelljarError):
            return self._wording.refusal(error).fault
        return error.fault if isinstance(error, ProtocolRefusal) else self._wording.unexpected(self._request)

    # -- ASGI ---------------------------------------------------------------------------------------------------------

    # To be awaited; not coroutines of their own, since a stream writes thousands of times.

    def _open(self, status: int, headers: Headers) -> Awaitable[None]:
        self.status = status
        request = self._request
        told = [*headers, *self._wording.common(request), *request.always]
        if request.last:
            told.append(_CLOSE)
        return self._send({"type": "http.response.start", "status": status, "headers": told})

    def _write(self, data: bytes) -> Awaitable[None]:
        return self._send({"type": "http.response.body", "body": data, "more_body": True})

    def _close(self) -> Awaitable[None]:
        return self._send({"type": "http.response.body", "body": b""})


def _described(reply: Reply, data: bytes) -> Headers:
    return ((b"content-type", reply.type), (b"content-length", b"%d" % len(data)), *reply.headers)
