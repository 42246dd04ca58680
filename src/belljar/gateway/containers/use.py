"""The right to run cells in a container's sandbox, one after the other, and to keep what they did."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from belljar.errors import BelljarError, Fenced, Lost
from belljar.gateway.containers.incoming import Incoming
from belljar.gateway.containers.services import Services
from belljar.gateway.containers.workspace import LeftOut, Live
from belljar.gateway.store.base import Blob, ContainerFileRecord
from belljar.sandbox.base import Cell
from belljar.sandbox.outputs import Exit, FileChanged, Output

if TYPE_CHECKING:
    from belljar.gateway.containers.container import Container

_STALE = 10.0
"""Seconds by which the store may be late in what it says of the last use."""


class Use:
    """The right to run cells in a container's sandbox, one after the other, while the context lasts."""

    def __init__(self, container: Container, live: Live, services: Services, version: int, *, healed: bool) -> None:
        self._container = container
        self._live = live
        self._records = services.records
        self._blobs = services.blobs
        self._clock = services.clock
        self._outputs: AsyncGenerator[Output, None] | None = None
        self._touching: asyncio.Future[None] | None = None
        self.began = version
        """The version that it found."""
        self.version = version
        """The version that it leaves: the last of those that followed one another without one of somebody else's."""
        self.healed = healed
        """The container had run cells before and its sandbox was gone: files are back, variables are not."""
        self.left_out: tuple[LeftOut, ...] = ()
        """What the last `collect` could not keep, and why."""
        self.gone: tuple[ContainerFileRecord, ...] = ()
        """What it found deleted."""
        self.figures: tuple[ContainerFileRecord, ...] = ()
        """What it kept of the pictures that the cell showed."""

    @property
    def cells(self) -> int:
        """Cells that the container has run, the newest included."""
        return self._container.cells

    async def run(self, cell: Cell) -> AsyncGenerator[Output, None]:
        """Outputs as they come; the last is an `Exit`. `Lost` if the sandbox had died before the cell could begin."""
        live = self._live
        live.unseen |= live.running
        live.running = True
        self._container.cells += 1
        if self._container.cells == 1:  # from now on a lost sandbox means lost variables, however it is lost
            await self._touch(1)
        else:
            live.uncounted += 1
            await self._touch_if_stale()
        outputs = self._outputs = live.sandbox.run(cell)
        end: Exit | None = None
        try:
            async with aclosing(outputs):
                async for output in outputs:
                    if isinstance(output, Exit):
                        end = output
                    yield output
        except Lost:
            live.lost = True
            raise
        finally:
            if end is None:
                live.unseen = True
            else:
                self._container.loss_told()
                live.lost |= end.reason == "lost"

    async def require(self, requirements: Sequence[str]) -> None:
        """Make these packages importable, now and in every later sandbox of the container.

        Raises what `Sandbox.install` raises; nothing changes then.
        """
        live = self._live
        if all(one in live.requirements for one in requirements):
            return
        await live.sandbox.install(requirements)
        await self._touch_if_stale()
        live.requirements, version = await self._container.require(live, requirements)
        self._leave(version)

    async def collect(
        self, changed: Sequence[FileChanged], pictures: Sequence[tuple[bytes, str]] = ()
    ) -> list[ContainerFileRecord]:
        """Take the files that the cell changed into the store, and these pictures with their types that it showed.

        `left_out` tells which could not be kept, `gone` which were deleted, `figures` how the pictures were kept.
        """
        unkept = await self._count_unkept(pictures)
        pictures = pictures[: len(pictures) - unkept]
        blobs = await asyncio.gather(*(self._blob(data) for data, _ in pictures))
        shown = [Incoming("", blob, type, "assistant") for blob, (_, type) in zip(blobs, pictures, strict=True)]
        if self._touching is not None:
            await asyncio.wait([self._touching])  # so that the version has the first cell as well
        collected = await self._container.collect(self._live, changed, shown)
        self.left_out, self.gone = tuple(collected.left_out), tuple(collected.gone)
        self.figures = tuple(collected.figures)
        self._leave(collected.version)
        return collected.taken

    async def _count_unkept(self, pictures: Sequence[tuple[bytes, str]]) -> int:
        """How many of the last of them its owner has no room for; they were shown all the same."""
        left = await self._container.count_left() if pictures else None
        sizes = itertools.accumulate(len(data) for data, _ in pictures)
        return 0 if left is None else sum(size > left for size in sizes)

    async def save(self, path: str, content: bytes, type: str) -> ContainerFileRecord:
        """Put a file of ours where the code can read it."""
        incoming = Incoming(path, await self._blob(content), type, "assistant")
        changed = await self._container.put([incoming], disk=self._live.spec.limits.disk)
        self._leave(changed.version)
        return changed.files[0]

    def _leave(self, version: int) -> None:
        if version == self.version + 1:
            self.version = version

    async def finish(self) -> None:
        """Stop a cell that nobody listens to any more, and see that what it changed is kept."""
        live = self._live
        try:
            if self._outputs is not None:
                await self._outputs.aclose()
            if live.running:
                live.unseen = True
                with suppress(BelljarError):
                    await self.collect(())
            await self._container.note(live)
            if self._outputs is not None:
                await self._touch_if_stale()
            if self._touching is not None:
                await self._touching
        except Fenced:
            live.lost = True
        finally:
            self._container.touch()

    async def _blob(self, data: bytes) -> Blob:
        async with self._blobs.write() as writer:
            await writer.write(data)
            return await writer.finish()

    async def _touch_if_stale(self) -> None:
        """Others go by what the store says, and a change says it too: so there is mostly nothing to do."""
        if self._clock() - self._container.stored_active_at >= _STALE:
            await self._touch()

    async def _touch(self, cells: int = 0) -> None:
        """Tell the store that the container is in use, and of cells that begin; it writes that while the cell runs."""
        if self._touching is not None:
            await self._touching
        at = self._container.stored_active_at = int(self._clock())
        writing = self._records.touch_container(self._container.id, at, cells, self._live.hold)
        self._touching = asyncio.ensure_future(writing)
