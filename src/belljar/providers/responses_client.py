"""Clients of the Responses API, where the vendor remembers the conversation by its last response."""

from __future__ import annotations

import base64
import itertools
import mimetypes
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from msgspec import structs

from belljar.config import ApiSettings
from belljar.output_names import paths_by_id
from belljar.providers import openai_errors, vendor_settings
from belljar.providers.code_execution import CodeExecution, Description, OutputFile, execution_of
from belljar.providers.context_manager import Message
from belljar.providers.dialect_client import DialectClient
from belljar.providers.failures import ClientError, Handle, translate_errors, translate_stream_errors
from belljar.providers.sdk_body import RESPONSES, split_body
from belljar.providers.tool_converters import Tool, ToolObject
from belljar.providers.types import ClientAnswer, ClientTurn
from belljar.providers.uploads import FileReference, Uploads
from belljar.vendors.deltas import HostedEnd
from belljar.vendors.fold import Folded
from belljar.vendors.media_types import type_of
from belljar.vendors.request import HostedFile, ModelRequest, Verbatim
from belljar.wire.items import CellEnd, ContainerFileCitation, Image, Logs
from belljar.wire.responses import TextConfig
from belljar.wire.tools import AutoContainer, CodeInterpreterTool

if TYPE_CHECKING:
    import openai


class ResponsesClient(DialectClient):
    """Sends only what is new, and the rest again when the chain was broken."""

    strict_tools = True
    purpose: ClassVar[str] = "user_data"
    """Of the files that are uploaded."""

    def __init__(
        self,
        *,
        model: str | None = None,
        tools: Iterable[Tool | ToolObject] = (),
        system: str = "",
        client: openai.OpenAI | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        settings: ApiSettings | None = None,
        uploads: Uploads | None = None,
    ) -> None:
        settings = settings or ApiSettings.load()
        super().__init__(model=model, tools=tools, system=system, settings=settings)
        self.client = client or openai_sdk(self.provider, self.error, settings, api_key, base_url)
        self._close_sdk = self.client.close if client is None else None
        self._uploads = uploads
        self._last_response_id: str | None = None
        self._known = 0
        """How many of the messages the vendor has."""

    # -- the chain

    def _previous(self) -> str | None:
        return self._last_response_id

    def _unsent(self) -> list[Message]:
        return self.context.recent[self._known :]

    def _break_chain(self) -> None:
        self._last_response_id, self._known = None, 0

    def _note_answer(self, answer: ClientAnswer) -> None:
        self._last_response_id = answer.id
        self._known = self.context.message_count if answer.id else 0

    # -- one request

    def _request(self, turn: ClientTurn) -> ModelRequest:
        spoken = TextConfig(verbosity=self._verbosity) if self._verbosity and self._takes_verbosity() else TextConfig()
        return structs.replace(super()._request(turn), previous=turn.previous, store=turn.keep, text=spoken)

    def _code_tool(self, turn: ClientTurn) -> CodeInterpreterTool:
        """In the chain's container or a new one."""
        return CodeInterpreterTool(container=AutoContainer())

    def _post(self, body: bytes) -> Generator[bytes, None, None]:
        with answering(self.client, body, self._failure) as (pieces, _):
            yield from pieces

    def _failure(self, error: BaseException) -> ClientError:
        return openai_errors.failure(error, self.error)

    # -- the answer

    def _answer(self, turn: ClientTurn, folded: Folded, verbatim: Verbatim | None) -> ClientAnswer:
        """What the vendor no longer remembers is sent again in words: its own items would name what is not there."""
        files = self._files(folded)
        pictures = itertools.count(1)
        executions = [_execution(cell, _files_of(cell, folded, files, pictures)) for cell in folded.cells]
        shown = [file for execution in executions for file in execution.output_files]
        answer = super()._answer(turn, structs.replace(folded, cells=()), None)
        return replace(answer, executions=executions, files=list(files.values()) or shown, native=None)

    def _files(self, folded: Folded) -> dict[str, OutputFile]:
        """Those that a cell refers to, and those that are cited, by their ids."""
        paths: dict[str, str] = {}
        files: dict[str, OutputFile] = {}
        for cell in folded.cells:
            if isinstance(end := cell.item.belljar, CellEnd):
                paths |= paths_by_id(end.file_ids, end.files)
            for file in cell.files:
                if file.id is not None and file.id not in files:
                    files[file.id] = self._made_file(file, file.name)
        for one in folded.citations:
            if isinstance(one, ContainerFileCitation) and one.file_id not in files:
                file = HostedFile(id=one.file_id, name=one.filename, type="", container_id=one.container_id)
                files[one.file_id] = self._made_file(file, paths.get(one.file_id))
        return files

    # -- files

    def _upload(self, path: Path) -> FileReference:
        if self._uploads is not None:
            return self._uploads.upload(path)
        with translate_errors(self._failure):
            file = self.client.files.create(file=path, purpose=cast(Any, self.purpose))
        return FileReference(id=file.id, filename=path.name, mime_type=type_of(path.name))

    def _made_file(self, made: HostedFile, path: str | None) -> OutputFile:
        """A file that code made; `path` is where it is below the workspace, where the answer tells."""
        id, container = made.id or "", made.container_id
        files = self.client.containers.files

        def read() -> bytes:
            with translate_errors(self._failure):
                return files.content.retrieve(id, container_id=container).read()

        def describe() -> Description:
            with translate_errors(self._failure):
                found = files.retrieve(id, container_id=container)
            size = cast(int | None, found.bytes)  # null on the wire for files that the model made, whatever the type
            return Description(found.path, size)

        return OutputFile(id, read=read, describe=describe, filename=made.name, path=path, container_id=container)


