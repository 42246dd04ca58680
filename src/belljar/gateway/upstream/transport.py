"""One way to send bytes to a model's server: the client that suits the address, and another try where that helps."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from belljar.gateway.upstream import retry
from belljar.gateway.upstream.http_response import Client, ConnectionFailed, HttpResponse
from belljar.gateway.upstream.loopback import LoopbackClient
from belljar.gateway.upstream.origins import on_this_machine, origin_of

if TYPE_CHECKING:
    from belljar.gateway.upstream.remote import RemoteClient


class Transport:
    """Keeps connections of one event loop; made once for a process."""

    def __init__(
        self,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._sleep = sleep
        self._clock = clock
        self._chance = chance
        self._near = LoopbackClient()
        self._far: RemoteClient | None = None
        self._clients: dict[str, Client] = {}

    def prepare(self, url: str) -> None:
        """Load what this address needs, so that the first request does not have to."""
        self._client(url)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, *, timeout: float) -> HttpResponse:
        """The answer, once its head is there and it is worth having. Raises `ConnectionFailed`.

        `timeout` is the longest silence. Whoever reads the answer sees its bytes once: after this, nothing is sent
        again.
        """
        client = self._client(url)
        attempt = 0
        while True:
            try:
                answer = await client.send("POST", url, headers, body, timeout=timeout)
            except ConnectionFailed as broken:
                wait = retry.after_break(broken, attempt, self._chance())
                if wait is None:
                    raise
            else:
                if answer.status == 200:
                    return answer
                wait = retry.after_answer(
                    answer.status, answer.headers, attempt, chance=self._chance(), now=self._clock()
                )
                if wait is None:
                    return answer
                answer.close()
            await self._sleep(wait)
            attempt += 1

    async def upload(
        self, url: str, headers: Mapping[str, str], chunks: AsyncIterator[bytes], *, size: int, timeout: float
    ) -> HttpResponse:
        """The answer to a POST of `size` bytes that are never all in memory, sent once. Raises `ConnectionFailed`."""
        told = {**headers, "content-length": str(size)}
        return await self._remote().send("POST", url, told, chunks, timeout=timeout)

    async def open(self, url: str, headers: Mapping[str, str], *, timeout: float) -> HttpResponse:
        """The answer to a GET, asked for once, when its head is there. Raises `ConnectionFailed`."""
        return await self._client(url).send("GET", url, headers, b"", timeout=timeout)

    async def get(self, url: str, headers: Mapping[str, str], *, timeout: float) -> tuple[int, bytes]:
        """The status and the whole body, asked for once. Raises `ConnectionFailed`."""
        answer = await self.open(url, headers, timeout=timeout)
        return answer.status, await whole(answer)

    async def close(self) -> None:
        await self._near.close()
        if self._far:
            await self._far.close()

    def _client(self, url: str) -> Client:
        origin = origin_of(url)
        client = self._clients.get(origin)
        if client is None:
            client = self._clients[origin] = self._near if on_this_machine(url) else self._remote()
        return client

    def _remote(self) -> RemoteClient:
        if self._far is None:
            from belljar.gateway.upstream.remote import RemoteClient  # a quarter of a second, and not everybody's

            self._far = RemoteClient()
        return self._far


async def whole(answer: HttpResponse, limit: int = 16 << 20) -> bytes:
    """What is left of the body, cut off at a limit."""
    pieces, size = [], 0
    try:
        while size < limit and (piece := await answer.read()):
            pieces.append(piece)
            size += len(piece)
    finally:
        answer.close()
    return b"".join(pieces)[:limit]
