"""`belljar run` for users whose home has something odd in it, or who have none: a cell runs all the same."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import as_user
from tests.escape.conftest import cache_of, folder_of, remove

DRAW = "import matplotlib.pyplot as plt\nplt.title('a')\n1 + 1"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "user" in metafunc.fixturenames:
        metafunc.parametrize("user", as_user.users())


@pytest.fixture
def home(user: str) -> Iterator[Path]:
    folder = folder_of(user, "home")
    yield folder
    remove(folder)


def run(user: str, *args: str, **variables: str) -> tuple[int, str, str]:
    with as_user.start(user, "belljar.cli", "run", *args, variables=variables, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=100)
    return process.returncode, out, err


def given_to(user: str, top: Path) -> None:
    if user == "ordinary" and os.geteuid() == 0:
        for path in (top, *top.rglob("*")):
            os.chown(path, as_user.ORDINARY, as_user.ORDINARY, follow_symlinks=False)


def test_caches_of_others_beside_ours(user: str, home: Path) -> None:
    """`fc-list`, which matplotlib runs, leaves a directory wherever it takes its home to be."""
    version = importlib.metadata.version("matplotlib")
    cache = home / ".cache" / "belljar"
    cache.mkdir(parents=True)
    for kept in cache_of(user).glob("matplotlib-*.json"):
        shutil.copy(kept, cache)
    for place in (cache, cache / f"matplotlib-{version}", cache / "tmp"):
        (place / ".cache" / "fontconfig").mkdir(parents=True)
    given_to(user, home)
    for _ in range(2):
        assert run(user, "-c", DRAW, HOME=str(home))[:2] == (0, "2\n")


def read_only(home: Path) -> None:
    home.chmod(0o500)


def someone_elses(home: Path) -> None:
    if os.geteuid() == 0:
        os.chown(home, 54321, 54321)
        home.chmod(0o755)
    else:
        home.chmod(0o500)


def others_inside(home: Path) -> None:
    """As after a `sudo` that kept HOME, or the other way round."""
    (home / ".cache" / "belljar" / "packages" / "layers").mkdir(parents=True)
    for path in home.rglob("*"):
        with contextlib.suppress(PermissionError):
            os.chown(path, 54321, 54321)


def a_file(home: Path) -> None:
    (home / ".cache").write_text("")


def dangling(home: Path) -> None:
    (home / ".cache").symlink_to("/nowhere/at/all")


def circle(home: Path) -> None:
    (home / ".cache").symlink_to(".cache")


def closed(home: Path) -> None:
    """As root's is to the user that `sudo -u` makes of it."""
    home.chmod(0)


@pytest.mark.parametrize("spoil", [read_only, closed, someone_elses, others_inside, a_file, dangling, circle])
def test_a_home_that_nothing_can_be_kept_in(user: str, home: Path, spoil: Callable[[Path], None]) -> None:
    spoil(home)
    assert run(user, "--packages", "none", "-c", "1 + 1", HOME=str(home)) == (0, "2\n", "")


@pytest.mark.parametrize("place", ["/dev/null", "/proc/self", ""])
def test_no_home_to_speak_of(user: str, place: str) -> None:
    variables = {"HOME": place, "XDG_CACHE_HOME": "/dev/null"} if not place else {"HOME": place}
    assert run(user, "--packages", "none", "-c", "1 + 1", **variables) == (0, "2\n", "")


def test_the_data_stack_without_a_cache(user: str) -> None:
    assert run(user, "-c", DRAW, HOME="/dev/null")[:2] == (0, "2\n")


def test_requirements_without_a_cache_are_told_why_not(user: str) -> None:
    code, out, err = run(user, "--packages", "none", "--require", "six", "-c", "1", HOME="/dev/null")
    assert (code, out) == (3, "")
    assert err.startswith("belljar: error: --require: the package store /dev/null/.cache/belljar/packages cannot be ")
    assert "BELLJAR_CACHE_DIR" in err


def test_a_secret_that_was_cut_off_is_made_anew(user: str, home: Path) -> None:
    secret = home / ".cache" / "belljar" / "packages" / "secret"
    assert run(user, "--packages", "none", "-c", "1 + 1", HOME=str(home))[0] == 0
    assert secret.stat().st_size == 32
    os.truncate(secret, 0)
    assert run(user, "--packages", "none", "-c", "1 + 1", HOME=str(home))[0] == 0
    assert secret.stat().st_size == 32
