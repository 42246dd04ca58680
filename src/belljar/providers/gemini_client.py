"""Gemini, by AI Studio or Vertex through the google-genai SDK; the conversation is sent whole each time."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Generator, Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from belljar.config import ApiSettings
from belljar.errors import InvalidRequest, ProviderError
from belljar.providers import gemini_reading, vendor_settings
from belljar.providers.base import BaseClient
from belljar.providers.context_manager import Message
from belljar.providers.failures import ClientError, broken, code_of, translate_errors, translate_stream_errors
from belljar.providers.tool_converters import Body, Tool, ToolObject, as_text, convert_tools_for_gemini
from belljar.providers.types import Answer, Turn
from belljar.providers.uploads import FileReference, Uploads, type_of
from belljar.vendors.gemini import errors as gemini_errors
from belljar.vendors.gemini.models import family
from belljar.vendors.gemini.stream import REASONS

if TYPE_CHECKING:
    from google import genai
    from google.genai import types

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

    if isinstance(error, GeminiError):
        return error
    if isinstance(error, ProviderError):
        return GeminiError.of(code_of(error), str(error), error, error)
    if not isinstance(error, errors.APIError):
        return GeminiError.of(broken(error) or "UNKNOWN_ERROR", f"{type(error).__name__}: {error}", error)
    said = json.dumps(error.details)
    meant = gemini_errors.fault(error.code, {}, said.encode(), GeminiError.vendor)
    return GeminiError.of(code_of(meant), str(meant), error, meant)


class GeminiClient(BaseClient):
    """Gemini by AI Studio."""

    provider = "gemini"
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
        address = vendor_settings.unversioned(base_url or vendor_settings.address_for(self.provider, settings))
        options: Body = {"http_options": {"base_url": address}} if address else {}
        key = api_key or vendor_settings.key_for(self.provider, settings)
        if key is None and vendor_settings.VENDORS[self.provider].needs_key:
            raise GeminiError.of("AUTH_ERROR", "no key is set")
        with translate_errors(handle_gemini_error):
            made: genai.Client = module.Client(vertexai=self.vertex, api_key=key, **options)
        return made

    def _takes_effort(self) -> bool:
        return bool(family(self.get_model()).thinking("high"))

    # -- one request

    def _ask(self, turn: Turn) -> Answer:
        from google.genai import types

        request: Body = {"model": self.get_model(), "contents": _contents(turn.messages), "config": self._config(turn)}
        parts: list[types.Part] = []
        last: types.GenerateContentResponse | None = None
        reason = ""
        with closing(self._answers(request, streaming=turn.on_text is not None)) as answers:
            for last in answers:
                candidate = last.candidates[0] if last.candidates else None
                reason = candidate.finish_reason.value if candidate and candidate.finish_reason else reason
                new = candidate.content.parts if candidate and candidate.content and candidate.content.parts else []
                parts.extend(new)
                for part in new:
                    if turn.on_text is not None and part.text and not part.thought:
                        turn.on_text(part.text)
        _check(last, reason, said=bool(parts))
        whole = gemini_reading.merged(parts)
        native = types.Content(role="model", parts=whole)
        usage = gemini_reading.usage(last)
        finish = gemini_reading.finish(reason, called=any(part.function_call for part in whole))
        return gemini_reading.read(whole, turn.tools, finish=finish, usage=usage, native=native)

    def _answers(self, request: Body, *, streaming: bool) -> Generator[types.GenerateContentResponse, None, None]:
        if not streaming:
            with translate_errors(handle_gemini_error):
                answer = self.client.models.generate_content(**request)
            yield answer
            return
        with translate_errors(handle_gemini_error):
            stream = self.client.models.generate_content_stream(**request)
        yield from translate_stream_errors(stream, handle_gemini_error)

    def _config(self, turn: Turn) -> Body:
        kind = family(self.get_model())
        config: Body = {"max_output_tokens": self.max_tokens, "automatic_function_calling": {"disable": True}}
        if turn.system:
            config["system_instruction"] = turn.system
        tools: list[Body] = []
        declared = convert_tools_for_gemini(turn.tools)
        if declared and turn.code_execution and not kind.combines:
            _log.warning("%s runs code or calls tools, not both: the tools are left out", self.get_model())
        elif declared:
            tools.append({"function_declarations": declared})
        if turn.code_execution:
            tools.append({"code_execution": {}})
        if tools:
            config["tools"] = tools
        if self._wanted_effort is not None and (thinking := kind.thinking(self._wanted_effort)):
            config["thinking_config"] = thinking
        return config

    # -- files

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


def _check(last: types.GenerateContentResponse | None, reason: str, *, said: bool) -> None:
    """An answer that is none has its reason."""
    if said:
        return
    feedback = last.prompt_feedback if last is not None else None
    blocked = feedback.block_reason.value if feedback and feedback.block_reason else None
    if blocked or REASONS.get(reason) == "filtered":
        raise GeminiError.of("CONTENT_POLICY", f"it was blocked: {blocked or reason}")
    if reason not in ("STOP", "MAX_TOKENS"):
        raise GeminiError.of("API_ERROR", f"it said nothing, for the reason {reason or 'none'}")


def _contents(messages: Iterable[Message]) -> list[types.Content]:
    from google.genai import types

    contents: list[types.Content] = []
    for message in messages:
        match message["role"]:
            case "assistant":
                contents.append(message["native"])
            case "tool":
                given = {part.function_call.id for part in contents[-1].parts or () if part.function_call}
                contents.append(
                    types.Content(role="user", parts=[_result(one, given) for one in message["tool_results"]])
                )
            case _:
                files = [
                    types.Part(file_data=types.FileData(file_uri=file.uri, mime_type=file.mime_type))
                    for file in message.get("files", ())
                ]
                contents.append(types.Content(role="user", parts=[*files, types.Part(text=message["content"])]))
    return [content for content in contents if content.parts]


def _result(result: Body, given: set[str | None]) -> types.Part:
    """With the id of its call only where that is Gemini's own."""
    from google.genai import types

    known = result["tool_use_id"] if result["tool_use_id"] in given else None
    told = as_text(result["content"])
    response = {"error": told} if result.get("is_error") else {"output": told}
    return types.Part(function_response=types.FunctionResponse(id=known, name=result["name"], response=response))
