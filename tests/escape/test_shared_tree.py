"""Several Belljars on one tree of control groups, which do not see each other's processes: none is in another's way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.as_user import SOURCE
from tests.unit.test_cgroups import ELSEWHERE

from belljar.sandbox.base import MIB, Cell, Limits, Spec
from belljar.sandbox.local import run_steps
from belljar.sandbox.local.box import Box
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.outputs import Run, fold

SPEC = Spec(packages="none", limits=Limits(memory=96 * MIB))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def source(cache: Path) -> Iterator[LocalSource]:
    source = LocalSource(JailOptions(cache=cache))
    yield source
    source.shut()


def run(box: Box, code: str) -> Run:
    return fold(run_steps.run_blocking(box, box.run(Cell(code))))


def answer(source: LocalSource) -> str | None:
    with source.lease(SPEC) as box:
        return run(box, "6 * 7").text


def groups(source: LocalSource) -> list[Path]:
    assert source._jail is not None
    return source._jail.groups.directories


def test_one_that_starts_elsewhere_takes_nothing_away(source: LocalSource, cache: Path) -> None:
    assert answer(source) == "42"
    ours = groups(source)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "BELLJAR_CACHE_DIR": str(cache)}
    command = [*ELSEWHERE, sys.executable, "-m", "belljar.cli", "run", "--packages", "none", "-c", "2 * 3"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert (ran.returncode, ran.stdout) == (0, "6\n"), ran.stderr
    assert [path for path in ours if path.exists()] == ours
    assert answer(source) == "42"


def test_groups_that_someone_removed_are_made_again(source: LocalSource) -> None:
    assert answer(source) == "42"
    ours = groups(source)
    for path in ours:
        path.rmdir()
    with source.lease(SPEC) as box:
        assert run(box, "6 * 7").text == "42"
        assert run(box, "kept = bytearray(b'x') * (200 << 20)").exit.status != "ok", "the limit holds again"
    assert [path for path in ours if path.exists()] == ours


def test_a_sandbox_whose_own_group_someone_removed_goes_on(source: LocalSource) -> None:
    """Between two interpreters nobody is in it."""
    with source.lease(SPEC) as box:
        assert run(box, "open('/mnt/data/a', 'w').write('kept')\nimport os\nos._exit(3)").exit.status == "killed"
        for path in box.group.directories if box.group else ():
            path.rmdir()
        assert run(box, "open('/mnt/data/a').read()").text == "'kept'"
        assert run(box, "kept = bytearray(b'x') * (200 << 20)").exit.status != "ok", "the limit holds again"
