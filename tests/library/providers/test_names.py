"""Names of files that code made: whatever a vendor tells, they lead nowhere else, and two files never have one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.errors import WorkspaceConflictError, WorkspaceSecurityError
from belljar.output_names import below, free_name
from belljar.providers.code_execution import Description, OutputFile, told_apart

NAMES = st.text(st.sampled_from("ab.-12/\\\0 \ud800é"), max_size=8)


@pytest.mark.parametrize(
    ("told", "path"),
    [
        ("r.csv", "r.csv"),
        ("a/b/r.csv", "a/b/r.csv"),
        ("/mnt/data/a/r.csv", "a/r.csv"),
        ("/mnt/data/../../etc/passwd", "etc/passwd"),
        ("../../etc/passwd", "etc/passwd"),
        ("..\\..\\a.exe", "a.exe"),
        ("/tmp/out/r.csv", "r.csv"),
        ("/mnt/data//etc/passwd", "passwd"),
        ("a/./b//c/", "a/b/c"),
        ("..", "output"),
        ("", "output"),
        ("\0", "output"),
        ("a\0b", "ab"),
        ("\ud800.csv", "?.csv"),
    ],
)
def test_a_path_stays_below(told: str, path: str) -> None:
    assert below(told) == path


@given(NAMES)
def test_no_path_leads_elsewhere(told: str) -> None:
    names = below(told).split("/")
    assert not {"", ".", ".."} & set(names)
    assert below("/".join(names)) == "/".join(names)
    "/".join(names).encode()


@pytest.mark.parametrize(
    ("path", "taken", "free"),
    [
        ("r.csv", (), "r.csv"),
        ("r.csv", ("r.csv", "r-2.csv"), "r-3.csv"),
        ("v1.2/r", ("v1.2/r",), "v1.2/r-2"),
        ("a/.env", ("a/.env",), "a/.env-2"),
        ("a.tar.gz", ("a.tar.gz",), "a.tar-2.gz"),
    ],
)
def test_a_free_name(path: str, taken: tuple[str, ...], free: str) -> None:
    assert free_name(path, taken) == free


def file(id: str, name: str | None, where: str) -> OutputFile:
    return OutputFile(id, read=id.encode, describe=lambda: Description(where, 1), filename=name)


@given(
    st.lists(st.tuples(NAMES, st.sampled_from(["r.csv", "f.png", "r-2.csv", "r-2-2.csv"])), max_size=8), st.booleans()
)
def test_all_files_of_an_answer_have_paths_of_their_own(told: list[tuple[str, str]], cited: bool) -> None:
    """A vendor tells of names and, when asked, of paths that end in them; or of nothing until it is asked."""
    files = [
        file(f"cfile_{n}", name if cited else None, f"{folder}/{name}") for n, (folder, name) in enumerate(told, 1)
    ]
    found = told_apart([*files, *files])
    assert found == files
    assert len({one.path for one in found}) == len(found)
    assert len({one._name_alone for one in found}) == len(found)


def test_saving_all_loses_none(tmp_path: Path) -> None:
    files = told_apart(file(f"cfile_{n}", "r.csv", f"/mnt/data/{n}/r.csv") for n in range(3))
    assert [one.save(tmp_path).name for one in files] == ["r.csv", "r-2.csv", "r-3.csv"]
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["cfile_0", "cfile_1", "cfile_2"]


def test_what_runs_by_itself_is_not_saved_under_its_own_name(tmp_path: Path) -> None:
    for name in (".git", "HEAD", "git~1"):
        with pytest.raises(WorkspaceSecurityError, match="is not saved: "):
            file("cfile_1", name, name).save(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert file("cfile_1", "HEAD", "HEAD").save(tmp_path / "head.txt").read_text() == "cfile_1"


def test_what_is_there_stays_unless_told(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "a.csv").write_text("other")
    (tmp_path / "b.csv").symlink_to(tmp_path / "mine")
    for name in ("a.csv", "b.csv"):
        with pytest.raises(WorkspaceConflictError, match="overwrite=True"):
            file("cfile_1", name, name).save(tmp_path)
        for _ in range(2):
            assert file("cfile_1", name, name).save(tmp_path, overwrite=True).read_text() == "cfile_1"
        assert file("cfile_1", name, name).save(tmp_path) == tmp_path / name
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "mine": "mine",
        "a.csv": "cfile_1",
        "b.csv": "cfile_1",
    }


def test_pictures_that_were_only_shown_have_names_for_people() -> None:
    files = [file("cfile_1", "cfile_1.png", ""), file("cfile_2", "figure-1.png", "a/figure-1.png")]
    files.append(file("cfile_3", "cfile_3.svg", ""))
    assert [one.path for one in told_apart(files)] == ["figure-2.png", "a/figure-1.png", "figure-3.svg"]
