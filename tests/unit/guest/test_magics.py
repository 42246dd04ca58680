"""Lines that are not Python: commands and magics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Driver


@pytest.mark.parametrize(
    "line",
    [
        "%pip install requests numpy",
        "!pip install requests numpy",
        "!pip3 install -q requests numpy",
        "!python -m pip install requests numpy",
        "!conda install -y requests numpy",
        "    !pip install requests numpy",
    ],
)
def test_packages_cannot_be_installed(start: Callable[..., Driver], line: str) -> None:
    guest = start(packages=["numpy"])
    ran = guest.ok(("if True:\n" if line.startswith(" ") else "") + line + "\nx = 1")
    assert ran.stdout == (
        "Packages cannot be installed from inside the sandbox: it has no network access. "
        "Already installed: numpy. Installed: numpy.\n"
    )
    assert ran.done["limit"] == "packages"
    assert guest.ok("1").done.get("limit", "") == ""
    assert guest.ok("!pip install -U numpy").done.get("limit", "") == ""


def test_commands_write_to_the_streams_in_order(guest: Driver) -> None:
    ran = guest.ok("for i in range(3000):\n    print(i)\n!echo out; echo err >&2\nprint('after')")
    assert ran.stdout == "".join(f"{i}\n" for i in range(3000)) + "out\nafter\n"
    assert ran.stderr == "err\n"
    assert "exit code 3" in guest.ok("!exit 3").stderr


def test_commands_see_variables(guest: Driver) -> None:
    assert guest.ok("name = 'a b'\n!echo \"{name}\" $name {other} ${HOME:0:0}").stdout == "a b a b {other}\n"


def test_commands_can_be_assigned(guest: Driver) -> None:
    assert guest.ok("lines = !printf 'a\\nb\\n'\nlines").result == "['a', 'b']"


def test_line_numbers_hold(guest: Driver) -> None:
    ran = guest.run("%matplotlib inline\n!true \\\n  it's\n%load_ext autoreload\n%autoreload 2\n1 / 0")
    assert '"<cell 1>", line 6' in ran.traceback


def test_valid_python_is_never_changed(guest: Driver) -> None:
    assert guest.ok("x = '''\n%pip install x\n!ls\n'''\ny = (7\n%4\n)\nx + str(y)").result == repr(
        "\n%pip install x\n!ls\n3"
    )


def test_line_magics(guest: Driver, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert guest.ok("%config InlineBackend.figure_format = 'retina'").stdout == ""
    assert guest.ok("%cd sub\n%pwd").result == repr(str(tmp_path / "sub"))
    timed = guest.ok("%time sum(range(10))")
    assert (timed.result, "wall time" in timed.stdout) == ("45", True)
    guest.ok("%time kept = 5")
    assert guest.ok("kept").result == "5"
    assert "per loop" in guest.ok("%timeit -n1 kept + 1").stdout


def test_cell_magics(guest: Driver, tmp_path: Path) -> None:
    assert guest.ok("%%bash\nfor i in 1 2; do\n  echo $i\ndone").stdout == "1\n2\n"
    timed = guest.ok("%%time\nx = 2\nx + 1")
    assert (timed.result, "wall time" in timed.stdout) == ("3", True)
    assert guest.ok("%%capture\nprint('quiet')").stdout == ""
    assert guest.ok("print('loud')").stdout == "loud\n"
    guest.ok("%%writefile a.txt\none\ntwo\n")
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"


def test_other_magics_say_what_there_is(guest: Driver) -> None:
    for code in ("%lsmagic", "%%javascript\nalert(1)"):
        ran = guest.run(code)
        assert "is not supported here. These are: !command, %cd" in ran.error["message"]


def test_a_real_syntax_error_stays_one(guest: Driver) -> None:
    ran = guest.run("x = 5 %\n")
    assert ran.error["type"] == "SyntaxError"
    assert "x = 5 %" in ran.traceback
