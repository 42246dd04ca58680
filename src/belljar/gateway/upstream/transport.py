"""One way to send bytes to a model's server: the client that suits the address, and another try where that helps."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from belljar.errors import BelljarError, Loading, Unreachable
from belljar.gateway.upstream.http_response import Client, ConnectionFailed, HttpResponse
from belljar.gateway.upstream.loopback import LoopbackClient
from belljar.gateway.upstream.origins import origin_of
from belljar.net import is_on_this_machine
from belljar.vendors.retry import RetryLimits, choose_pause

if TYPE_CHECKING:
    from belljar.gateway.upstream.remote import RemoteClient

Meaning: TypeAlias = Callable[[int, Mapping[str, str], bytes], Exception]
"""The error that an answer other than 200 means: status, headers, and the beginning of the body."""
_LIMITS = RetryLimits()
_GOOD = frozenset([200, 201])
_FAULT_BYTES = 64 * 1024


class Transport:
    """Keeps connections of one event loop; made once for a process."""

    def __init__(
        self,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._sleep = sleep
        self._chance = chance
        self._near = LoopbackClient()
        self._far: RemoteClient | None = None
        self._clients: dict[str, Client] = {}

    def prepare(self, url: str) -> None:
        """Load what this address needs, so that the first request does not have to."""
        self._client(url)

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, timeout: float, meaning: Meaning
    ) -> HttpResponse:
        """The answer, once its head is there and says that it is one. Raises what it means otherwise at the last try.

        `timeout` is the longest silence. Whoever reads the answer sees its bytes once: after this, nothing is sent
        again. Raises `ConnectionFailed`.
        """
        client = self._client(url)
        tries, waited = 0, 0.0
        while True:
            tries += 1
            try:
                answer = await client.send("POST", url, headers, body, timeout=timeout)
                if answer.status in _GOOD:
                    return answer
                error = meaning(answer.status, answer.headers, await read_whole(answer, _FAULT_BYTES))
                pause = self._pause(error, tries, waited)
            except ConnectionFailed as broken:
                error, pause = broken, self._pause_after_break(broken, tries, waited)
            if pause is None:
                raise error
            await self._sleep(pause)
            waited += pause

    def _pause(self, error: Exception, tries: int, waited: float) -> float | None:
        """A model that is being loaded is told of at once: whoever asked can show it, and learns when to come again."""
        if not isinstance(error, BelljarError) or isinstance(error, Loading):
            return None
        return choose_pause(error, tries, waited, _LIMITS, chance=self._chance())

    def _pause_after_break(self, broken: ConnectionFailed, tries: int, waited: float) -> float | None:
        """Only where nothing of an answer had come: after a silence or half an answer, whoever asked us decides."""
        if broken.dropped and tries == 1:
            return 0.0
        meant = Unreachable(str(broken))
        meant.again = broken.resend
        return self._pause(meant, tries, waited)

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
        return answer.status, await read_whole(answer)

    async def close(self) -> None:
        await self._near.close()
        if self._far:
            await self._far.close()

    def _client(self, url: str) -> Client:
        origin = origin_of(url)
        client = self._clients.get(origin)
        if client is None:
            client = self._clients[origin] = self._near if is_on_this_machine(url) else self._remote()
        return client

    def _remote(self) -> RemoteClient:
        if self._far is None:
            from belljar.gateway.upstream.remote import RemoteClient  # a quarter of a second, and not everybody's

            self._far = RemoteClient()
        return self._far


async def read_whole(answer: HttpResponse, limit: int = 16 << 20) -> bytes:
    """What is left of the body, cut off at a limit."""
    pieces, size = [], 0
    try:
        while size < limit and (piece := await answer.read()):
            pieces.append(piece)
            size += len(piece)
    finally:
        answer.close()
    return b"".join(pieces)[:limit]
