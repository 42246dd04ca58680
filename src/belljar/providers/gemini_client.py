"""Gemini, by AI Studio or Vertex through the google-genai SDK; the conversation is sent whole each time."""

from __future__ import annotations

import base64
import itertools
import json
import logging
import mimetypes
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import msgspec
from msgspec import structs

from belljar.config import ApiSettings
from belljar.errors import InvalidRequest
from belljar.providers import vendor_settings
from belljar.providers.code_execution import OutputFile
from belljar.providers.dialect_client import DialectClient
from belljar.providers.failures import (
    ClientError,
    code_of,
    explain_error,
    own_failure,
    translate_errors,
    unknown_failure,
)
from belljar.providers.tool_converters import Body, Tool, ToolObject
from belljar.providers.types import ClientAnswer, ClientTurn
from belljar.providers.uploads import FileReference, Uploads
from belljar.vendors.deltas import HostedEnd
from belljar.vendors.fold import Folded
from belljar.vendors.gemini import errors as gemini_errors
from belljar.vendors.gemini.models import family
from belljar.vendors.media_types import type_of
from belljar.vendors.request import HostedFile, ModelRequest, VendorFile, Verbatim
from belljar.wire.tools import AutoContainer, CodeInterpreterTool

if TYPE_CHECKING:
    from google import genai

_POLLS = 120
_PAUSE = 0.5
_log = logging.getLogger(__name__)


class GeminiError(ClientError):
    """Gemini failed, or found fault."""

    vendor = "Gemini"
    key = "GEMINI_API_KEY"


def handle_gemini_error(error: BaseException) -> GeminiError:
    """What an exception of the SDK means; one that is ours already stays as it is."""
    from google.genai import errors

    if (ours := own_failure(error, GeminiError)) is not None:
        return ours
    if not isinstance(error, errors.APIError):
        return unknown_failure(error, GeminiError)
    said = json.dumps(error.details)
    meant = gemini_errors.fault(error.code, getattr(error.response, "headers", {}), said.encode(), GeminiError.vendor)
    return GeminiError.of(code_of(meant), explain_error(meant, error.code), error, meant)


class GeminiClient(DialectClient):
    """Gemini by AI Studio."""

    provider = "gemini"
    error = GeminiError
    flags_failures = True
    summary_in_system = False
    vertex: ClassVar[bool] = False

    def __init__(
        self,
        *,
        model: str | None = None,
        tools: Iterable[Tool | ToolObject] = (),
        system: str = "",
        client: genai.Client | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        settings: ApiSettings | None = None,
        uploads: Uploads | None = None,
    ) -> None:
        settings = settings or ApiSettings.load()
        super().__init__(model=model, tools=tools, system=system, settings=settings)
        self.client = client or self._sdk(settings, api_key, base_url)
        self._close_sdk = self.client.close if client is None else None
        self._uploads = uploads

    def _sdk(self, settings: ApiSettings, api_key: str | None, base_url: str | None) -> genai.Client:
        module = vendor_settings.sdk("gemini")
        address = vendor_settings.strip_version(base_url or vendor_settings.address_for(self.provider, settings))
        options: Body = {"http_options": {"base_url": address}} if address else {}
        key = api_key or vendor_settings.key_for(self.provider, settings)
        if key is None and vendor_settings.VENDORS[self.provider].needs_key:
            raise GeminiError.of("AUTH_ERROR", "no key is set")
        with translate_errors(handle_gemini_error):
            made: genai.Client = module.Client(vertexai=self.vertex, api_key=key, **options)
        return made

    def _takes_effort(self) -> bool:
        return bool(family(self.get_model()).write_thinking("high"))

    # -- one request

    def _request(self, turn: ClientTurn) -> ModelRequest:
        if turn.tools and turn.code_execution and not family(self.get_model()).combines:
            _log.warning("%s runs code or calls tools, not both: the tools are left out", self.get_model())
            turn = replace(turn, tools=())
        return super()._request(turn)

    def _code_tool(self, turn: ClientTurn) -> CodeInterpreterTool:
        return CodeInterpreterTool(container=AutoContainer())

    def _post(self, body: bytes) -> Generator[bytes, None, None]:
        """The SDK has no raw answers. Its own way to write a request would change ours, which it so sends as it is."""
        config: Any = {
            "http_options": {"extra_body": msgspec.json.decode(body)},
            "automatic_function_calling": {"disable": True},
        }
        asked = self.client.models.generate_content_stream(model=self.get_model(), contents=" ", config=config)
        with closing(cast(Generator[Any, None, None], asked)) as chunks:
            for chunk in chunks:
                told = chunk.model_dump(by_alias=True, exclude_none=True, exclude={"sdk_http_response"})
                yield b"data: %b\n\n" % msgspec.json.encode(told)

    def _failure(self, error: BaseException) -> ClientError:
        return handle_gemini_error(error)

    # -- the answer

    def _answer(self, turn: ClientTurn, folded: Folded, verbatim: Verbatim | None) -> ClientAnswer:
        blocks = verbatim.blocks if verbatim is not None else ()
        if folded.finish == "filtered" and not blocks:
            raise GeminiError.of("CONTENT_POLICY", "it was blocked before it said anything")
        numbers = itertools.count(1)
        cells = tuple(structs.replace(cell, files=tuple(_name_files(cell, numbers))) for cell in folded.cells)
        answer = super()._answer(turn, structs.replace(folded, cells=cells), verbatim)
        return answer if cells else replace(answer, files=list(_find_pictures(blocks, numbers)))

    # -- files

    def _vendor_file(self, file: FileReference) -> VendorFile:
        return VendorFile(id=file.uri or file.id, name=file.filename, type=file.mime_type)

    def _upload(self, path: Path) -> FileReference:
        if self._uploads is not None:
            return self._uploads.upload(path)
        kind = type_of(path.name)
        with translate_errors(handle_gemini_error):
            file = self.client.files.upload(file=path, config={"mime_type": kind, "display_name": path.name})
            for _ in range(_POLLS):
                if file.state is None or file.state.value != "PROCESSING":
                    break
                time.sleep(_PAUSE)
                file = self.client.files.get(name=file.name or "")
        return FileReference(id=file.name or "", filename=path.name, mime_type=kind, uri=file.uri or "")


class VertexClient(GeminiClient):
    """Gemini by Vertex AI, with the project and location that the SDK finds in the environment."""

    provider = "vertex"
    vertex = True

    def _upload(self, path: Path) -> FileReference:
        if self._uploads is not None:
            return self._uploads.upload(path)
        raise InvalidRequest(
            f"files: Vertex takes no uploads; put {path.name} into Cloud Storage and give a FileReference with its "
            "gs:// address as uri",
            param="files",
        )


def _name_files(cell: HostedEnd, numbers: Iterator[int]) -> Iterator[HostedFile]:
    """Files among the outputs of code come without names."""
    for file in cell.files:
        yield structs.replace(file, name=file.name or _file_name(next(numbers), file.type))


def _find_pictures(blocks: Iterable[Body], numbers: Iterator[int]) -> Iterator[OutputFile]:
    """Pictures that the model itself made, which are no part of an answer in words."""
    for blob in (block["inlineData"] for block in blocks if "inlineData" in block):
        kind = blob.get("mimeType", "")
        yield OutputFile.of_bytes(_file_name(next(numbers), kind), base64.b64decode(blob.get("data", "")), kind)


def _file_name(number: int, kind: str) -> str:
    return f"output-{number}{mimetypes.guess_extension(kind) or ''}"
