"""A sandbox of a server that has `POST /execute` and `GET /health` alone: each cell is one request, and nothing stays.

The files are held here and sent along (`execute_workspace`); variables are gone after each cell. A request is sent
once, and again only where it was refused since the server was full.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

from belljar.errors import Lost, NoneFree, Refused, TooLarge
from belljar.sandbox import explain
from belljar.sandbox.base import Cell, SandboxHandle, Spec
from belljar.sandbox.cancellation import wait_to_end
from belljar.sandbox.outputs import Output, Stderr, Stdout
from belljar.sandbox.remote import execute_codec
from belljar.sandbox.remote.execute_codec import Executed, Garbled
from belljar.sandbox.remote.execute_workspace import HeldWorkspace
from belljar.sandbox.remote.http_client import NotReached, SandboxServerClient, ServerConnectionFailed
from belljar.sandbox.server.execute import LARGEST_WORKSPACE
from belljar.sandbox.validation import make_packages, make_requirements

_PAUSES = (0.05, 1.0)
"""Seconds before the second try at a server that is full, and at most before any other."""
_MARGIN = 30.0
"""Seconds beyond the time of its code after which a server has forgotten us."""
_FETCHING = 300.0
"""Seconds more, where there are packages to fetch."""


class ExecuteSandbox:
    """Cells run one at a time, in the order they came."""

    def __init__(self, door: SandboxServerClient, spec: Spec, *, wait: float) -> None:
        """`wait` is how many seconds a cell waits where the server is full."""
        make_packages(spec.packages)
        self.id = f"ex_{secrets.token_hex(12)}"
        self._door = door
        self._limits = spec.limits
        self._requirements: tuple[str, ...] = ()
        self._wait = wait
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._running: asyncio.Task[Executed] | None = None
        self._ended: str | None = None
        self.files = HeldWorkspace(min(spec.limits.disk, LARGEST_WORKSPACE), self._check)

    def _check(self) -> None:
        if self._ended is not None:
            raise Lost(f"the sandbox is gone: {self._ended}; make a new one")

    @property
    def alive(self) -> bool:
        return self._ended is None

    @property
    def handle(self) -> SandboxHandle | None:
        return None

    async def detach(self) -> SandboxHandle:
        raise Refused(f"detach: the sandbox server at {self._door.url} keeps no sandboxes; let it end")

    def end(self) -> None:
        """A cell that runs is left to its server."""
        self._ended = "it was closed"
        if self._running is not None:
            self._running.cancel()

    # -- cells ----------------------------------------------------------------------------------------------------

    async def run(self, cell: Cell) -> AsyncGenerator[Output, None]:
        """All outputs at once, when it has ended: text, then what was shown, then the files."""
        async with self._turn:
            self._check()
            started = time.monotonic()
            sent = self.files.snapshot()
            asking = self._running = self._loop.create_task(self._execute(cell, sent))
            try:
                await asyncio.wait({asking})
            finally:
                self._running = None
                asking.cancel()
                await wait_to_end(asking)
            took = time.monotonic() - started
            if asking.cancelled():
                yield self._explain_cancellation(took)
                return
            try:
                ran = asking.result()
            except (ServerConnectionFailed, Garbled) as error:
                yield explain.loss(f"the sandbox server at {self._door.url}: {error}", seconds=took)
                return
            for output in self._outputs(ran, sent):
                yield output

    def _explain_cancellation(self, took: float) -> Output:
        if self._ended is not None:
            return explain.loss(self._ended, seconds=took)
        return explain.interrupt(kept=False, error=None, seconds=took)

    def _outputs(self, ran: Executed, sent: Mapping[str, bytes]) -> Iterator[Output]:
        most = self._limits.output
        if stdout := ran.stdout[:most]:
            yield Stdout(stdout)
        if stderr := ran.stderr[: most - len(stdout)]:
            yield Stderr(stderr)
        if (total := len(ran.stdout) + len(ran.stderr)) > most:
            yield Stderr(f"\n[output cut at {explain.size(most)} of {explain.size(total)}]\n")
        yield from ran.shown
        if ran.result is not None:
            yield ran.result
        yield from self.files.merge(sent, ran.files, ran.gone)
        yield ran.exit

    def interrupt(self) -> None:
        running = self._running
        if running is not None:
            self._loop.call_soon_threadsafe(running.cancel)

    async def restart(self) -> None:
        """Every cell has a new interpreter."""
        async with self._turn:
            self._check()

    async def install(self, requirements: Sequence[str]) -> None:
        """Whether they can be had is seen by asking for them once; from then on they are asked for with each cell."""
        asked = make_requirements(requirements)
        async with self._turn:
            self._check()
            more = tuple(one for one in asked if one not in self._requirements)
            if not more:
                return
            wanted = (*self._requirements, *more)
            try:
                body = execute_codec.encode_plain("pass", execute_codec.whole_seconds(self._limits.timeout), wanted)
                self._read(await self._post(body, _MARGIN + _FETCHING), prefix="", seconds=0)
            except (ServerConnectionFailed, Garbled) as error:
                raise Lost(f"the sandbox server at {self._door.url}: {error}") from None
            self._requirements = wanted

    async def _execute(self, cell: Cell, sent: Mapping[str, bytes]) -> Executed:
        seconds = execute_codec.whole_seconds(self._limits.timeout if cell.timeout is None else cell.timeout)
        prefix = f"belljar-{secrets.token_hex(8)}-"
        body = await asyncio.to_thread(
            execute_codec.encode_execution,
            cell.code,
            prefix=prefix,
            seconds=seconds,
            requirements=self._requirements,
            files=sent,
        )
        answer = await self._post(body, seconds + _MARGIN + (_FETCHING if self._requirements else 0.0))
        return await asyncio.to_thread(self._read, answer, prefix=prefix, seconds=seconds)

    def _read(self, answer: bytes, *, prefix: str, seconds: int) -> Executed:
        ran = execute_codec.decode_answer(answer, prefix=prefix, seconds=seconds, limits=self._limits)
        missing = execute_codec.missing_packages(ran)
        if missing is not None:
            raise Refused(missing if missing.startswith("requirements") else f"requirements: {missing}")
        return ran

    async def _post(self, body: bytes, patience: float) -> bytes:
        """The answer, once the server has room. `NoneFree` if it has none for too long, `Refused` with its reason."""
        begun = self._loop.time()
        pause, longest = _PAUSES
        while True:
            try:
                async with asyncio.timeout(patience):
                    status, answer = await self._door.execute(body, execute_codec.LARGEST_ANSWER)
            except NotReached as error:
                raise self._door.refusal(error) from None
            except TimeoutError:
                raise ServerConnectionFailed(f"no answer came within {patience:g} s") from None
            if status == 200:
                return answer
            said = execute_codec.read_error(answer)
            if status != 429:
                raise self._refusal(status, said)
            if self._loop.time() + pause - begun > self._wait:
                raise NoneFree(f"the sandbox server at {self._door.url} is full: {said or status}; try again later")
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    def _refusal(self, status: int, said: str | None) -> Exception:
        """What was not run; without a word of such a server nobody knows whether it was."""
        if said is None:
            return ServerConnectionFailed(f"it answered with {status}")
        told = f"the sandbox server at {self._door.url} refuses the code ({status}): {said}"
        return TooLarge(told) if status == 413 else Refused(told)
