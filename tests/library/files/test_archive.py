"""Many outputs as one zip: fetched in pieces, each under a name of its own, saved only where that is agreed to."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

from belljar.files import Approval, CodeExecutionOutputFile, FileDownloadResult, Proposal, save_output_files, zip_files
from belljar.files.results import download_result

LARGE = bytes(range(256)) * 20_000


def made(name: str, data: bytes) -> CodeExecutionOutputFile:
    return CodeExecutionOutputFile(
        file_id="", filename=name, size=len(data), download=lambda: download_result(name, "text/csv", data)
    )


def test_all_are_in_it_under_names_that_stay_inside() -> None:
    files = [made("a.csv", b"1"), made("a.csv", b"2"), made("../../etc/passwd", b"3"), made("x\\b.bin", LARGE)]
    archive = zip_files([*files, made("dir/", b"4")], "all.zip")
    assert (archive.filename, archive.mime_type) == ("all.zip", "application/zip")
    with archive.download() as fetched:
        content = fetched.content
    assert archive.size == len(content)
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        assert opened.testzip() is None
        assert {name: opened.read(name) for name in opened.namelist()} == {
            "a.csv": b"1",
            "a-2.csv": b"2",
            "etc/passwd": b"3",
            "x/b.bin": LARGE,
            "dir": b"4",
        }


def test_paths_stay_as_they_are() -> None:
    files = [
        made("a/r.csv", b"1"),
        made("b/r.csv", b"2"),
        made("a/r.csv", b"3"),
        made("v1.2/r", b"4"),
        made("v1.2/r", b"5"),
    ]
    with zip_files(files).download() as fetched, zipfile.ZipFile(io.BytesIO(fetched.content)) as opened:
        assert {name: opened.read(name) for name in opened.namelist()} == {
            "a/r.csv": b"1",
            "b/r.csv": b"2",
            "a/r-2.csv": b"3",
            "v1.2/r": b"4",
            "v1.2/r-2": b"5",
        }


def test_it_is_approved_like_any_file(tmp_path: Path) -> None:
    seen: list[Proposal] = []

    def ask(proposals: Sequence[Proposal]) -> Approval:
        seen.extend(proposals)
        return Approval.yes(seen)

    [saved] = save_output_files([zip_files([made("a.csv", b"1"), made("b.csv", b"2")])], tmp_path, ask)
    assert [(one.name, one.state) for one in seen] == [("outputs.zip", "new")]
    assert saved.path == tmp_path / "outputs.zip"
    assert zipfile.ZipFile(saved.path).namelist() == ["a.csv", "b.csv"]


def test_nothing_is_fetched_twice(tmp_path: Path) -> None:
    fetched: list[str] = []

    def download() -> FileDownloadResult:
        fetched.append("a")
        return download_result("a", "text/plain", b"1")

    one = CodeExecutionOutputFile(file_id="", filename="a", size=1, download=download)
    save_output_files([zip_files([one])], tmp_path, Approval.yes)
    assert fetched == ["a"]
