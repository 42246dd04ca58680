"""`AsyncSandbox`: one sandbox, made when entered, gone when left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from types import TracebackType
from typing import Self

from belljar.config import Wrong, size
from belljar.errors import InvalidRequest, Lost
from belljar.sandbox.base import MIB, TIERS, Cell, Limits, Sandbox, SandboxSource, Spec, Workspace
from belljar.sandbox.default import default_source
from belljar.sandbox.outputs import Output, Run, fold


def parse_size(value: int | str, *, name: str) -> int:
    """Bytes, from a number or text such as "512m" or "4g"."""
    try:
        return size(value)
    except Wrong as error:
        raise InvalidRequest(f"{name}: {value!r} is not {error}", param=name) from None


def make_spec(
    *,
    memory: int | str = "1g",
    packages: str = "data",
    requirements: Sequence[str] = (),
    timeout: float | None = 60.0,
    cpus: float | None = None,
    cpu_time: float | None = None,
    disk: int | str | None = None,
    processes: int = 256,
    output: int | str = MIB,
) -> Spec:
    """Validate what a caller asks for. Memory below 64 MiB would not let the interpreter breathe."""
    memory_bytes = TIERS.get(memory, 0) if isinstance(memory, str) else 0
    memory_bytes = memory_bytes or parse_size(memory, name="memory")
    if memory_bytes < 64 * MIB:
        tiers = ", ".join(TIERS)
        raise InvalidRequest(f"memory: {memory!r} is too little; 64m is the least, {tiers} the tiers", param="memory")
    for name, value in (("timeout", timeout), ("cpus", cpus), ("cpu_time", cpu_time)):
        if value is not None and not 0 < value < 1e9:
            raise InvalidRequest(f"{name}: {value!r} is not a positive number; leave it out for none", param=name)
    if processes < 4:
        raise InvalidRequest(f"processes: {processes!r} is too few; 4 is the least", param="processes")
    if isinstance(requirements, str):
        raise InvalidRequest("requirements: give a list of names, not one string", param="requirements")
    limits = Limits(
        memory=memory_bytes,
        cpus=cpus,
        cpu_time=cpu_time,
        timeout=timeout,
        processes=processes,
        disk=memory_bytes // 2 if disk is None else parse_size(disk, name="disk"),
        output=parse_size(output, name="output"),
    )
    return Spec(limits=limits, packages=packages, requirements=tuple(requirements))


class AsyncSandbox:
    """A Python under glass.

    >>> async with AsyncSandbox(memory="1g") as box:          # doctest: +SKIP
    ...     await box.run("x = 41")
    ...     (await box.run("x + 1")).text
    '42'
    """

    def __init__(
        self,
        *,
        memory: int | str = "1g",
        packages: str = "data",
        requirements: Sequence[str] = (),
        timeout: float | None = 60.0,
        cpus: float | None = None,
        cpu_time: float | None = None,
        disk: int | str | None = None,
        processes: int = 256,
        output: int | str = MIB,
        source: SandboxSource | None = None,
    ) -> None:
        self.spec = make_spec(
            memory=memory,
            packages=packages,
            requirements=requirements,
            timeout=timeout,
            cpus=cpus,
            cpu_time=cpu_time,
            disk=disk,
            processes=processes,
            output=output,
        )
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
        async with aclosing(self._open.run(Cell(code, timeout))) as outputs:
            async for output in outputs:
                yield output

    def interrupt(self) -> None:
        """Stop the running cell and keep the variables."""
        self._open.interrupt()

    async def restart(self) -> None:
        """A new interpreter with the same files."""
        await self._open.restart()
