"""Mounts: which files come in, from where, and how many bytes."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from belljar.errors import WorkspaceBudgetExceededError, WorkspaceError, WorkspaceSecurityError
from belljar.filesystem import HostFilesystem, HostMount, HostMountPreview, InMemoryFilesystem, VfsPath, copy_mounts
from belljar.filesystem.globs import matches


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    for path in (
        "a.py",
        "b.pyc",
        "sub/c.py",
        ".git/config",
        ".git/objects/ab/cd",
        "sub/__pycache__/c.pyc",
        "sub/data.csv",
    ):
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_bytes(b"1234")
    return repo


def brought(*mounts: HostMount, roots: Sequence[Path | str]) -> list[str]:
    files = InMemoryFilesystem()
    copy_mounts(mounts, allowed_host_roots=roots, into=files)
    return files.glob("**")


def test_defaults() -> None:
    mount = HostMount("x")
    assert dataclasses.astuple(mount) == ("x", None, (), (), None, False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        mount.host_path = "y"  # type: ignore[misc]


def test_everything_comes_under_its_own_name(repo: Path) -> None:
    assert len(brought(HostMount(str(repo)), roots=[repo.parent])) == 7
    assert brought(HostMount(str(repo / "a.py")), roots=[repo]) == ["a.py"]


@pytest.mark.parametrize("where", ["work/x", "/work/x", VfsPath(("work", "x"))])
def test_mount_path_is_kept_as_given_and_means_one_place(repo: Path, where: str | VfsPath) -> None:
    mount = HostMount(str(repo / "a.py"), mount_path=where)
    assert mount.mount_path == where
    assert brought(mount, roots=[repo]) == ["work/x"]


@pytest.mark.parametrize("where", ["../x", "a/../../x"])
def test_a_mount_path_cannot_lead_out(where: str) -> None:
    with pytest.raises(WorkspaceSecurityError):
        HostMount("x", mount_path=where)


def test_a_path_is_as_good_as_its_name(repo: Path) -> None:
    assert HostMount(repo) == HostMount(str(repo))
    [preview] = copy_mounts([HostMount(repo)], allowed_host_roots=[repo], into=InMemoryFilesystem())
    assert preview.host_path == str(repo)
    with pytest.raises(WorkspaceError, match=r"HostMount\.host_path: 3 is no path; use a string or"):
        HostMount(3)  # type: ignore[arg-type]


def test_the_patterns_of_the_founding_examples(repo: Path) -> None:
    story = HostMount(str(repo), "p", exclude_glob=(".git/*", "__pycache__/*", "node_modules/*", "*.pyc"))
    assert brought(story, roots=[repo]) == ["p/a.py", "p/sub/c.py", "p/sub/data.csv"]
    sunfish = HostMount(str(repo), "p", include_glob=("*.py", "*.md", "*.txt"), exclude_glob=("**/__pycache__/**",))
    assert brought(sunfish, roots=[repo]) == ["p/a.py", "p/sub/c.py"]


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.pyc", ["a.pyc", "d/e/a.pyc", ".pyc"], ["a.PYC", "a.pyc/b"]),
        ("**/__pycache__/**", ["__pycache__/a", "d/__pycache__/e/a"], ["__pycache__", "a"]),
        ("src/*.py", ["src/a.py"], ["src/d/a.py", "d/src/a.py"]),
        ("src/**/a.py", ["src/a.py", "src/d/e/a.py"], ["a.py"]),
        ("**/a", ["a", "d/a", "d/e/a"], ["a/b"]),
        ("[ab]?", ["a1", "d/b2"], ["c1", "a"]),
        ("/a", ["a"], ["d/a"]),
        ("./a", ["a"], ["d/a"]),
    ],
)
def test_globs(pattern: str, yes: list[str], no: list[str]) -> None:
    assert [path for path in yes + no if matches(tuple(path.split("/")), pattern)] == yes


PATTERNS = (
    ".git", ".git/", "**/.git", "**/.git/", "secrets", "secrets/", "/secrets", "sub/secrets", "sub/secrets/",
    "secrets/**", "**/secrets/**", "*.key", "k*", "k*/", "s?b", "[a-k]*", "sub/*/*.key", "/*", "*/", "**/sub/**/a.key",
    "*", "secrets/a.key", "a.key/", "none", "Secrets",
)  # fmt: skip
PATHS = (
    ".git/config", ".git/objects/ab", "sub/.git/config", "secrets/a.key", "secrets/deep/b.key", "sub/secrets/a.key",
    "sub/k/a.txt", "k", "a.key", "git/config", ".gitignored", "sub/x/y/secrets",
)  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path in PATHS:
        (tmp_path / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / path).write_bytes(b"1")
    return tmp_path / "tree"


def left(tree: Path, **globs: tuple[str, ...]) -> set[str]:
    """What comes in of it."""
    return set(brought(HostMount(str(tree), ".", **globs), roots=[tree]))  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_leave_out_what_git_would_ignore(tree: Path, tmp_path: Path, pattern: str) -> None:
    (tmp_path / "other").mkdir()
    git = ["git", f"--git-dir={tmp_path}/other/git", f"--work-tree={tmp_path}/other"]
    subprocess.run([*git, "init", "-q"], check=True)
    given = "\n".join(path.replace(".git/", "DOTGIT/") for path in PATHS)  # git has its own idea of its directory
    (tmp_path / "other/patterns").write_text(f"{pattern.replace('.git', 'DOTGIT')}\n")
    asked = [*git, "-c", f"core.excludesFile={tmp_path}/other/patterns", "check-ignore", "--no-index", "--stdin"]
    answer = subprocess.run(asked, input=given, capture_output=True, text=True, cwd=tmp_path / "other", check=False)
    assert answer.returncode in (0, 1), answer.stderr
    ignored = set(answer.stdout.replace("DOTGIT/", ".git/").splitlines())
    assert left(tree, exclude_glob=(pattern,)) == set(PATHS) - ignored


@pytest.mark.parametrize(
    ("pattern", "out"),
    [
        (".git/*", {".git/config", ".git/objects/ab", "sub/.git/config"}),
        ("secrets/*", {"secrets/a.key", "secrets/deep/b.key", "sub/secrets/a.key"}),
        ("./secrets/*", {"secrets/a.key", "secrets/deep/b.key"}),
        ("./secrets", {"secrets/a.key", "secrets/deep/b.key"}),
        ("./k", {"k"}),
    ],
)
def test_what_people_write_besides(tree: Path, pattern: str, out: set[str]) -> None:
    assert left(tree, exclude_glob=(pattern,)) == set(PATHS) - out


@pytest.mark.parametrize(
    ("pattern", "taken"),
    [
        ("*.key", {"secrets/a.key", "secrets/deep/b.key", "sub/secrets/a.key", "a.key"}),
        ("./*.key", {"a.key"}),
        ("secrets/", {"secrets/a.key", "secrets/deep/b.key", "sub/secrets/a.key"}),
        ("sub/secrets", {"sub/secrets/a.key"}),
        ("k", {"k", "sub/k/a.txt"}),
        ("k/", {"sub/k/a.txt"}),
        ("secrets/*", {"secrets/a.key"}),
        ("secrets/**", {"secrets/a.key", "secrets/deep/b.key"}),
    ],
)
def test_what_is_taken(tree: Path, pattern: str, taken: set[str]) -> None:
    assert left(tree, include_glob=(pattern,)) == taken


def test_what_is_left_out_is_not_looked_at(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tree / "secrets/link").symlink_to(tmp_path / "outside")
    (tree / "away").symlink_to(tmp_path / "outside")
    out = ("secrets", "away", "sub", ".git")
    mount = HostMount(str(tree), ".", exclude_glob=out, follow_symlinks=True)
    assert brought(mount, roots=[tree]) == [".gitignored", "a.key", "git/config", "k"]


def test_a_pattern_without_effect_is_told(tree: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = InMemoryFilesystem()
    mount = HostMount(str(tree), include_glob=("*.key", "*.{csv,txt}"), exclude_glob=("secrts/", "sub/", "sub"))
    [preview] = copy_mounts((mount,), allowed_host_roots=[tree], into=files)
    assert preview.unmatched == ("*.{csv,txt}", "secrts/")
    told = [record.getMessage() for record in caplog.records]
    assert [f"mount {str(tree)!r}: the pattern {pattern!r} matches nothing" in told[n]
            for n, pattern in enumerate(preview.unmatched)] == [True, True]  # fmt: skip
    assert len(told) == 2


@pytest.mark.parametrize("globs", [{"exclude_glob": ("*.key",)}, {"include_glob": ("*.csv",)}])
def test_a_file_that_its_own_patterns_leave_out_is_refused(tree: Path, globs: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(WorkspaceError, match=r"a\.key: is a file that its own patterns leave out"):
        brought(HostMount("a.key", **globs), roots=[tree])  # type: ignore[arg-type]
    assert brought(HostMount("a.key", include_glob=("*.key",), exclude_glob=("*.csv",)), roots=[tree]) == ["a.key"]


@pytest.mark.parametrize("name", ["include_glob", "exclude_glob"])
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("*.csv", r"'\*\.csv' is one string, and patterns are a tuple; write \('\*\.csv',\)"),
        (None, r"None is no tuple of patterns"),
        ((1,), r"\(1,\) is no tuple of patterns"),
        ((b"*",), r"\(b'\*',\) is no tuple of patterns"),
        (("",), r"'' names nothing; use '\*'"),
        (("./",), r"'\./' names nothing"),
        (("../x",), r"'\.\./x' leads out of the mount"),
        (("!x",), r"'!x' would take back .* write '\?x'"),
    ],
)
def test_patterns_that_could_never_match_are_refused(name: str, given: Any, told: str) -> None:
    with pytest.raises(WorkspaceError, match=rf"HostMount\.{name}: {told}"):
        HostMount("x", **{name: given})


def test_patterns_may_come_as_a_list() -> None:
    mount = HostMount("x", include_glob=["*.csv"])  # type: ignore[arg-type]
    assert mount == HostMount("x", include_glob=("*.csv",))
    assert hash(mount) == hash(HostMount("x", include_glob=("*.csv",)))


def test_many_stars_are_not_slow() -> None:
    assert not matches(("a",) * 200, "**/a/" * 40 + "b")


@pytest.mark.parametrize("allowed", [None, 8, 9])
def test_a_budget_that_suffices(repo: Path, allowed: int | None) -> None:
    assert len(brought(HostMount(str(repo), include_glob=("*.py",), max_bytes=allowed), roots=[repo])) == 2


@pytest.mark.parametrize("allowed", [0, 4, 7])
def test_a_budget_that_does_not(repo: Path, allowed: int) -> None:
    with pytest.raises(WorkspaceBudgetExceededError, match=f"max_bytes={allowed}"):
        brought(HostMount(str(repo), include_glob=("*.py",), max_bytes=allowed), roots=[repo])


def test_a_budget_of_nothing_takes_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert brought(HostMount("empty", max_bytes=0), roots=[tmp_path]) == ["empty"]


def test_mounts_need_roots(repo: Path) -> None:
    with pytest.raises(WorkspaceSecurityError, match="allowed_host_roots"):
        brought(HostMount(str(repo)), roots=[])
    assert brought(roots=[]) == []
    assert brought(HostMount(str(repo / "a.py")), roots=["/"]) == ["a.py"]


def test_what_lies_outside_the_roots_is_refused(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    (repo / "link").symlink_to(tmp_path / "secret")
    for path in (str(tmp_path / "secret"), "../secret", str(repo / "../secret"), "link", str(repo / "link")):
        with pytest.raises(WorkspaceSecurityError, match="outside the allowed roots"):
            brought(HostMount(path), roots=[repo])


def test_a_neighbour_with_the_same_beginning_is_outside(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "repo2").mkdir()
    with pytest.raises(WorkspaceSecurityError):
        brought(HostMount(str(tmp_path / "repo2")), roots=[repo])


def test_a_root_may_itself_be_a_link(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(repo)
    assert brought(HostMount(str(tmp_path / "alias/a.py")), roots=[tmp_path / "alias"]) == ["a.py"]


def test_relative_paths_start_at_a_root_and_then_here(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo)
    assert brought(HostMount("repo/a.py"), roots=[repo / "sub", tmp_path]) == ["a.py"]
    assert brought(HostMount("sub/c.py"), roots=[tmp_path]) == ["c.py"]
    with pytest.raises(FileNotFoundError, match=r"none\.py"):
        brought(HostMount("none.py"), roots=[tmp_path])


def test_links_are_left_out_unless_followed(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    (repo / "out").symlink_to(tmp_path / "secret")
    (repo / "in").symlink_to("a.py")
    (repo / "up").symlink_to(".")
    (repo / "nowhere").symlink_to("none")
    assert not {"p/out", "p/in"} & set(brought(HostMount(str(repo), "p"), roots=[repo]))
    with pytest.raises(WorkspaceSecurityError, match="out"):
        brought(HostMount(str(repo), follow_symlinks=True), roots=[repo])
    (repo / "out").unlink()
    followed = brought(HostMount(str(repo), "p", include_glob=("in", "a.py"), follow_symlinks=True), roots=[repo])
    assert followed == ["p/a.py", "p/in"]


def test_previews(repo: Path) -> None:
    files = InMemoryFilesystem()
    mounts = (HostMount("a.py", "one"), HostMount("sub", exclude_glob=("*.pyc",)))
    assert copy_mounts(mounts, allowed_host_roots=[repo], into=files) == (
        HostMountPreview("a.py", repo / "a.py", "one", ("a.py",), is_directory=False, bytes_copied=4),
        HostMountPreview("sub", repo / "sub", "sub", ("c.py", "data.csv"), is_directory=True, bytes_copied=8),
    )
    for n in range(30):
        (repo / f"sub/{n}").touch()
    [preview] = copy_mounts((HostMount("sub", "again"),), allowed_host_roots=[repo], into=files)
    assert len(preview.entries) == 20


def test_what_may_be_run_still_may(repo: Path, tmp_path: Path) -> None:
    (repo / "a.py").chmod(0o700)
    (tmp_path / "into").mkdir()
    copy_mounts([HostMount("repo")], allowed_host_roots=[tmp_path], into=HostFilesystem(tmp_path / "into"))
    found = {path.name: bool(path.stat().st_mode & 0o100) for path in (tmp_path / "into/repo").glob("*.py*")}
    assert found == {"a.py": True, "b.pyc": False}


@pytest.mark.parametrize(
    ("globs", "kept"),
    [
        ({}, ["deep/er", "empty", "logs"]),
        ({"exclude_glob": ("logs/",)}, ["deep/er", "empty"]),
        ({"exclude_glob": ("deep", "empty", "logs")}, ["."]),
        ({"include_glob": ("*.csv",)}, ["."]),
        ({"include_glob": ("deep/", "logs")}, ["deep/er", "logs"]),
        ({"include_glob": ("*",)}, ["deep/er", "empty", "logs"]),
    ],
)
def test_directories_that_nothing_is_in_come_along(
    tmp_path: Path, globs: dict[str, tuple[str, ...]], kept: list[str]
) -> None:
    for name in ("empty", "logs", "deep/er"):
        (tmp_path / "tree" / name).mkdir(parents=True)
    files = InMemoryFilesystem()
    copy_mounts([HostMount("tree", "p", **globs)], allowed_host_roots=[tmp_path], into=files)  # type: ignore[arg-type]
    assert files.glob("**") == []
    there = [name for name in (".", "empty", "logs", "deep/er") if files.is_dir(f"p/{name}")]
    assert sorted(there) == sorted({".", *kept})


def test_a_tilde_is_the_home_directory(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert brought(HostMount("~/repo/a.py"), roots=["~"]) == ["a.py"]
    assert brought(HostMount("~/repo", "p", include_glob=("*.csv",)), roots=["~/repo"]) == ["p/sub/data.csv"]
    assert HostFilesystem("~/repo").read("a.py") == b"1234"
    HostFilesystem("~/repo").download_all(Path("~/home"))
    assert (tmp_path / "home/a.py").exists()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~").mkdir()
    (tmp_path / "~/b.py").write_bytes(b"")
    assert brought(HostMount("./~/b.py"), roots=[tmp_path]) == ["b.py"]
    with pytest.raises(FileNotFoundError, match="~nobody-here/x: there is no such file"):
        brought(HostMount("~nobody-here/x"), roots=[tmp_path])


@pytest.mark.parametrize("name", ["setup.exe", "sub/Tool.DLL"])
def test_types_without_use_are_refused(repo: Path, name: str) -> None:
    (repo / name).write_bytes(b"MZ")
    with pytest.raises(WorkspaceError, match=r"is of a type that is not supported .* with exclude_glob=\('\*\."):
        brought(HostMount(str(repo)), roots=[repo])
    with pytest.raises(WorkspaceError, match="leave the mount out"):
        brought(HostMount(str(repo / name), "a.txt"), roots=[repo])
    assert brought(HostMount(str(repo), exclude_glob=("*.exe", "*.DLL", "sub/")), roots=[repo])


@pytest.mark.parametrize("where", [".", "/", "/mnt/data"])
def test_a_file_is_not_the_workspace_itself(repo: Path, where: str) -> None:
    with pytest.raises(WorkspaceError, match=f"mount_path '{where}' is the workspace itself, .*write 'a.py'"):
        brought(HostMount(str(repo / "a.py"), where), roots=[repo])


@pytest.mark.parametrize("second", ["empty", "full"])
def test_two_mounts_cannot_make_one_path_a_file_and_a_directory(tmp_path: Path, second: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/a").write_bytes(b"")
    mounts = [HostMount("full/a", "x"), HostMount(second, "x/y")]
    for given in (mounts, mounts[::-1]):
        with pytest.raises(WorkspaceError, match=r"^x: would be a file and a directory at once"):
            brought(*given, roots=[tmp_path])


def test_two_mounts_cannot_write_one_file(repo: Path) -> None:
    with pytest.raises(WorkspaceError, match="there already"):
        brought(HostMount("a.py", "x"), HostMount("b.pyc", "x"), roots=[repo])


def test_bad_mounts_name_the_field() -> None:
    with pytest.raises(WorkspaceError, match="host_path"):
        HostMount("")
    with pytest.raises(WorkspaceError, match="max_bytes: -1"):
        HostMount("x", max_bytes=-1)


@pytest.mark.parametrize("segments", [("..",), ("a/b",), ("",), (".",), ("a\0",)])
def test_a_vfs_path_is_made_of_names(segments: tuple[str, ...]) -> None:
    with pytest.raises(WorkspaceSecurityError):
        VfsPath(segments)


def test_a_vfs_path_shows_its_segments() -> None:
    path = VfsPath(("workspace", "sunfish"))
    assert (path.segments, str(path), str(VfsPath(()))) == (("workspace", "sunfish"), "workspace/sunfish", ".")
