"""A remote sandbox for callers without await: asyncio on a thread that lives as long as the sandbox."""

from __future__ import annotations

import asyncio
import builtins
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from belljar.sandbox.base import MIB, Cell, Content, FileInfo, Sandbox, SandboxSource, Spec, Workspace
from belljar.sandbox.outputs import Output

T = TypeVar("T")

_LOOK_UP = 0.2 if sys.platform == "win32" else None
"""Seconds after which a wait is begun again: Windows hears Ctrl-C between waits only."""


class LoopThread:
    """An event loop on a daemon thread; `close` ends both."""

    def __init__(self) -> None:
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._stop: asyncio.Event | None = None

        async def live() -> None:
            self._stop = asyncio.Event()
            started.set_result(asyncio.get_running_loop())
            await self._stop.wait()

        self._thread = threading.Thread(target=asyncio.run, args=(live(),), name="belljar-remote", daemon=True)
        self._thread.start()
        self._loop = started.result()

    def run(self, act: Coroutine[Any, Any, T]) -> T:
        """Its result. Whoever is called away meanwhile, by Ctrl-C for one, has it cancelled and waits for its end."""
        ended: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            task = self._loop.create_task(act)
            tasks.append(task)
            task.add_done_callback(lambda done: _pass_on(done, ended))

        def call_off() -> None:  # after `start`, if that was handed over before we were called away
            if tasks:
                tasks[0].cancel()
            else:
                act.close()
                ended.cancel()

        try:
            self._loop.call_soon_threadsafe(start)
            return _wait(ended)
        except BaseException:
            if not ended.done():
                self._loop.call_soon_threadsafe(call_off)
                with suppress(asyncio.CancelledError, Exception):
                    _wait(ended)
            raise

    def close(self) -> None:
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


def _pass_on(done: asyncio.Task[T], to: Future[T]) -> None:
    if done.cancelled():
        to.set_exception(asyncio.CancelledError())
    elif (error := done.exception()) is not None:
        to.set_exception(error)
    else:
        to.set_result(done.result())


def _wait(ended: Future[T]) -> T:
    while True:
        try:
            return ended.result(_LOOK_UP)
        except TimeoutError:
            if ended.done():
                raise


class RemoteBox:
    """What `belljar.Sandbox` is made of, where the sandbox is elsewhere. A context: entered, it has the sandbox."""

    def __init__(self, make: Callable[[], SandboxSource], spec: Spec) -> None:
        """`make` is called on the loop that the source then belongs to."""
        self._make, self._spec = make, spec

    def __enter__(self) -> Self:
        self._loop = LoopThread()
        self._stack = AsyncExitStack()
        try:
            self._sandbox = self._loop.run(self._enter())
        except BaseException:
            self._end()
            raise
        self.files = RemoteFiles(self._loop, self._sandbox.files)
        return self

    async def _enter(self) -> Sandbox:
        source = self._make()
        self._stack.push_async_callback(source.close)
        return await self._stack.enter_async_context(source.acquire(self._spec))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        try:
            self._loop.run(self._stack.aclose())
        finally:
            self._loop.close()

    @property
    def id(self) -> str:
        return self._sandbox.id

    def run(self, cell: Cell) -> Generator[Output, None, None]:
        """Outputs as they come; leaving early stops the cell."""
        outputs = self._sandbox.run(cell)
        try:
            while (output := self._loop.run(_next(outputs))) is not None:
                yield output
        finally:
            self._loop.run(outputs.aclose())

    def interrupt(self) -> None:
        self._sandbox.interrupt()

    def restart(self) -> None:
        self._loop.run(self._sandbox.restart())

    def install(self, requirements: Sequence[str]) -> None:
        self._loop.run(self._sandbox.install(requirements))


class RemoteFiles:
    """Its files, without await."""

    def __init__(self, loop: LoopThread, files: Workspace) -> None:
        self._loop, self._files = loop, files

    def write(self, name: str, content: Content) -> FileInfo:
        """Put a file in place, whole or not at all."""
        return self._loop.run(self._files.write(name, content))

    def write_many(self, files: Iterable[tuple[str, Content]]) -> list[FileInfo]:
        """Put files in place in their order; the first that fails ends it, and those before it stay."""
        return self._loop.run(self._files.write_many(files))

    def read(self, name: str, *, limit: int | None = None) -> bytes:
        return self._loop.run(self._files.read(name, limit=limit))

    def stream(self, name: str, *, chunk: int = MIB) -> Generator[bytes, None, None]:
        pieces = aiter(self._files.stream(name, chunk=chunk))
        try:
            while (piece := self._loop.run(_next(pieces))) is not None:
                yield piece
        finally:
            if (close := getattr(pieces, "aclose", None)) is not None:
                self._loop.run(close())

    def delete(self, name: str) -> None:
        self._loop.run(self._files.delete(name))

    def list(self) -> builtins.list[FileInfo]:
        return self._loop.run(self._files.list())


async def _next(values: Any) -> Any:
    return await anext(values, None)
