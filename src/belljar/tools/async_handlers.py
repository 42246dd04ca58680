"""Await handlers that are coroutines from a blocking call: in the caller's loop, or in one of their own."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from inspect import isawaitable
from typing import TypeVar

from belljar.tools.result import ToolResult

T = TypeVar("T")
_LOOK = 1.0
"""Seconds between two looks at whether a loop is still running."""

_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("belljar_loop", default=None)
"""Where coroutines are awaited, for a thread that may wait for them."""


@contextmanager
def await_in(loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
    """Calls that threads make in here await in this loop, which must go on running; None: each in a loop of its own."""
    token = _LOOP.set(loop)
    try:
        yield
    finally:
        _LOOP.reset(token)


def wait_for_result(given: ToolResult[T] | Awaitable[ToolResult[T]]) -> ToolResult[T]:
    """What a handler or hook gives, waited for where it has to be; TypeError where it is no ToolResult."""
    result = _waited_for(given) if isawaitable(given) else given
    if not isinstance(result, ToolResult):
        raise TypeError(
            f"it returned {_format_value(result)}, not a ToolResult; return ToolResult.ok(value), "
            "or ToolResult(message, None)"
        )
    if not isinstance(result.message, str):
        raise TypeError(f"it returned a ToolResult whose message is {_format_value(result.message)}, not a string")
    return result


def _waited_for(given: Awaitable[T]) -> T:
    loop, here = _LOOP.get(), _running_loop()
    try:
        if loop is not None and loop is not here:
            return _in_loop(given, loop)
        if here is None:
            return asyncio.run(_await_value(given))
        # As in a notebook: the loop of this thread waits for us.
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(copy_context().run, asyncio.run, _await_value(given)).result()
    except (asyncio.CancelledError, concurrent.futures.CancelledError):
        raise RuntimeError("it was cancelled") from None


def _in_loop(given: Awaitable[T], loop: asyncio.AbstractEventLoop) -> T:
    """Raises where the loop ends first: whoever was to run it may have been cancelled."""
    future = asyncio.run_coroutine_threadsafe(_await_value(given), loop)
    while not future.done():
        concurrent.futures.wait([future], timeout=_LOOK)
        if not loop.is_running():
            future.cancel()
    return future.result()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _await_value(given: Awaitable[T]) -> T:
    return await given


def _format_value(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
