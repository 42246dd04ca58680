"""The table of contracts names each once, and its proofs are tests: here by name, in a whole run by outcome."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tests.helpers.proofs import named

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (S\d-\S+) \| (.+) \| (.+?) \|$", re.M)
ROWS = ROW.findall((ROOT / "docs/features.md").read_text())


def test_ids_are_unique_and_complete() -> None:
    ids = [id for id, _, _ in ROWS]
    assert len(ids) == len(set(ids))
    for seed, last in {"S0": 51, "S1": 78, "S3": 61, "S4": 69}.items():
        assert {f"{seed}-{n}" for n in range(1, last + 1)} <= set(ids)


def test_a_row_names_its_tests_or_is_out_of_scope() -> None:
    assert [id for id, _, proof in ROWS if not named(proof)] == ["S2-N"]
    whole_files = re.compile(r"`tests/(?!helpers/)[^`:]+`")  # that a file is there proves nothing
    assert [id for id, _, proof in ROWS if whole_files.search(proof)] == []


@pytest.mark.parametrize("file", sorted({id.partition("::")[0] for _, _, proof in ROWS for id in named(proof)}))
def test_every_proof_is_a_test(file: str) -> None:
    wanted = {id.partition("::")[2] for _, _, proof in ROWS for id in named(proof) if id.startswith(f"{file}::")}
    assert sorted(wanted - functions_of(file)) == []


@cache
def functions_of(file: str) -> set[str]:
    path = ROOT / file
    body = ast.parse(path.read_text()).body if path.exists() else []
    functions = (node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name for node in functions if node.name.startswith("test_")}


# -- the watch over a whole run ----------------------------------------------------------------------------------------

CONFTEST = """
from pathlib import Path
from tests.helpers import proofs

def pytest_configure(config):
    proofs.register(config, Path(__file__).parent / "page.md")
"""
CASES = """
import pytest

@pytest.mark.parametrize("n", [1, 2])
def test_there(n): pass

def test_below(): pytest.fail("no")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A suite of its own, with a page that names its tests."""
    (tmp_path / "cases").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = cases\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "cases/test_one.py").write_text(CASES)
    (tmp_path / "page.md").write_text("`cases/test_one.py::test_there`")
    return tmp_path


def run(project: Path, *arguments: str) -> tuple[int, str]:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "xdist", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_proof_that_did_not_run_fails_the_whole_run(project: Path, workers: str) -> None:
    (project / "cases/test_one.py").write_text(CASES.replace("def test_below", "def below"))
    assert run(project, "-n", workers)[0] == 0
    (project / "page.md").write_text("`cases/test_one.py::test_there` and `cases/test_one.py::test_gone`")
    code, said = run(project, "-n", workers)
    assert code == 1
    assert "cases/test_one.py::test_gone as a proof, and it did not run" in said
    assert "test_there as a proof" not in said


@pytest.mark.parametrize("arguments", [["cases/test_one.py"], ["-k", "there"], ["--collect-only"], ["-x"]])
def test_a_part_of_the_suite_proves_what_it_has(project: Path, arguments: list[str]) -> None:
    (project / "page.md").write_text("`cases/test_one.py::test_gone`")
    assert "as a proof" not in run(project, "-n", "0", *arguments)[1]


def test_a_proof_that_fails_is_a_failure_like_any(project: Path) -> None:
    (project / "page.md").write_text("`cases/test_one.py::test_below`")
    code, said = run(project, "-n", "0")
    assert code == 1
    assert "as a proof" not in said
