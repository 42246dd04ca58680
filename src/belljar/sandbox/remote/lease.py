"""The lease of a remote sandbox: a response that stays open while the sandbox lives, and requests under it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

import aiohttp

from belljar.errors import BelljarError, Fenced, Lost
from belljar.sandbox import codec
from belljar.sandbox.cancellation import wait_to_end
from belljar.sandbox.codec import Told
from belljar.sandbox.remote.http_client import NotReached, SandboxServerClient, ServerConnectionFailed, read

T = TypeVar("T")

_END = 10.0
"""Seconds that a server has to end a sandbox before its lease is dropped, which ends it too."""


class Lease:
    """One sandbox of a server. `ended` tells why it is gone, once it is."""

    def __init__(self, door: SandboxServerClient, id: str, answer: aiohttp.ClientResponse, epoch: int | None) -> None:
        self.id = id
        self.epoch = epoch
        """Under which it is held; None where nobody else can have it."""
        self.ended: str | None = None
        self.word = 0.0
        """Seconds to wait for `lose` when the connection breaks: whoever watches over the machine knows why."""
        self.url = door.url
        self._answer = answer
        self._fenced = self._detached = False
        self._headers = {} if epoch is None else {codec.EPOCH: str(epoch)}
        self._door = door
        self._path = f"/v1/sandboxes/{id}"
        self._waits: set[asyncio.Timeout] = set()
        self._answers: set[aiohttp.ClientResponse] = set()
        self._lost = asyncio.Event()

    def check(self) -> None:
        if self._fenced:
            raise Fenced(f"the sandbox {self.id} is another's now: {self.ended}")
        if self.ended is not None:
            raise Lost(f"the sandbox is gone: {self.ended}; make a new one")

    @property
    def passed_on(self) -> bool:
        """It is another's, or left to whoever comes: nobody here has a say in how it ends."""
        return self._fenced or self._detached

    async def watch(self, lines: AsyncGenerator[Told, None]) -> None:
        """Wait for the end."""
        why = f"the sandbox server at {self.url} ended"
        try:
            async for told in lines:
                if "ended" in told:
                    why = str(told["ended"])
                    self._fenced = told.get("code") == Fenced.code
        except (ServerConnectionFailed, Lost) as error:
            why = f"the sandbox server at {self.url} does not answer any more: {error}"
        self.ended = self.ended or why
        for wait in self._waits:
            wait.reschedule(0)

    def lose(self, why: str) -> None:
        """Somebody knows that the sandbox is gone, and why: all that waits for its server is told so."""
        self.ended = why
        self._lost.set()
        for wait in self._waits:
            wait.reschedule(0)
        for answer in self._answers:
            answer.close()

    async def explain(self, why: str) -> str:
        """Why a connection broke: what `lose` has been told, or is told now, else this."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.word):
                await self._lost.wait()
        return (self._lost.is_set() and self.ended) or why

    async def end(self) -> None:
        """Have the server end the sandbox, if it still can."""
        if self.ended is None:
            self.ended = "it was closed"
            await settle(self._door.tell("DELETE", self._path, headers=self._headers), _END)

    def detach(self) -> None:
        """Leave it to whoever attaches to it."""
        self.check()
        self.ended, self._detached = "it was detached", True
        self._answer.close()

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
                headers = {**self._headers, **(headers or {})}
                asked = self._door.ask(method, self._path + path, told, data=data, headers=headers, prompt=prompt)
                answer = await self._while_held(stack.enter_async_context(asked))
                self._answers.add(answer)
                stack.callback(self._answers.discard, answer)
                yield answer
        except (NotReached, ServerConnectionFailed) as error:
            loss = self._door.loss(error)
            if await self.explain(""):
                self.check()
            raise loss from None

    async def _while_held(self, asked: Awaitable[T]) -> T:
        """A server that does not answer at all must not be waited for when its lease has ended."""
        try:
            async with asyncio.timeout(None) as wait:
                self._waits.add(wait)
                try:
                    return await asked
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
    await wait_to_end(task)
    failed = task.exception()
    if failed is not None and not isinstance(failed, BelljarError | NotReached | ServerConnectionFailed | TimeoutError):
        raise failed
