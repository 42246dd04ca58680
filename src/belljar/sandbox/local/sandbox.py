"""A sandbox of the local jail for asyncio: the interface of `base.py` over a `Box`."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing

from belljar.errors import Refused
from belljar.sandbox.base import MIB, Cell, Content, FileInfo, Limits, SandboxHandle
from belljar.sandbox.local import run_steps
from belljar.sandbox.local.box import Box
from belljar.sandbox.local.files import Files
from belljar.sandbox.outputs import Exit, Output
from belljar.worker_threads import start_thread


class LocalWorkspace:
    """The files, off the event loop."""

    def __init__(self, box: Box) -> None:
        self._box = box

    @property
    def _files(self) -> Files:
        return self._box.files

    async def write(self, name: str, content: Content) -> FileInfo:
        return await asyncio.to_thread(self._files.write, name, content)

    async def write_many(self, files: Iterable[tuple[str, Content]]) -> list[FileInfo]:
        return await asyncio.to_thread(self._files.write_many, files)

    async def read(self, name: str, *, limit: int | None = None) -> bytes:
        return await asyncio.to_thread(self._files.read, name, limit=limit)

    async def open(self, name: str) -> io.FileIO:
        """A regular file, for reading: for whoever must tell its size before its bytes."""
        return await asyncio.to_thread(self._files.open, name)

    async def stream(self, name: str, *, chunk: int = MIB) -> AsyncIterator[bytes]:
        with await self.open(name) as file:
            while data := await asyncio.to_thread(file.read, chunk):
                yield data

    async def list(self) -> list[FileInfo]:
        return await asyncio.to_thread(self._files.list)

    async def delete(self, name: str) -> None:
        await asyncio.to_thread(self._files.delete, name)


class LocalSandbox:
    """Cells run one at a time, in the order they came."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._turn = asyncio.Lock()
        self.files = LocalWorkspace(box)

    @property
    def id(self) -> str:
        return self._box.id

    @property
    def alive(self) -> bool:
        return self._box.alive

    @property
    def cells(self) -> int:
        """How many were begun in it."""
        return self._box.cells

    @property
    def interpreter(self) -> int:
        """The number of the one that its next cell will find."""
        return self._box.interpreter

    @property
    def limits(self) -> Limits:
        return self._box.limits

    @property
    def handle(self) -> None:
        """It hangs on descriptors of this process."""
        return None

    async def detach(self) -> SandboxHandle:
        raise Refused("detach: a sandbox of this host's own jail ends with its process; take it from a sandbox server")

    async def run(self, cell: Cell) -> AsyncGenerator[Output, None]:
        async with self._turn:
            finished = False
            steps = self._box.run(cell)
            outputs = run_steps.run_async(self._box, steps)
            async with aclosing(outputs):
                try:
                    async for output in outputs:
                        finished = isinstance(output, Exit)
                        yield output
                finally:
                    if not finished:
                        # Whoever listened has gone: the cell must not run on, nor its outputs meet the next one.
                        self._box.interrupt()
                        await run_steps.finish_async(self._box, steps, ready=[])

    def interrupt(self) -> None:
        self._box.interrupt()

    async def restart(self) -> None:
        async with self._turn:
            await run_steps.finish_async(self._box, self._box.restart())

    async def install(self, requirements: Sequence[str]) -> None:
        async with self._turn:
            # The thread only fetches: one that is given up on must not change the sandbox later. It is none of those
            # that all share: an index that does not answer may take it minutes.
            fetching = start_thread("belljar-packages", lambda: self._box.fetch(requirements))
            self._box.install(*await asyncio.wrap_future(fetching))
