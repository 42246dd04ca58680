"""There are never more than there may be, and who waits longest is next; whatever becomes of those who wait."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading

import pytest

from belljar.errors import NoneFree
from belljar.sandbox.places import Places

LONG = 60.0


async def queued(places: Places, count: int) -> None:
    while len(places._queue) != count:  # noqa: ASYNC110 - within a few turns of the loop
        await asyncio.sleep(0)


def test_whoever_waits_longest_is_next() -> None:
    async def main() -> None:
        places, order = Places(1), []

        async def use(name: int) -> None:
            async with places.wait(LONG):
                order.append(name)
                assert places.taken == 1
                await asyncio.sleep(0)

        with places.take():
            tasks = []
            for name in range(5):
                tasks.append(asyncio.create_task(use(name)))
                await queued(places, name + 1)
            tasks[2].cancel()
            await queued(places, 4)
        with pytest.raises(NoneFree), places.take():  # it went to the next, and is nobody else's in between
            pass
        await asyncio.wait(tasks)
        assert order == [0, 1, 3, 4]
        assert places.taken == 0

    asyncio.run(main())


def test_nobody_waits_who_does_not_want_to() -> None:
    async def main() -> None:
        places = Places(1)
        async with places.wait(0):
            for seconds in (0.0, -1.0):
                with pytest.raises(NoneFree, match="try again when one is free") as refused:
                    async with places.wait(seconds):
                        pass
                assert refused.value.most == 1
            with pytest.raises(NoneFree, match=r"none became free within 0\.01 s"):
                async with places.wait(0.01):
                    pass
        assert (places.taken, len(places._queue)) == (0, 0)

    asyncio.run(main())


def test_a_place_that_comes_too_late_is_passed_on() -> None:
    """Granted and called off in the same moment: the next has it."""

    async def main() -> None:
        places = Places(1)

        async def use() -> str:
            async with places.wait(LONG):
                return "used"

        with places.take():
            first = asyncio.create_task(use())
            await queued(places, 1)
            second = asyncio.create_task(use())
            await queued(places, 2)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await second == "used"
        assert places.taken == 0

    asyncio.run(main())


def test_a_loop_that_has_ended_keeps_no_place() -> None:
    places = Places(1)

    async def use() -> None:
        async with places.wait(LONG):
            pass

    loop = asyncio.new_event_loop()
    with places.take():
        waiting = loop.create_task(use())
        loop.run_until_complete(queued(places, 1))
        loop.close()
    assert places.taken == 0
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = waiting.get_coro()
    assert coroutine is not None
    coroutine.close()
    assert places.taken == 0


def test_many_threads_and_loops() -> None:
    places, most, seen = Places(3), 0, 0
    lock = threading.Lock()

    async def use(dice: random.Random) -> None:
        nonlocal most, seen
        with contextlib.suppress(NoneFree, TimeoutError):
            async with asyncio.timeout(dice.choice([LONG, 0.001])), places.wait(dice.choice([LONG, 0.001, 0])):
                with lock:
                    most, seen = max(most, places.taken), seen + 1
                await asyncio.sleep(dice.choice([0, 0.0005]))

    def work(seed: int) -> None:
        dice = random.Random(seed)

        async def main() -> None:
            for _ in range(20):
                await asyncio.gather(*[use(dice) for _ in range(10)])

        asyncio.run(main())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (places.taken, len(places._queue)) == (0, 0)
    assert 0 < most <= 3
    assert seen > 100
