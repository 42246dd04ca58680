"""Nothing is saved that was not agreed to, and what is agreed to is what was shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.library.files.conftest import Made

from belljar.errors import InvalidRequest, WorkspaceSecurityError
from belljar.files import (
    Approval,
    CodeExecutionOutputFile,
    Project,
    Proposal,
    approval_from_json,
    listing,
    proposals_as_json,
    propose,
    read_answer,
    rename_proposal,
    save,
    save_output_files,
)
from belljar.files.approval import read_rename
from belljar.files.results import FileDownloadResult, download_result


@pytest.fixture
def proposals(project: Project, root: Path, made: Made) -> list[Proposal]:
    (root / "data.csv").write_text("a,b\n1,2\n")
    return propose([made("data.csv", b"a,b\n1,3\n"), made("chart.png", b"\x89PNG" * 4000)], project)


def tree(root: Path) -> dict[str, bytes]:
    return {str(one.relative_to(root)): one.read_bytes() for one in root.rglob("*") if one.is_file()}


def test_a_proposal_says_all_there_is_to_know(proposals: list[Proposal]) -> None:
    data, chart = proposals
    assert (data.name, data.size, data.mime_type, data.destination) == ("data.csv", 8, "text/csv", "data.csv")
    assert (data.state, chart.state) == ("overwrites", "new")
    assert data.diff == "--- a/data.csv\n+++ b/data.csv\n@@ -1,2 +1,2 @@\n a,b\n-1,2\n+1,3\n"
    assert chart.diff is None


def test_the_list_and_the_question(proposals: list[Proposal]) -> None:
    assert listing(proposals) == (
        "Code execution generated output files:\n"
        "  1. data.csv (8 bytes, text/csv) - overwrites: data.csv\n"
        "  2. chart.png (15.6 KB, image/png) - new: chart.png"
    )


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ("yes", {1: "data.csv", 2: "chart.png"}),
        ("Y\n", {1: "data.csv", 2: "chart.png"}),
        ("no", {}),
        ("", {}),
        ("select 2", {2: "chart.png"}),
        ("select 1, 2", {1: "data.csv", 2: "chart.png"}),
        ("2", {2: "chart.png"}),
        ("rename 1 other.csv", {1: "other.csv", 2: "chart.png"}),
        ("rename 2 = sub/my chart.png", {1: "data.csv", 2: "sub/my chart.png"}),
    ],
)
def test_answers(proposals: list[Proposal], answer: str, chosen: dict[int, str]) -> None:
    assert read_answer(answer, proposals).chosen == chosen


@pytest.mark.parametrize("answer", ["maybe", "select", "select 3", "0", "select x", "rename 1", "rename 3 x", "1 x"])
def test_what_is_no_answer_is_asked_again(proposals: list[Proposal], answer: str) -> None:
    with pytest.raises(InvalidRequest):
        read_answer(answer, proposals)


def test_a_rename_is_read_by_itself() -> None:
    assert read_rename("rename 2 a b.csv\n") == (2, "a b.csv")
    assert read_rename("yes") is None


def test_yes_saves_all_no_saves_nothing_select_saves_some(
    proposals: list[Proposal], project: Project, root: Path
) -> None:
    before = tree(root)
    assert save(proposals, Approval.no(), project) == []
    assert tree(root) == before
    [saved] = save(proposals, Approval.select(proposals, [2]), project)
    assert (saved.path, saved.overwrote) == (root / "chart.png", False)
    assert tree(root) == {**before, "chart.png": b"\x89PNG" * 4000}
    both = save(proposals, Approval.yes(proposals), project)
    assert [(one.name, one.overwrote) for one in both] == [("data.csv", True), ("chart.png", True)]
    assert tree(root)["data.csv"] == b"a,b\n1,3\n"


def test_another_name_is_looked_at_again(proposals: list[Proposal], project: Project, root: Path) -> None:
    changed = rename_proposal(proposals, 1, "sub/other.csv", project)
    assert (changed[0].destination, changed[0].state, changed[0].diff) == ("sub/other.csv", "new", None)
    assert changed[1] == proposals[1]
    save(proposals, read_answer("yes", changed), project)
    assert tree(root).keys() == {"data.csv", "chart.png", "sub/other.csv"}
    assert rename_proposal(proposals, 2, "../x", project)[1].state is None


@pytest.mark.parametrize("name", ["../x.csv", "/etc/x.csv", "sub/../../x"])
def test_a_name_that_leads_out_is_shown_and_not_saved(project: Project, root: Path, made: Made, name: str) -> None:
    [one] = proposals = propose([made(name, b"x")], project)
    assert one.state is None
    assert "choose another name" in (one.refused or "")
    assert save(proposals, Approval.yes(proposals), project) == []
    with pytest.raises(WorkspaceSecurityError):
        save(proposals, Approval.select(proposals, [1]), project)
    save(proposals, Approval.no().rename(1, "good.csv"), project)
    assert tree(root) == {"good.csv": b"x"}


def test_one_bad_place_saves_nothing(proposals: list[Proposal], project: Project, root: Path) -> None:
    before = tree(root)
    with pytest.raises(WorkspaceSecurityError):
        save(proposals, Approval.yes(proposals).rename(2, "../chart.png"), project)
    with pytest.raises(InvalidRequest, match="more than one"):
        save(proposals, Approval.yes(proposals).rename(2, "data.csv"), project)
    with pytest.raises(InvalidRequest, match="no file 7"):
        save(proposals, Approval({7: "x"}), project)
    assert tree(root) == before


def test_two_files_of_one_name_are_two(project: Project, root: Path, made: Made) -> None:
    proposals = propose([made("a.csv", b"1"), made("a.csv", b"2"), made("README", b"3"), made("README", b"4")], project)
    assert [one.destination for one in proposals] == ["a.csv", "a-2.csv", "README", "README-2"]
    save(proposals, Approval.yes(proposals), project)
    assert tree(root) == {"a.csv": b"1", "a-2.csv": b"2", "README": b"3", "README-2": b"4"}


@pytest.mark.parametrize(
    ("old", "new"), [(b"\xff\x00", b"text"), (b"text", b"\xff"), (b"x" * 300_000, b"y"), (b"x", b"y" * 300_000)]
)
def test_only_small_texts_are_compared(project: Project, root: Path, made: Made, old: bytes, new: bytes) -> None:
    (root / "f").write_bytes(old)
    [one] = proposals = propose([made("f", new)], project)
    assert (one.state, one.diff) == ("overwrites", None)
    save(proposals, Approval.yes(proposals), project)
    assert tree(root) == {"f": new}


def test_a_missing_last_newline_is_shown(project: Project, root: Path, made: Made) -> None:
    (root / "f").write_text("one")
    [one] = propose([made("f", b"two")], project)
    assert one.diff == (
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n\\ No newline at end of file\n+two\n\\ No newline at end of file\n"
    )


def test_what_was_shown_is_what_is_saved(project: Project, root: Path) -> None:
    """A vendor's file that changes after the question does not change the answer."""
    versions = iter([b"shown", b"changed since"])

    def download() -> FileDownloadResult:
        return download_result("f", "text/plain", next(versions))

    (root / "f").write_text("old")
    file = CodeExecutionOutputFile(file_id="1", filename="f", size=5, download=download)
    proposals = propose([file], project)
    save(proposals, Approval.yes(proposals), project)
    assert tree(root) == {"f": b"shown"}


