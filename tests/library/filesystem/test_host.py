"""A directory of the host: what its links and special files cannot do."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.helpers.descriptors import none_left

from belljar.errors import WorkspaceSecurityError
from belljar.filesystem import HostFilesystem

TOUCHES: dict[str, Callable[[HostFilesystem, str], object]] = {
    "read": lambda files, path: files.read(path),
    "write": lambda files, path: files.write(path, b"gone"),
    "append": lambda files, path: files.append(path, b"gone"),
    "stat": lambda files, path: files.stat(path),
    "exists": lambda files, path: files.exists(path),
    "delete": lambda files, path: files.delete(path, recursive=True),
    "mkdir": lambda files, path: files.mkdir(path),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A root with a link to a file, to a directory, to nothing and to itself, and a pipe; and a secret beside it."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("key")
    home = tmp_path / "home"
    home.mkdir()
    (home / "plain").write_text("plain")
    (home / "file").symlink_to("../secret/key")
    (home / "directory").symlink_to("../secret")
    (home / "inside").symlink_to("plain")
    (home / "dangling").symlink_to("../secret/new")
    (home / "loop").symlink_to("loop")
    os.mkfifo(home / "pipe")
    return home


@pytest.mark.parametrize("act", TOUCHES.values(), ids=TOUCHES)
@pytest.mark.parametrize("path", ["file", "directory", "directory/key", "inside", "dangling", "loop", "loop/x", "pipe"])
def test_links_and_pipes_are_refused(home: Path, path: str, act: Callable[[HostFilesystem, str], object]) -> None:
    with pytest.raises(WorkspaceSecurityError, match=path.split("/")[0]):
        act(HostFilesystem(home), path)
    assert (home / "../secret/key").read_text() == "key"
    assert (home / "plain").read_text() == "plain"
    assert sorted(p.name for p in (home / "../secret").iterdir()) == ["key"]


def test_listings_leave_them_out(home: Path) -> None:
    files = HostFilesystem(home)
    assert files.list_dir() == ["plain"]
    assert files.glob("**") == ["plain"]
    assert files.grep("key") == []


def test_deleting_a_directory_removes_its_links_and_not_what_they_name(home: Path) -> None:
    (home / "d").mkdir()
    (home / "d/link").symlink_to(home.parent / "secret")
    HostFilesystem(home).delete("d", recursive=True)
    assert not (home / "d").exists()
    assert (home.parent / "secret/key").read_text() == "key"


def test_what_is_there_counts_against_the_budget(home: Path) -> None:
    files = HostFilesystem(home, max_bytes=6)
    files.write("a", b"1")
    assert files.read("a") == b"1"


def test_a_root_that_is_a_link_is_followed_once(home: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(home)
    files = HostFilesystem(tmp_path / "alias")
    assert files.root == str(home)
    assert files.read_text("plain") == "plain"


def test_a_root_must_be_a_directory(home: Path) -> None:
    with pytest.raises(NotADirectoryError):
        HostFilesystem(home / "plain")
    with pytest.raises(FileNotFoundError):
        HostFilesystem(home / "none")


def test_no_descriptor_stays_open(home: Path) -> None:
    files = HostFilesystem(home)
    with none_left():
        for path in ("plain", "none", "file", "directory/key", "pipe", "plain/x"):
            with suppress(OSError, WorkspaceSecurityError):
                files.read(path)
