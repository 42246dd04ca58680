"""The Files API of OpenAI's kind through OpenAI's SDK: OpenAI itself, xAI, and Belljar's own gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, cast

from belljar.config import ApiSettings
from belljar.errors import BelljarError
from belljar.files import sdk_errors
from belljar.files.base import FilesApi
from belljar.files.results import FileMetadata
from belljar.files.upload_reader import Reading
from belljar.files.vendor_access import Reach, reach
from belljar.output_names import below
from belljar.providers import vendor_settings
from belljar.vendors.media_types import type_of

if TYPE_CHECKING:
    import openai
    from openai.types import FileObject


class OpenAIFiles(FilesApi):
    """OpenAI: `/v1/files`, and what code made in `/v1/containers/{id}/files`."""

    provider = "openai"
    vendor = "OpenAI"
    purpose: ClassVar[str] = "user_data"
    client: openai.OpenAI

    def __init__(
        self,
        client: openai.OpenAI | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        settings: ApiSettings | None = None,
        **options: Any,
    ) -> None:
        made = client or _sdk(self.provider, reach(self.provider, api_key, base_url, settings))
        super().__init__(client=made.with_options(max_retries=0), owned=client is None, **options)

    def _send(
        self, file: Reading, name: str, kind: str, purpose: str | None, lifetime: timedelta | None
    ) -> FileMetadata:
        told: dict[str, Any] = {"purpose": purpose or self.purpose}
        if lifetime is not None:
            told |= self._expiry(int(lifetime.total_seconds()))
        return _metadata(self.client.files.create(file=(name, file, kind), **told))

    def _expiry(self, seconds: int) -> dict[str, Any]:
        return {"expires_after": {"anchor": "created_at", "seconds": seconds}}

    def _fetch(self, file_id: str, container_id: str | None, write: Callable[[bytes], object]) -> None:
        if container_id:
            content = self.client.containers.files.content.with_streaming_response.retrieve(
                file_id, container_id=container_id
            )
        else:
            content = self.client.files.with_streaming_response.content(file_id)
        with content as answer:
            for piece in answer.iter_bytes():
                write(piece)

    def _delete(self, file_id: str) -> None:
        self.client.files.delete(file_id)

    def _list(self) -> Iterator[FileMetadata]:
        return map(_metadata, self.client.files.list())

    def _metadata(self, file_id: str) -> FileMetadata:
        return _metadata(self.client.files.retrieve(file_id))

    def _metadata_in(self, file_id: str, container_id: str) -> FileMetadata:
        def ask() -> FileMetadata:
            found = self.client.containers.files.retrieve(file_id, container_id=container_id)
            path = below(found.path)
            return FileMetadata(
                file_id=found.id,
                filename=path,
                size=cast(int | None, found.bytes) or 0,  # null on the wire for files that the model made
                mime_type=type_of(path),
                created_at=_when(found.created_at),
            )

        return self._call(ask)

    def _meaning(self, error: Exception) -> BelljarError | None:
        import openai

        return sdk_errors.of_openai_kind(error, openai, self.vendor, self._key)


class XAIFiles(OpenAIFiles):
    """xAI: the same, with no containers."""

    provider = "xai"
    vendor = "xAI"
    purpose = "assistants"

    def _expiry(self, seconds: int) -> dict[str, Any]:
        """A plain number there, which the SDK's own parameter cannot say."""
        return {"extra_body": {"expires_after": seconds}}


class GatewayFiles(OpenAIFiles):
    """Belljar's own gateway."""

    provider = "belljar"
    vendor = "the gateway"


def _sdk(provider: str, found: Reach) -> openai.OpenAI:
    made: openai.OpenAI = vendor_settings.sdk(provider).OpenAI(api_key=found.key or "none", base_url=found.address)
    return made


def _metadata(file: FileObject) -> FileMetadata:
    return FileMetadata(
        file_id=file.id,
        filename=file.filename,
        size=file.bytes or 0,
        mime_type=type_of(file.filename),
        created_at=_when(file.created_at),
        expires_at=_when(file.expires_at),
    )


def _when(seconds: float | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
