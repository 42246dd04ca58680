"""Run a gateway inside the program: its event loop on a thread, without a port, while its client is open."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from belljar.config import Settings
from belljar.gateway.app import build
from belljar.net import new_event_loop
from belljar.openai.asgi_exchange import BrokenAnswer, Exchange, Message
from belljar.vendors.deltas import AnsweringModel

T = TypeVar("T")

_LEAVING = 10.0
"""Seconds that the end of the program waits for it; the jail ends with the process in any case."""
_log = logging.getLogger(__name__)
CLOSED = "this client's gateway was closed"


class Inside:
    """Started when it is made; `close` ends everything that it began."""

    def __init__(
        self, settings: Mapping[str, object], *, state_dir: str | os.PathLike[str] | None, model: AnsweringModel | None
    ) -> None:
        self._temporary = tempfile.mkdtemp(prefix="belljar-") if state_dir is None else None
        self._process = os.getpid()
        self._model = model
        self._started: Future[None] = Future()
        self._wanted = True
        self._leaving = False
        self._ended = False
        self._exchanges: dict[Exchange, asyncio.Task[None]] = {}
        self._pending: dict[Future[Any], Coroutine[Any, Any, Any]] = {}
        # A daemon: the interpreter would wait for any other before it asks us to leave.
        self._thread = threading.Thread(target=self._run, name="belljar-gateway", daemon=True)
        try:
            state = Path(self._temporary or os.fspath(state_dir or "")).expanduser().absolute()
            self._settings = Settings.load(flags={"page": False, **settings, "state_dir": state})
            self._thread.start()
            self._started.result()
        except BaseException:
            self._wanted = False
            self._clear()
            raise
        atexit.register(self._leave)

    # -- for callers, from any thread ---------------------------------------------------------------------------------

    @property
    def absence(self) -> str | None:
        """Why no request can be answered."""
        if os.getpid() != self._process:
            return (
                f"this client's gateway is in process {self._process}, which this one was forked from; "
                "make a client of its own here, with local()"
            )
        return CLOSED if self._ended or self._stop.is_set() else None

    def call(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Have it done on the gateway's loop; `Broken` where that ends first."""
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # the loop is closed
            coroutine.close()
            raise BrokenAnswer(CLOSED) from None
        self._pending[future] = coroutine
        future.add_done_callback(lambda done: self._pending.pop(done, None))
        if self._ended:
            self._abandon()
        return future

    def exchange(self, scope: Message) -> Exchange:
        """A request that is not begun: so whoever gives up while it begins has something to hang up."""
        return Exchange(self._app, scope)

    async def open(self, exchange: Exchange, data: bytes, *, last: bool) -> None:
        """Begin a request with the first bytes of its body; for `call`."""
        task = self._exchanges[exchange] = asyncio.create_task(exchange.run())
        task.add_done_callback(lambda _: self._exchanges.pop(exchange, None))
        exchange.put(data, last=last)

    def hang_up(self, exchange: Exchange) -> None:
        if os.getpid() == self._process:
            with suppress(RuntimeError):  # the loop is closed, and nobody left to tell
                self._loop.call_soon_threadsafe(exchange.hang_up)

    def stop(self) -> None:
        """Begin to end, and do not wait for it."""
        if os.getpid() == self._process:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)

    def close(self) -> None:
        """End the gateway, its sandboxes and its thread; again is harmless."""
        self.stop()
        if os.getpid() == self._process and threading.current_thread() is not self._thread:
            self._thread.join()
            atexit.unregister(self._leave)

    def _leave(self) -> None:
        """The program ends, and nobody has closed it. No thread may be started any more, so not all of it can end."""
        self._leaving = True
        self.stop()
        if os.getpid() == self._process:
            self._thread.join(_LEAVING)
            self._clear()

    # -- on its own thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - the last door of a thread
            if not self._started.done():
                self._started.set_exception(error)
            elif not self._leaving:
                _log.exception("the gateway did not end as it should")
        finally:
            self._ended = True
            self._abandon()
            self._clear()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with build(self._settings, model=self._model, private=True) as gateway:
            self._app = gateway.app
            self._started.set_result(None)
            if self._wanted:
                await self._stop.wait()
            for exchange in tuple(self._exchanges):
                exchange.hang_up()
            if self._exchanges:
                await asyncio.wait(self._exchanges.values())

    def _abandon(self) -> None:
        """Nobody will do any more what was called for."""
        for future, coroutine in list(self._pending.items()):
            coroutine.close()
            with suppress(InvalidStateError):
                future.set_exception(BrokenAnswer(CLOSED))

    def _clear(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
