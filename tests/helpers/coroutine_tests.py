"""For a conftest.py: tests that are coroutines, in one event loop for each test process, which nothing may hold up."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterator

import pytest
from tests.helpers import loop_guard

__all__ = ["PATIENCE", "blocks", "pytest_pyfunc_call", "runner", "unblocked", "until"]

PATIENCE = 30.0
"""Seconds after which something that should have happened has not: the machine may be busy."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in the loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="session", autouse=True)
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


@pytest.fixture(scope="session")
def blocks(runner: asyncio.Runner) -> list[str]:
    told: list[str] = []
    loop_guard.watch(runner.get_loop(), told.append)
    return told


@pytest.fixture(autouse=True)
def unblocked(blocks: list[str]) -> Iterator[None]:
    """No test held the loop up."""
    yield
    told = blocks[:]
    blocks.clear()
    assert not told, "\n".join(told)


async def until(holds: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Wait for something to become true; fail with its name if it does not."""
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, f"not within {patience:g} s: {what}"
        await asyncio.sleep(0.01)
