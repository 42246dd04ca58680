"""Anthropic, by the Messages API; the conversation is sent whole each time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from belljar.config import ApiSettings
from belljar.errors import ProviderError
from belljar.models import Effort
from belljar.providers import anthropic_reading, vendor_settings
from belljar.providers.base import BaseClient
from belljar.providers.code_execution import Description, OutputFile
from belljar.providers.context_manager import Message
from belljar.providers.failures import ClientError, broken, code_of, translate_errors, translate_stream_errors
from belljar.providers.tool_converters import (
    Body,
    Tool,
    ToolObject,
    build_anthropic_tool_results,
    convert_tools_for_anthropic,
)
from belljar.providers.types import Answer, OnText, Turn
from belljar.providers.uploads import FileReference, Uploads, type_of
from belljar.vendors.anthropic import errors as anthropic_errors
from belljar.vendors.anthropic.models import family
from belljar.wire.responses import Reasoner

if TYPE_CHECKING:
    import anthropic

_PAUSES = 20
"""How often a turn that the vendor interrupted is taken up again."""


LONGEST_WHOLE = 8_192
"""Tokens of an answer that may come in one piece: for more the SDK wants a stream, from some models even for these."""


class AnthropicError(ClientError):
    """Anthropic failed, or found fault."""

    vendor = "Anthropic"
    key = "ANTHROPIC_API_KEY"


def code_execution(model: str) -> Body:
    """The tool by which Anthropic runs code for this model."""
    return {"type": family(model).code_tool, "name": "code_execution"}


def handle_anthropic_error(error: BaseException) -> AnthropicError:
    """What an exception of the SDK means; one that is ours already stays as it is."""
    import anthropic

    if isinstance(error, AnthropicError):
        return error
    if isinstance(error, ProviderError):
        return AnthropicError.of(code_of(error), str(error), error, error)
    if isinstance(error, anthropic.APITimeoutError):
        return AnthropicError.of("TIMEOUT", "", error)
    if isinstance(error, anthropic.APIConnectionError):
        return AnthropicError.of("CONNECTION_ERROR", str(error.__cause__ or error), error)
    if isinstance(error, anthropic.APIStatusError):
        return _answered(error)
    return AnthropicError.of(broken(error) or "UNKNOWN_ERROR", f"{type(error).__name__}: {error}", error)


def _answered(error: anthropic.APIStatusError) -> AnthropicError:
    """The server said what is wrong: before the stream with a status, or inside it."""
    vendor, body = AnthropicError.vendor, json.dumps(error.body).encode()
    if error.status_code == 200:
        meant = anthropic_errors.reported(body, vendor)
    else:
        meant = anthropic_errors.fault(error.status_code, error.response.headers, body, vendor)
    return AnthropicError.of(code_of(meant), str(meant), error, meant)


class AnthropicClient(BaseClient):
    """Claude."""

    provider = "anthropic"
    summary_in_system = False

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
        self._container: dict[str, Any] | None = None

    def _takes_effort(self) -> bool:
        return bool(family(self.get_model()).efforts)

    def _effort(self) -> Effort | None:
        return family(self.get_model()).effort(Reasoner(effort=self._wanted_effort))

    def _break_chain(self) -> None:
        """The container goes with the history that speaks of it."""
        self._container = None

    # -- one request

    def _ask(self, turn: Turn) -> Answer:
        body = self._request(turn)
        answered: list[Body] = []
        while True:
            answered.append(self._message(body, turn.on_text))
            if turn.keep:
                self._container = answered[-1].get("container") or self._container
            if answered[-1].get("stop_reason") != "pause_turn" or len(answered) > _PAUSES:
                return anthropic_reading.read(answered, turn.tools, self._output_file)
            going_on = {"role": "assistant", "content": [one for each in answered for one in each["content"]]}
            body = {**body, "messages": [*_messages(turn.messages), going_on], **self._in_container(turn)}

    def _request(self, turn: Turn) -> Body:
        body: Body = {
            "model": self.get_model(),
            "max_tokens": self.max_tokens,
            "messages": _messages(turn.messages),
            **self._in_container(turn),
        }
        if turn.system:
            body["system"] = turn.system
        tools = convert_tools_for_anthropic(turn.tools)
        if tools and not self.parallel_tool_calls:
            body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
        if turn.code_execution or any(message.get("for_code") for message in turn.messages):
            tools.append(
                code_execution(self.get_model())
            )  # also where only the history speaks of it: its blocks want the tool declared
        if tools:
            body["tools"] = tools
        if effort := self._effort():
            body["output_config"] = {"effort": effort}
        if thinking := family(self.get_model()).thinking(Reasoner(effort=self._wanted_effort)):
            body["thinking"] = thinking
        return body

    def _in_container(self, turn: Turn) -> Body:
        """The container of the turns before, while it lives."""
        if not turn.code_execution or self._container is None:
            return {}
        expires = datetime.fromisoformat(self._container["expires_at"])
        return {"container": self._container["id"]} if expires > datetime.now(UTC) else {}

    def _message(self, body: Body, on_text: OnText | None) -> Body:
        if on_text is None and body["max_tokens"] <= LONGEST_WHOLE:
            with translate_errors(handle_anthropic_error):
                message: anthropic.types.Message = self.client.messages.create(**cast(Any, body))
            return message.to_dict(mode="json", warnings=False)
        with translate_errors(handle_anthropic_error):
            stream = self.client.messages.stream(**cast(Any, body)).__enter__()
        try:
            for text in translate_stream_errors(stream.text_stream, handle_anthropic_error):
                if on_text is not None:
                    on_text(text)
            with translate_errors(handle_anthropic_error):
                return stream.get_final_message().to_dict(mode="json", warnings=False)
        finally:
            stream.close()

    # -- files

    def _upload(self, path: Path) -> FileReference:
        if self._uploads is not None:
            return self._uploads.upload(path)
        with translate_errors(handle_anthropic_error):
            file = self.client.files.upload(file=path)
        return FileReference(id=file.id, filename=file.filename, mime_type=file.mime_type)

    def _output_file(self, file_id: str) -> OutputFile:
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
    address = vendor_settings.unversioned(base_url or vendor_settings.address_for("anthropic", settings))
    made: anthropic.Anthropic = vendor_settings.sdk("anthropic").Anthropic(api_key=key, base_url=address)
    return made


def _messages(messages: Iterable[Message]) -> list[Body]:
    written = [{"role": "user" if one["role"] == "tool" else one["role"], "content": _content(one)} for one in messages]
    return [one for one in written if one["content"]]


def _content(message: Message) -> str | list[Body]:
    match message["role"]:
        case "tool":
            return build_anthropic_tool_results(message["tool_results"])
        case "assistant":
            return [block for block in message["native"] if block.get("text") != ""]
        case _:
            attached = list(_attached(message))
            return [*attached, {"type": "text", "text": message["content"]}] if attached else message["content"]


def _attached(message: Message) -> Iterator[Body]:
    for file in message.get("files", ()):
        if message["for_code"]:
            yield {"type": "container_upload", "file_id": file.id}
        else:
            kind = "image" if type_of(file.filename).startswith("image/") else "document"
            yield {"type": kind, "source": {"type": "file", "file_id": file.id}}
