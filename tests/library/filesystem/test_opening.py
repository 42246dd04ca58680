"""Opening by real paths: nothing that was put in the way since is followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.helpers.descriptors import none_left

from belljar.errors import WorkspaceSecurityError
from belljar.filesystem.safe_open import Opener


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path in ("in/a", "in/b", "in/deep/c", "out/a"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    return tmp_path.resolve()


def read(opener: Opener, path: Path) -> str:
    with opener.open(str(path)) as file:
        return file.read().decode()


def test_files_of_one_directory_after_the_other(tree: Path) -> None:
    with none_left():
        opener = Opener()
        for path in ("in/a", "in/b", "in/deep/c", "out/a", "in/a"):
            assert read(opener, tree / path) == path
        del opener


def test_a_link_in_the_way_is_refused(tree: Path) -> None:
    (tree / "in/link").symlink_to(tree / "out/a")
    (tree / "linked").symlink_to(tree / "out")
    opener = Opener()
    for path in ("in/link", "linked/a"):
        with pytest.raises(WorkspaceSecurityError, match="turned into a link"):
            read(opener, tree / path)
    assert read(opener, tree / "in/a") == "in/a"


def test_pipes_and_directories_are_refused(tree: Path) -> None:
    os.mkfifo(tree / "in/pipe")
    for path in ("in/pipe", "in/deep"):
        with pytest.raises(WorkspaceSecurityError, match="no plain file"):
            read(Opener(), tree / path)


def test_what_is_gone_is_told_by_its_path(tree: Path) -> None:
    for path in ("in/none", "none/a"):
        with pytest.raises(FileNotFoundError, match=path):
            read(Opener(), tree / path)
