"""A lease: the right to run cells in a container's sandbox for a while, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec

from belljar.errors import BelljarError, Lost
from belljar.gateway.containers.files import Files, Incoming, keep_figure
from belljar.gateway.containers.sandboxes import Sandboxes, not_found
from belljar.gateway.containers.slots import Held, Slot
from belljar.gateway.containers.workspace import LeftOut
from belljar.gateway.store.base import Blob, Blobs, ContainerFileRecord, Records
from belljar.sandbox.base import Cell
from belljar.sandbox.outputs import Exit, FileChanged, Output
from belljar.sandbox.packages import unnamed


class Lease:
    """Made by `Containers.lease`, and of no use once its context has ended."""

    def __init__(
        self,
        slot: Slot,
        held: Held,
        sandboxes: Sandboxes,
        files: Files,
        records: Records,
        blobs: Blobs,
        clock: Callable[[], float],
    ) -> None:
        self._slot = slot
        self._held = held
        self._sandboxes = sandboxes
        self._files = files
        self._records = records
        self._blobs = blobs
        self._clock = clock
        self._outputs: AsyncGenerator[Output, None] | None = None
        self._touching: asyncio.Future[None] | None = None
        self._touched_at = 0
        self.healed = held.healed
        """The container had run cells before and its sandbox was gone: files are back, variables are not."""
        self.left_out: tuple[LeftOut, ...] = ()
        self.gone: tuple[ContainerFileRecord, ...] = ()
        """What the last `collect` could not keep, and why."""

    @property
    def cells(self) -> int:
        """Cells that the container has run, the newest included."""
        return self._held.cells

    async def run(self, cell: Cell) -> AsyncGenerator[Output, None]:
        """Outputs as they come; the last is an `Exit`. `Lost` if the sandbox had died before the cell could begin."""
        held = self._held
        held.stale |= held.open
        held.open = True
        held.cells += 1
        await self._touch(held.cells)
        outputs = self._outputs = held.sandbox.run(cell)
        end: Exit | None = None
        try:
            async with contextlib.aclosing(outputs):
                async for output in outputs:
                    if isinstance(output, Exit):
                        end = output
                    yield output
        except Lost:
            held.lost = True
            raise
        finally:
            if end is None:
                held.stale = True
            else:
                held.healed = False
                held.lost |= end.reason == "lost"

    async def require(self, requirements: Sequence[str]) -> None:
        """Make these packages importable, now and in every later sandbox of the container.

        Raises what `Sandbox.install` raises; nothing changes then.
        """
        held = self._held
        if all(one in held.requirements for one in requirements):
            return
        await held.sandbox.install(requirements)
        await self._touch(None)
        async with self._slot.filing:
            fresh = await self._records.get_container(held.id, held.owner)
            if fresh is None:
                raise not_found(held.id)
            # Of two wishes for the same package the newer counts: both together may be more than can be had.
            held.requirements = (*dict.fromkeys(requirements), *unnamed(fresh.requirements, requirements))
            await self._records.put_container(msgspec.structs.replace(fresh, requirements=held.requirements))

    async def collect(self, changed: Sequence[FileChanged]) -> list[ContainerFileRecord]:
        """Take the files that the cell changed into the store.

        `left_out` tells which could not be kept, `gone` which were deleted.
        """
        collected = await self._sandboxes.collect(self._slot, self._held, changed)
        self.left_out, self.gone = tuple(collected.left_out), tuple(collected.gone)
        return collected.taken

    async def keep_figure(self, data: bytes, type: str) -> ContainerFileRecord:
        """Keep a picture that the cell showed as a file of the container, named by its id."""
        return await keep_figure(self._records, self._held.id, await self._blob(data), type, self._clock())

    async def save(self, path: str, content: bytes, type: str) -> ContainerFileRecord:
        """Put a file of ours where the code can read it."""
        incoming = Incoming(path, await self._blob(content), type, "assistant")
        [record] = await self._files.put(self._slot, [incoming], disk=self._held.spec.limits.disk)
        return record

    async def finish(self) -> None:
        """Stop a cell that nobody listens to any more, and see that what it changed is kept."""
        held = self._held
        try:
            if self._outputs is not None:
                await self._outputs.aclose()
            if held.open:
                held.stale = True
                with contextlib.suppress(BelljarError):
                    await self.collect(())
            if self._touching is not None:
                if int(self._clock()) > self._touched_at:
                    await self._touch(None)
                await self._touching
        finally:
            held.active_at = self._clock()

    async def _blob(self, data: bytes) -> Blob:
        async with self._blobs.write() as writer:
            await writer.write(data)
            return await writer.finish()

    async def _touch(self, cells: int | None) -> None:
        """Tell the store that the container is in use; it writes that while the cell runs."""
        if self._touching is not None:
            await self._touching
        self._touched_at = int(self._clock())
        writing = self._records.touch_container(self._held.id, self._touched_at, cells)
        self._touching = asyncio.ensure_future(writing)
