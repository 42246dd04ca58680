"""One Files API over all vendors: the protocol, and what all of ours share: limits, retries, progress, words."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

from belljar.errors import BelljarError, InvalidRequest, TooLarge
from belljar.files.limits import AS_OF, LIMITS, OWN, FileLimits, format_size
from belljar.files.results import FileDownloadResult, FileMetadata, FileUploadResult, spool
from belljar.files.retry import Retries
from belljar.files.upload_reader import OnProgress, Reading, regular
from belljar.providers.vendor_settings import VENDORS
from belljar.vendors.media_types import type_of

_T = TypeVar("_T")


@runtime_checkable
class FilesApiProvider(Protocol):
    """A vendor's files. Blocking; one call does one thing."""

    def upload_file(
        self,
        file_path: str | Path,
        purpose: str | None = None,
        *,
        lifetime: timedelta | None = None,
        on_progress: OnProgress | None = None,
    ) -> FileUploadResult:
        """Send a file; the vendor drops it after `lifetime`, where it can."""

    def download_file(
        self, file_id: str, *, container_id: str | None = None, on_progress: OnProgress | None = None
    ) -> FileDownloadResult:
        """Fetch a file; `container_id` where code made it in a container of OpenAI's kind."""

    def delete_file(self, file_id: str) -> None:
        """Let the vendor forget a file."""

    def list_files(self) -> Iterator[FileMetadata]:
        """All files of this key."""

    def file_metadata(self, file_id: str) -> FileMetadata:
        """What the vendor says of one."""


class FilesApi(ABC):
    """The shared part; a vendor brings the calls of its SDK.

    Bytes go from disk to network and back in pieces. What fails for a moment is tried again.
    """

    provider: ClassVar[str]
    vendor: ClassVar[str]

    def __init__(
        self,
        *,
        client: Any,
        owned: bool = False,
        largest: int | None = OWN,
        attempts: int = 3,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.client = client
        self._owned = owned
        self._largest = largest
        self._sleep = sleep
        self._retries = Retries(attempts, sleep)

    @property
    def limits(self) -> FileLimits:
        return LIMITS[self.provider]

    def upload_file(
        self,
        file_path: str | Path,
        purpose: str | None = None,
        *,
        lifetime: timedelta | None = None,
        on_progress: OnProgress | None = None,
    ) -> FileMetadata:
        path = regular(file_path)
        self._check_lifetime(lifetime)
        with Reading(path, on_progress) as reading:
            self._check_size(path.name, reading.size)

            def send() -> FileMetadata:
                reading.seek(0)
                with self._translate_errors(reading):
                    return self._send(reading, path.name, type_of(path.name), purpose, lifetime)

            return self._retries.run(send)

    def download_file(
        self, file_id: str, *, container_id: str | None = None, on_progress: OnProgress | None = None
    ) -> FileDownloadResult:
        known = self._metadata_in(file_id, container_id) if container_id else self.file_metadata(file_id)
        if not known.downloadable:
            raise InvalidRequest(
                f"{self.vendor} gives back only what code has made, and {file_id} was uploaded; use the original",
                param="file_id",
            )
        target = spool()

        def write(piece: bytes) -> None:
            target.write(piece)
            if on_progress is not None:
                on_progress(target.tell(), max(known.size, target.tell()))

        def fetch() -> None:
            target.seek(0)
            target.truncate()
            with self._translate_errors():
                self._fetch(file_id, container_id, write)

        try:
            self._retries.run(fetch)
            return FileDownloadResult(known.filename, known.mime_type or type_of(known.filename), target)
        except BaseException:
            target.close()
            raise

    def delete_file(self, file_id: str) -> None:
        self._call(lambda: self._delete(file_id))

    def list_files(self) -> Iterator[FileMetadata]:
        pages = iter(self._list())
        while True:
            try:
                with self._translate_errors():
                    one = next(pages)
            except StopIteration:
                return
            yield one

    def file_metadata(self, file_id: str) -> FileMetadata:
        return self._call(lambda: self._metadata(file_id))

    def close(self) -> None:
        """Close the connections, where they are our own."""
        if self._owned:
            self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- what a vendor brings

    @abstractmethod
    def _send(
        self, file: Reading, name: str, kind: str, purpose: str | None, lifetime: timedelta | None
    ) -> FileMetadata: ...

    @abstractmethod
    def _fetch(self, file_id: str, container_id: str | None, write: Callable[[bytes], object]) -> None: ...

    @abstractmethod
    def _delete(self, file_id: str) -> None: ...

    @abstractmethod
    def _list(self) -> Iterator[FileMetadata]: ...

    @abstractmethod
    def _metadata(self, file_id: str) -> FileMetadata: ...

    def _metadata_in(self, file_id: str, container_id: str) -> FileMetadata:
        """Of a file in a container; where vendors know no such containers, of the file."""
        return self.file_metadata(file_id)

    @abstractmethod
    def _meaning(self, error: Exception) -> BelljarError | None:
        """What an exception of the SDK means; None for one that is not the SDK's."""

    # -- what they share

    @property
    def _key(self) -> str:
        return next(iter(VENDORS[self.provider].keys), "api_key")

    def _call(self, call: Callable[[], _T]) -> _T:
        def attempt() -> _T:
            with self._translate_errors():
                return call()

        return self._retries.run(attempt)

    @contextmanager
    def _translate_errors(self, reading: Reading | None = None) -> Iterator[None]:
        try:
            yield
        except BelljarError:
            raise
        except Exception as error:
            if reading is not None and reading.failed is not None:
                raise reading.failed from None
            meaning = self._meaning(error)
            if meaning is None:
                raise
            raise meaning from error

    def _check_size(self, name: str, size: int) -> None:
        vendors = self.limits.largest
        if vendors is not None and size > vendors:
            raise TooLarge(
                f"{name!r} has {format_size(size)}, {self.vendor} takes {format_size(vendors)} a file (as of {AS_OF}); "
                "send less"
            )
        if self._largest is not None and size > self._largest:
            raise TooLarge(
                f"{name!r} has {format_size(size)}, more than the {format_size(self._largest)} that are sent unasked; "
                "to send it all the same: largest=None"
            )

    def _check_lifetime(self, lifetime: timedelta | None) -> None:
        allowed = self.limits.lifetimes
        if lifetime is None or allowed is None or allowed[0] <= lifetime <= allowed[1]:
            return
        raise InvalidRequest(
            f"lifetime: {lifetime} is not between {allowed[0]} and {allowed[1]}, which {self.vendor} takes",
            param="lifetime",
        )
