"""xAI, by its own Responses API through the OpenAI SDK."""

from __future__ import annotations

from belljar.models import nearest_effort
from belljar.providers.code_execution import Description, OutputFile
from belljar.providers.failures import ClientError, translate_errors
from belljar.providers.responses_client import ResponsesClient
from belljar.providers.responses_reading import Made
from belljar.providers.tool_converters import Body
from belljar.providers.types import Answer, Turn
from belljar.vendors.deltas import Decoder
from belljar.vendors.xai.stream import XaiDecoder


class XAIError(ClientError):
    """xAI failed, or found fault."""

    vendor = "xAI"
    key = "XAI_API_KEY"


class XAIClient(ResponsesClient):
    """Grok. It takes no `instructions` along a chain, so the system prompt is a message, said when it changes."""

    provider = "xai"
    error = XAIError
    purpose = "assistants"
    files_in_container = False

    _told_last: str | None = None

    def _takes_effort(self) -> bool:
        return nearest_effort(self.get_model(), "high") is not None

    def _body(self, turn: Turn) -> Body:
        body = super()._body(turn)
        known = self._told_last if turn.previous is not None else None
        if turn.system and turn.system != known:
            body["input"] = [{"role": "system", "content": turn.system}, *body["input"]]
        return body

    def _told(self, turn: Turn) -> Body:
        return {}

    def _answered(self, answer: Answer) -> None:
        super()._answered(answer)
        self._told_last = self._turn(None).system

    def _decoder(self) -> Decoder:
        return XaiDecoder(self.error.vendor)

    def _output_file(self, made: Made) -> OutputFile:
        """By the Files API: there are no containers."""

        def read() -> bytes:
            with translate_errors(self._failure):
                return self.client.files.content(made.file_id).read()

        def describe() -> Description:
            with translate_errors(self._failure):
                found = self.client.files.retrieve(made.file_id)
            return Description(found.filename, found.bytes)

        return OutputFile(made.file_id, read=read, describe=describe, filename=made.filename, path=made.path)

    def _code_tool(self, turn: Turn) -> Body:
        return {"type": "code_interpreter"}
