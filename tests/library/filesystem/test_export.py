"""Files that leave: whole or not at all, never in the place of something else unless told, never along a link."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from belljar.errors import WorkspaceConflictError, WorkspaceSecurityError
from belljar.filesystem import InMemoryFilesystem
from belljar.filesystem.export import Export


def export(directory: Path, *, overwrite: bool = False) -> Export:
    return Export(directory, overwrite=overwrite, remedy="do that")


def tree(directory: Path) -> dict[str, bytes]:
    return {str(one.relative_to(directory)): one.read_bytes() for one in directory.rglob("*") if one.is_file()}


def test_a_new_file_is_put_in_its_place(tmp_path: Path) -> None:
    assert export(tmp_path / "to").save(("a", "b.txt"), [b"1", b"2"]) == tmp_path / "to/a/b.txt"
    assert tree(tmp_path) == {"to/a/b.txt": b"12"}
    assert not (tmp_path / "to/a/b.txt").stat().st_mode & 0o111


@pytest.mark.parametrize("name", [".git", "HEAD", "git~1", ".HG"])
def test_what_runs_by_itself_is_refused_before_anything_is_made(tmp_path: Path, name: str) -> None:
    with pytest.raises(WorkspaceSecurityError, match="not taken out of the sandbox"):
        export(tmp_path, overwrite=True).save(("sub", name), [b"x"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("at", [("..", "x"), ("a", "..", "x"), ("",), ("a/b",)])
def test_nothing_leads_out(tmp_path: Path, at: tuple[str, ...]) -> None:
    with pytest.raises(WorkspaceSecurityError):
        export(tmp_path / "to", overwrite=True).save(at, [b"x"])
    assert tree(tmp_path) == {}


def test_a_conflict_names_the_file_and_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"mine")
    with pytest.raises(WorkspaceConflictError, match="'a' is there already and differs; do that"):
        export(tmp_path).save(("a",), [b"new!"])
    assert export(tmp_path).save(("a",), [b"mi", b"ne"]) == tmp_path / "a"
    assert tree(tmp_path) == {"a": b"mine"}


def test_beside_what_stays_names_are_numbered_and_used_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"mine")
    (tmp_path / "a-2.txt").write_bytes(b"mine too")
    for _ in range(2):
        assert export(tmp_path).save(("a.txt",), [b"new"], beside=True) == tmp_path / "a-3.txt"
    assert tree(tmp_path) == {"a.txt": b"mine", "a-2.txt": b"mine too", "a-3.txt": b"new"}


def test_a_file_that_comes_in_between_is_not_overwritten(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"new"
        (tmp_path / "a").write_bytes(b"just saved by somebody")

    with pytest.raises(WorkspaceConflictError):
        export(tmp_path).save(("a",), pieces())
    assert tree(tmp_path) == {"a": b"just saved by somebody"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_breaks_off_leaves_nothing(tmp_path: Path, overwrite: bool) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise ConnectionError("gone")

    (tmp_path / "a").write_bytes(b"mine")
    with pytest.raises(ConnectionError):
        export(tmp_path, overwrite=overwrite).save(("a",), pieces())
    assert tree(tmp_path) == {"a": b"mine"}


def test_a_link_is_neither_followed_nor_replaced_untold(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    to = tmp_path / "to"
    to.mkdir()
    (to / "a").symlink_to(tmp_path / "mine")
    (to / "d").symlink_to(tmp_path)
    with pytest.raises(WorkspaceConflictError):
        export(to).save(("a",), [b"mine"])
    with pytest.raises(WorkspaceSecurityError):
        export(to, overwrite=True).save(("d", "x"), [b"x"])
    export(to, overwrite=True).save(("a",), [b"new"])
    assert not (to / "a").is_symlink()
    assert (tmp_path / "mine").read_bytes() == b"mine"


def test_where_no_file_can_have_two_names_it_works_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*args: Any, **options: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    export(tmp_path).save(("a",), [b"1"])
    with pytest.raises(WorkspaceConflictError):
        export(tmp_path).save(("a",), [b"2"])
    assert tree(tmp_path) == {"a": b"1"}


def test_a_filesystem_comes_down_by_the_same_rule(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = InMemoryFilesystem()
    for path in ("a", ".git/config", "d/b"):
        files.write(path, b"1")
    files.download_all(tmp_path)
    assert tree(tmp_path) == {"a": b"1", "d/b": b"1"}
    assert "'.git/config' is not taken out" in caplog.text
    files.write("a", b"2")
    with pytest.raises(WorkspaceConflictError, match="overwrite=True"):
        files.download_all(tmp_path)
    files.download_all(tmp_path, overwrite=True)
    assert tree(tmp_path) == {"a": b"2", "d/b": b"1"}
