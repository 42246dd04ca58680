"""Run cells in one shared namespace, with one event loop that outlives them."""

from __future__ import annotations

import asyncio
import builtins
import sys
from functools import partial
from inspect import CO_COROUTINE
from types import CodeType, ModuleType

from . import private_builtins
from .cell import CompiledCell
from .interrupts import Interrupts

private_builtins.protect(globals())

_exec, _eval = exec, eval
_modules = sys.modules
_all_tasks = asyncio.all_tasks


class Runner:
    """The `__main__` module of the cells, and their event loop."""

    def __init__(self, interrupts: Interrupts) -> None:
        module = ModuleType("__main__")
        self._module = module
        self.names = vars(module)
        self._interrupts = interrupts
        self._loop: asyncio.AbstractEventLoop | None = None
        self._interrupted = False
        self._readable = False

    def run(self, cell: CompiledCell) -> object:
        """Run a cell; give the value of its last expression."""
        _modules["__main__"] = self._module
        # exec() would otherwise lend the cell the guest's private builtins.
        self.names["__builtins__"] = builtins
        self.names.pop("__warningregistry__", None)  # a warning shows once per line of a cell, not of all cells
        if cell.inside:
            return self._run_inside(cell)
        if cell.body is not None:
            _exec(cell.body, self.names)
        return None if cell.value is None else _eval(cell.value, self.names)

    def provide_loop(self) -> None:
        """Make `asyncio.get_event_loop()` work in a cell: `asyncio.run` leaves none behind."""
        asyncio.set_event_loop(self._open_loop())

    def wait(self, descriptor: int) -> None:
        """If the cells left tasks running, let them run until there is something to read."""
        loop = self._loop
        if loop is None or loop.is_closed() or not _all_tasks(loop):
            return
        self._readable = False
        self._interrupts.between = True
        loop.add_reader(descriptor, self._stop, loop)
        try:
            while not self._readable:
                try:
                    loop.run_forever()
                except (KeyboardInterrupt, SystemExit):  # a task's own business; its exception tells
                    continue
        finally:
            self._interrupts.between = False
            loop.remove_reader(descriptor)

    def _stop(self, loop: asyncio.AbstractEventLoop) -> None:
        self._readable = True
        loop.stop()

    def _open_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        return self._loop

    def _run_inside(self, cell: CompiledCell) -> object:
        loop = self._open_loop()
        asyncio.set_event_loop(loop)
        task = loop.create_task(self._both(cell))
        self._interrupted = False
        self._interrupts.cancel = partial(self._cancel, loop, task)
        try:
            return loop.run_until_complete(task)
        except asyncio.CancelledError as error:
            if self._interrupted:
                raise KeyboardInterrupt().with_traceback(error.__traceback__) from None
            raise
        except SystemExit as error:
            # Another task may have left just as the cell's own came to its end.
            if task.done() and not task.cancelled() and task.exception() is not error:
                return task.result()
            raise
        finally:
            self._interrupts.cancel = None
            if task.done():
                _ = task.cancelled() or task.exception()  # looked at, so asyncio does not complain later
            else:
                task.cancel()

    def _cancel(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[object]) -> None:
        self._interrupted = True
        task.cancel()
        loop.call_soon_threadsafe(_nothing)  # wakes the loop up

    async def _both(self, cell: CompiledCell) -> object:
        await self._part(cell.body)
        return await self._part(cell.value)

    async def _part(self, code: CodeType | None) -> object:
        if code is None:
            return None
        value = _eval(code, self.names)
        return await value if code.co_flags & CO_COROUTINE else value


def _nothing() -> None:
    pass
