"""A remote sandbox for asyncio: the interface of `base.py` over a lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from belljar.errors import BelljarError, Refused
from belljar.sandbox import codec, explain
from belljar.sandbox.base import Cell, Limits, SandboxHandle
from belljar.sandbox.outputs import Exit, Output
from belljar.sandbox.remote.http_client import ServerConnectionFailed, lines
from belljar.sandbox.remote.lease import Lease, settle
from belljar.sandbox.remote.workspace import RemoteWorkspace
from belljar.sandbox.validation import make_requirements

_PATIENCE = 10.0
"""Seconds beyond its grace that an interrupted cell has to end before the next one is sent."""


class RemoteSandbox:
    """Cells run one at a time, in the order they came."""

    def __init__(self, lease: Lease, limits: Limits, place: str) -> None:
        """`place` is by what its handle names the server."""
        self._lease = lease
        self._place = place
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._running: asyncio.Event | None = None
        """Of the cell that has the turn: set once the server has begun it."""
        self._interrupts: set[asyncio.Task[None]] = set()
        self.files = RemoteWorkspace(lease)

    @property
    def id(self) -> str:
        return self._lease.id

    @property
    def alive(self) -> bool:
        return self._lease.ended is None

    @property
    def handle(self) -> SandboxHandle | None:
        return None if self._lease.epoch is None else SandboxHandle(self._place, self._lease.id)

    @property
    def passed_on(self) -> bool:
        """It was detached, or another has taken it over."""
        return self._lease.passed_on

    async def detach(self) -> SandboxHandle:
        handle = self.handle
        if handle is None:
            raise Refused("detach: the sandbox was made without an epoch, or by a server that keeps none; let it end")
        async with self._turn:
            self._lease.detach()
        return handle

    def watched(self, *, word: float) -> Callable[[str], None]:
        """Somebody watches over the machine: what to call with the reason when the sandbox is gone.

        Whatever runs or waits is ended then. A connection that breaks waits `word` seconds for that reason.
        """
        self._lease.word = word
        return self._lease.lose

    async def run(self, cell: Cell) -> AsyncGenerator[Output, None]:
        async with self._turn:
            running = self._running = asyncio.Event()
            started, finished = time.monotonic(), False
            try:
                async with self._lease.ask("POST", "/cells", codec.encode_cell(cell), prompt=False) as answer:
                    running.set()
                    async with aclosing(lines(answer)) as told:
                        try:
                            async for one in told:
                                if isinstance(fault := one.get("error"), dict) and one.get("type") == "error":
                                    raise codec.decode_error(fault)
                                output = codec.decode_output(one)
                                finished = isinstance(output, Exit)
                                yield output
                            why = "it ended in the middle of the cell"
                        except ServerConnectionFailed as error:
                            why = f"it does not answer any more: {error}"
                    if not finished:
                        finished = True
                        why = await self._lease.explain(f"the sandbox server at {self._lease.url}: {why}")
                        yield explain.loss(why, seconds=time.monotonic() - started)
            except BelljarError:
                finished = True
                raise
            finally:
                self._running = None
                running.set()
                if not finished:
                    # Whoever listened has gone. The answer is closed, so the server interrupts the cell; what it
                    # changes until it ends is there for whoever looks next.
                    await settle(self._wait_for_turn(), self._limits.grace + _PATIENCE)
                if self._interrupts:  # that came too late must not meet the next cell
                    await asyncio.wait(self._interrupts)

    async def _wait_for_turn(self) -> None:
        """Installing nothing takes its turn like everything else."""
        await self._lease.tell("POST", "/packages", {"requirements": []}, prompt=False)

    def interrupt(self) -> None:
        running = self._running
        if running is not None:
            self._loop.call_soon_threadsafe(self._interrupt, running)

    def _interrupt(self, running: asyncio.Event) -> None:
        task = self._loop.create_task(settle(self._interrupt_when_running(running), _PATIENCE))
        self._interrupts.add(task)
        task.add_done_callback(self._interrupts.discard)

    async def _interrupt_when_running(self, running: asyncio.Event) -> None:
        await running.wait()
        if self._running is running:
            await self._lease.tell("POST", "/interrupt")

    async def restart(self) -> None:
        async with self._turn:
            await self._lease.tell("POST", "/restart", prompt=False)

    async def install(self, requirements: Sequence[str]) -> None:
        asked = {"requirements": list(make_requirements(requirements))}
        async with self._turn:
            await self._lease.tell("POST", "/packages", asked, prompt=False)
