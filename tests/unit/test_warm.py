"""The pool of warm sandboxes: who gets which, and that none is lost; made by hand, without a jail."""

from __future__ import annotations

import asyncio
import queue
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from belljar.errors import BelljarError, Refused
from belljar.sandbox.base import Limits, Spec
from belljar.sandbox.local.warm import Pool

PATIENCE = 20.0
USUAL = Spec()
ASKED = Spec(Limits(timeout=5.0, output=10, grace=0.5))
"""Of the same shape: what differs, the host applies to each cell."""


@dataclass(eq=False)
class Box:
    spec: Spec
    alive: bool = True
    primed: bool = False
    ended: int = 0


@dataclass
class Maker:
    """Makes a sandbox when it is told to, and tells when it begins."""

    made: list[Box] = field(default_factory=list)
    failing: type[BelljarError] | None = None
    failing_prime: bool = False
    dying: bool = False
    _begun: queue.SimpleQueue[None] = field(default_factory=queue.SimpleQueue)
    _go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def make(self, spec: Spec) -> Box:
        self._begun.put(None)
        assert self._go.acquire(timeout=PATIENCE)
        if self.failing is not None:
            raise self.failing("no room")
        box = Box(spec, alive=not self.dying)
        self.made.append(box)
        return box

    def prime(self, box: Box) -> None:
        if self.failing_prime:
            raise Refused("its first cell failed")
        box.primed = True

    @staticmethod
    def end(box: Box) -> None:
        box.ended += 1

    def begun(self, seconds: float = PATIENCE) -> None:
        """Wait until the next one is being made; all before it have then arrived."""
        self._begun.get(timeout=seconds)

    def go(self, count: int = 1) -> None:
        """Let this many be finished."""
        self._go.release(count)

    def finish(self, count: int) -> None:
        """Have this many made, each begun after the one before has arrived; one more is being made then."""
        for _ in range(count):
            self.begun()
            self.go()
        self.begun()


@contextmanager
def pooled(maker: Maker, size: int) -> Iterator[Pool[Box]]:
    """A pool that has begun to make its first one."""
    pool = Pool(USUAL, size, make=maker.make, prime=maker.prime, end=maker.end)
    try:
        pool.start()
        yield pool
    finally:
        maker.go(size + 10)
        pool.close()


@pytest.fixture
def maker() -> Maker:
    return Maker()


# -- giving -----------------------------------------------------------------------------------------------------------


def test_ready_ones_are_given_in_their_order_and_made_up_for(maker: Maker) -> None:
    with pooled(maker, 3) as pool:
        maker.finish(2)
        assert pool.ready == tuple(maker.made)
        assert [pool.claim(ASKED), pool.claim(USUAL), pool.claim(USUAL)] == [*maker.made, None]
        assert [(box.spec, box.primed) for box in maker.made] == [(ASKED, True), (USUAL, True)]
        maker.go()
        maker.finish(1)  # the third was under way; then come those in the place of the claimed ones
    assert [box.ended for box in maker.made[:2]] == [0, 0]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Spec(Limits(memory=1 << 28)), id="memory"),
        pytest.param(Spec(packages="none"), id="packages"),
        pytest.param(Spec(requirements=("humanize",)), id="requirements"),
    ],
)
def test_another_kind_is_neither_given_nor_expected(maker: Maker, other: Spec) -> None:
    with pooled(maker, 2) as pool:
        maker.finish(1)
        assert pool.claim(other) is None
        assert pool.expect(other) is None
        assert asyncio.run(pool.expect_async(other)) is None
        assert pool.ready == tuple(maker.made)


def test_a_dead_one_is_ended_and_the_next_given(maker: Maker) -> None:
    with pooled(maker, 3) as pool:
        maker.finish(2)
        dead, alive = maker.made
        dead.alive = False
        assert pool.claim(USUAL) is alive
        assert dead.ended == 0, "that takes a while, which the one who asks has no need to wait for"
    assert (dead.ended, alive.ended) == (1, 0)


