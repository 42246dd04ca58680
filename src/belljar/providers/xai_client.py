"""xAI, by its own Responses API through the OpenAI SDK."""

from __future__ import annotations

from typing import ClassVar

from msgspec import structs

from belljar.models import nearest_effort
from belljar.providers.code_execution import Description, OutputFile
from belljar.providers.failures import ClientError, translate_errors
from belljar.providers.responses_client import ResponsesClient
from belljar.providers.types import Answer, Turn
from belljar.vendors.dialect import Dialect
from belljar.vendors.request import HostedFile, ModelRequest
from belljar.vendors.xai import dialect as xai_dialect


class XAIError(ClientError):
    """xAI failed, or found fault."""

    vendor = "xAI"
    key = "XAI_API_KEY"


class XAIClient(ResponsesClient):
    """Grok. It takes no `instructions` along a chain, so the system prompt is a message, said when it changes."""

    provider = "xai"
    error = XAIError
    purpose = "assistants"
    dialect: ClassVar[Dialect] = xai_dialect

    _told_last: str | None = None

    def _takes_effort(self) -> bool:
        return nearest_effort(self.get_model(), "high") is not None

    def _request(self, turn: Turn) -> ModelRequest:
        request = super()._request(turn)
        known = self._told_last if turn.previous is not None else None
        return structs.replace(request, instructions=None) if turn.system == known else request

    def _answered(self, answer: Answer) -> None:
        super()._answered(answer)
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
