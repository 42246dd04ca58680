"""The lease of a remote sandbox: a response that stays open while the sandbox lives, and requests under it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp

from belljar.errors import BelljarError, Lost
from belljar.sandbox.codec import Told
from belljar.sandbox.remote.http_client import NotReached, SandboxServerClient, ServerConnectionFailed, read

_END = 10.0
"""Seconds that a server has to end a sandbox before its lease is dropped, which ends it too."""


class Lease:
    """One sandbox of a server. `ended` tells why it is gone, once it is."""

    def __init__(self, door: SandboxServerClient, id: str) -> None:
        self.id = id
        self.ended: str | None = None
        self.url = door.url
        self._door = door
        self._path = f"/v1/sandboxes/{id}"
        self._waits: set[asyncio.Timeout] = set()

    def check(self) -> None:
        if self.ended is not None:
            raise Lost(f"the sandbox is gone: {self.ended}; make a new one")

    async def watch(self, lines: AsyncGenerator[Told, None]) -> None:
        """Wait for the end."""
        why = f"the sandbox server at {self.url} ended"
        try:
            async for told in lines:
                if "ended" in told:
                    why = str(told["ended"])
        except (ServerConnectionFailed, Lost) as error:
            why = f"the sandbox server at {self.url} does not answer any more: {error}"
        self.ended = self.ended or why
        for wait in self._waits:
            wait.reschedule(0)

    async def end(self) -> None:
        """Have the server end the sandbox, if it still can."""
        if self.ended is None:
            self.ended = "it was closed"
            await settle(self._door.tell("DELETE", self._path), _END)

    @asynccontextmanager
    async def ask(
        self,
        method: str,
        path: str,
        told: Mapping[str, object] | None = None,
        *,
        data: bytes | AsyncIterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        prompt: bool = True,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """`SandboxServerClient.ask` of this sandbox; `Lost` where there is no answer."""
        self.check()
        try:
            async with AsyncExitStack() as stack:
                asked = self._door.ask(method, self._path + path, told, data=data, headers=headers, prompt=prompt)
                async with self._while_held():
                    answer = await stack.enter_async_context(asked)
                yield answer
        except (NotReached, ServerConnectionFailed) as error:
            raise self._door.loss(error) from None

    @asynccontextmanager
    async def _while_held(self) -> AsyncIterator[None]:
        """A server that does not answer at all must not be waited for when its lease has ended."""
        try:
            async with asyncio.timeout(None) as wait:
                self._waits.add(wait)
                try:
                    yield
                finally:
                    self._waits.discard(wait)
        except TimeoutError:
            self.check()
            raise

    async def tell(
        self, method: str, path: str, told: Mapping[str, object] | None = None, *, prompt: bool = True
    ) -> Told:
        """The same, for an answer that is one object, or none."""
        async with self.ask(method, path, told, prompt=prompt) as answer:
            return await read(answer)


async def settle(act: Coroutine[object, object, object], seconds: float) -> None:
    """Do it to its end, cancelled meanwhile or not, but no longer than this; whether it works is nobody's concern."""
    task = asyncio.ensure_future(asyncio.wait_for(act, seconds))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    failed = task.exception()
    if cancelled is not None:
        raise cancelled
    if failed is not None and not isinstance(failed, BelljarError | NotReached | ServerConnectionFailed | TimeoutError):
        raise failed
