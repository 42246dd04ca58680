"""Anthropic's Files API through its SDK. What was uploaded is not given back; what code made is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from belljar.config import ApiSettings
from belljar.errors import BelljarError
from belljar.files import sdk_errors
from belljar.files.base import FilesApi
from belljar.files.results import FileMetadata
from belljar.files.upload_reader import Reading
from belljar.files.vendor_access import reach
from belljar.providers import vendor_settings
from belljar.vendors.anthropic import errors as anthropic_errors

if TYPE_CHECKING:
    import anthropic
    from anthropic.types import FileMetadata as Described


class AnthropicFiles(FilesApi):
    """`/v1/files`. The API left its beta in August 2026; `beta` is for servers that still want the header."""

    provider = "anthropic"
    vendor = "Anthropic"
    client: anthropic.Anthropic

    def __init__(
        self,
        client: anthropic.Anthropic | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        beta: str | None = None,
        settings: ApiSettings | None = None,
        **options: Any,
    ) -> None:
        made = client or _sdk(api_key, base_url, settings)
        headers = {"anthropic-beta": beta} if beta else {}
        quiet = made.with_options(max_retries=0, default_headers=headers)
        super().__init__(client=quiet, owned=client is None, **options)

    def _send(
        self, file: Reading, name: str, kind: str, purpose: str | None, lifetime: timedelta | None
    ) -> FileMetadata:
        told: dict[str, Any] = {} if lifetime is None else {"expires_in_seconds": int(lifetime.total_seconds())}
        return _metadata(self.client.files.upload(file=(name, file, kind), **told))

    def _fetch(self, file_id: str, container_id: str | None, write: Callable[[bytes], object]) -> None:
        with self.client.files.with_streaming_response.download(file_id) as answer:
            for piece in answer.iter_bytes():
                write(piece)

    def _delete(self, file_id: str) -> None:
        self.client.files.delete(file_id)

    def _list(self) -> Iterator[FileMetadata]:
        return map(_metadata, self.client.files.list())

    def _metadata(self, file_id: str) -> FileMetadata:
        return _metadata(self.client.files.retrieve_metadata(file_id))

    def _meaning(self, error: Exception) -> BelljarError | None:
        import anthropic

        return sdk_errors.of_openai_kind(error, anthropic, self.vendor, self._key, anthropic_errors.fault)


def _sdk(api_key: str | None, base_url: str | None, settings: ApiSettings | None) -> anthropic.Anthropic:
    found = reach("anthropic", api_key, base_url, settings)
    address = vendor_settings.strip_version(found.address)
    made: anthropic.Anthropic = vendor_settings.sdk("anthropic").Anthropic(api_key=found.key, base_url=address)
    return made


def _metadata(file: Described) -> FileMetadata:
    return FileMetadata(
        file_id=file.id,
        filename=file.filename,
        size=file.size_bytes,
        mime_type=file.mime_type,
        created_at=file.created_at,
        expires_at=file.expires_at,
        downloadable=bool(file.downloadable),
    )
