"""`AsyncSandbox`: one sandbox, made on entering `async with` and gone on leaving."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from types import TracebackType
from typing import Self, Unpack

from belljar.errors import Lost
from belljar.sandbox.base import Limits, Sandbox, SandboxSource, Workspace
from belljar.sandbox.default import chosen_source
from belljar.sandbox.outputs import Exit, Output, Run, fold
from belljar.sandbox.remedies import Reader, address_to
from belljar.sandbox.validation import SandboxOptions, make_cell, make_spec


class AsyncSandbox:
    """A Python under glass.

    >>> async with AsyncSandbox(memory="1g") as box:          # doctest: +SKIP
    ...     await box.run("x = 41")
    ...     (await box.run("x + 1")).text
    '42'
    """

    def __init__(self, *, source: SandboxSource | str | None = None, **asked: Unpack[SandboxOptions]) -> None:
        """`source` is where it comes from: the address of a sandbox server, or a source that several share.

        Without, where the settings `sandbox_url` or `sandbox_warm_pool` say, else this host's own jail.
        """
        self.spec = make_spec(**asked)
        self._source = source
        self._context: AbstractAsyncContextManager[Sandbox] | None = None
        self._sandbox: Sandbox | None = None

    async def __aenter__(self) -> Self:
        self._context = self._acquire_sandbox()
        self._sandbox = await self._context.__aenter__()
        return self

    @asynccontextmanager
    async def _acquire_sandbox(self) -> AsyncIterator[Sandbox]:
        source, ours = chosen_source(self._source, needs="acquire")
        try:
            async with source.acquire(self.spec) as sandbox:
                yield sandbox
        finally:
            if ours:
                await source.close()

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
                yield address_to(output, Reader.PROGRAM) if isinstance(output, Exit) else output

    def interrupt(self) -> None:
        """Stop the running cell and keep the variables."""
        self._open.interrupt()

    async def restart(self) -> None:
        """A new interpreter with the same files."""
        await self._open.restart()

    async def install(self, requirements: Sequence[str]) -> None:
        """Make these packages importable from the next cell on; variables are kept."""
        await self._open.install(requirements)
