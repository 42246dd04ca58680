"""The writing thread: batches, failures in a batch, loops, closing."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest

from belljar.errors import NotFound, OperatorError
from belljar.gateway.store.writer import Work, Writer


class Bench:
    """A writer over a table of numbers; `statements` is what its connection was told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.statements: list[str] = []
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")
        connection.set_trace_callback(self.statements.append)
        self.writer = Writer(connection, path)

    def numbers(self) -> list[int]:
        connection = sqlite3.connect(self.path)
        try:
            return [n for (n,) in connection.execute("SELECT n FROM numbers ORDER BY n")]
        finally:
            connection.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "numbers.db")
    yield made
    made.writer.close()


def add(*numbers: int) -> Work[int]:
    def work(connection: sqlite3.Connection) -> int:
        for number in numbers:
            connection.execute("INSERT INTO numbers VALUES (?)", (number,))
        return sum(numbers)

    return work


class Held:
    """Work that keeps the writer busy until it is let go, so that what comes meanwhile makes one batch."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()

    def __call__(self, connection: sqlite3.Connection) -> None:
        self.begun.set()
        self.go.wait()


async def in_one_batch(bench: Bench, works: list[Work[Any]]) -> list[Any]:
    held = Held()
    first = bench.writer.submit(held)
    await asyncio.to_thread(held.begun.wait)
    bench.statements.clear()
    waiting: list[Awaitable[Any]] = [bench.writer.submit(work) for work in works]
    held.go.set()
    await first
    return await asyncio.gather(*waiting, return_exceptions=True)


def test_what_waits_is_committed_together(bench: Bench) -> None:
    assert asyncio.run(in_one_batch(bench, [add(n) for n in range(50)])) == list(range(50))
    assert bench.numbers() == list(range(50))
    # The first COMMIT is of the work that held the others up.
    told = [statement for statement in bench.statements if not statement.startswith("INSERT")]
    assert told == ["COMMIT", "BEGIN IMMEDIATE", "COMMIT"]


def test_what_is_submitted_in_one_turn_of_a_loop_is_handed_in_together(bench: Bench) -> None:
    async def write() -> list[int]:
        return await asyncio.gather(*(bench.writer.submit(add(n)) for n in range(50)))

    assert asyncio.run(write()) == list(range(50))
    told = [statement for statement in bench.statements if not statement.startswith("INSERT")]
    assert told == ["BEGIN IMMEDIATE", "COMMIT"]


def test_a_loop_is_woken_once_a_batch(bench: Bench) -> None:
    woken = 0

    class Loop(asyncio.SelectorEventLoop):
        def call_soon_threadsafe(self, *args: Any, **named: Any) -> asyncio.Handle:  # type: ignore[override]
            nonlocal woken
            woken += threading.current_thread().name == "store-writer"
            return super().call_soon_threadsafe(*args, **named)

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(in_one_batch(bench, [add(n) for n in range(50)]))
    assert woken == 2


def test_work_that_fails_fails_alone(bench: Bench) -> None:
    def refuse(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO numbers VALUES (100)")
        raise NotFound("no such thing")

    works = [add(1), add(2, 1), add(3), refuse, add(4), add(1), add(5)]
    done = asyncio.run(in_one_batch(bench, works))
    assert [one if isinstance(one, int) else type(one) for one in done] == [
        1,
        OperatorError,
        3,
        NotFound,
        4,
        OperatorError,
        5,
    ]
    assert str(done[1]) == f"{bench.path}: UNIQUE constraint failed: numbers.n"
    assert bench.numbers() == [1, 3, 4, 5]


def test_a_file_that_another_process_keeps_locked(bench: Bench) -> None:
    other = sqlite3.connect(bench.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def both() -> list[Any]:
        return await in_one_batch(bench, [add(1), add(2)])

    async def one() -> None:
        with pytest.raises(OperatorError, match="is held by another process"):
            await bench.writer.submit(add(1))

    asyncio.run(one())
    other.execute("ROLLBACK")
    other.close()
    assert asyncio.run(both()) == [1, 2]


def test_several_loops_at_once(bench: Bench) -> None:
    async def write(start: int) -> int:
        return sum([await bench.writer.submit(add(start + n)) for n in range(50)])

    sums: list[int] = []
    threads = [
        threading.Thread(target=lambda start=start: sums.append(asyncio.run(write(start)))) for start in (0, 100, 200)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sums) == [sum(range(start, start + 50)) for start in (0, 100, 200)]
    assert len(bench.numbers()) == 150


def test_a_loop_that_ended_meanwhile(bench: Bench) -> None:
    held = Held()

    async def leave() -> None:
        bench.writer.submit(held)
        bench.writer.submit(add(1))

    asyncio.run(leave())
    held.go.set()

    async def write() -> int:
        return await bench.writer.submit(add(2))

    assert asyncio.run(write()) == 2
    assert bench.numbers() == [1, 2]


def test_closing_writes_what_was_handed_in(bench: Bench) -> None:
    others = writers() - {bench.writer._thread}

    async def write() -> list[int]:
        waiting = [bench.writer.submit(add(n)) for n in range(200)]
        bench.writer.close()
        return await asyncio.gather(*waiting)

    async def late() -> None:
        with pytest.raises(OperatorError, match="the store is closed"):
            await bench.writer.submit(add(1))

    assert asyncio.run(write()) == list(range(200))
    assert bench.numbers() == list(range(200))
    bench.writer.close()
    asyncio.run(late())
    assert writers() <= others


def writers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "store-writer"}
