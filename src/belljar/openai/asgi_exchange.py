"""Send one request to an ASGI application and read its answer piece by piece, all on the gateway's loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Any]
Head: TypeAlias = tuple[int, list[tuple[bytes, bytes]]]

_MOST = 1 << 20
"""Bytes of an answer that wait to be read before the application has to."""


class BrokenAnswer(Exception):
    """The answer ended before it was complete, or there was none."""


class Bell:
    """Wakes whoever waits."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def ring(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)


class Exchange:
    """The application is on one side (`receive`, `send`), the caller on the other (the rest)."""

    def __init__(self, app: App, scope: Message) -> None:
        self._app = app
        self._scope = scope
        self._for_app, self._for_caller = Bell(), Bell()
        self._asked: deque[bytes] = deque()
        self._asked_all = False
        self._heard_all = False
        self._head: Head | None = None
        self._answer: list[bytes] = []
        self._weight = 0
        self._complete = False
        self._gone = False
        self._over = False

    async def run(self) -> None:
        """The application's part, from beginning to end."""
        try:
            await self._app(self._scope, self._receive, self._send)
        finally:
            self._over = True
            self._for_caller.ring()

    # -- the application ----------------------------------------------------------------------------------------------

    async def _receive(self) -> Message:
        while not (self._gone or self._complete):
            if self._asked or (self._asked_all and not self._heard_all):
                data = self._asked.popleft() if self._asked else b""
                self._heard_all = self._asked_all and not self._asked
                self._for_caller.ring()
                return {"type": "http.request", "body": data, "more_body": not self._heard_all}
            await self._for_app.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self._gone:
            return
        if message["type"] == "http.response.start":
            self._head = (message["status"], list(message["headers"]))
        elif message["type"] == "http.response.body":
            if data := message.get("body", b""):
                self._answer.append(data)
                self._weight += len(data)
            if not message.get("more_body", False):
                self._complete = True
                self._for_app.ring()
        self._for_caller.ring()
        while self._weight > _MOST and not self._ended:
            await self._for_app.wait()

    # -- the caller ---------------------------------------------------------------------------------------------------

    def put(self, data: bytes, *, last: bool) -> None:
        """More of the request's body."""
        if data:
            self._asked.append(data)
        self._asked_all = last
        self._for_app.ring()

    async def wanting(self) -> bool:
        """Waits until all that was put is read; False where the application wants no more."""
        while self._asked and not self._ended:
            await self._for_caller.wait()
        return not self._ended

    async def head(self) -> Head:
        """The answer's status and headers."""
        while self._head is None and not self._ended:
            await self._for_caller.wait()
        if self._head is None:
            raise BrokenAnswer("the gateway gave no answer")
        return self._head

    async def read(self) -> bytes:
        """What has come of the answer, as soon as there is any; nothing at its end."""
        while not self._answer and not self._ended:
            await self._for_caller.wait()
        if not self._answer and not self._complete:
            raise BrokenAnswer("the gateway's answer broke off")
        data = b"".join(self._answer)
        self._answer.clear()
        self._weight = 0
        self._for_app.ring()
        return data

    def hang_up(self) -> None:
        """Go away: the application stops what it does for this request."""
        self._gone = True
        self._for_app.ring()
        self._for_caller.ring()

    @property
    def _ended(self) -> bool:
        return self._complete or self._gone or self._over
