"""Control groups among several Belljars: who owns which, what is swept, and what is made again."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from belljar.errors import Refused
from belljar.sandbox import owned_directories
from belljar.sandbox.local import cgroups, launcher
from belljar.sandbox.local.cgroups import Groups

SRC = Path(__file__).parents[2] / "src"
ELSEWHERE = [
    "unshare",
    *(() if os.geteuid() == 0 else ("--user", "--map-root-user")),
    "--pid",
    "--fork",
    "--mount-proc",
]
"""Runs a command in a process namespace of its own, where the numbers of our processes say nothing."""
SWEEP = "import sys, pathlib; from belljar.sandbox.local import cgroups; cgroups.sweep(pathlib.Path(sys.argv[1]))"
HOLD = """
import os, sys, pathlib
from belljar.sandbox import owned_directories
path = pathlib.Path(sys.argv[1])
path.mkdir(0o700)
owned_directories.claim(lambda: path)
print("held", flush=True)
sys.stdin.readline()
"""


def trees() -> list[str]:
    """Where groups can be tried: a plain directory anywhere, and the real hierarchies that we may write."""
    found = {"v1": cgroups.find_own_group("memory"), "v2": cgroups.find_own_group("")}
    return ["plain", *(name for name, path in found.items() if path and os.access(path, os.W_OK))]


@pytest.fixture(params=trees())
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A group of this test's own, in which others are made."""
    top = {"plain": tmp_path, "v1": cgroups.find_own_group("memory"), "v2": cgroups.find_own_group("")}[request.param]
    assert top is not None
    path = top / f"test-{os.getpid()}-{secrets.token_hex(4)}"
    path.mkdir()
    yield path
    launcher.remove_cgroup(str(path))
    assert not path.exists()


def python(*args: str, elsewhere: bool) -> list[str]:
    return [*(ELSEWHERE if elsewhere else ()), sys.executable, "-c", *args]


def sweep(tree: Path, *, elsewhere: bool) -> None:
    subprocess.run(python(SWEEP, str(tree), elsewhere=elsewhere), env={"PYTHONPATH": str(SRC)}, check=True, timeout=60)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["beside", "elsewhere"])
def test_a_group_is_swept_when_its_owner_is_gone_and_not_before(tree: Path, elsewhere: bool) -> None:
    """Whoever owns it, whoever sweeps, each in a process namespace of its own or not."""
    path = tree / cgroups.new_name()
    command = python(HOLD, str(path), elsewhere=elsewhere)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env={"PYTHONPATH": str(SRC)}, stdin=pipe, stdout=pipe, text=True) as owner:
        assert owner.stdout
        assert owner.stdout.readline() == "held\n"
        (path / "sbx_1").mkdir()
        for there in (True, False):
            sweep(tree, elsewhere=there)
            assert (path / "sbx_1").exists()
    sweep(tree, elsewhere=not elsewhere)
    assert not path.exists()


def test_our_own_are_not_swept_by_a_source_beside_them_in_this_process(tree: Path) -> None:
    groups = Groups("v1", memory=tree / cgroups.new_name())
    groups.own()
    cgroups.sweep(tree)
    assert [path for path in groups.directories if path.exists()] == groups.directories
    groups.close()
    assert not [path for path in groups.directories if path.exists()]


def test_a_copy_in_a_forked_child_is_let_go_of(tree: Path) -> None:
    groups = Groups("v1", memory=tree / cgroups.new_name())
    groups.own()
    child = os.fork()
    if child == 0:
        groups.let_go()
        os._exit(len(groups._holds))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    cgroups.sweep(tree)
    assert groups.directories[0].exists(), "the child's end is not the owner's"
    groups.close()


@pytest.mark.parametrize("name", ["belljar-host", "belljar-1", "belljar-1-mine", "user.slice", f"belljar-1-{'g' * 16}"])
def test_what_has_no_name_of_ours_is_left_alone(tree: Path, name: str) -> None:
    (tree / name).mkdir()
    cgroups.sweep(tree)
    assert (tree / name).exists()


def no_sleep(_: float) -> None:
    raise AssertionError("a start waits for somebody else's group")


def test_foreign_groups_cost_a_start_nothing(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that someone holds, and those that are closed to us or that we may not remove."""
    monkeypatch.setattr(time, "sleep", no_sleep)
    held, dead = tree / cgroups.new_name(), tree / cgroups.new_name()
    held.mkdir()
    dead.mkdir()
    _, hold = owned_directories.claim(lambda: held)
    refused: list[Path] = []

    def rmdir(path: str) -> None:
        refused.append(Path(path))
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", rmdir)
        cgroups.sweep(tree)
        assert refused == [dead]
        real = os.open
        patched.setattr(os, "open", lambda path, *rest: rmdir(path) if path == dead else real(path, *rest))
        cgroups.sweep(tree)
    os.close(hold)


def test_sweeping_what_is_still_busy_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if processes of a dead owner would not die."""
    left = [tmp_path / cgroups.new_name() for _ in range(20)]
    for path in left:
        path.mkdir()
        (path / "a process").touch()
    clock = iter(range(10**6))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock) * 0.01)
    monkeypatch.setattr(time, "sleep", lambda pause: None)
    cgroups.sweep(tmp_path)
    assert next(clock) * 0.01 < cgroups._SWEEPING + 1
    shutil.rmtree(tmp_path)


def test_directories_that_someone_removed_are_made_again(tree: Path) -> None:
    groups = Groups("v1", memory=tree / cgroups.new_name(), account=tree / cgroups.new_name())
    groups.own()
    memory, account = groups.directories
    memory.rmdir()
    groups.own()
    sweep(tree, elsewhere=True)
    assert memory.exists()
    assert account.exists()
    groups.close()


def test_a_start_at_the_moment_of_anothers_sweep(tmp_path: Path) -> None:
    """What is swept between being made and being held is made again."""
    names = iter([tmp_path / "first", tmp_path / "second", tmp_path / "third"])

    def make(*, swept: list[str]) -> Path:
        path = next(names)
        path.mkdir()
        if path.name in swept:
            path.rmdir()
        return path

    path, hold = owned_directories.claim(partial(make, swept=["first", "second"]))
    assert path.name == "third"
    with owned_directories.check_abandoned(path) as dead:
        assert not dead
    owned_directories.let_go(hold)
    with owned_directories.check_abandoned(path) as dead:
        assert dead
    with owned_directories.check_abandoned(tmp_path / "first") as dead:
        assert not dead


def test_a_group_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    groups = Groups("v1", memory=tmp_path / "nowhere" / cgroups.new_name())
    with pytest.raises(Refused, match=r"no control group could be made .*No such file or directory: .*nowhere"):
        groups.make("sbx_1", memory=1 << 20, cpus=None, metered=False)
