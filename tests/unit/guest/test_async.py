"""Top-level await, and tasks that go on between cells."""

from __future__ import annotations

import pytest

from .conftest import Driver


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("import asyncio\nawait asyncio.sleep(0, 5)", "5"),
        ("import asyncio\nx = await asyncio.sleep(0, 6)\nx", "6"),
        ("import asyncio\nasync def f(): return 7\nasyncio.run(f())", "7"),
        ("import asyncio\nasync def f(): return 8\nasyncio.get_event_loop().run_until_complete(f())", "8"),
        (
            "async def g():\n    yield 1\n    yield 2\nseen = []\nasync for x in g():\n    seen.append(x)\nseen",
            "[1, 2]",
        ),
        ("import asyncio\nasync with asyncio.Lock() as l:\n    x = 9\nx", "9"),
        ("async def g():\n    yield 1\n[x async for x in g()]", "[1]"),
        ("import asyncio\nt = asyncio.create_task(asyncio.sleep(0, 3))\ntype(t).__name__", "'Task'"),
        ("import asyncio\nasyncio.get_running_loop().is_running()", "True"),
        (
            "import asyncio\nasync def main():\n    return await asyncio.create_task(asyncio.sleep(0, 4))\n"
            "asyncio.run(main())",
            "4",
        ),
    ],
)
def test_kinds_of_asynchronous_cells(guest: Driver, code: str, shown: str) -> None:
    for _ in range(2):
        ran = guest.ok(code)
        assert (ran.result, ran.stderr) == (shown, "")


def test_one_loop_for_all_cells(guest: Driver) -> None:
    guest.ok("import asyncio\nq = asyncio.Queue()\nawait q.put(1)\nloop = asyncio.get_running_loop()")
    guest.ok("async def f(): pass\nasyncio.run(f())")
    assert guest.ok("(await q.get(), loop is asyncio.get_running_loop())").result == "(1, True)"


def test_background_tasks_go_on_between_cells(guest: Driver) -> None:
    guest.ok(
        "import asyncio\nasync def tick():\n    await asyncio.sleep(0.01)\n    print('ticked', flush=True)\n"
        "task = asyncio.create_task(tick());"
    )
    ran = guest.finish(until=lambda ran: ran.stdout == "ticked\n")
    assert ran.done == {}
    assert guest.ok("task.done()").result == "True"


def test_an_exception_in_a_background_task_is_reported_and_harmless(guest: Driver) -> None:
    guest.ok("import asyncio\nasync def f(): raise SystemExit(3)\nt = asyncio.ensure_future(f());")
    assert guest.ok("1").result == "1"


def test_a_traceback_begins_in_the_cell(guest: Driver) -> None:
    ran = guest.run("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    1 / 0\nawait f()")
    assert ran.traceback.startswith(
        'Traceback (most recent call last):\n  File "<cell 1>", line 5, in <module>\n    await f()\n'
    )
    assert "asyncio" not in ran.traceback.split("File", 1)[1]


def test_a_closed_loop_is_replaced(guest: Driver) -> None:
    guest.ok("import asyncio\nasyncio.get_event_loop().close()")
    assert guest.ok("await asyncio.sleep(0, 1)").result == "1"


def test_leaving_from_await(guest: Driver) -> None:
    ran = guest.run("import asyncio, sys\nawait asyncio.sleep(0)\nsys.exit(4)")
    assert (ran.status, ran.done["code"], ran.stderr) == ("raised", 4, "")
    assert guest.ok("await asyncio.sleep(0, 1)").stderr == ""
