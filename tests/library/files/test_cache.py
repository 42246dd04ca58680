"""The same file is sent once while the vendor has it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from belljar.errors import Unreachable
from belljar.files import CachedUploads, FileDownloadResult, FileMetadata, FilesApiProvider, FileUploadResult


class Counting:
    """A Files API that counts."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 15, tzinfo=UTC)
        self.life: timedelta | None = timedelta(hours=1)
        self.sent: list[str] = []
        self.deleted: list[str] = []
        self.stubborn: set[str] = set()

    def upload_file(self, file_path: str | Path, purpose: str | None = None, **more: Any) -> FileUploadResult:
        self.sent.append(Path(file_path).name)
        expires = None if self.life is None else self.now + self.life
        return FileUploadResult(
            file_id=f"f{len(self.sent)}", filename=Path(file_path).name, size=1, expires_at=expires, uri="u"
        )

    def download_file(self, file_id: str, **more: Any) -> FileDownloadResult:
        raise NotImplementedError

    def delete_file(self, file_id: str) -> None:
        if file_id in self.stubborn:
            raise Unreachable("gone")
        self.deleted.append(file_id)

    def list_files(self) -> Iterator[FileMetadata]:
        return iter(())

    def file_metadata(self, file_id: str) -> FileMetadata:
        raise NotImplementedError


@pytest.fixture
def files() -> Counting:
    return Counting()


@pytest.fixture
def cache(files: Counting) -> CachedUploads:
    return CachedUploads(files, clock=lambda: files.now)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    path.write_text("a")
    return path


def test_it_is_a_files_api(cache: CachedUploads) -> None:
    assert isinstance(cache, FilesApiProvider)


def test_the_same_content_is_sent_once(files: Counting, cache: CachedUploads, path: Path) -> None:
    first = cache.upload_file(path)
    path.touch()
    assert cache.upload_file(str(path)) == first
    assert files.sent == ["data.csv"]


def test_what_differs_is_sent_again(files: Counting, cache: CachedUploads, path: Path) -> None:
    ids = [cache.upload_file(path).file_id]
    path.write_text("b")
    ids.append(cache.upload_file(path).file_id)
    other = path.with_name("other.csv")
    other.write_text("b")
    ids += [cache.upload_file(other).file_id, cache.upload_file(other, "vision").file_id]
    assert ids == ["f1", "f2", "f3", "f4"]


@pytest.mark.parametrize(("minutes", "times"), [(54, 1), (56, 2), (61, 2)])
def test_what_is_about_to_expire_is_sent_again(
    files: Counting, cache: CachedUploads, path: Path, minutes: int, times: int
) -> None:
    cache.upload_file(path)
    files.now += timedelta(minutes=minutes)
    cache.upload_file(path)
    assert len(files.sent) == times


def test_what_never_expires_is_kept(files: Counting, cache: CachedUploads, path: Path) -> None:
    files.life = None
    cache.upload_file(path)
    files.now += timedelta(days=900)
    cache.upload_file(path)
    assert len(files.sent) == 1


def test_a_deleted_file_is_forgotten(files: Counting, cache: CachedUploads, path: Path) -> None:
    cache.delete_file(cache.upload_file(path).file_id)
    assert cache.upload_file(path).file_id == "f2"


def test_leaving_deletes_what_it_can(files: Counting, cache: CachedUploads, path: Path) -> None:
    files.stubborn = {"f1"}
    with cache:
        cache.upload_file(path)
        path.write_text("b")
        cache.upload_file(path)
    assert files.deleted == ["f2"]
    assert cache.upload_file(path).file_id == "f3"


def test_a_client_uploads_through_it(cache: CachedUploads, path: Path) -> None:
    reference = cache.upload(path)
    assert (reference.id, reference.filename, reference.mime_type, reference.uri) == ("f1", "data.csv", "text/csv", "u")
