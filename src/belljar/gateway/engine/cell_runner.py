"""Run the cells of one response: events while the code runs, and in the end what callers and the model are told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from belljar.gateway.engine.caller import Caller
from belljar.gateway.engine.cell_emitter import CellEmitter
from belljar.gateway.engine.citations import Citations
from belljar.gateway.engine.context import Context
from belljar.gateway.engine.deadline import ResponseDeadline
from belljar.gateway.engine.inline_files import Inliner
from belljar.gateway.engine.response_container import ResponseContainer
from belljar.gateway.engine.services import CellRan, EngineServices
from belljar.gateway.interpreter import CellResult
from belljar.gateway.store.base import ContainerRecord
from belljar.sandbox.outputs import Stderr, Stdout
from belljar.wire.events import Event
from belljar.wire.items import CellEnd


class CellRunner:
    """Runs cells in the container of their response, one after the other."""

    def __init__(
        self,
        services: EngineServices,
        caller: Caller,
        container: ResponseContainer,
        context: Context,
        citations: Citations,
        inliner: Inliner,
        deadline: ResponseDeadline,
        *,
        response_id: str,
    ) -> None:
        self._services = services
        self._caller = caller
        self._container = container
        self._context = context
        self._citations = citations
        self._inliner = inliner
        self._deadline = deadline
        self._response_id = response_id

    async def run_all(self, cells: Sequence[CellEmitter]) -> AsyncGenerator[list[Event], None]:
        """The events of the cells of one turn: one after the other, or at once where each has a sandbox of its own."""
        if len(cells) > 1 and self._services.options.parallel:
            async with aclosing(self._run_at_once(cells)) as running:
                async for batch in running:
                    yield batch
            return
        for cell in cells:
            async with aclosing(self.run(cell)) as running:
                async for batch in running:
                    yield batch

    async def _run_at_once(self, cells: Sequence[CellEmitter]) -> AsyncGenerator[list[Event], None]:
        """As they come; the emitter holds back those of a later cell until the one before it is done."""
        await self._container.hold()  # so that they do not each make one
        batches: asyncio.Queue[list[Event] | None] = asyncio.Queue()

        async def run(cell: CellEmitter) -> None:
            try:
                async with aclosing(self.run(cell)) as running:
                    async for batch in running:
                        batches.put_nowait(batch)
            finally:
                batches.put_nowait(None)

        tasks = [asyncio.create_task(run(cell)) for cell in cells]
        try:
            left = len(tasks)
            while left:
                batch = await batches.get()
                if batch is None:
                    left -= 1
                    for task in tasks:
                        if task.done():
                            task.result()
                elif batch:
                    yield batch
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def run(self, cell: CellEmitter) -> AsyncGenerator[list[Event], None]:
        """The events of one cell. Leaving early stops its code."""
        container = await self._container.hold()
        arguments = cell.arguments
        yield cell.begin_run()
        run = self._services.interpreter.run(
            container,
            arguments.code,
            arguments.requirements,
            timeout=self._shorten_timeout(),
            moved=self._container.has_moved(),
            known=self._container.version,
        )
        ran: CellResult | None = None
        began = time.monotonic()
        try:
            async with aclosing(run) as outputs:
                async for output in outputs:
                    match output:
                        case Stdout(text) if self._caller.live:
                            yield cell.show_output("stdout", text)
                        case Stderr(text) if self._caller.live:
                            yield cell.show_output("stderr", text)
                        case CellResult():
                            ran = output
        except (GeneratorExit, asyncio.CancelledError):  # whoever asked for it is gone or called it off
            end = CellEnd(exit="killed", reason="interrupted", seconds=time.monotonic() - began)
            self._report(container, arguments.code, "incomplete", end)
            raise
        assert ran is not None, "the interpreter's last value tells how it went"
        if ran.end.version is not None:
            self._container.set_version(container.id, ran.end.version)
        self._citations.remove(ran.gone)
        self._citations.add_made(ran.files)
        end = await self._inliner.add(ran.end, ran.files)
        finished, item = cell.finish_run(ran.status, ran.outputs, end, ran.told)
        self._context.add_cell(item.id, ran.told, ran.images)
        self._report(container, arguments.code, ran.status, ran.end)
        yield finished

    def _shorten_timeout(self) -> float | None:
        """Seconds for one cell where the deadline leaves less than it may take by itself, else None."""
        left, most = self._deadline.left, self._services.options.timeout
        return max(left, 0.001) if most is None or left < most else None

    def _report(self, container: ContainerRecord, code: str, status: str, end: CellEnd) -> None:
        self._services.observe(
            CellRan(
                caller=self._caller,
                response_id=self._response_id,
                container_id=container.id,
                status=status,
                exit=end.exit,
                reason=end.reason,
                seconds=end.seconds,
                code=code,
                files=end.files,
            )
        )