def test_a_program_decides_by_a_callback(root: Path, made: Made) -> None:
    asked: list[Sequence[Proposal]] = []

    def small_ones(proposals: Sequence[Proposal]) -> Approval:
        asked.append(proposals)
        return Approval.select(proposals, [n for n, one in enumerate(proposals, 1) if one.size < 10])

    saved = save_output_files([made("s", b"1"), made("l", b"1" * 50)], root, small_ones)
    assert [one.name for one in saved] == ["s"]
    assert len(asked) == 1
    assert save_output_files([], root, small_ones) == []
    assert len(asked) == 1


def test_a_page_is_shown_json_and_answers_json(proposals: list[Proposal], project: Project, root: Path) -> None:
    shown = json.loads(json.dumps(proposals_as_json(proposals)))
    assert shown[1] == {
        "number": 2,
        "name": "chart.png",
        "size": 16000,
        "mimeType": "image/png",
        "destination": "chart.png",
        "state": "new",
        "refused": None,
        "warning": None,
        "diff": None,
    }
    answer = {"save": [{"number": 2, "destination": "pictures/chart.png"}, {"number": 1}]}
    save(proposals, approval_from_json(answer, proposals), project)
    assert tree(root).keys() == {"data.csv", "pictures/chart.png"}
    assert tree(root)["data.csv"] == b"a,b\n1,3\n"


@pytest.mark.parametrize(
    "data", [None, {}, {"save": 1}, {"save": [1]}, {"save": [{"number": "1"}]}, {"save": [{"number": True}]},
             {"save": [{"number": 9}]}, {"save": [{"number": 1, "destination": 2}]}],
)  # fmt: skip
def test_a_page_that_answers_nonsense_is_told(proposals: list[Proposal], data: Any) -> None:
    with pytest.raises(InvalidRequest):
        approval_from_json(data, proposals)
