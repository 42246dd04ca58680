"""Sandboxes from a sandbox server: connect, acquire, release."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from urllib.parse import quote

import aiohttp

from belljar.errors import BadSettings, BelljarError, Lost, NoneFree, Refused
from belljar.sandbox import codec
from belljar.sandbox.base import MIB, Attached, Sandbox, SandboxHandle, Spec
from belljar.sandbox.codec import Terms, Told
from belljar.sandbox.packages import Installed
from belljar.sandbox.packages.stack import choose_stack
from belljar.sandbox.remote.blocking import LoopThread, RemoteBox
from belljar.sandbox.remote.execute_codec import LIST_PACKAGES, encode_plain
from belljar.sandbox.remote.execute_sandbox import ExecuteSandbox
from belljar.sandbox.remote.http_client import (
    START,
    NotReached,
    SandboxServerClient,
    ServerConnectionFailed,
    lines,
)
from belljar.sandbox.remote.lease import Lease
from belljar.sandbox.remote.sandbox import RemoteSandbox

_STATELESS = "unknown, and no variables stay (it has /execute alone)"
"""What is told of how code is kept apart by a server that does not say."""
_log = logging.getLogger("belljar.sandbox")

_PAUSES = (0.05, 1.0)
"""Seconds before the second try to connect, and at most before any other."""
_TERMS = 2
"""The version of the API that knows epochs, and to wait for a sandbox."""
_MAKING = 60.0
"""Seconds after which a server that is well has forgotten us, unless there are packages to fetch."""


class RemoteSource:
    """Gives sandboxes of the server at `url`: http://, https:// or unix:///path.

    In asyncio it belongs to one event loop. `hold` is for threads, of which any number may use it.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        patience: float = 30.0,
        keep: float = codec.USUAL_KEEP,
        remedy: str = START,
        place: str | None = None,
        reach: float | None = None,
    ) -> None:
        """`patience` is how many seconds a sandbox may wait for a server that is not there yet, or does not answer.

        `keep` is how many seconds one that has a handle lives without us, `remedy` what to do where there is no server,
        if that is not to start one, `place` by what handles name it, if that is not its address;
        `reach` is how many seconds of the patience are for one that is not there.
        """
        self.url = url
        self.place = place or url.rstrip("/")
        self.packages: tuple[Installed, ...] = ()
        """The exact list of the data stack, once `prepare` has been answered."""
        self.spare = 0
        """Sandboxes that were ready and nobody's yet when the server was last looked at."""
        self.isolation: str | None = None
        """What keeps code apart there, in its own words; None before it has been asked."""
        self._door = SandboxServerClient(url, token, remedy)
        self._token, self._patience, self._keep, self._remedy = token, patience, keep, remedy
        self._reach = patience if reach is None else reach
        self._starting = False
        self._listed = False
        """A server that has `/execute` alone was asked for its packages."""

    @property
    def stateless(self) -> bool:
        """Whether the server keeps nothing from cell to cell, as far as it was looked at: it has `/execute` alone."""
        return self._door.executes_only

    async def prepare(self) -> None:
        """Look at the server once, and learn what it has; as `look`, and `BadSettings` if it wants another token."""
        await self.look()
        if self.stateless:
            return await self._list_packages()
        try:
            listed = await self._door.tell("GET", "/v1/packages")
        except (NotReached, ServerConnectionFailed) as error:
            raise self._door.refusal(error) from None
        match listed:
            case {"packages": list(packages)}:
                self.packages = tuple(codec.decode_package(one) for one in packages)

    async def _list_packages(self) -> None:
        """Of the data stack, by the server's own Python, which is asked once. Where it is full, the next time."""
        if self._listed:
            return
        try:
            status, body = await self._door.execute(encode_plain(LIST_PACKAGES, 30), MIB)
            if status == 200:
                self._listed = True
                found = json.loads(json.loads(body)["stdout"])
                self.packages = choose_stack(Installed(str(name), str(version)) for name, version in found)
        except (NotReached, ServerConnectionFailed) as error:
            raise self._door.refusal(error) from None
        except (KeyError, TypeError, ValueError):
            _log.warning("the sandbox server at %s does not tell which packages it has", self.url)

    async def look(self) -> Told:
        """What the server says of itself.

        `Refused` while it does not answer or is not ready, `BadSettings` if that will not change by itself: it is no
        sandbox server, or not of this version.
        """
        told = await self._door.look()
        self.isolation = _STATELESS if self.stateless else str(told.get("isolation", "unknown"))
        self._starting = told.get("status") == "starting"
        spare = told.get("spare")
        self.spare = spare if isinstance(spare, int) else 0
        if told.get("status") != "healthy":
            why = f"{told.get('status')}: {told['error']}" if told.get("error") else told.get("status")
            raise Refused(f"the sandbox server at {self.url} is not ready: {why}")
        return told

    def hold(self, spec: Spec) -> RemoteBox:
        """A sandbox for callers without await, with a connection and a thread of its own."""
        return RemoteBox(self._again, spec)

    def learn(self) -> None:
        """`prepare` for callers without await, who wait for one that is starting, and some patience long for others."""

        async def ask() -> RemoteSource:
            other = self._again()
            try:
                await other._prepare_soon()
            finally:
                await other.close()
            return other

        with closing(LoopThread()) as loop:
            other = loop.run(ask())
        self.packages, self.spare, self.isolation = other.packages, other.spare, other.isolation
        self._door.executes_only = other.stateless

    async def _prepare_soon(self) -> None:
        begun = time.monotonic()
        while True:
            try:
                return await self.prepare()
            except Refused:
                if time.monotonic() - begun > (_MAKING if self._starting else self._patience):
                    raise
            await asyncio.sleep(_PAUSES[0])

    def _again(self) -> RemoteSource:
        """The same for another event loop."""
        return RemoteSource(
            self.url, token=self._token, patience=self._patience, keep=self._keep, remedy=self._remedy, place=self.place
        )

    def shut(self) -> None:
        """Nothing is left of what `hold` gave."""

    @asynccontextmanager
    async def acquire(
        self, spec: Spec, *, epoch: int | None = None, wait: float = 0.0, container: str | None = None
    ) -> AsyncIterator[Sandbox]:
        """A sandbox for as long as the context lasts. Which kind of server there is, is seen anew where it matters."""
        async with AsyncExitStack() as stack:
            yield await self._acquire(stack, spec, epoch, wait)

    async def _acquire(self, stack: AsyncExitStack, spec: Spec, epoch: int | None, wait: float) -> Sandbox:
        told = await self._look_soon() if self.stateless else None
        if not self.stateless:
            try:
                return await stack.enter_async_context(self.lease(spec, epoch=epoch, wait=wait))
            except BadSettings:  # it may have no `/v1` at all
                await self._door.look()
                if not self._door.executes_only:
                    raise
                told = await self.look()
        assert told is not None, "it was looked at"
        await self._wait_for_room(told, wait)
        sandbox = ExecuteSandbox(self._door, spec, wait=wait)
        stack.callback(sandbox.end)
        if spec.requirements:
            await sandbox.install(spec.requirements)
        return sandbox

    async def _look_soon(self) -> Told:
        """As `look`; one that is not there is looked for some patience long."""
        begun = time.monotonic()
        pause, longest = _PAUSES
        while True:
            try:
                return await self.look()
            except Refused:
                if time.monotonic() + pause - begun > self._reach:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _wait_for_room(self, told: Told, wait: float) -> None:
        """Until a server that keeps no queue runs less than it can."""
        begun = time.monotonic()
        while True:
            most, load = told.get("capacity"), told.get("current_load")
            if not isinstance(most, int) or not isinstance(load, int) or load < most:
                return
            if time.monotonic() + _PAUSES[0] - begun > wait:
                raise NoneFree(f"the sandbox server at {self.url} runs {load} of {most} at once; wait", most=most)
            await asyncio.sleep(_PAUSES[0])
            told = await self.look()

    @asynccontextmanager
    async def lease(self, spec: Spec, *, epoch: int | None = None, wait: float = 0.0) -> AsyncIterator[RemoteSandbox]:
        """A sandbox that the server keeps."""
        async with AsyncExitStack() as stack:
            terms = Terms(epoch, self._keep, wait)
            try:
                async with self._watch_silence(spec, wait):
                    answer, terms = await self._open(stack, spec, terms)
                    heard, first = await _begin(stack, answer)
            except (NotReached, ServerConnectionFailed) as error:
                raise self._door.refusal(error) from None
            id = first.get("id")
            if not isinstance(id, str):
                raise Refused(f"the sandbox server at {self.url} gave no sandbox; is it a belljar of this version?")
            lease = Lease(self._door, id, answer, terms.epoch)
            async with _watched(lease, heard):
                yield RemoteSandbox(lease, spec.limits, self.place)

    @asynccontextmanager
    async def attach(self, handle: SandboxHandle, epoch: int) -> AsyncIterator[Attached]:
        """A sandbox that another had, for as long as the context lasts."""
        if self.stateless:
            raise Lost(f"the sandbox server at {self.url} keeps no sandboxes; make a new one")
        if handle.url != self.place:
            raise Lost(f"the sandbox {handle.id} is of the server at {handle.url}, not of {self.place}; make a new one")
        terms = Terms(epoch, self._keep)
        path = f"/v1/sandboxes/{quote(handle.id, safe='')}/attach"
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._patience):
                    asked = self._door.ask("POST", path, codec.encode_terms(terms), prompt=False)
                    answer = await stack.enter_async_context(asked)
                    heard, first = await _begin(stack, answer)
            except (NotReached, ServerConnectionFailed) as error:
                raise self._door.loss(error) from None
            except TimeoutError:
                raise self._door.loss(ServerConnectionFailed(f"no word within {self._patience:g} s")) from None
            found = codec.decode_state(first)
            lease = Lease(self._door, handle.id, answer, epoch)
            async with _watched(lease, heard):
                sandbox = RemoteSandbox(lease, found.limits, self.place)
                yield Attached(sandbox, found.cells, found.interpreter, found.files)

    @asynccontextmanager
    async def _watch_silence(self, spec: Spec, waiting: float) -> AsyncIterator[None]:
        """Give up on a server that has fallen silent, or never said a word."""
        try:
            async with asyncio.timeout(None) as wait:
                watching = asyncio.create_task(self._watch(spec, wait, waiting))
                try:
                    yield
                finally:
                    watching.cancel()
                    await asyncio.wait({watching})
        except TimeoutError:
            if not wait.expired():
                raise
            raise Refused(
                f"the sandbox server at {self.url} does not answer: no sandbox came within {self._patience:g} s; "
                "see what its log says and start it again, or wait longer (claim_timeout)"
            ) from None

    async def _watch(self, spec: Spec, wait: asyncio.Timeout, waiting: float) -> None:
        """End the wait when the server does not answer beside it. One that starts or fetches packages may take long."""
        well = 0.0
        with contextlib.suppress(BelljarError):
            while well < _MAKING + waiting:
                await asyncio.sleep(self._patience)
                told = await self._door.look()
                if told.get("status") == "healthy" and not spec.requirements:
                    well += self._patience
        wait.reschedule(0)

    async def _open(self, stack: AsyncExitStack, spec: Spec, terms: Terms) -> tuple[aiohttp.ClientResponse, Terms]:
        """The lease, and on which terms. Asked for again only where nobody was there to hear it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._reach
        pause, longest = _PAUSES
        while True:
            try:
                terms = await self._settle_terms(terms)
                told = {**codec.encode_spec(spec), **codec.encode_terms(terms)}
                asked = self._door.ask("POST", "/v1/sandboxes", told, prompt=False)
                return await stack.enter_async_context(asked), terms
            except NotReached:
                if loop.time() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _settle_terms(self, terms: Terms) -> Terms:
        """As far as the server knows such."""
        if terms.epoch is None and not terms.wait:
            return terms
        if self._door.api is None:
            await self._door.look_once()
        return terms if self._door.api is not None and self._door.api >= _TERMS else Terms()

    async def close(self) -> None:
        await self._door.close()


async def _begin(stack: AsyncExitStack, answer: aiohttp.ClientResponse) -> tuple[AsyncGenerator[Told, None], Told]:
    """The lines of a lease, and the first of them."""
    heard = lines(answer)
    stack.push_async_callback(heard.aclose)
    return heard, await anext(heard, {})


@asynccontextmanager
async def _watched(lease: Lease, heard: AsyncGenerator[Told, None]) -> AsyncIterator[None]:
    """While it is held; ends it, unless it was detached or ended before."""
    watching = asyncio.create_task(lease.watch(heard))
    try:
        yield
    finally:
        try:
            await lease.end()
        finally:
            watching.cancel()
            await asyncio.wait({watching})
