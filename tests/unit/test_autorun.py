"""Names that tools run or obey unasked are known in every spelling that some file system folds into them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.autorun import refusal, warning

REFUSED = [
    ".git", ".git/config", "a/b/.git/hooks/pre-commit", ".GIT/config", ".Git/x", "git~1/config", "GIT~1", "sub/git~2/x",
    ".git./config", ".git /config", ".git . ./config", ".git::$INDEX_ALLOCATION/config", ".git:stream",
    "a\\.git\\config",
    ".g\u200cit/config", "\u200d.git/config", ".gi\u202et/x", ".git\ufeff/x", ".\uff47it/x", ".gi\u034ft/x",
    "HEAD", "bare/HEAD", "bare/head", "HEAD.", "HEAD::$DATA",
    ".hg/hgrc", "HG~1/hgrc", ".svn/wc.db", "_darcs/prefs/defaults", ".jj/repo/config.toml", ".sl/config", ".bzr/x",
    "__pycache__/a.cpython-311.pyc", "pkg/__PYCACHE__/x", "__PYCA~1/x",
]  # fmt: skip
WARNED = [
    ".envrc", "sub/.envrc", "Makefile", "makefile", "GNUmakefile", "conftest.py", "tests/conftest.py",
    "sitecustomize.py", "usercustomize.py", "evil.pth", ".vscode/tasks.json", ".idea/workspace.xml",
    ".devcontainer/devcontainer.json",
    "package.json", ".npmrc", ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", "setup.py", "setup.cfg",
    "pyproject.toml", "tox.ini", ".pre-commit-config.yaml", ".github/workflows/ci.yml", ".anything", "a/.hidden/b.csv",
    ".gitignore", ".gitconfig", ".ssh/authorized_keys", "eslint.config.js", "AGENTS.md", "Dockerfile", "SETUP.PY ",
    "module.pyc", "compose.yaml", "app.desktop",
]  # fmt: skip
PLAIN = [
    "a.csv", "git/config", "my.git.txt", "report.git", "head.csv", "HEAD/a.csv", "figure-1.png", "src/main.py",
    "報告 1.csv", "setup.txt", "digit~1", "a~1", "README.md", "data/make.csv", "package.json.txt", "x" * 255,
    "-rf", " spaces ",
]  # fmt: skip


@pytest.mark.parametrize("path", REFUSED)
def test_what_runs_by_itself_is_refused(path: str) -> None:
    assert refusal(path)


@pytest.mark.parametrize("path", WARNED)
def test_what_tools_obey_is_warned_of(path: str) -> None:
    assert refusal(path) is None
    assert warning(path)


@pytest.mark.parametrize("path", PLAIN)
def test_of_plain_files_nothing_is_said(path: str) -> None:
    assert (refusal(path), warning(path)) == (None, None)


@given(st.text(st.characters(codec=None, categories=None), max_size=20))
def test_every_name_is_judged(path: str) -> None:
    assert refusal(path) is None or refusal(f"a/{path}") == refusal(path)


@given(
    st.sampled_from([".git", ".hg", ".svn"]),
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from("\u200b\u200c\u200d\u2060\u202e\u206a\ufeff\u00ad")), max_size=5
    ),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.text(" .", max_size=4),
)
def test_no_folding_gets_past(name: str, put: list[tuple[int, str]], upper: list[bool], tail: str) -> None:
    spelled = "".join(one.upper() if up else one for one, up in zip(name, upper, strict=False))
    for at, ignored in put:
        spelled = spelled[:at] + ignored + spelled[at:]
    assert refusal(f"sub/{spelled}{tail}/config")


def test_git_itself_runs_what_head_would_let_in(tmp_path: Path) -> None:
    """Why `HEAD` is refused: with it any directory is a repository, and the one command in its `config` is run."""

    def status(directory: Path) -> bool:
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path), "GIT_CONFIG_GLOBAL": os.devnull}
        subprocess.run(["git", "status"], cwd=directory, env=env, capture_output=True, check=False)
        return (tmp_path / "ran").exists()

    there = tmp_path / "results"
    for name in ("objects", "refs"):
        (there / name).mkdir(parents=True)
    command = tmp_path / "command"
    command.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    command.chmod(0o755)
    (there / "config").write_text(f"[core]\n\trepositoryformatversion = 0\n\tworktree = .\n\tfsmonitor = {command}\n")
    assert not status(there)
    (there / "HEAD").write_text("ref: refs/heads/main\n")
    assert status(there)
