"""`AsyncSandbox`: one sandbox, made when entered, gone when left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from types import TracebackType
from typing import Self, Unpack

from belljar.errors import Lost
from belljar.sandbox.asking import Asked, make_cell, make_spec
from belljar.sandbox.base import Limits, Sandbox, SandboxSource, Workspace
from belljar.sandbox.default import default_source
from belljar.sandbox.outputs import Output, Run, fold


class AsyncSandbox:
    """A Python under glass.

    >>> async with AsyncSandbox(memory="1g") as box:          # doctest: +SKIP
    ...     await box.run("x = 41")
    ...     (await box.run("x + 1")).text
    '42'
    """

    def __init__(self, *, source: SandboxSource | None = None, **asked: Unpack[Asked]) -> None:
        self.spec = make_spec(**asked)
        self._source = source
        self._context: AbstractAsyncContextManager[Sandbox] | None = None
        self._sandbox: Sandbox | None = None

    async def __aenter__(self) -> Self:
        source = self._source or default_source()
        self._context = source.acquire(self.spec)
        self._sandbox = await self._context.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        context, self._context, self._sandbox = self._context, None, None
        if context is not None:
            await context.__aexit__(kind, error, trace)

    @property
    def _open(self) -> Sandbox:
        if self._sandbox is None:
            raise Lost("the sandbox is not open; use it inside `async with AsyncSandbox() as box:`")
        return self._sandbox

    @property
    def id(self) -> str:
        return self._open.id

    @property
    def limits(self) -> Limits:
        return self.spec.limits

    @property
    def files(self) -> Workspace:
        return self._open.files

    async def run(self, code: str, *, timeout: float | None = None) -> Run:
        """Run a cell to its end."""
        return fold([output async for output in self.stream(code, timeout=timeout)])

    async def stream(self, code: str, *, timeout: float | None = None) -> AsyncIterator[Output]:
        """Outputs as they come; leaving early stops the cell."""
        async with aclosing(self._open.run(make_cell(code, timeout))) as outputs:
            async for output in outputs:
                yield output

    def interrupt(self) -> None:
        """Stop the running cell and keep the variables."""
        self._open.interrupt()

    async def restart(self) -> None:
        """A new interpreter with the same files."""
        await self._open.restart()

    async def install(self, requirements: Sequence[str]) -> None:
        """Make these packages importable from the next cell on; variables are kept."""
        await self._open.install(requirements)
