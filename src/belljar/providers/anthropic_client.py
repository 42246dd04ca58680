"""Anthropic, by the Messages API; the conversation is sent whole each time."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from belljar.config import ApiSettings
from belljar.models import Effort
from belljar.providers import vendor_settings
from belljar.providers.code_execution import Description, OutputFile
from belljar.providers.dialect_client import DialectClient
from belljar.providers.failures import (
    ClientError,
    code_of,
    explain_error,
    own_failure,
    translate_errors,
    translate_stream_errors,
    unknown_failure,
)
from belljar.providers.sdk_body import MESSAGES, split_body
from belljar.providers.tool_converters import Tool, ToolObject
from belljar.providers.types import ClientTurn
from belljar.providers.uploads import FileReference, Uploads
from belljar.vendors.anthropic import errors as anthropic_errors
from belljar.vendors.anthropic.models import family
from belljar.vendors.deltas import ContainerUsed
from belljar.vendors.fold import Folded
from belljar.vendors.request import HostedFile
from belljar.wire.tools import AutoContainer, CodeInterpreterTool

if TYPE_CHECKING:
    import anthropic


class AnthropicError(ClientError):
    """Anthropic failed, or found fault."""

    vendor = "Anthropic"
    key = "ANTHROPIC_API_KEY"


def handle_anthropic_error(error: BaseException) -> AnthropicError:
    """What an exception of the SDK means; one that is ours already stays as it is."""
    import anthropic

    if (ours := own_failure(error, AnthropicError)) is not None:
        return ours
    if isinstance(error, anthropic.APITimeoutError):
        return AnthropicError.of("TIMEOUT", "", error)
    if isinstance(error, anthropic.APIConnectionError):
        return AnthropicError.of("CONNECTION_ERROR", str(error.__cause__ or error), error)
    if isinstance(error, anthropic.APIStatusError):
        return _status_error(error)
    return unknown_failure(error, AnthropicError)


def _status_error(error: anthropic.APIStatusError) -> AnthropicError:
    """The server said what is wrong: before the stream with a status, or inside it."""
    vendor, body = AnthropicError.vendor, json.dumps(error.body).encode()
    if error.status_code == 200:
        meant = anthropic_errors.read_stream_error(body, vendor)
    else:
        meant = anthropic_errors.fault(error.status_code, error.response.headers, body, vendor)
    return AnthropicError.of(code_of(meant), explain_error(meant, error.status_code), error, meant)


# -- the SDK as what carries -------------------------------------------------------------------------------------------


def as_event(event: Any) -> bytes:
    """An event that the SDK has read, as it was on the wire."""
    return b"data: %b\n\n" % msgspec.json.encode(event.to_dict(mode="json", warnings=False))


@contextmanager
def answering(client: anthropic.Anthropic, body: bytes) -> Iterator[tuple[Iterator[bytes], str | None]]:
    """The answer to this body as it comes, and the vendor's id of the request; the connection is closed at the end.

    Clients of clouds, such as AnthropicBedrock, have frames of their own on the wire, which only they can read.
    """
    given = split_body(body, MESSAGES)
    plain = isinstance(client, vendor_settings.sdk("anthropic").Anthropic)
    with ExitStack() as stack:
        with translate_errors(handle_anthropic_error):
            if plain:
                response = stack.enter_context(client.messages.with_streaming_response.create(**given))
                pieces = response.iter_bytes()
            else:
                stream = stack.enter_context(client.messages.create(**given))
                response, pieces = stream.response, map(as_event, stream)
        yield translate_stream_errors(pieces, handle_anthropic_error), response.headers.get("request-id")


# -- the client --------------------------------------------------------------------------------------------------------


class AnthropicClient(DialectClient):
    """Claude."""

    provider = "anthropic"
    error: ClassVar[type[ClientError]] = AnthropicError
    summary_in_system = False
    flags_failures = True

    def __init__(
        self,
        *,
        model: str | None = None,
        tools: Iterable[Tool | ToolObject] = (),
        system: str = "",
        client: anthropic.Anthropic | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        settings: ApiSettings | None = None,
        uploads: Uploads | None = None,
    ) -> None:
        settings = settings or ApiSettings.load()
        super().__init__(model=model, tools=tools, system=system, settings=settings)
        self.client = client or _sdk(settings, api_key, base_url)
        self._close_sdk = self.client.close if client is None else None
        self._uploads = uploads
        self._container: ContainerUsed | None = None

    def _takes_effort(self) -> bool:
        return bool(family(self.get_model()).efforts)

    def _effort(self) -> Effort | None:
        return family(self.get_model()).effort(self._reasoner())

    def _post(self, body: bytes) -> Generator[bytes, None, None]:
        with answering(self.client, body) as (pieces, _):
            yield from pieces

    def _failure(self, error: BaseException) -> ClientError:
        return handle_anthropic_error(error)

    # -- the container

    def _code_tool(self, turn: ClientTurn) -> CodeInterpreterTool:
        """In the container of the turns before, while it lives."""
        used = self._container
        is_there = used is not None and (used.expires_at is None or _is_ahead(used.expires_at))
        return CodeInterpreterTool(container=used.container_id if used and is_there else AutoContainer())

    def _note(self, turn: ClientTurn, folded: Folded) -> None:
        if turn.keep:
            self._container = folded.container or self._container

    def _break_chain(self) -> None:
        """The container goes with the history that speaks of it."""
        self._container = None

    # -- files

    def _upload(self, path: Path) -> FileReference:
        if self._uploads is not None:
            return self._uploads.upload(path)
        with translate_errors(handle_anthropic_error):
            file = self.client.files.upload(file=path)
        return FileReference(id=file.id, filename=file.filename, mime_type=file.mime_type)

    def _output_file(self, file: HostedFile) -> OutputFile:
        file_id = file.id or ""

        def read() -> bytes:
            with translate_errors(handle_anthropic_error):
                return self.client.files.download(file_id).read()

        def describe() -> Description:
            with translate_errors(handle_anthropic_error):
                found = self.client.files.retrieve_metadata(file_id)
            return Description(found.filename, found.size_bytes, found.mime_type)

        return OutputFile(file_id, read=read, describe=describe)


def _sdk(settings: ApiSettings, api_key: str | None, base_url: str | None) -> anthropic.Anthropic:
    key = api_key or vendor_settings.key_for("anthropic", settings)
    if key is None:
        raise AnthropicError.of("AUTH_ERROR", "no key is set")
    address = vendor_settings.strip_version(base_url or vendor_settings.address_for("anthropic", settings))
    made: anthropic.Anthropic = vendor_settings.sdk("anthropic").Anthropic(api_key=key, base_url=address)
    return made


def _is_ahead(moment: str) -> bool:
    return datetime.fromisoformat(moment) > datetime.now(UTC)
