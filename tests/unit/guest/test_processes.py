"""Children of a cell: forks, pools, threads and programs."""

from __future__ import annotations

import pytest

from .conftest import Driver


def test_a_forked_child_ends_with_the_cell(guest: Driver) -> None:
    ran = guest.ok(
        "import os\nprint('before')\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('parent' if pid else 'child')"
    )
    assert ran.stdout == "before\nchild\nparent\n"
    assert guest.ok("1").result == "1"


@pytest.mark.parametrize(("code", "status"), [("pass", 0), ("1 / 0", 1), ("import sys; sys.exit(5)", 5)])
def test_how_a_forked_child_ends(guest: Driver, code: str, status: int) -> None:
    ran = guest.ok(f"import os\npid = os.fork()\nif not pid:\n    {code}\nelse:\n    s = os.waitpid(pid, 0)[1]\n"
                   "    print(os.waitstatus_to_exitcode(s))")  # fmt: skip
    assert ran.stdout == f"{status}\n"
    assert ("ZeroDivisionError" in ran.stderr) == (status == 1)


def test_a_child_shows_as_text(guest: Driver) -> None:
    ran = guest.ok("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nelse: display('from the child')")
    assert (ran.stdout, ran.displays) == ("'from the child'\n", [])


def test_a_fork_in_the_middle_of_a_burst(guest: Driver) -> None:
    ran = guest.ok(
        "import os\nfor i in range(2000): print(i)\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n"
        "for i in range(2000): print(i)"
    )
    assert ran.stdout == "".join(f"{i}\n" for i in range(2000)) * 3


@pytest.mark.parametrize(
    "code",
    [
        "from multiprocessing import Pool\nwith Pool(2) as p: r = p.map(f, range(4))",
        "from concurrent.futures import ProcessPoolExecutor as E\nwith E(2) as p: r = list(p.map(f, range(4)))",
        "from concurrent.futures import ThreadPoolExecutor as E\nwith E(2) as p: r = list(p.map(f, range(4)))",
        "import multiprocessing as m\nq = m.Queue()\np = m.Process(target=lambda: q.put([f(i) for i in range(4)]))\n"
        "p.start(); r = q.get(); p.join()",
    ],
)
def test_pools(guest: Driver, code: str) -> None:
    ran = guest.ok(f"def f(x): return x * x\n{code}\nr")
    assert (ran.result, ran.stderr) == ("[0, 1, 4, 9]", "")
    assert guest.ok("1").result == "1"


def test_programs(guest: Driver) -> None:
    code = """
import subprocess, sys, os
print('a')
subprocess.run(['echo', 'b'])
os.system('echo c')
subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True, text=True).stdout
"""
    ran = guest.ok(code)
    assert (ran.stdout, ran.result) == ("a\nb\nc\n", "'1\\n'")
