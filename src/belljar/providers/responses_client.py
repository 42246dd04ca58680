"""Clients of the Responses API, where the vendor remembers the conversation by its last response."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import msgspec

from belljar.config import ApiSettings
from belljar.errors import Garbled
from belljar.providers import openai_errors, responses_reading, responses_writing, vendor_settings
from belljar.providers.base import BaseClient
from belljar.providers.code_execution import Description, OutputFile
from belljar.providers.context_manager import Message
from belljar.providers.failures import ClientError, translate_errors, translate_stream_errors
from belljar.providers.responses_reading import Made
from belljar.providers.tool_converters import Body, Tool, ToolObject, convert_tools_for_openai
from belljar.providers.types import Answer, OnText, Turn
from belljar.providers.uploads import FileReference, Uploads, type_of
from belljar.vendors import errors
from belljar.vendors.deltas import Decoder
from belljar.vendors.openai.stream import ResponsesDecoder

if TYPE_CHECKING:
    import openai

_ENDS = ("response.completed", "response.incomplete", "response.failed")


class ResponsesClient(BaseClient):
    """Sends only what is new, and the rest again when the chain was broken."""

    error: ClassVar[type[ClientError]]
    purpose: ClassVar[str] = "user_data"
    """Of the files that are uploaded."""
    files_in_container: ClassVar[bool] = True
    """Whether files for the code are given to the tool, or attached to the message."""

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

    def _answered(self, answer: Answer) -> None:
        self._last_response_id = answer.id
        self._known = self.context.message_count if answer.id else 0

    # -- one request

    def _ask(self, turn: Turn) -> Answer:
        body = self._body(turn)
        if turn.on_text is not None:
            answered = self._streamed(body, turn.on_text)
        else:
            with translate_errors(self._failure):
                answered = self.client.responses.with_raw_response.create(**cast(Any, body)).content
        with translate_errors(self._failure):
            return responses_reading.read(answered, self._decoder(), turn.tools, self._output_file)

    def _body(self, turn: Turn) -> Body:
        body: Body = {
            "model": self.get_model(),
            "input": responses_writing.items(turn.messages, files_in_container=self.files_in_container),
            "max_output_tokens": self.max_tokens,
            **self._told(turn),
        }
        tools = convert_tools_for_openai(turn.tools)
        if turn.code_execution:
            tools.append(self._code_tool(turn))
            body["include"] = [responses_writing.OUTPUTS]
        if tools:
            body["tools"] = tools
            body["parallel_tool_calls"] = self.parallel_tool_calls
        if turn.previous is not None:
            body["previous_response_id"] = turn.previous
        if not turn.keep:
            body["store"] = False
        effort = self._effort()
        if effort is not None:
            body["reasoning"] = {"effort": effort}
        if self._verbosity and self._takes_verbosity():
            body["text"] = {"verbosity": self._verbosity}
        return body

    def _told(self, turn: Turn) -> Body:
        """The system prompt, which no chain carries on."""
        return {"instructions": turn.system} if turn.system else {}

    def _code_tool(self, turn: Turn) -> Body:
        return responses_writing.code_interpreter(turn)

    def _streamed(self, body: Body, on_text: OnText) -> bytes:
        """The whole response, which the stream ends with."""
        with translate_errors(self._failure):
            stream = self.client.responses.create(stream=True, **cast(Any, body))
        with stream:
            for event in translate_stream_errors(stream, self._failure):
                if event.type in ("response.output_text.delta", "response.refusal.delta"):
                    on_text(event.delta)
                elif event.type in _ENDS:
                    return msgspec.json.encode(event.response.to_dict(mode="json", warnings=False))
                elif event.type == "error":
                    raise self._failure(errors.reported(event.to_dict(warnings=False), self.error.vendor))
        raise self._failure(Garbled(f"{self.error.vendor} ended the stream in the middle of the answer"))

    def _decoder(self) -> Decoder:
        return ResponsesDecoder(self.error.vendor)

    def _failure(self, error: BaseException) -> ClientError:
        return openai_errors.failure(error, self.error)

    # -- files

    def _upload(self, path: Path) -> FileReference:
        if self._uploads is not None:
            return self._uploads.upload(path)
        with translate_errors(self._failure):
            file = self.client.files.create(file=path, purpose=cast(Any, self.purpose))
        return FileReference(id=file.id, filename=path.name, mime_type=type_of(path.name))

    def _output_file(self, made: Made) -> OutputFile:
        files = self.client.containers.files

        def read() -> bytes:
            with translate_errors(self._failure):
                return files.content.retrieve(made.file_id, container_id=made.container_id).read()

        def describe() -> Description:
            with translate_errors(self._failure):
                found = files.retrieve(made.file_id, container_id=made.container_id)
            size = cast(int | None, found.bytes)  # null on the wire for files that the model made, whatever the type
            return Description(found.path, size)

        return OutputFile(
            made.file_id,
            read=read,
            describe=describe,
            filename=made.filename,
            path=made.path,
            container_id=made.container_id,
        )


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