@pytest.mark.parametrize("waited", [False, True])
def test_one_that_died_before_it_arrived_is_neither_kept_nor_given(maker: Maker, waited: bool) -> None:
    async def main() -> None:
        with pooled(maker, 1) as pool:
            maker.dying = True
            maker.begun()
            expected = asyncio.create_task(pool.expect_async(USUAL if waited else Spec(packages="none")))
            await asyncio.sleep(0)
            maker.go()
            assert await expected is None
            assert pool.claim(USUAL) is None
            maker.begun()  # another, now that one was asked for
            assert (pool.ready, [box.ended for box in maker.made]) == ((), [1])

    asyncio.run(main())


def test_a_pool_of_none_makes_none(maker: Maker) -> None:
    pool = Pool(USUAL, 0, make=maker.make, prime=maker.prime, end=maker.end)
    pool.start()
    assert pool.claim(USUAL) is None
    assert pool.expect(USUAL) is None
    pool.close()
    with pytest.raises(queue.Empty):
        maker.begun(0)


# -- expecting --------------------------------------------------------------------------------------------------------


def test_one_who_waits_takes_the_one_that_is_being_made(maker: Maker) -> None:
    async def main() -> None:
        with pooled(maker, 1) as pool:
            maker.begun()
            expected = asyncio.create_task(pool.expect_async(ASKED))
            await asyncio.sleep(0)
            assert await pool.expect_async(USUAL) is None  # it is somebody's already
            maker.go()
            box = await expected
            assert box is maker.made[0]
            assert (box.spec, box.primed, box.ended) == (ASKED, False, 0)
            maker.begun()  # the next is for later
        assert box.ended == 0

    asyncio.run(main())


def test_of_threads_that_wait_one_takes_it(maker: Maker) -> None:
    with pooled(maker, 1) as pool, ThreadPoolExecutor(2) as threads:
        maker.begun()
        asking = {threads.submit(pool.expect, ASKED) for _ in range(2)}
        turned_down, waiting = wait(asking, PATIENCE, FIRST_COMPLETED)
        assert [one.result() for one in turned_down] == [None]
        maker.go()
        assert [one.result(PATIENCE) for one in waiting] == maker.made
        assert (maker.made[0].spec, maker.made[0].primed) == (ASKED, False)


def test_none_is_made_for_later_while_somebody_waits(maker: Maker) -> None:
    pool = Pool(USUAL, 1, make=maker.make, prime=maker.prime, end=maker.end)
    try:
        with pool.first():
            with pool.first():
                pool.start()
                with pytest.raises(queue.Empty):
                    maker.begun(0.1)
            with pytest.raises(queue.Empty):
                maker.begun(0.1)
        maker.begun()
    finally:
        maker.go()
        pool.close()


# -- those who go away ------------------------------------------------------------------------------------------------


def test_what_somebody_waited_for_who_has_gone_is_kept(maker: Maker) -> None:
    async def main() -> None:
        with pooled(maker, 2) as pool:
            maker.begun()
            expected = asyncio.create_task(pool.expect_async(ASKED))
            await asyncio.sleep(0)
            expected.cancel()
            await asyncio.wait({expected})
            assert expected.cancelled()
            maker.go()
            maker.begun()
            assert pool.ready == tuple(maker.made)
            assert pool.claim(USUAL) is maker.made[0]
            assert (maker.made[0].spec, maker.made[0].ended) == (USUAL, 0)

    asyncio.run(main())


@pytest.mark.parametrize("turns", [0, 1])
@pytest.mark.parametrize("over", [None, Pool[Box].refresh, Pool[Box].close], ids=["kept", "refreshed", "closed"])
def test_what_comes_in_the_moment_in_which_somebody_goes_is_not_lost(
    maker: Maker, turns: int, over: Callable[[Pool[Box]], None] | None
) -> None:
    """`turns` of the loop lie between its coming and their going; its time may be `over` by then."""

    async def main() -> None:
        with pooled(maker, 2) as pool:
            maker.begun()
            expected = asyncio.create_task(pool.expect_async(ASKED))
            await asyncio.sleep(0)
            maker.go()
            maker.begun()  # it has been given, and the loop has not had its turn
            for _ in range(turns):
                await asyncio.sleep(0)
            if over is not None:
                maker.go()
                over(pool)
            expected.cancel()
            await asyncio.wait({expected})
            assert expected.cancelled()
            given = maker.made[0]
            assert (given in pool.ready, given.ended) == ((False, 1) if over else (True, 0))

    asyncio.run(main())


