"""Tracebacks, hints and warnings: the cell's own lines, none of ours."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from belljar.sandbox.guest import frames

from .conftest import Driver

HOME = frames.__file__.rsplit("/", 1)[0]


def test_the_cells_own_lines(guest: Driver) -> None:
    guest.ok("def f(x):\n    return 1 / x")
    ran = guest.run("y = 0\nf(y)")
    assert ran.status == "raised"
    assert (ran.error["type"], ran.error["message"]) == ("ZeroDivisionError", "division by zero")
    lines = [line for line in ran.traceback.splitlines() if "^" not in line and "~" not in line]
    assert lines == [
        "Traceback (most recent call last):",
        '  File "<cell 2>", line 2, in <module>',
        "    f(y)",
        '  File "<cell 1>", line 2, in f',
        "    return 1 / x",
        "ZeroDivisionError: division by zero",
    ]


def test_chained_exceptions(guest: Driver) -> None:
    text = guest.run("try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('bad') from e").traceback
    assert "KeyError: 'a'\n\nThe above exception was the direct cause" in text
    assert text.endswith("ValueError: bad\n")
    assert HOME not in text


def test_exception_groups(guest: Driver) -> None:
    ran = guest.run("raise ExceptionGroup('g', [ValueError(1), TypeError(2)])")
    assert "ExceptionGroup: g (2 sub-exceptions)" in ran.traceback
    assert "| TypeError: 2" in ran.traceback


def test_syntax_errors(guest: Driver) -> None:
    ran = guest.run("x = 1\nfor in y:\n    pass")
    assert ran.error["type"] == "SyntaxError"
    assert ran.traceback.startswith('  File "<cell 1>", line 2\n    for in y:\n        ^')
    assert ran.traceback.endswith("SyntaxError: invalid syntax\n")


@pytest.mark.parametrize("code", ["x = 'a\0b'", "(" * 300 + ")" * 300, "-" * 100_000 + "1", "return 1", "\ud800"])
def test_what_cannot_be_compiled(guest: Driver, code: str) -> None:
    ran = guest.run(code)
    assert ran.status == "raised"
    assert HOME not in ran.traceback
    assert guest.ok("1").result == "1"


def test_names_of_exceptions(guest: Driver) -> None:
    assert guest.run("class Mine(Exception): ...\nraise Mine('x')").error["type"] == "Mine"
    assert guest.run("import json; json.loads('{')").error["type"] == "json.decoder.JSONDecodeError"


def test_an_exception_that_cannot_speak(guest: Driver) -> None:
    ran = guest.run("class Mute(Exception):\n    def __str__(self): raise RuntimeError\nraise Mute")
    assert (ran.error["type"], ran.error["message"]) == ("Mute", "<exception str() failed>")
    assert "Mute" in ran.traceback


@pytest.mark.parametrize(
    "code",
    ["def f(): return f()\nf()", "def a(): return b()\ndef b(): return c()\ndef c(): return a()\na()"],
)
def test_recursion_stays_short(guest: Driver, code: str) -> None:
    ran = guest.run(code)
    assert ran.error["type"] == "RecursionError"
    assert len(ran.traceback.splitlines()) < 250
    assert ran.traceback.splitlines()[-1].startswith("RecursionError")


def test_a_cleared_line_cache(guest: Driver) -> None:
    assert "    1 / 0\n" in guest.run("import linecache; linecache.clearcache()\n1 / 0").traceback


def test_missing_packages(start: Callable[..., Driver]) -> None:
    guest = start(packages=["numpy", "pandas"])
    ran = guest.run("import not_there")
    assert ran.traceback.endswith("Hint: 'not_there' is not installed in this sandbox. Installed: numpy, pandas.\n")
    assert ran.done["limit"] == "packages"
    assert "Hint" not in guest.run("import os.nothing").traceback
    guest.ok("open('mine.py', 'w').write('import not_there_either')")
    assert "'not_there_either' is not installed" in guest.run("import mine").traceback
    wrapped = "try:\n    import lxml_not\nexcept ImportError as e:\n    raise ImportError('install lxml') from e"
    assert "'lxml_not' is not installed" in guest.run(wrapped).traceback


@pytest.mark.parametrize(
    ("module", "limit"),
    [("Not_There", "stack"), ("notthere", "stack"), ("notthere_ta", "packages"), ("os.notthere", "")],
)
def test_what_most_would_expect_has_its_own_remedy(start: Callable[..., Driver], module: str, limit: str) -> None:
    guest = start(missed=["not-there", "notthere"])
    assert guest.run(f"import {module}").done["limit"] == limit


def test_many_packages_are_shortened(start: Callable[..., Driver]) -> None:
    text = start(packages=[f"p{i:03}" for i in range(400)]).run("import nope").traceback
    assert "p059 and 340 more." in text


def test_memory_errors_name_the_limit(guest: Driver) -> None:
    ran = guest.run("class Mine(MemoryError): pass\nraise Mine")
    assert (ran.error["type"], ran.status, ran.done["limit"]) == ("Mine", "raised", "memory")
    assert guest.run("x = bytearray(1 << 60)").done["limit"] == "memory"


def test_no_one_types(guest: Driver) -> None:
    ran = guest.run("name = input('Name? ')")
    assert ran.error["type"] == "EOFError"
    assert "no one to type" in ran.error["message"]
    assert ran.stdout == "Name? "
    assert HOME not in ran.traceback
    assert guest.ok("import sys; sys.stdin.read()").result == "''"
    assert guest.ok("import io; sys.stdin = io.StringIO('typed\\n'); input()").result == "'typed'"
    assert "no one to type" in guest.run("import getpass; getpass.getpass()").traceback


def test_warnings_point_to_the_cell(guest: Driver) -> None:
    code = "import warnings\nfor _ in range(3):\n    warnings.warn('careful')"
    for number in (1, 2):
        assert guest.ok(code).stderr == f"<cell {number}>:3: UserWarning: careful\n  warnings.warn('careful')\n"
    for level in (2, 3, 4):
        assert guest.ok(f"warnings.warn('far', stacklevel={level})").stderr == f"<cell {level + 1}>: UserWarning: far\n"


def test_logging(guest: Driver) -> None:
    assert guest.ok("import logging; logging.warning('one')").stderr == "WARNING:root:one\n"
    guest.ok("import sys; sys.stderr.detach(); sys.stdout.detach();")
    assert guest.ok("logging.warning('two')").stderr == "WARNING:root:two\n"


def test_threads_report_their_exceptions(guest: Driver) -> None:
    ran = guest.ok("import threading\nt = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()")
    assert "ZeroDivisionError" in ran.stderr
    assert '"<cell 1>", line 2' in ran.stderr


def test_notes_and_suggestions_are_pythons_own(guest: Driver) -> None:
    ran = guest.run("e = ValueError('x'); e.add_note('look here'); raise e")
    assert ran.traceback.endswith("ValueError: x\nlook here\n")
    if sys.version_info >= (3, 12):
        assert "Did you mean: 'value'?" in guest.run("value = 1; valeu").traceback
