"""Two versions of a container, compared."""

from __future__ import annotations

from belljar.gateway.containers.versions import Differences, compare
from belljar.gateway.store.base import FileRef, Version


def version(number: int, requirements: tuple[str, ...] = (), cells: int = 0, **files: str) -> Version:
    refs = {path: FileRef(f"cfile_{path}", blob) for path, blob in files.items()}
    return Version(number=number, files=refs, requirements=requirements, cells=cells)


def test_what_became_of_everything() -> None:
    before = version(1, ("numpy",), 3, same="1", changed="1", z_removed="1", removed="1")
    after = version(9, ("polars", "numpy"), 5, same="1", changed="2", z_added="1", added="1")
    assert compare(before, after) == Differences(
        added=("added", "z_added"),
        changed=("changed",),
        removed=("removed", "z_removed"),
        installed=("polars",),
        cells=2,
    )


def test_nothing_became_of_it() -> None:
    assert not compare(version(1, a="1"), version(5, a="1"))
    assert compare(version(1), version(2, cells=1))


def test_pictures_that_were_only_shown_are_no_files() -> None:
    shown = Version(number=2, files={"cfile_1.png": FileRef("cfile_1", "b")}, requirements=(), cells=0)
    assert not compare(version(1), shown)


def test_a_file_that_went_and_came_back_is_the_same_by_its_content() -> None:
    moved = Version(number=2, files={"a": FileRef("cfile_other", "1")}, requirements=(), cells=0)
    assert not compare(version(1, a="1"), moved)
