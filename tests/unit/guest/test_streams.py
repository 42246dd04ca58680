"""Standard streams: live, fast, and whole again after every cell."""

from __future__ import annotations

import pytest

from .conftest import Driver, Ran

ENDLESS = "\nimport time\nwhile True:\n    time.sleep(0.01)"


@pytest.mark.parametrize(
    "code",
    [
        "print('first')",
        "print('fir', end=''); print('st')",
        "import sys; sys.stdout.write('first\\n')",
        "import os; os.write(1, b'first\\n')",
        "import subprocess; subprocess.run(['echo', 'first'])",
    ],
)
def test_text_is_visible_while_the_cell_runs(guest: Driver, code: str) -> None:
    guest.send(code + ENDLESS)
    ran = guest.finish(until=lambda ran: ran.stdout == "first\n")
    assert ran.done == {}
    guest.interrupt()
    assert guest.finish(ran=ran).status == "interrupted"


def test_half_a_line_and_the_end_of_a_burst_are_visible(guest: Driver) -> None:
    guest.send("for i in range(5000): print(i)\nprint('half', end='')" + ENDLESS)
    ran = guest.finish(until=lambda ran: ran.stdout.endswith("4999\nhalf"))
    assert ran.done == {}
    guest.interrupt()
    assert guest.finish(ran=ran).status == "interrupted"


def test_a_burst_loses_nothing_and_keeps_its_order(guest: Driver) -> None:
    ran = guest.ok("import sys\nfor i in range(200_000):\n    print(i)\nprint('e', file=sys.stderr)")
    assert ran.stdout == "".join(f"{i}\n" for i in range(200_000))
    assert ran.stderr == "e\n"


def test_a_burst_is_fast(guest: Driver) -> None:
    code = "import time; t = time.process_time()\nfor i in range(300_000): print(i)\n"
    ran = guest.ok(code + "time.process_time() - t")
    assert float(ran.result) < 2.0  # one system call a write took many times that


def test_threads_print_in_a_burst(guest: Driver) -> None:
    code = """
import threading
def work(n):
    for i in range(5000): sys.stdout.write(f'{n} {i}\\n')
import sys
ts = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in ts]; [t.join() for t in ts];
"""
    lines = guest.ok(code).stdout.splitlines()
    for n in range(4):
        assert [line for line in lines if line.startswith(f"{n} ")] == [f"{n} {i}" for i in range(5000)]


@pytest.mark.parametrize(
    "code",
    [
        "sys.stdout.close(); sys.stderr.close()",
        "os.close(1); os.close(2)",
        "os.close(0); os.close(1)",
        "sys.stdout = sys.stderr = None",
        "sys.stdout = sys.stderr = io.StringIO()",
        "del sys.stdout, sys.stderr, sys.stdin",
        "sys.stdout.detach(); sys.stderr.detach()",
        "sys.stdout.buffer.close(); sys.stderr.buffer.raw.close()",
        "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='latin-1'); sys.stdout = 5",
        "os.dup2(os.open(os.devnull, os.O_WRONLY), 1); os.dup2(1, 2)",
        "sys.stdin.close(); sys.stdin = None",
        "sys.stdout.write = None",
        "sys.stdout.flush = lambda: 1 / 0",
    ],
)
def test_streams_come_back(guest: Driver, code: str) -> None:
    guest.ok("import io, os, sys, logging; logging.basicConfig()")
    assert guest.run(f"x = 3\n{code};").status == "ok"
    ran = guest.ok("print('out'); print('err', file=sys.stderr); sys.stdin.read(); logging.error('log')\nx")
    assert (ran.stdout, ran.stderr, ran.result) == ("out\n", "err\nERROR:root:log\n", "3")


def test_what_a_replaced_stream_held_back_is_not_lost(guest: Driver) -> None:
    code = "import io, sys\nsys.stdout = io.TextIOWrapper(open(1, 'wb', closefd=False))\nprint('kept')"
    assert guest.ok(code).stdout == "kept\n"


def test_a_late_thread_may_print(guest: Driver) -> None:
    guest.ok(
        "import threading\ngo = threading.Event()\nthreading.Thread(target=lambda: (go.wait(), print('late'))).start()"
    )
    ran = guest.ok("go.set()")
    if not ran.stdout:
        ran = guest.finish(until=lambda ran: ran.stdout == "late\n")
    assert ran.stdout == "late\n"


def test_binary_and_c_level_output(guest: Driver) -> None:
    code = (
        "import sys, ctypes\nsys.stdout.buffer.write(b'\\xff\\n')\nc = ctypes.CDLL(None); c.puts(b'c'); c.fflush(None);"
    )
    assert sorted(guest.ok(code).stdout.splitlines()) == ["\\xff", "c"]


def test_text_before_a_crash_is_not_lost(guest: Driver) -> None:
    guest.send("print('last words')\nimport os; os._exit(3)")
    ran = Ran()
    with pytest.raises((AssertionError, ConnectionError)):
        guest.finish(ran=ran)
    assert guest.process.wait(10) == 3
    guest.drain(ran)
    assert ran.stdout == "last words\n"
