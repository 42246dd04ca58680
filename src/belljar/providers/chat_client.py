"""Models on one's own machine, by chat completions: LM Studio, Ollama, vLLM."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from belljar.config import ApiSettings
from belljar.errors import InvalidRequest
from belljar.providers import openai_errors
from belljar.providers.dialect_client import DialectClient
from belljar.providers.failures import ClientError, translate_errors
from belljar.providers.responses_client import openai_sdk
from belljar.providers.sdk_body import CHAT, split_body
from belljar.providers.tool_converters import Tool, ToolObject
from belljar.providers.types import ClientTurn
from belljar.providers.uploads import FileReference
from belljar.vendors.registry import VENDORS
from belljar.wire.responses import Reasoner
from belljar.wire.tools import CodeInterpreterTool

if TYPE_CHECKING:
    import openai

_ELSEWHERE = "start `belljar serve` in front of it and use the provider belljar, which runs code and takes files"


class LMStudioError(ClientError):
    """A local model server failed, or found fault."""

    vendor = "the model server"
    key = "its API key"


class ChatClient(DialectClient):
    """A conversation that is sent whole each time. Answers are always streamed: a slow model shows that it lives."""

    error: ClassVar[type[ClientError]] = LMStudioError
    budget = 32_000

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
    ) -> None:
        settings = settings or ApiSettings.load()
        super().__init__(model=model, tools=tools, system=system, settings=settings)
        self.client = client or openai_sdk(self.provider, self.error, settings, api_key, base_url)
        self._close_sdk = self.client.close if client is None else None

    def get_model(self) -> str:
        """Where none was named, the first that the server has."""
        if not self._model:
            with translate_errors(self._failure):
                listed = self.client.models.list().data
            if not listed:
                raise self.error.of("INVALID_MODEL", "it has no model loaded")
            self._model = listed[0].id
        return self._model

    def _takes_effort(self) -> bool:
        return "reasoning_effort" in VENDORS[self.provider].profile.members

    def _upload(self, path: Path) -> FileReference:
        raise InvalidRequest(f"files: {self.provider} takes no files; {_ELSEWHERE}", param="files")

    def _code_tool(self, turn: ClientTurn) -> CodeInterpreterTool:
        raise InvalidRequest(f"code_execution: {self.provider} runs no code; {_ELSEWHERE}", param="code_execution")

    def _reasoner(self) -> Reasoner | None:
        effort = self._effort()
        return Reasoner(effort=effort) if effort else None

    def _post(self, body: bytes) -> Generator[bytes, None, None]:
        given = split_body(body, CHAT)
        with self.client.chat.completions.with_streaming_response.create(**given) as response:
            yield from response.iter_bytes()

    def _failure(self, error: BaseException) -> ClientError:
        return openai_errors.failure(error, self.error)


class LMStudioClient(ChatClient):
    """Models in LM Studio."""

    provider = "lm_studio"


class OllamaClient(ChatClient):
    """Models in Ollama."""

    provider = "ollama"


class VLLMClient(ChatClient):
    """Models in vLLM."""

    provider = "vllm"
