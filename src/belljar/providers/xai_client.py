"""xAI, by its own Responses API through the OpenAI SDK."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msgspec import structs

from belljar.models import nearest_effort
from belljar.providers.code_execution import Description, OutputFile
from belljar.providers.context_manager import Message
from belljar.providers.failures import ClientError, translate_errors
from belljar.providers.responses_client import ResponsesClient
from belljar.providers.types import ClientAnswer, ClientTurn
from belljar.providers.uploads import FileReference
from belljar.vendors.media_types import type_of
from belljar.vendors.request import HostedFile, ModelRequest, VendorFile

_PICTURES = frozenset({"image/png", "image/jpeg"})
"""Types that xAI sees."""


class XAIError(ClientError):
    """xAI failed, or found fault."""

    vendor = "xAI"
    key = "XAI_API_KEY"


class XAIClient(ResponsesClient):
    """Grok. It takes no `instructions` along a chain, so the system prompt is a message, said when it changes.

    Pictures go along in the message, and with them the whole conversation: xAI advises against having it remembered.
    """

    provider = "xai"
    error = XAIError
    purpose = "assistants"

    _told_last: str | None = None

    def _takes_effort(self) -> bool:
        return nearest_effort(self.get_model(), "high") is not None

    # -- pictures

    def _attach(self, path: Path, *, for_code: bool) -> FileReference:
        """Documents are searched by their ids, pictures only seen where they stand in the message."""
        kind = type_of(path.name)
        if for_code or kind not in _PICTURES:
            return self._upload(path)
        return FileReference(id="", filename=path.name, mime_type=kind, data=path.read_bytes())

    def _vendor_file(self, file: FileReference) -> VendorFile:
        return VendorFile(id=file.id, name=file.filename, type=file.mime_type, data=file.data)

    def _has_pictures(self) -> bool:
        return any(file.data is not None for message in self.context.recent for file in message.get("files", ()))

    def _previous(self) -> str | None:
        return None if self._has_pictures() else super()._previous()

    def _unsent(self) -> list[Message]:
        return self.context.recent if self._has_pictures() else super()._unsent()

    # -- one request

    def _request(self, turn: ClientTurn) -> ModelRequest:
        request = super()._request(turn)
        if self._has_pictures():
            request = structs.replace(request, store=False)
        known = self._told_last if turn.previous is not None else None
        return structs.replace(request, instructions=None) if turn.system == known else request

    def _note_answer(self, answer: ClientAnswer) -> None:
        super()._note_answer(replace(answer, id=None) if self._has_pictures() else answer)
        self._told_last = self._turn(None).system

    def _made_file(self, made: HostedFile, path: str | None) -> OutputFile:
        """By the Files API: there are no containers."""
        id = made.id or ""

        def read() -> bytes:
            with translate_errors(self._failure):
                return self.client.files.content(id).read()

        def describe() -> Description:
            with translate_errors(self._failure):
                found = self.client.files.retrieve(id)
            return Description(found.filename, found.bytes)

        return OutputFile(id, read=read, describe=describe, filename=made.name, path=path)
