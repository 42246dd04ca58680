"""A project to save into, and files that code made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from belljar.files import CodeExecutionOutputFile, Project
from belljar.files.results import FileDownloadResult, download_result
from belljar.vendors.media_types import type_of

Made = Callable[[str, bytes], CodeExecutionOutputFile]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def project(root: Path) -> Project:
    return Project(root)


@pytest.fixture
def made() -> Made:
    """Makes a file as code would have; each may be downloaded as often as one likes."""

    def make(name: str, data: bytes) -> CodeExecutionOutputFile:
        def download() -> FileDownloadResult:
            return download_result(name, type_of(name), data)

        return CodeExecutionOutputFile(
            file_id=f"cfile_{name}", filename=name, size=len(data), mime_type=type_of(name), download=download
        )

    return make