# -- what fails -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [lambda pool: pool.claim(USUAL), Pool[Box].start], ids=["claim", "start"])
def test_one_who_waits_is_told_that_there_is_none_and_it_is_tried_again(
    maker: Maker, again: Callable[[Pool[Box]], None]
) -> None:
    async def main() -> None:
        with pooled(maker, 2) as pool:
            maker.begun()
            expected = asyncio.create_task(pool.expect_async(ASKED))
            await asyncio.sleep(0)
            maker.failing = Refused
            maker.go()
            assert await expected is None
            maker.failing = None
            again(pool)
            maker.finish(1)
            assert pool.ready == tuple(maker.made)

    asyncio.run(main())


def test_one_whose_first_cell_fails_is_ended(maker: Maker) -> None:
    maker.failing_prime = True
    with pooled(maker, 1) as pool:
        maker.begun()
        maker.go()
        pool.start()  # which has it tried again
        maker.begun()
        assert [box.ended for box in maker.made] == [1]
        assert pool.ready == ()


# -- the end ----------------------------------------------------------------------------------------------------------


def test_refreshing_ends_what_was_made_before(maker: Maker) -> None:
    with pooled(maker, 2) as pool:
        maker.finish(1)
        pool.refresh()
        assert (pool.ready, maker.made[0].ended) == ((), 1)
        maker.go()
        maker.finish(1)
        old, coming, new = maker.made
        assert [box.ended for box in (old, coming, new)] == [1, 1, 0]
        assert pool.ready == (new,)


def test_one_who_waits_is_given_it_refreshed_or_not(maker: Maker) -> None:
    async def main() -> None:
        with pooled(maker, 1) as pool:
            maker.begun()
            expected = asyncio.create_task(pool.expect_async(USUAL))
            await asyncio.sleep(0)
            pool.refresh()
            maker.go()
            assert await expected is maker.made[0]
            assert maker.made[0].ended == 0

    asyncio.run(main())


@pytest.mark.parametrize("waited", [False, True])
def test_closing_ends_all_that_is_ready_or_coming(maker: Maker, waited: bool) -> None:
    async def main() -> None:
        with pooled(maker, 3) as pool:
            maker.finish(1)
            expected = asyncio.create_task(pool.expect_async(USUAL if waited else Spec(packages="none")))
            await asyncio.sleep(0)
            closing = asyncio.create_task(asyncio.to_thread(pool.close))
            assert await asyncio.to_thread(pool._closing.wait, PATIENCE)
            maker.go()
            await closing
            assert await expected is None
            assert [box.ended for box in maker.made] == [1, 1]
            assert (pool.ready, pool.claim(USUAL), pool.expect(USUAL)) == ((), None, None)
        with pytest.raises(queue.Empty):
            maker.begun(0)

    asyncio.run(main())


def test_closing_does_not_wait_for_those_who_come_first(maker: Maker) -> None:
    pool = Pool(USUAL, 1, make=maker.make, prime=maker.prime, end=maker.end)
    with pool.first():
        pool.start()
        pool.close()
    with pytest.raises(queue.Empty):
        maker.begun(0)


# -- all of it at once ------------------------------------------------------------------------------------------------


def test_each_is_given_once_or_ended_once() -> None:
    """Threads and tasks ask, give up, and have the pool refreshed, all at the same time."""
    maker, given, chance = Maker(), list[Box](), random.Random(7)
    maker.go(100_000)

    async def ask(pool: Pool[Box]) -> None:
        if (box := pool.claim(ASKED) or await pool.expect_async(ASKED)) is not None:
            given.append(box)

    def ask_blocking(pool: Pool[Box]) -> None:
        if (box := pool.claim(ASKED) or pool.expect(ASKED)) is not None:
            given.append(box)

    async def main(pool: Pool[Box]) -> None:
        for turn in range(150):
            tasks = [asyncio.create_task(ask(pool)) for _ in range(3)]
            threads = [asyncio.create_task(asyncio.to_thread(ask_blocking, pool)) for _ in range(2)]
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            tasks[0].cancel()
            if turn % 10 == 0:
                await asyncio.to_thread(pool.refresh)
            await asyncio.wait([*tasks, *threads])
            for done in threads:
                done.result()

    with pooled(maker, 2) as pool:
        asyncio.run(main(pool))
    assert len(given) == len(set(given)) > 0
    assert all(box.ended == (0 if box in given else 1) for box in maker.made)
