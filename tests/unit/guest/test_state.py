"""Variables, results and modules, as in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Driver


def test_variables_live_on(guest: Driver) -> None:
    assert guest.hello == {"python": ".".join(map(str, sys.version_info[:3]))}
    guest.ok("x = 41")
    ran = guest.ok("x + 1")
    assert ran.result == "42"
    assert ran.done == {"id": 2, "status": "ok"}


def test_cells_are_the_main_module(guest: Driver) -> None:
    guest.ok("import pickle\nclass Point:\n    x = 3")
    assert guest.ok("pickle.loads(pickle.dumps(Point())).x, __name__, Point.__module__").result == (
        "(3, '__main__', '__main__')"
    )
    assert guest.ok("def f():\n    return 1\nimport inspect; print(inspect.getsource(f))").stdout == (
        "def f():\n    return 1\n\n"
    )


@pytest.mark.parametrize("code", ["x = 1", "None", "1;", "1 ; # quiet", "'a;b';", "", "# only a comment", "(\n1\n);"])
def test_nothing_is_shown(guest: Driver, code: str) -> None:
    ran = guest.ok(code)
    assert (ran.results, ran.displays, ran.stdout, ran.stderr) == ([], [], "", "")


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("1", "1"),
        ("x = 2\nx", "2"),
        ("';'", "';'"),
        ("(3)", "3"),
        ("'ä;' # ;", "'ä;'"),
        ("for i in ():\n  pass\n7", "7"),
    ],
)
def test_the_last_expression_is_shown(guest: Driver, code: str, shown: str) -> None:
    assert guest.ok(code).result == shown


def test_underscore_is_the_last_result(guest: Driver) -> None:
    guest.ok("6 * 7")
    guest.ok("x = 1")
    assert guest.ok("_ + x").result == "43"


def test_future_statements_hold_for_later_cells(guest: Driver) -> None:
    guest.ok("from __future__ import annotations")
    assert guest.ok("def f(a: missing): ...\nf.__annotations__").result == "{'a': 'missing'}"


def test_the_guests_own_future_does_not_leak(guest: Driver) -> None:
    assert guest.ok("def f(a: int): ...\nf.__annotations__").result == "{'a': <class 'int'>}"


def test_modules_of_the_working_directory_can_be_imported(guest: Driver, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("answer = 42")
    assert guest.ok("import mine; mine.answer").result == "42"


def test_changing_the_directory_lasts(guest: Driver, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    guest.ok("import os; os.chdir('sub')")
    assert guest.ok("os.path.basename(os.getcwd())").result == "'sub'"


def test_extra_paths(start: Callable[..., Driver], tmp_path: Path) -> None:
    guest = start(paths=[layer(tmp_path / "layer", "layered")])
    assert guest.ok("import layered; layered.__name__").result == "'layered'"


def test_paths_that_change_later(start: Callable[..., Driver], tmp_path: Path) -> None:
    first, second = layer(tmp_path / "first", "one", "two"), layer(tmp_path / "second", "one", "two")
    guest = start(paths=[first])
    before = guest.ok("import one, sys; kept = sys.path; sys.path").result
    assert guest.ok("import one, two; two.__file__", paths=[second]).result == f"'{second}/two.py'"
    assert guest.ok("one.__file__, kept is sys.path").result == f"('{first}/one.py', True)"
    assert guest.ok("sys.path").result == before.replace(first, second)
    assert guest.ok("sys.path", paths=[]).result == before.replace(f", '{first}'", "")


def test_a_path_that_a_cell_broke_is_changed_once_it_is_mended(guest: Driver, tmp_path: Path) -> None:
    guest.ok("import sys; kept, sys.path = sys.path, None")
    assert guest.ok("sys.path is None", paths=[layer(tmp_path / "late", "late")]).result == "True"
    guest.ok("sys.path = kept")
    guest.ok("import late")


def test_a_finder_that_fails_when_paths_change_fails_the_cell_only(guest: Driver, tmp_path: Path) -> None:
    guest.ok("import sys\nclass Bad:\n def find_spec(*a): pass\n def invalidate_caches(self): 1 / 0\n"
             "sys.meta_path.insert(0, Bad())")  # fmt: skip
    assert guest.run("1", paths=[layer(tmp_path / "late", "late")]).error["type"] == "ZeroDivisionError"
    guest.ok("import late")


def layer(home: Path, *modules: str) -> str:
    home.mkdir()
    for name in modules:
        (home / f"{name}.py").touch()
    return str(home)


@pytest.mark.parametrize(("code", "number"), [("import sys; sys.exit()", 0), ("exit(0)", 0), ("quit()", 0)])
def test_leaving_well(guest: Driver, code: str, number: int) -> None:
    guest.ok("x = 1")
    ran = guest.run(f"print('before')\n{code}\nprint('after')")
    assert (ran.status, ran.done["code"], ran.done["error"]) == ("ok", number, None)
    assert (ran.stdout, ran.stderr) == ("before\n", "")
    assert "variables are kept" in ran.done["note"]
    assert guest.ok("x").result == "1"


@pytest.mark.parametrize(
    ("code", "number", "stderr"),
    [("import sys; sys.exit(3)", 3, ""), ("exit('no data')", 1, "no data\n"), ("raise SystemExit(True)", 1, "")],
)
def test_leaving_badly(guest: Driver, code: str, number: int, stderr: str) -> None:
    ran = guest.run(code)
    assert (ran.status, ran.done["code"], ran.error["type"], ran.stderr) == ("raised", number, "SystemExit", stderr)
    assert guest.ok("1").result == "1"


def test_the_host_hanging_up_ends_the_guest(start: Callable[..., Driver]) -> None:
    guest = start()
    guest.ok("1")
    guest.close()
    assert guest.process.wait(0) == 0
