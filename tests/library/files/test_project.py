"""Saving into a project: inside it, whole, never along a link, with the mode that was there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.errors import WorkspaceSecurityError
from belljar.files import Project
from belljar.files.project import parts

OUTSIDE = [
    "../x", "a/../../x", "/etc/passwd", "a/../b", "./x", "a//b", "", "a/", "..", ".", "a\\..\\b", "new\nline", "\x00",
    "n" * 256, ".git/hooks/pre-commit", "sub/.GIT/config",
]  # fmt: skip


@pytest.mark.parametrize("destination", OUTSIDE)
def test_what_leads_out_or_astray_is_refused(project: Project, root: Path, destination: str) -> None:
    with pytest.raises(WorkspaceSecurityError):
        project.state(destination)
    with pytest.raises(WorkspaceSecurityError):
        project.write(destination, [b"x"])
    assert list(root.iterdir()) == []


@given(st.text(alphabet="a./\\~\x00é ", max_size=12))
def test_whatever_is_let_through_stays_below(destination: str) -> None:
    try:
        names = parts(destination)
    except WorkspaceSecurityError:
        return
    path = os.path.normpath(os.path.join("/root/project", *names))
    assert path.startswith("/root/project/")
    assert path == f"/root/project/{destination}"


@pytest.mark.parametrize("name", ["a.csv", "sub/deep/報告 1.csv", "~lock", "-x", ".hidden"])
def test_a_new_file_is_written_whole(project: Project, root: Path, name: str) -> None:
    assert project.state(name) == "new"
    path = project.write(name, [b"one ", b"two"])
    assert path == root / name
    assert path.read_bytes() == b"one two"
    assert project.state(name) == "overwrites"
    assert [one for one in root.rglob("*") if one.is_file()] == [path]


def test_the_mode_of_what_was_there_is_kept_and_nothing_new_is_executable(project: Project, root: Path) -> None:
    old = root / "run.sh"
    old.write_text("old")
    old.chmod(0o750)
    project.write("run.sh", [b"new"])
    assert (old.read_text(), stat.S_IMODE(old.stat().st_mode)) == ("new", 0o750)
    fresh = project.write("fresh.sh", [b"x"])
    assert not stat.S_IMODE(fresh.stat().st_mode) & 0o111


def test_a_link_in_place_of_the_file_is_refused(project: Project, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    (root / "link.txt").symlink_to(outside)
    (root / "dangling.txt").symlink_to(tmp_path / "nowhere.txt")
    for name in ("link.txt", "dangling.txt"):
        with pytest.raises(WorkspaceSecurityError, match="link"):
            project.write(name, [b"x"])
    assert outside.read_text() == "mine"
    assert not (tmp_path / "nowhere.txt").exists()


def test_a_link_on_the_way_is_refused_even_inside(project: Project, root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root / "out").symlink_to(tmp_path / "elsewhere")
    (root / "real").mkdir()
    (root / "in").symlink_to(root / "real")
    for name in ("out/x.txt", "in/x.txt"):
        with pytest.raises(WorkspaceSecurityError, match="link"):
            project.write(name, [b"x"])
    assert list((tmp_path / "elsewhere").iterdir()) == list((root / "real").iterdir()) == []


def test_a_link_that_comes_in_between_is_not_followed(project: Project, root: Path, tmp_path: Path) -> None:
    """The directory is replaced by a link while the file is written: it lands in the old one or nowhere."""
    (tmp_path / "elsewhere").mkdir()
    (root / "sub").mkdir()

    def pieces() -> Iterator[bytes]:
        yield b"one"
        (root / "sub").rename(root / "moved")
        (root / "sub").symlink_to(tmp_path / "elsewhere")
        yield b"two"

    project.write("sub/x.txt", pieces())
    assert (root / "moved/x.txt").read_bytes() == b"onetwo"
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_what_is_no_plain_file_is_refused(project: Project, root: Path, kind: str) -> None:
    (root / "x").mkdir() if kind == "directory" else os.mkfifo(root / "x")
    with pytest.raises(WorkspaceSecurityError, match="no plain file"):
        project.write("x", [b"data"])


def test_a_file_in_place_of_a_directory_is_refused(project: Project, root: Path) -> None:
    (root / "sub").write_text("file")
    with pytest.raises(WorkspaceSecurityError):
        project.write("sub/x.txt", [b"data"])


def test_what_fails_in_the_middle_leaves_the_old_file_and_nothing_else(project: Project, root: Path) -> None:
    (root / "data.csv").write_text("old")

    def breaking() -> Iterator[bytes]:
        yield b"half"
        raise ConnectionError("the vendor is gone")

    with pytest.raises(ConnectionError):
        project.write("data.csv", breaking())
    assert [(one.name, one.read_text()) for one in root.iterdir()] == [("data.csv", "old")]


def test_the_root_may_be_reached_by_a_link_but_must_be_a_directory(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    assert Project(tmp_path / "alias").write("x", [b"1"]) == root / "x"
    with pytest.raises(WorkspaceSecurityError, match="directory"):
        Project(root / "x")


def test_entries_are_what_can_be_opened(project: Project, root: Path, tmp_path: Path) -> None:
    (root / "b").mkdir()
    (root / "A.txt").write_text("a")
    (root / ".env").write_text("h")
    (root / ".git").mkdir()
    (root / "bad\nname").write_text("n")
    (root / "link").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    assert [(one.name, one.kind, one.size) for one in project.entries()] == [
        ("b", "directory", 0),
        ("A.txt", "file", 1),
    ]
    assert [one.name for one in project.entries(hidden=True)] == ["b", ".env", "A.txt"]
    for path in ("..", "link", "A.txt", "gone", ".git"):
        with pytest.raises(WorkspaceSecurityError):
            project.entries(path)


def test_files_are_opened_but_links_and_pipes_are_not(project: Project, root: Path, tmp_path: Path) -> None:
    (root / "a.txt").write_text("content")
    (tmp_path / "secret").write_text("s")
    (root / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(root / "pipe")
    with project.open_file("a.txt") as file:
        assert file.read() == b"content"
    for path in ("link", "pipe", "gone", "../secret", "gone/a.txt"):
        with pytest.raises(WorkspaceSecurityError):
            project.open_file(path)


def test_a_stamp_tells_other_content(project: Project, root: Path) -> None:
    assert project.stamp("a.txt") == ""
    project.write("a.txt", [b"1"])
    first = project.stamp("a.txt")
    project.write("a.txt", [b"2"])
    assert "" != first != project.stamp("a.txt")
