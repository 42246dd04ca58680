"""Uploads that are remembered by their content, so that the same file is sent once while the vendor has it."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from belljar.files.base import FilesApiProvider
from belljar.files.results import FileDownloadResult, FileMetadata, FileUploadResult
from belljar.files.upload_reader import OnProgress, regular
from belljar.providers.uploads import FileReference
from belljar.vendors.media_types import type_of

_MARGIN = timedelta(minutes=5)
"""A file that expires within this time is sent again: it has to last for the run."""
_log = logging.getLogger(__name__)


class CachedUploads:
    """A Files API that sends nothing twice. Leaving it deletes what it sent, as well as that works.

    It is also the `Uploads` that a client of `belljar.providers` takes.
    """

    def __init__(self, files: FilesApiProvider, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._files = files
        self._clock = clock
        self._known: dict[tuple[str, str, str | None], FileUploadResult] = {}
        self._lock = threading.Lock()

    def upload_file(
        self,
        file_path: str | Path,
        purpose: str | None = None,
        *,
        lifetime: timedelta | None = None,
        on_progress: OnProgress | None = None,
    ) -> FileUploadResult:
        path = regular(file_path)
        key = (_digest(path), path.name, purpose)
        with self._lock:
            known = self._known.get(key)
            if known is None or not self._lasts(known):
                known = self._files.upload_file(path, purpose, lifetime=lifetime, on_progress=on_progress)
                self._known[key] = known
            return known

    def upload(self, path: Path) -> FileReference:
        sent = self.upload_file(path)
        return FileReference(
            id=sent.file_id, filename=sent.filename, mime_type=sent.mime_type or type_of(path.name), uri=sent.uri
        )

    def download_file(
        self, file_id: str, *, container_id: str | None = None, on_progress: OnProgress | None = None
    ) -> FileDownloadResult:
        return self._files.download_file(file_id, container_id=container_id, on_progress=on_progress)

    def delete_file(self, file_id: str) -> None:
        with self._lock:
            self._known = {key: one for key, one in self._known.items() if one.file_id != file_id}
        self._files.delete_file(file_id)

    def list_files(self) -> Iterator[FileMetadata]:
        return self._files.list_files()

    def file_metadata(self, file_id: str) -> FileMetadata:
        return self._files.file_metadata(file_id)

    def clear(self) -> None:
        """Delete what was sent; what cannot be deleted is left to expire."""
        with self._lock:
            known, self._known = self._known, {}
        clean_up(self._files, (one.file_id for one in known.values()))

    def _lasts(self, known: FileUploadResult) -> bool:
        return known.expires_at is None or known.expires_at > self._clock() + _MARGIN

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()


def clean_up(files: FilesApiProvider, file_ids: Iterable[str]) -> None:
    """Delete files that are needed no more. A failure is noted and nothing else: the run is what counts."""
    for file_id in file_ids:
        try:
            files.delete_file(file_id)
        except Exception as error:  # noqa: BLE001 - a provider of the caller's own may raise anything
            _log.info("%s is left behind: %s", file_id, error)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