def _execution(cell: HostedEnd, files: Iterable[OutputFile]) -> CodeExecution:
    logs = "".join(output.logs for output in cell.item.outputs or () if isinstance(output, Logs))
    return replace(execution_of(cell, files), logs=logs)


def _files_of(
    cell: HostedEnd, folded: Folded, files: Mapping[str, OutputFile], numbers: Iterator[int]
) -> list[OutputFile]:
    """What the cell refers to, or the cited files that it made. Where there is none, the pictures that it showed."""
    if cell.files:
        return [files[file.id] for file in cell.files if file.id is not None]
    if files:
        made = cell.item.belljar.file_ids if isinstance(cell.item.belljar, CellEnd) else ()
        return [file for id, file in files.items() if len(folded.cells) == 1 or id in made]
    shown = [output.url for output in cell.item.outputs or () if isinstance(output, Image)]
    return [_picture(next(numbers), url) for url in shown if url.startswith("data:")]


def _picture(number: int, url: str) -> OutputFile:
    head, _, data = url.partition(",")
    kind = head.removeprefix("data:").partition(";")[0]
    return OutputFile.of_bytes(f"image-{number}{mimetypes.guess_extension(kind) or ''}", base64.b64decode(data), kind)


@contextmanager
def answering(client: openai.OpenAI, body: bytes, handle: Handle) -> Iterator[tuple[Iterator[bytes], str | None]]:
    """The answer to this body as it comes, and the vendor's id of the request; the connection is closed at the end."""
    with ExitStack() as stack:
        with translate_errors(handle):
            create = client.responses.with_streaming_response.create
            response = stack.enter_context(create(**split_body(body, RESPONSES)))
        yield translate_stream_errors(response.iter_bytes(), handle), response.headers.get("x-request-id")


def openai_sdk(
    provider: str, error: type[ClientError], settings: ApiSettings, api_key: str | None, base_url: str | None
) -> openai.OpenAI:
    """The SDK's client for this provider."""
    key = api_key or vendor_settings.key_for(provider, settings)
    if key is None and vendor_settings.VENDORS[provider].needs_key:
        raise error.of("AUTH_ERROR", "no key is set")
    module = vendor_settings.sdk(provider)
    made: openai.OpenAI = module.OpenAI(
        api_key=key or "none", base_url=base_url or vendor_settings.address_for(provider, settings)
    )
    return made
