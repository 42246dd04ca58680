"""Threads for one kind of work: so many at once, one for an owner, in order, and never more than there are places."""

from __future__ import annotations

import asyncio
import threading
from typing import cast

import pytest

from belljar.sandbox.local.box import Box
from belljar.sandbox.local.sandbox import LocalSandbox
from belljar.worker_threads import WorkerThreads


def test_results_and_errors_come_back() -> None:
    asyncio.run(_results_and_errors_come_back())


async def _results_and_errors_come_back() -> None:
    threads = WorkerThreads("test", 1)
    assert await threads.run("ada", lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await threads.run("ada", lambda: 1 / 0)
    assert await threads.run("ada", threading.current_thread) is not threading.current_thread()


def test_an_owner_with_many_jobs_leaves_a_place_to_others() -> None:
    asyncio.run(_an_owner_with_many_jobs_leaves_a_place_to_others())


async def _an_owner_with_many_jobs_leaves_a_place_to_others() -> None:
    threads, gate = WorkerThreads("test", 2), threading.Event()
    many = [asyncio.create_task(threads.run("ada", gate.wait)) for _ in range(5)]
    try:
        await asyncio.sleep(0)
        assert await threads.run("bob", lambda: "mine") == "mine"
        assert not any(task.done() for task in many)
    finally:
        gate.set()
    assert await asyncio.gather(*many) == [True] * 5
    assert not threads._owners, "nobody is remembered"


def test_a_job_that_is_given_up_on_keeps_its_place_until_it_is_done() -> None:
    asyncio.run(_a_job_that_is_given_up_on_keeps_its_place_until_it_is_done())


async def _a_job_that_is_given_up_on_keeps_its_place_until_it_is_done() -> None:
    threads, gate, begun = WorkerThreads("test", 1), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait()

    given_up = asyncio.create_task(threads.run("ada", work))
    assert await asyncio.to_thread(begun.wait, 30)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    following = asyncio.create_task(threads.run("bob", lambda: gate.is_set()))
    await asyncio.sleep(0)
    gate.set()
    assert await following, "it ran beside the one before"


def test_who_gives_up_on_a_job_has_no_other_beside_it() -> None:
    asyncio.run(_who_gives_up_on_a_job_has_no_other_beside_it())


async def _who_gives_up_on_a_job_has_no_other_beside_it() -> None:
    """Or an owner who hangs up again and again would have every place."""
    threads, gate, begun = WorkerThreads("test", 2), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait()

    given_up = asyncio.create_task(threads.run("ada", work))
    assert await asyncio.to_thread(begun.wait, 30)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    following = asyncio.create_task(threads.run("ada", gate.is_set))
    assert await threads.run("bob", lambda: "mine") == "mine"
    gate.set()
    assert await following, "it ran beside the one before"
    assert not threads._owners, "nobody is remembered"


class SlowBox:
    """A sandbox whose package index does not answer."""

    def __init__(self, gate: threading.Event) -> None:
        self.gate = gate
        self.installed: list[object] = []

    def fetch(self, requirements: object) -> tuple[object, ...]:
        assert self.gate.wait(60)
        return (requirements,)

    def install(self, fetched: object) -> None:
        self.installed.append(fetched)


def test_packages_that_do_not_come_leave_the_threads_that_all_share_alone() -> None:
    """Uploads and downloads need one of those."""
    gate = threading.Event()
    boxes = [SlowBox(gate) for _ in range(40)]

    async def work() -> None:
        fetching = [asyncio.create_task(LocalSandbox(cast(Box, box)).install(["a"])) for box in boxes]
        try:
            await asyncio.sleep(0)
            assert await asyncio.wait_for(asyncio.to_thread(lambda: "a thread"), 30) == "a thread"
            assert not any(task.done() for task in fetching)
        finally:
            gate.set()
        await asyncio.gather(*fetching)

    asyncio.run(work())
    assert [box.installed for box in boxes] == [[["a"]]] * 40
