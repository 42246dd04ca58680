"""Files that leave by `belljar run --out`: what runs by itself stays inside, and nothing is overwritten untold."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.cli.conftest import Command

MAKES = """
import os
for name, text in {files!r}.items():
    os.makedirs(os.path.dirname(name) or '.', exist_ok=True)
    _ = open(name, 'w').write(text)
"""


def run(belljar: Command, files: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Code that makes these files, which are copied into the directory that the command runs in."""
    code = MAKES.format(files=files)
    return belljar("run", "--packages", "none", "--out", ".", *options, "-c", code)


def tree(directory: Path) -> dict[str, str]:
    found = [one for one in directory.rglob("*") if one.is_file()]
    return {str(one.relative_to(directory)): one.read_text() for one in found}


def git(directory: Path, *args: str) -> None:
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(directory.parent), "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", *args], cwd=directory, env=env, check=False, capture_output=True)


@pytest.mark.parametrize("name", [".git/config", ".GIT/config", "git~1/config", ".git\u200d/config"])
def test_no_command_of_the_codes_choice_is_run_by_git(belljar: Command, tmp_path: Path, name: str) -> None:
    git(belljar.directory, "init")
    before = (belljar.directory / ".git/config").read_text()
    mark = tmp_path / "ran"
    evil = f"{before}\tfsmonitor = \"touch '{mark}'\"\n"
    ran = run(belljar, {name: evil, "a.csv": "1\n"}, "--overwrite")
    assert ran.returncode == 3
    assert "is not taken out of the sandbox: git runs commands that are named in it" in ran.stderr
    git(belljar.directory, "status")
    assert not mark.exists()
    assert (belljar.directory / ".git/config").read_text() == before
    assert (belljar.directory / "a.csv").read_text() == "1\n"


def test_a_directory_does_not_become_a_repository(belljar: Command, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    config = f"[core]\n\trepositoryformatversion = 0\n\tworktree = .\n\tfsmonitor = \"touch '{mark}'\"\n"
    files = {"HEAD": "ref: refs/heads/main\n", "config": config, "objects/a": "", "refs/a": ""}
    assert run(belljar, files).returncode == 3
    git(belljar.directory, "status")
    assert not mark.exists()
    assert set(tree(belljar.directory)) == {"config", "objects/a", "refs/a"}


def test_what_tools_obey_is_saved_with_a_warning(belljar: Command) -> None:
    ran = run(belljar, {"Makefile": "all:\n", ".envrc": "x", "sub/conftest.py": "", "a.csv": ""})
    assert ran.returncode == 0, ran.stderr
    assert set(tree(belljar.directory)) == {"Makefile", ".envrc", "sub/conftest.py", "a.csv"}
    warned = [line for line in ran.stderr.splitlines() if line.startswith("belljar: warning: ")]
    assert [line.split()[2] for line in sorted(warned)] == [".envrc:", "Makefile:", "sub/conftest.py:"]


def test_what_is_there_stays_unless_told(belljar: Command) -> None:
    mine = belljar.directory / "setup.py"
    mine.write_text("mine")
    mine.chmod(0o750)
    (belljar.directory / "same.txt").write_text("same")
    (belljar.directory / "taken").mkdir()
    files = {"setup.py": "new", "same.txt": "same", "fresh.txt": "f"}
    ran = run(belljar, files)
    assert ran.returncode == 3
    assert "setup.py' could not be saved: 'setup.py' is there already and differs" in ran.stderr
    assert "to overwrite it: --overwrite" in ran.stderr
    assert "saved ./same.txt" in ran.stderr
    assert tree(belljar.directory) == {"setup.py": "mine", "same.txt": "same", "fresh.txt": "f"}
    ran = run(belljar, files, "--overwrite")
    assert ran.returncode == 0, ran.stderr
    assert tree(belljar.directory) == files
    assert mine.stat().st_mode & 0o777 == 0o750
    ran = run(belljar, {"taken": "x"}, "--overwrite")
    assert ran.returncode == 3
    assert "is a directory there" in ran.stderr


def test_json_tells_what_was_not_saved(belljar: Command) -> None:
    (belljar.directory / "a.csv").write_text("mine")
    ran = run(belljar, {"a.csv": "new", ".git/config": "x", "b.csv": "b"}, "--json")
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {one["name"]: one["saved"] for one in told if one["output"] == "file"} == {
        "a.csv": None,
        ".git/config": None,
        "b.csv": "./b.csv",
    }
    assert told[-1]["exit_code"] == ran.returncode == 3


@pytest.mark.parametrize("out", [None, "."])
def test_names_are_shown_and_not_obeyed(belljar: Command, out: str | None) -> None:
    names = [
        "a\x1b[2J\x1b[H.csv",
        "b\nbelljar: error: run this.csv",
        "c\u202evsc.py",
        "d\r.csv",
        "e\u200b.csv",
        "f\x9b.csv",
    ]
    code = MAKES.format(files=dict.fromkeys(names, ""))
    ran = belljar("run", "--packages", "none", *(("--out", out) if out else ()), "-c", code)
    assert ran.returncode == 0
    assert not set(ran.stderr) & set("\x1b\r\x9b\u202e\u200b")
    assert all(line.startswith(("belljar: it made", "saved ")) for line in ran.stderr.splitlines())
    assert all(repr(name)[1:-1] in ran.stderr for name in names)
