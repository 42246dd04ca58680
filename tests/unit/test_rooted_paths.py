"""Below a directory: no link is followed, no descriptor stays open, and a file that is not whole leaves no trace."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.helpers.descriptors import none_left

from belljar.rooted_paths import LastDirectory, PartFile, descend, find, open_directory, open_plain, write_all


@pytest.fixture
def top(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/file").write_text("content")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "a/link").symlink_to(tmp_path / "a/file")
    os.mkfifo(tmp_path / "a/pipe")
    top = open_directory(tmp_path)
    yield top
    os.close(top)


def step(here: int, name: str) -> int:
    return open_directory(name, here)


def test_a_way_is_gone_name_by_name_and_nothing_stays_open(top: int, tmp_path: Path) -> None:
    with none_left():
        here = descend(os.dup(top), ["a", "b"], step)
        assert os.path.samestat(os.fstat(here), (tmp_path / "a/b").stat())
        os.close(here)
        for names in (["link"], ["link", "b"], ["a", "file", "x"], ["a", "none", "x"], ["none"]):
            with pytest.raises((NotADirectoryError, FileNotFoundError)):
                descend(os.dup(top), names, step)


@pytest.mark.parametrize(
    ("name", "code"), [("link", errno.ELOOP), ("b", errno.EISDIR), ("pipe", errno.ENXIO), ("none", errno.ENOENT)]
)
def test_only_plain_files_are_opened(top: int, name: str, code: int) -> None:
    here = open_directory("a", top)
    with none_left(), pytest.raises(OSError, match=re.escape(os.strerror(code))):
        open_plain(name, here)
    with open(open_plain("file", here)) as file:
        assert file.read() == "content"
    os.close(here)


def test_the_last_directory_stays_open_until_it_is_another_or_gone(top: int, tmp_path: Path) -> None:
    entered: list[str] = []

    def enter(name: str) -> int:
        entered.append(name)
        (tmp_path / name).mkdir(exist_ok=True)
        return open_directory(name, top)

    with none_left(), closing(LastDirectory(enter, hostile=True)) as last:
        assert last.enter("x") == last.enter("x")
        last.enter("y")
        (tmp_path / "y").rmdir()
        assert os.path.samestat(os.fstat(last.enter("y")), (tmp_path / "y").stat())
    assert entered == ["x", "y", "y"]


def test_a_part_that_is_not_put_in_place_leaves_nothing(top: int, tmp_path: Path) -> None:
    there = sorted(os.listdir(tmp_path))
    with none_left():
        with PartFile(top) as part:
            part.write(b"half")
            assert find(part.name, top) is not None
        with pytest.raises(IsADirectoryError), PartFile(top) as part:
            part.replace("a")
    assert sorted(os.listdir(tmp_path)) == there


def test_what_is_replaced_leaves_its_permissions_and_a_link_is_no_way_out(top: int, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "old").chmod(0o4750)
    for name in ("old", "link"):
        with PartFile(top, 0o640) as part:
            part.write(b"new")
            part.replace(name, find(name, top), sync=True)
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o750
    assert not (tmp_path / "link").is_symlink()
    assert not stat.S_IMODE((tmp_path / "link").stat().st_mode) & 0o111
    assert (tmp_path / "old").read_text() == (tmp_path / "link").read_text() == "new"


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_what_is_there_is_not_replaced_unasked(
    top: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:  # as FAT and some network file systems answer

        def refuse(*given: object, **more: object) -> None:
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", refuse)
    there = {"new", *os.listdir(tmp_path)}
    with PartFile(top) as part:
        part.write(b"new")
        assert not part.place("link")
        assert part.place("new")
    assert (tmp_path / "new").read_text() == "new"
    assert (tmp_path / "link").is_symlink()
    assert set(os.listdir(tmp_path)) == there


def test_writing_goes_on_after_a_short_write(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    write = os.write
    monkeypatch.setattr(os, "write", lambda to, data: write(to, data[:2]))
    write_all(writing, b"12345")
    os.close(writing)
    with open(reading, "rb") as file:
        assert file.read() == b"12345"
