"""Interrupts land in cells and nowhere else."""

from __future__ import annotations

import pytest

from .conftest import Driver, Ran

READY = "print('ready')\n"


def interrupted(guest: Driver, code: str) -> Ran:
    guest.send(code)
    ran = guest.finish(until=lambda ran: "ready\n" in ran.stdout)
    assert ran.done == {}
    guest.interrupt()
    ran = guest.finish(ran=ran)
    assert (ran.status, ran.error["type"]) == ("interrupted", "KeyboardInterrupt")
    return ran


@pytest.mark.parametrize(
    "code",
    [
        READY + "while True: pass",
        "import time\n" + READY + "time.sleep(60)",
        "import asyncio\n" + READY + "await asyncio.sleep(60)",
        "import asyncio\nasync def f():\n    while True: pass\n" + READY + "await f()",
        "import asyncio\n" + READY + "asyncio.run(asyncio.sleep(60))",
        "import threading\n" + READY + "threading.Event().wait()",
        "!echo ready; exec sleep 60",
        "class Slow:\n    def __repr__(self):\n        print('ready')\n        while True: pass\nSlow()",
    ],
)
def test_cells_can_be_interrupted(guest: Driver, code: str) -> None:
    guest.ok("x = 1")
    ran = interrupted(guest, code)
    assert '"<cell 2>"' in ran.traceback
    assert "belljar" not in ran.traceback
    assert guest.ok("x").result == "1"
    assert guest.ok("import asyncio\nawait asyncio.sleep(0, 2)").result == "2"


def test_interrupts_between_cells_are_nothing(guest: Driver) -> None:
    for _ in range(5):
        guest.interrupt()
        assert guest.ok("1").result == "1"


def test_interrupts_at_any_moment(guest: Driver) -> None:
    """A storm of interrupts over many short cells: every one is answered with whole frames."""
    seen = set()
    for i in range(400):
        guest.send("display('x' * 1000)\n'y' * 1000")
        for _ in range(i % 4):
            guest.interrupt()
        ran = guest.finish()
        seen.add(ran.status)
        assert ran.status in ("ok", "interrupted")
    assert "ok" in seen
    assert guest.ok("1").result == "1"


def test_a_cells_own_handler_lasts_for_the_cell(guest: Driver) -> None:
    guest.ok("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")
    interrupted(guest, READY + "while True: pass")
    guest.ok("signal.signal(signal.SIGINT, signal.SIG_DFL)")
    interrupted(guest, READY + "while True: pass")


def test_an_alarm_does_not_outlive_its_cell(guest: Driver) -> None:
    guest.ok(
        "import signal\nsignal.signal(signal.SIGALRM, lambda *_: 1 / 0)\nsignal.setitimer(signal.ITIMER_REAL, 0.05);"
    )
    assert guest.run("import time; time.sleep(0.2)").status == "ok"


def test_a_background_task_that_hogs_can_be_interrupted(guest: Driver) -> None:
    guest.ok(
        "import asyncio\nasync def hog():\n    print('ready')\n    while True: pass\n"
        "async def later():\n    await asyncio.sleep(0.01)\n    await hog()\nt = asyncio.create_task(later());"
    )
    guest.finish(until=lambda ran: ran.stdout == "ready\n")
    guest.interrupt()
    assert guest.run("1").result == "1"
