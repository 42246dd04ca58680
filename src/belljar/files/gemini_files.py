"""Gemini's Files API through the google-genai SDK: resumable uploads, kept 48 hours; only what it made comes back."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from belljar.config import ApiSettings
from belljar.errors import BelljarError, Declined, NotFound, Unreachable
from belljar.files import sdk_errors
from belljar.files.base import FilesApi
from belljar.files.results import FileMetadata
from belljar.files.upload_reader import Reading
from belljar.files.vendor_access import reach
from belljar.providers import vendor_settings
from belljar.vendors.gemini.errors import fault

if TYPE_CHECKING:
    from google import genai
    from google.genai.types import File

_POLLS = 120
_PAUSE = 0.5


class GeminiFiles(FilesApi):
    """Files are used by their address, `uri`; an upload may take a moment until it can be."""

    provider = "gemini"
    vendor = "Gemini"
    client: genai.Client

    def __init__(
        self,
        client: genai.Client | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        settings: ApiSettings | None = None,
        **options: Any,
    ) -> None:
        super().__init__(client=client or _sdk(api_key, base_url, settings), owned=client is None, **options)

    def _send(
        self, file: Reading, name: str, kind: str, purpose: str | None, lifetime: timedelta | None
    ) -> FileMetadata:
        sent = self.client.files.upload(file=file, config={"mime_type": kind, "display_name": name})
        return self._metadata_of(self._ready(sent))

    def _ready(self, file: File) -> File:
        for _ in range(_POLLS):
            match file.state and file.state.value:
                case "PROCESSING":
                    self._sleep(_PAUSE)
                    file = self.client.files.get(name=file.name or "")
                case "FAILED":
                    why = file.error.message if file.error and file.error.message else "it does not say why"
                    raise Declined(f"{self.vendor} could not read the file: {why}", param="file_path")
                case _:
                    return file
        raise Unreachable(f"{self.vendor} did not finish with the file in {_POLLS * _PAUSE:g} s; try again")

    def _fetch(self, file_id: str, container_id: str | None, write: Callable[[bytes], object]) -> None:
        self.client.files.download(file=file_id, destination=_Sink(write))

    def _delete(self, file_id: str) -> None:
        self.client.files.delete(name=file_id)

    def _list(self) -> Iterator[FileMetadata]:
        return map(self._metadata_of, self.client.files.list())

    def _metadata(self, file_id: str) -> FileMetadata:
        return self._metadata_of(self.client.files.get(name=file_id))

    def _metadata_of(self, file: File) -> FileMetadata:
        expires = file.expiration_time
        if expires is None and file.create_time is not None and self.limits.retention is not None:
            expires = file.create_time + self.limits.retention
        return FileMetadata(
            file_id=file.name or "",
            filename=file.display_name or (file.name or "").rpartition("/")[2],
            size=file.size_bytes or 0,
            mime_type=file.mime_type,
            uri=file.uri or "",
            created_at=file.create_time,
            expires_at=expires,
            downloadable=file.download_uri is not None,
        )

    def _meaning(self, error: Exception) -> BelljarError | None:
        from google.genai.errors import APIError

        if not isinstance(error, APIError):
            return sdk_errors.of_connection(error, self.vendor)
        if error.code == 403 and "may not exist" in (error.message or ""):  # how it says that it knows no such file
            return NotFound(f"{self.vendor}: {error.message}", param="file_id")
        body = json.dumps(error.details).encode()
        headers = getattr(error.response, "headers", {})
        return sdk_errors.of_answer(error.code, headers, body, self.vendor, self._key, fault)


class _Sink(io.RawIOBase):
    """Where the SDK writes the pieces of a download."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def writable(self) -> bool:
        return True

    def write(self, piece: Any, /) -> int:
        self._write(bytes(piece))
        return len(piece)


def _sdk(api_key: str | None, base_url: str | None, settings: ApiSettings | None) -> genai.Client:
    found = reach("gemini", api_key, base_url, settings)
    options = {"base_url": vendor_settings.strip_version(found.address)}
    made: genai.Client = vendor_settings.sdk("gemini").Client(vertexai=False, api_key=found.key, http_options=options)
    return made
