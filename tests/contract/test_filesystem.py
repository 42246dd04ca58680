"""The suite of the port `Filesystem`: every test here runs over every backend in `BACKENDS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import OpenAI
from tests.gateway.houses import House
from tests.helpers.openai import FlatContainers

from belljar.adapters.openai.config import ContainerConfig
from belljar.adapters.openai.container_fs import ContainerFilesystem
from belljar.errors import WorkspaceBudgetExceededError, WorkspaceSecurityError
from belljar.filesystem import READ_ENTIRE_FILE, FileEntry, Filesystem, GrepMatch, HostFilesystem, InMemoryFilesystem
from belljar.filesystem.globs import matches

Make: TypeAlias = Callable[..., Filesystem]
Maker: TypeAlias = Callable[[pytest.FixtureRequest, Path], Make]


def in_container(request: pytest.FixtureRequest, client: str) -> Make:
    return partial(
        ContainerFilesystem,
        client=request.getfixturevalue(client),
        container_config=ContainerConfig(memory_limit="1g"),
    )


BACKENDS: dict[str, Maker] = {
    "memory": lambda request, home: InMemoryFilesystem,
    "host": lambda request, home: partial(HostFilesystem, home),
    "gateway": lambda request, home: in_container(request, "gateway"),
    "flat": lambda request, home: in_container(request, "flat"),
}
"""Each gives a maker that takes `max_bytes` and `read_only`."""


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    state = tmp_path_factory.mktemp("gateway") / "state"
    with House(state) as house, OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="session")
def flat() -> Iterator[OpenAI]:
    with FlatContainers() as server, server.client() as client:
        yield client


@pytest.fixture(params=BACKENDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    home = tmp_path / "home"
    home.mkdir()
    return BACKENDS[request.param](request, home)


@pytest.fixture
def files(make: Make) -> Filesystem:
    return make()


def test_it_is_a_filesystem(files: Filesystem) -> None:
    assert isinstance(files, Filesystem)
    assert not files.read_only
    assert files.is_dir(".")
    assert files.list_dir(".") == []


@pytest.mark.parametrize("path", ["a.bin", "deep/er/a.bin", "/a.bin", "./a.bin", "報告 1.xlsx", "a\nb", "-rf"])
def test_what_is_written_is_read(files: Filesystem, path: str) -> None:
    files.write(path, b"\x00\xff\r\n")
    files.write(path, b"\xff\r\n")
    assert files.read(path) == b"\xff\r\n"
    assert files.exists(path)
    assert files.is_file(path)
    assert not files.is_dir(path)
    assert files.stat(path).size_bytes == 3
    assert files.stat(path).modified_at is not None


def test_a_leading_slash_is_the_same_place(files: Filesystem) -> None:
    files.write("/d/a", b"1")
    assert files.read("d//./a") == b"1"
    assert files.stat("/d/a").path == "d/a"


def test_the_root_s_own_name_may_stand_before_a_path(files: Filesystem) -> None:
    root = files.root.rstrip("/")
    files.write(f"{root}/d/a.txt", b"one\n")
    assert files.read("d/a.txt") == files.read(f"{root}/d/a.txt") == b"one\n"
    assert files.stat(f"{root}/d").path == "d"
    assert files.list_dir(root or "/") == ["d"]
    assert files.read_lines(f"{root}/d/a.txt").path == "d/a.txt"
    assert files.glob(f"{root}/d/*.txt") == files.glob(f"{root}/**/*.txt", path=f"{root}/d") == ["d/a.txt"]
    assert files.glob(f"{root}/*.txt") == []
    assert [match.path for match in files.grep("one", path=f"{root}/d/a.txt")] == ["d/a.txt"]
    with pytest.raises(WorkspaceSecurityError):
        files.read(f"{root}/../a.txt")
    files.delete(f"{root}/d", recursive=True)
    assert not files.exists("d")


def test_only_an_absolute_path_has_the_root_s_name(files: Filesystem) -> None:
    inside = f"{files.root.strip('/')}/a".lstrip("/")
    files.write(inside, b"1")
    assert files.read(inside) == b"1"
    assert files.stat(inside).path == inside


@given(text=st.text())
def test_text_comes_back_as_it_went(text: str) -> None:
    files = InMemoryFilesystem()
    files.write_text("t", text)
    assert files.read_text("t") == text


def test_text_in_another_encoding(files: Filesystem) -> None:
    files.write_text("t", "é\r\n", "latin-1")
    assert files.read("t") == b"\xe9\r\n"
    assert files.read_text("t", "latin-1") == "é\r\n"
    with pytest.raises(UnicodeDecodeError):
        files.read_text("t")


def test_append_makes_and_extends(files: Filesystem) -> None:
    files.append("log/a", b"one")
    files.append("log/a", b"two")
    assert files.read("log/a") == b"onetwo"


def test_lines_come_in_pages(files: Filesystem) -> None:
    files.write_text("t", "a\nb\nc\n")
    page = files.read_lines("/t", offset=1, limit=1)
    assert (page.content, page.path, page.total_lines, page.offset, page.limit, page.truncated) == (
        ("b\n", "t", 3, 1, 1, True)
    )
    rest = files.read_lines("t", offset=1, limit=READ_ENTIRE_FILE)
    assert (rest.content, rest.limit, rest.truncated) == ("b\nc\n", None, False)
    assert files.read_lines("t", offset=9).content == ""
    with pytest.raises(ValueError, match="offset -1"):
        files.read_lines("t", offset=-1)


def test_listings_are_sorted_and_shallow(files: Filesystem) -> None:
    for path in ("d/b", "d/a", "d/sub/x", "top"):
        files.write(path, b"")
    assert files.list_dir("d") == ["a", "b", "sub"]
    assert files.list("d")[0] == FileEntry("a", "d/a", is_file=True, is_directory=False)
    assert files.list("d")[2] == FileEntry("sub", "d/sub", is_file=False, is_directory=True)
    assert files.list_dir("/") == ["d", "top"]


def test_glob_gives_files_from_the_root(files: Filesystem) -> None:
    for path in ("a.py", "src/b.py", "src/deep/c.py", "src/d.md"):
        files.write(path, b"")
    assert files.glob("*.py") == ["a.py", "src/b.py", "src/deep/c.py"]
    assert files.glob("src/*.py") == ["src/b.py"]
    assert files.glob("src/**/*.py") == ["src/b.py", "src/deep/c.py"]
    assert files.glob("**") == ["a.py", "src/b.py", "src/d.md", "src/deep/c.py"]
    assert files.glob("*/c.py", path="src") == ["src/deep/c.py"]
    assert files.glob("*.PY") == []


def test_grep_finds_lines(files: Filesystem) -> None:
    files.write_text("a.txt", "one\nthe two\n")
    files.write_text("b/c.md", "two two\n")
    files.write("image.png", b"\xfftwo")
    assert files.grep("two") == [GrepMatch("a.txt", 2, "the two", 4, 7), GrepMatch("b/c.md", 1, "two two", 0, 3)]
    assert files.grep("two", glob="*.md") == [GrepMatch("b/c.md", 1, "two two", 0, 3)]
    assert files.grep("two", path="b") == [GrepMatch("b/c.md", 1, "two two", 0, 3)]
    assert files.grep("t", path="a.txt", max_matches=1) == [GrepMatch("a.txt", 2, "the two", 0, 1)]
    assert files.grep("two", max_matches=0) == []
    with pytest.raises(ValueError, match="no regular expression"):
        files.grep("(")


def test_mkdir(files: Filesystem) -> None:
    files.mkdir("a/b")
    files.mkdir("a/b")
    assert files.is_dir("a/b")
    assert files.stat("a/b").is_directory
    with pytest.raises(FileExistsError):
        files.mkdir("a/b", exist_ok=False)
    with pytest.raises(FileNotFoundError):
        files.mkdir("x/y", parents=False)
    assert not files.exists("x")
    files.write("file", b"")
    with pytest.raises(FileExistsError):
        files.mkdir("file")


def test_delete(files: Filesystem) -> None:
    files.write("d/a", b"")
    files.mkdir("empty")
    files.delete("empty")
    with pytest.raises(OSError, match="not empty"):
        files.delete("d")
    files.delete("d/a")
    assert files.list_dir(".") == ["d"]
    files.write("d/sub/a", b"")
    files.delete("d", recursive=True)
    assert files.list_dir(".") == []


Act: TypeAlias = Callable[[Filesystem], object]
FAULTS: dict[str, tuple[type[OSError], Act]] = {
    "read what is not there": (FileNotFoundError, lambda files: files.read("none")),
    "stat what is not there": (FileNotFoundError, lambda files: files.stat("d/none")),
    "delete what is not there": (FileNotFoundError, lambda files: files.delete("none")),
    "list what is not there": (FileNotFoundError, lambda files: files.list_dir("none")),
    "read a directory": (IsADirectoryError, lambda files: files.read("d")),
    "write a directory": (IsADirectoryError, lambda files: files.write("d", b"")),
    "write the root": (IsADirectoryError, lambda files: files.write("/", b"")),
    "list a file": (NotADirectoryError, lambda files: files.list_dir("d/file")),
    "write below a file": (NotADirectoryError, lambda files: files.write("d/file/x", b"")),
    "read below a file": (NotADirectoryError, lambda files: files.read("d/file/x")),
    "mkdir below a file": (NotADirectoryError, lambda files: files.mkdir("d/file/x")),
    "delete the root": (PermissionError, lambda files: files.delete("/", recursive=True)),
}


@pytest.mark.parametrize(("fault", "act"), FAULTS.values(), ids=FAULTS)
def test_faults_are_pythons_own(files: Filesystem, fault: type[OSError], act: Act) -> None:
    files.write("d/file", b"kept")
    with pytest.raises(fault):
        act(files)
    assert files.read("d/file") == b"kept"
    assert files.glob("**") == ["d/file"]


def test_asking_below_a_file_is_no_fault(files: Filesystem) -> None:
    files.write("file", b"")
    assert not files.exists("file/x")
    assert not files.is_file("none/x")
    assert not files.is_dir("file")


TOUCHES: dict[str, Callable[[Filesystem, str], object]] = {
    "read": lambda files, path: files.read(path),
    "write": lambda files, path: files.write(path, b""),
    "append": lambda files, path: files.append(path, b""),
    "exists": lambda files, path: files.exists(path),
    "list": lambda files, path: files.list(path),
    "mkdir": lambda files, path: files.mkdir(path),
    "delete": lambda files, path: files.delete(path, recursive=True),
    "glob": lambda files, path: files.glob(path),
    "grep": lambda files, path: files.grep("x", path=path),
}


@pytest.mark.parametrize("path", ["../secret", "d/../../secret", "/..", "d/..", "a\0b"])
@pytest.mark.parametrize("act", TOUCHES.values(), ids=TOUCHES)
def test_no_path_leads_out(
    files: Filesystem, path: str, act: Callable[[Filesystem, str], object], tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("x")
    files.mkdir("d")
    with pytest.raises(WorkspaceSecurityError):
        act(files, path)
    assert (tmp_path / "secret").read_text() == "x"


def test_the_budget_holds_and_a_refused_write_leaves_no_trace(make: Make) -> None:
    files = make(max_bytes=10)
    files.write("a", b"12345")
    files.write("b", b"12345")
    refusal = "11 bytes in all, and 10 are allowed"
    with pytest.raises(WorkspaceBudgetExceededError, match=refusal):
        files.write("new/c", b"1")
    with pytest.raises(WorkspaceBudgetExceededError, match=refusal):
        files.append("a", b"1")
    with pytest.raises(WorkspaceBudgetExceededError, match=refusal):
        files.write("a", b"123456")
    assert files.read("a") == b"12345"
    assert files.list_dir() == ["a", "b"]
    files.write("a", b"")
    files.write("c", b"12345")


def test_an_empty_budget_takes_empty_files(make: Make) -> None:
    files = make(max_bytes=0)
    files.write("a", b"")
    with pytest.raises(WorkspaceBudgetExceededError):
        files.write("a", b"1")


CHANGES: dict[str, Act] = {
    "write": lambda files: files.write("a", b""),
    "append": lambda files: files.append("a", b""),
    "mkdir": lambda files: files.mkdir("d"),
    "delete": lambda files: files.delete("a"),
}


@pytest.mark.parametrize("act", CHANGES.values(), ids=CHANGES)
def test_read_only_is_kept(make: Make, act: Act) -> None:
    files = make(read_only=True)
    assert files.read_only
    with pytest.raises(PermissionError):
        act(files)
    assert files.list_dir() == []


def test_all_files_come_down(files: Filesystem, tmp_path: Path) -> None:
    files.write("a", b"1")
    files.write("d/b", b"\xff")
    files.download_all(tmp_path / "new/dest")
    assert (tmp_path / "new/dest/a").read_bytes() == b"1"
    assert (tmp_path / "new/dest/d/b").read_bytes() == b"\xff"


def test_coming_down_follows_no_link_that_lies_in_wait(files: Filesystem, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "dest").mkdir()
    (tmp_path / "dest/d").symlink_to(tmp_path / "elsewhere")
    files.write("d/b", b"1")
    with pytest.raises(WorkspaceSecurityError):
        files.download_all(tmp_path / "dest")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@given(path=st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=5))
def test_two_stars_match_every_path_and_a_path_matches_itself(path: list[str]) -> None:
    assert matches(tuple(path), "**")
    assert matches(tuple(path), "/" + "/".join(path))
    assert matches(tuple(path), path[-1])
