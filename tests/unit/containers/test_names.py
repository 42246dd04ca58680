"""Names that callers give to files: exact where they can be, refused with the reason where they cannot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.errors import InvalidRequest
from belljar.gateway.containers import names
from belljar.gateway.store.base import ContainerFileRecord


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("data.csv", "data.csv"),
        ("報告 1.xlsx", "報告 1.xlsx"),
        ("e\u0301", "e\u0301"),
        ("a/b/c.txt", "a/b/c.txt"),
        ("./a//b/./c", "a/b/c"),
        ("/mnt/data/a/b", "a/b"),
        (" spaces at both ends ", " spaces at both ends "),
        ("...", "..."),
        ("..x", "..x"),
        ("back\\slash", "back\\slash"),
        ("x" * 255, "x" * 255),
        ("数" * 85, "数" * 85),
    ],
)
def test_a_good_name_is_taken_as_it_is(name: str, path: str) -> None:
    assert names.checked(name) == path


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "does not name a file"),
        ("/", "does not name a file"),
        (".", "does not name a file"),
        ("/mnt/data/", "does not name a file"),
        ("nul\0", "NUL"),
        ("/etc/passwd", "leads out of /mnt/data"),
        ("/mnt/data//etc", "leads out of /mnt/data"),
        ("..", "leads out of /mnt/data"),
        ("a/../b", "leads out of /mnt/data"),
        ("/mnt/data/../x", "leads out of /mnt/data"),
        ("x" * 256, "too long"),
        ("é" * 128, "too long"),
        ("/".join(["d" * 200] * 21), "too long"),
        ("lone \ud800", "UTF-8"),
    ],
)
def test_a_bad_name_is_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as refused:
        names.checked(name)
    assert refused.value.param == "file"
    assert repr(name[:80])[1:-1] in str(refused.value)


@given(st.text(min_size=1, max_size=300))
def test_what_is_taken_stays_under_the_root_and_is_taken_again(name: str) -> None:
    try:
        path = names.checked(name)
    except InvalidRequest:
        return
    parts = path.split("/")
    assert not {"", ".", ".."} & set(parts)
    assert "\0" not in path
    assert max(len(part.encode()) for part in parts) <= 255
    assert names.checked(path) == path


@pytest.mark.parametrize(
    ("paths", "clash"),
    [
        ([], None),
        (["a", "b", "c/d", "c/e"], None),
        (["a", "ab/c"], None),
        (["a", "a/b"], "a"),
        (["x/y/z/1", "x/y"], "x/y"),
    ],
)
def test_a_file_and_a_directory_cannot_share_a_path(paths: list[str], clash: str | None) -> None:
    assert names.clashing(paths) == clash


@given(st.lists(st.text("ab/", min_size=1, max_size=6).map(lambda text: text.strip("/")).filter(bool), max_size=8))
def test_a_clash_is_exactly_a_path_under_another(paths: list[str]) -> None:
    under = any(other.startswith(f"{path}/") for path in paths for other in paths)
    assert (names.clashing(paths) is not None) == under


def test_a_taken_name_gets_the_id_before_it() -> None:
    assert names.apart("data.csv", "file-1") == "file-1-data.csv"
    assert names.apart("in/data.csv", "file-1") == "in/file-1-data.csv"


def test_an_uploaded_file_has_one_id_in_each_container() -> None:
    assert names.placed_id("cntr_a", "file-1") == names.placed_id("cntr_a", "file-1")
    assert len({names.placed_id(c, f) for c in ("cntr_a", "cntr_b") for f in ("file-1", "file-2")}) == 4
    assert names.placed_id("cntr_a", "file-1").startswith("cfile_")


@pytest.mark.parametrize(("path", "figure"), [("cfile_1.png", True), ("cfile_2.png", False), ("chart.png", False)])
def test_a_figure_is_named_by_its_id(path: str, figure: bool) -> None:
    record = ContainerFileRecord(
        id="cfile_1", container_id="c", path=path, created_at=0, size=0, modified=0, source="assistant", blob=""
    )
    assert names.is_figure(record) is figure


@pytest.mark.parametrize(
    ("path", "shown"), [("報告 1.xlsx", "報告 1.xlsx"), ("new\nline", "'new\\nline'"), ("trailing ", "'trailing '")]
)
def test_a_name_never_breaks_a_line(path: str, shown: str) -> None:
    assert names.shown(path) == shown
